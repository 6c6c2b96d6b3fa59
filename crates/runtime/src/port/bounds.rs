//! The bounds of a port.

use std::time::Duration;

/// How long a gRPC connection lives. After it a peer whose certificate has expired, or is no longer wanted, has to shake hands
/// again. An hour is short beside the life of a certificate, and costs a client one reconnection in which nothing is lost. A change
/// of the CAs does not wait for it.
pub const AGE: Duration = Duration::from_secs(3600);

/// How long a connection whose time is over may take to end. A stream that ends now is resumed elsewhere within milliseconds; what
/// is still open after this belongs to a peer that does not listen.
pub const GRACE: Duration = Duration::from_secs(10);

/// The bounds of a port. Every field says what happens beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections at a time; further ones are closed at once. Over TLS they count from the end of the handshake.
    pub connections: usize,
    /// Of these, connections of clients without a certificate where those are let in: whoever has one finds a place.
    pub strangers: usize,
    /// Connections at a time from one address; further ones are closed at once, so that nobody can take every place.
    pub connections_per_address: usize,
    /// Handshakes at a time; a further one takes the place of the oldest of whoever has most.
    pub handshakes: usize,
    /// How long a TLS handshake may take, and the head of an HTTP/1 request; then the connection is closed.
    pub handshake: Duration,
    /// Requests at a time on one HTTP/2 connection; the client waits with further ones.
    pub streams: u32,
    /// Bytes of a request's head; larger ones are refused.
    pub head: usize,
    /// How long a connection without a request is kept.
    pub idle: Duration,
    /// Time between HTTP/2 pings, and for their answer; a peer that does not answer is gone.
    pub ping: Duration,
    /// How long a connection lives.
    pub age: Duration,
    /// How long it may take to end after that, or when the process stops.
    pub grace: Duration,
}

// === impl Bounds ===

impl Bounds {
    /// Of the event bus: each replica of each stage has one connection, with a stream for each shard and subscription.
    pub const BUS: Self = Self {
        // 4 stages × 3 replicas on 80 control planes; each costs some 100 KiB while it works, and 16 KiB more for each subscription.
        connections: 1024,
        // There are none.
        strangers: 0,
        // All of two machines at once, or a quarter of all; each is some 30 KiB.
        handshakes: 256,
        // All stages of one node with the host's network come from one address, and a proxy may stand before several nodes.
        connections_per_address: 128,
        // Three round trips to the far side of the world, with retransmissions.
        handshake: Duration::from_secs(5),
        // A process that leads all of 256 shards, with a session and up to two subscriptions for each. One that waits for its turn is not
        // answered in time, and where they last, never.
        streams: 1024,
        // Metadata of a call: a path, a trace context, a few words.
        head: 16 * 1024,
        // A client of the bus has a stream open, or is a command that has its answer.
        idle: Duration::from_secs(60),
        ping: Duration::from_secs(5),
        age: AGE,
        grace: GRACE,
    };

    /// Of gRPC health: a few probes, and watchers that stay.
    pub const HEALTH: Self = Self {
        connections: 64,
        // There are none.
        strangers: 0,
        handshakes: 32,
        connections_per_address: 16,
        handshake: Duration::from_secs(5),
        streams: 8,
        head: 8 * 1024,
        idle: Duration::from_secs(60),
        ping: Duration::from_secs(20),
        age: AGE,
        // A watch never ends by itself, and must not hold up the end of the process.
        grace: Duration::from_secs(2),
    };

    /// Of the admin port: the kubelet's probes, a few scrapers, a few people.
    pub const ADMIN: Self = Self {
        connections: 64,
        // Probes, and whoever can reach the port; a quarter is for scrapers and people.
        strangers: 48,
        handshakes: 32,
        connections_per_address: 16,
        handshake: Duration::from_secs(5),
        // HTTP/1 has one.
        streams: 1,
        // Of a probe or a scraper it is below 1 KiB; this is hyper's smallest buffer.
        head: 8 * 1024,
        idle: Duration::from_secs(5),
        ping: Duration::from_secs(5),
        // Whatever happens on it: a reader that does not read must not hold its place.
        age: Duration::from_secs(55),
        grace: Duration::from_secs(5),
    };
}
