//! `bailiff bus`.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter::successors;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use bailiff_event_bus::client::{BusStatus, Error as BusError};
use bailiff_event_bus::{Bus, Record, ShardStatus, SubscribeOptions, Subscription, Update, subscribe};
use bailiff_model::{Mono, Topic};
use bailiff_runtime::args::exit_invalid;
use bailiff_runtime::{BusArgs, Clock, GoDuration, Seed};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::{Failure, out};

/// How long a bus may take to tell everything: it tells 100,000 records in less than a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// Flags of `bailiff bus`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff bus status
  bailiff bus status --output json
  bailiff bus reset-epoch node-health 0      only after the history of the shard's Lease was lost")]
#[command(mut_args(|arg| arg.global(true)))]
pub struct Args {
    #[command(subcommand)]
    command: Command,

    /// The bus.
    #[command(flatten)]
    bus: BusArgs,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Say what the bus holds: topics, keys, and each shard's producer, completeness and liveness
    #[command(after_help = "Examples:
  bailiff bus status
  bailiff bus status --output json | jq '.topics[] | select(.keys == 0).topic'")]
    Status {
        /// How it is written
        #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
        output: Output,
    },
    /// Set a shard's epoch back to zero and end its sessions: break-glass
    #[command(after_help = "Example:
  bailiff bus reset-epoch node-health 0      only after the history of the shard's Lease was lost")]
    ResetEpoch {
        /// Topic: node-health, eviction-intents, eviction-outcomes or daemon-rollouts
        #[arg(value_parser = topic)]
        topic: Topic,
        /// Shard, from 0
        shard: u32,
    },
}

/// How commands about the bus write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// One JSON object; of events one on each line
    Json,
}

/// Flags of the commands that show what the bus knows.
#[derive(Clone, Debug, clap::Args)]
pub struct Shared {
    /// How it is written
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    pub output: Output,

    /// The bus.
    #[command(flatten)]
    pub bus: BusArgs,
}

/// The topic of this name.
pub fn topic(text: &str) -> Result<Topic, String> {
    Topic::parse(text).ok_or_else(|| format!("allowed is {}", Topic::ALL.map(Topic::as_str).join(", ")))
}

/// The bus of these flags; ends the process if they make no sense.
pub fn reach(args: &BusArgs, clock: &Clock) -> Bus {
    let tls = args.tls.load(clock).unwrap_or_else(|error| exit_invalid(&error));
    Bus::reach(args, tls.as_ref()).unwrap_or_else(|error| exit_invalid(&error))
}

/// There is no bus where it was looked for, or none that understands what it is told.
#[derive(Debug, thiserror::Error)]
#[error("{what} the event bus at '{bus}' (--bus): {why}{advice}")]
struct Unreached {
    what: &'static str,
    bus: String,
    why: String,
    advice: String,
}

/// The bus said no, and why.
#[derive(Debug, thiserror::Error)]
#[error("the bus refused {rpc} ({code}): {why}")]
struct Refused {
    rpc: &'static str,
    /// That of gRPC: the same words may come with several.
    code: String,
    why: String,
}

// === impl Unreached ===

impl Unreached {
    fn of(error: &(dyn Error + 'static), flags: &BusArgs) -> Option<Self> {
        let (what, why, advice) = match error.downcast_ref::<BusError>()? {
            BusError::Deadline { rpc } => (NO_ANSWER, format!("none to {rpc} in time"), None),
            BusError::Refused { source, .. } => {
                let (cause, connecting) = (last_cause(&**source)?, broken_by(&**source)?);
                let what = connecting.map_or(NO_ANSWER, |_| "cannot reach");
                let advice = advice(connecting, flags.tls.paths().is_some(), &flags.bus.to_string());
                (what, cause.to_string(), advice)
            }
            BusError::Malformed { .. } => return None,
        };
        let bus = flags.bus.to_string();
        let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
        Some(Self { what, bus, why, advice })
    }
}

// === impl Refused ===

impl Refused {
    fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let BusError::Refused { rpc, source } = error.downcast_ref()? else {
            return None;
        };
        let why = if source.message().is_empty() {
            source.code().description()
        } else {
            source.message()
        };
        Some(Self {
            rpc: *rpc,
            code: format!("{:?}", source.code()),
            why: why.to_owned(),
        })
    }
}

const NO_ANSWER: &str = "no answer from";

/// What may help where this ended the attempt to connect to a bus at `bus`, or (`None`) the connection: as it is made for a question or
/// two, most likely because its ends do not speak the same.
fn advice(connecting: Option<ErrorKind>, is_tls: bool, bus: &str) -> Option<String> {
    match (connecting, is_tls) {
        (Some(ErrorKind::ConnectionRefused), _) => {
            // It has to be one that can be listened on: no name, not several, and not another machine's.
            let is_ours = bus.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
            let run = format!(", and `bailiff run` has one with --bus-listen {bus}");
            Some(format!("`bailiff event-bus` is one{}", if is_ours { &run } else { "" }))
        }
        // As rustls calls what it does not accept, and a peer that breaks off while TLS begins.
        (Some(ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), true) => {
            Some("are --tls-ca-file and --tls-server-name those of this bus?".to_owned())
        }
        // Of TLS 1.3 a client learns with the first answer that its certificate is not accepted.
        (None | Some(ErrorKind::BrokenPipe), true) => Some("is --tls-cert-file of a CA that this bus knows?".to_owned()),
        // Whoever speaks TLS breaks off.
        (kind, false) if is_broken_off(kind) => {
            Some("one that speaks TLS wants --tls-cert-file, --tls-private-key-file and --tls-ca-file".to_owned())
        }
        _ => None,
    }
}

/// Whether somebody broke off who was connected to: as what that shows is a matter of when.
fn is_broken_off(connecting: Option<ErrorKind>) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    connecting.is_none_or(|kind| matches!(kind, BrokenPipe | ConnectionReset | UnexpectedEof))
}

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let Args { command, bus: flags } = args;
    let came = crate::runtime()?.block_on(async {
        let bus = reach(&flags, &Clock::system());
        match command {
            Command::Status { output } => status(&bus, output).await,
            Command::ResetEpoch { topic, shard } => {
                let before = bus.reset_epoch(topic, shard).await.map_err(of_reset)?;
                out::line(format_args!(
                    "epoch of {topic}, shard {shard}, was {before} and is 0 now; its sessions were ended"
                ))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    });
    asked(&flags, came)
}

/// As the client calls it.
const RESET_EPOCH: &str = "ResetEpoch";

/// A write that nobody answered.
#[derive(Debug, thiserror::Error)]
#[error("the event bus did not answer ResetEpoch, which may have been done: see the epochs by `bailiff bus status`")]
struct Unanswered(#[source] BusError);

/// What a reset failed with: without an answer of the bus nobody knows whether it was done, unless it was not asked for it.
fn of_reset(error: BusError) -> Failure {
    let is_lost = match &error {
        // Which of several addresses answers is found out first.
        BusError::Deadline { rpc } => *rpc == RESET_EPOCH,
        BusError::Refused { rpc, source } => *rpc == RESET_EPOCH && broken_by(&**source).is_some_and(is_broken_off),
        BusError::Malformed { .. } => false,
    };
    if is_lost { Unanswered(error).into() } else { error.into() }
}

/// What broke the connection, if it is not the bus that answered this: `None` in it if that stood by then.
fn broken_by(status: &dyn Error) -> Option<Option<ErrorKind>> {
    // What the bus itself says has no cause. What breaks a connection that stood is an error of HTTP/2, which names no other.
    let cause = last_cause(status)?;
    Some(cause.downcast_ref::<io::Error>().map(io::Error::kind))
}

fn last_cause(status: &dyn Error) -> Option<&(dyn Error + 'static)> {
    successors(status.source(), |cause| (*cause).source()).last()
}

/// What came of asking the bus of these flags: of one that could not be reached it is said where it was looked for, and of one that refuses
/// what it says.
pub fn asked<T>(flags: &BusArgs, came: Result<T, Failure>) -> Result<T, Failure> {
    came.map_err(|error| match (Unreached::of(&*error, flags), Refused::of(&*error)) {
        (Some(unreached), _) => unreached.into(),
        (None, Some(refused)) => refused.into(),
        (None, None) => error,
    })
}

/// Asks whether these topics may be read. Whoever may not, or gets no answer, is told why, which a subscription would wait for.
pub async fn require_readable(bus: &Bus, topics: &[Topic]) -> Result<(), Failure> {
    let missing = unreadable(&bus.status().await?, topics);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("the bus does not let this role read {}", missing.join(", ")).into())
    }
}

/// Subscribes to these topics, if they may be read.
pub async fn listen(bus: &Bus, topics: &[Topic], clock: &Clock) -> Result<Subscription, Failure> {
    require_readable(bus, topics).await?;
    let options = SubscribeOptions {
        topics: topics.to_vec(),
        filters: Vec::new(),
        subscriber: format!("bailiff {}", std::process::id()),
    };
    Ok(subscribe(bus, options, clock, &Seed::from_system()))
}

/// Those of the topics that the bus tells nothing of: it tells each caller of what it may read.
fn unreadable(status: &BusStatus, topics: &[Topic]) -> Vec<&'static str> {
    let is_told = |topic: &Topic| status.topics.iter().any(|told| told.topic == *topic);
    topics
        .iter()
        .filter(|topic| !is_told(topic))
        .map(|topic| topic.as_str())
        .collect()
}

/// The next news of a subscription that was begun then and has told nothing yet.
pub async fn next_since(begun: Mono, subscription: &mut Subscription, clock: &Clock) -> Result<Update, Failure> {
    let update = tokio::time::timeout_at(clock.instant_of(begun + PATIENCE), subscription.next()).await;
    update.map_err(|_| format!("the bus did not tell everything within {PATIENCE:?}: try again").into())
}

/// All that the bus knows: the latest record of every key, in the order of the bus, and every shard.
pub async fn read_all(bus: &Bus, clock: &Clock) -> Result<(Vec<Record>, Vec<ShardStatus>), Failure> {
    let mut subscription = listen(bus, &Topic::ALL, clock).await?;
    let begun = clock.now().mono;
    loop {
        match next_since(begun, &mut subscription, clock).await? {
            Update::Snapshot { records, shards, .. } => return Ok((records, shards)),
            Update::Changes { .. } | Update::Status { .. } | Update::Lost { .. } => {}
        }
    }
}

/// How long ago a shard's producer was heard of, for people.
pub fn lag(shard: &ShardStatus) -> GoDuration {
    let tenths = shard.lag.as_millis() / 100;
    GoDuration::new(Duration::from_millis(u64::try_from(tenths * 100).unwrap_or(u64::MAX)))
}

/// The state of a shard as JSON.
pub fn shard_object(shard: &ShardStatus) -> Value {
    json!({
        "topic": shard.topic.as_str(), "shard": shard.shard, "shardCount": shard.shard_count, "epoch": shard.epoch,
        "complete": shard.complete, "live": shard.live, "lagSeconds": shard.lag.as_secs_f64(), "producer": shard.producer,
        "detail": shard.detail,
    })
}

async fn status(bus: &Bus, output: Output) -> Result<ExitCode, Failure> {
    let status = bus.status().await?;
    if output == Output::Json {
        let topics: Vec<_> = status
            .topics
            .iter()
            .map(|topic| {
                let shards: Vec<_> = topic.shards.iter().map(shard_object).collect();
                json!({
                    "topic": topic.topic.as_str(), "keys": topic.keys, "tombstones": topic.tombstones,
                    "subscribers": topic.subscribers, "shards": shards,
                })
            })
            .collect();
        out::line(json!({
            "incarnation": status.incarnation, "revision": status.revision.0,
            "oldestResumable": status.oldest_resumable.0, "topics": topics,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    out::line(format_args!(
        "incarnation {}, revision {}",
        status.incarnation, status.revision
    ))?;
    for topic in &status.topics {
        out::line(format_args!(
            "{:<18} {:>7} keys {:>6} tombstones {:>3} subscribers",
            topic.topic.as_str(),
            topic.keys,
            topic.tombstones,
            topic.subscribers
        ))?;
        if topic.shards.is_empty() {
            out::line("    nobody has published yet")?;
        }
        for shard in &topic.shards {
            out::line(out::one_line(format_args!(
                "    shard {}/{} epoch {} {} {}, lag {}, {}{}",
                shard.shard,
                shard.shard_count,
                shard.epoch,
                if shard.complete { "complete" } else { "INCOMPLETE" },
                if shard.live { "live" } else { "STALE" },
                lag(shard),
                shard.producer,
                if shard.detail.is_empty() {
                    String::new()
                } else {
                    format!(": {}", shard.detail)
                }
            )))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use bailiff_event_bus::{Line, Server, ServerOptions};
    use bailiff_model::Wall;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_topic_that_may_not_be_read_is_named() {
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        let bus = Bus::in_process(&Server::new(ServerOptions::default(), &clock, &Seed::new(1)));
        let mut status = bus.status().await.expect("the bus answers");
        assert!(unreadable(&status, &Topic::ALL).is_empty(), "nobody has published yet");
        status.topics.retain(|told| told.topic != Topic::EvictionIntents);
        assert_eq!(unreadable(&status, &Topic::ALL), ["eviction-intents"]);
        assert!(unreadable(&status, &[Topic::NodeHealth]).is_empty());
    }

    #[test]
    fn a_bus_that_does_not_answer_is_named_and_one_that_refuses_is_heard() {
        let flags = BusArgs::default();
        let said = |error: BusError| asked::<()>(&flags, Err(error.into())).expect_err("it stays one").to_string();
        let silent = said(BusError::Deadline { rpc: "GetStatus" });
        assert_eq!(
            silent,
            "no answer from the event bus at '127.0.0.1:7460' (--bus): none to GetStatus in time"
        );
        let refusal = Box::new(tonic::Status::permission_denied("no"));
        let refused = said(BusError::Refused {
            rpc: "GetStatus",
            source: refusal,
        });
        assert_eq!(refused, "the bus refused GetStatus (PermissionDenied): no");
        let refusal = Box::new(tonic::Status::permission_denied(""));
        let refused = said(BusError::Refused {
            rpc: "GetStatus",
            source: refusal,
        });
        let why = "The caller does not have permission to execute the specified operation";
        assert_eq!(refused, format!("the bus refused GetStatus (PermissionDenied): {why}"));
    }

    #[test]
    fn a_reset_without_an_answer_may_have_been_done() {
        let said = |error: BusError| of_reset(error).to_string();
        let of = |status: tonic::Status| BusError::Refused {
            rpc: RESET_EPOCH,
            source: Box::new(status),
        };
        let lost = tonic::Status::from_error(Box::new(std::fmt::Error));
        let unconnected = tonic::Status::from_error(Box::new(io::Error::from(ErrorKind::ConnectionRefused)));
        let reset = tonic::Status::from_error(Box::new(io::Error::from(ErrorKind::ConnectionReset)));
        for (error, may_be_done) in [
            (BusError::Deadline { rpc: RESET_EPOCH }, true),
            (BusError::Deadline { rpc: "GetStatus" }, false),
            (of(reset), true),
            (of(lost), true),
            (of(unconnected), false),
            (of(tonic::Status::invalid_argument("no")), false),
        ] {
            let text = said(error);
            assert_eq!(text.contains("which may have been done"), may_be_done, "{text}");
        }
    }

    #[test]
    fn advice_is_given_where_the_cause_tells_what_is_wrong() {
        use ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, InvalidData, NetworkUnreachable, Other, TimedOut};
        let (near, far) = ("127.0.0.1:7460", "10.0.0.1:7460");
        let cases = [
            (
                (Some(ConnectionRefused), false, near),
                Some("with --bus-listen 127.0.0.1:7460"),
            ),
            ((Some(ConnectionRefused), true, "[::1]:1"), Some("with --bus-listen [::1]:1")),
            ((Some(ConnectionRefused), false, far), Some("`bailiff event-bus` is one")),
            (
                (Some(ConnectionRefused), false, "localhost:1"),
                Some("`bailiff event-bus` is one"),
            ),
            (
                (Some(ConnectionRefused), false, "127.0.0.1:1,127.0.0.1:2"),
                Some("`bailiff event-bus` is one"),
            ),
            ((Some(InvalidData), true, far), Some("those of this bus?")),
            ((Some(ConnectionReset), true, far), Some("those of this bus?")),
            (
                (Some(ConnectionReset), false, far),
                Some("--tls-private-key-file and --tls-ca-file"),
            ),
            (
                (Some(BrokenPipe), false, far),
                Some("--tls-private-key-file and --tls-ca-file"),
            ),
            // A name that cannot be resolved.
            ((Some(Other), false, "nowhere:1"), None),
            ((Some(Other), true, "nowhere:1"), None),
            ((Some(NetworkUnreachable), false, far), None),
            ((Some(TimedOut), true, far), None),
            ((None, true, far), Some("is --tls-cert-file of a CA that this bus knows?")),
            ((None, false, far), Some("--tls-private-key-file and --tls-ca-file")),
        ];
        for ((connecting, is_tls, bus), wanted) in cases {
            let given = advice(connecting, is_tls, bus);
            let is_wanted = match (&given, wanted) {
                (Some(given), Some(wanted)) => given.ends_with(wanted),
                (given, wanted) => given.is_none() && wanted.is_none(),
            };
            assert!(is_wanted, "{connecting:?}, {is_tls}, {bus}: {given:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bus_that_is_lost_before_it_has_told_anything_is_waited_for_only_so_long() {
        let clock = Clock::virtual_from(Wall::UNIX_EPOCH);
        let line = Line::default();
        let bus = Bus::over_line(&Server::new(ServerOptions::default(), &clock, &Seed::new(1)), &line);
        let mut subscription = listen(&bus, &Topic::ALL, &clock).await.expect("the bus answers");
        line.cut();
        let begun = clock.now().mono;
        let error = loop {
            match next_since(begun, &mut subscription, &clock).await {
                Ok(update) => assert!(matches!(update, Update::Lost { .. }), "{update:?}"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("within 30s"), "{error}");
        assert_eq!(clock.now().mono, begun + PATIENCE);
    }
}
