//! The event bus: keyed, compacted, revisioned topics that carry decisions from stage to stage.
//!
//! Whoever writes a stage uses the client side, and this page is for them: [`Bus`] says how to reach a bus, [`publish()`] owns a session
//! on one shard of a topic, [`subscribe()`] follows topics. The other half is the bus itself: [`Server`], its engines, its table of
//! [`Roles`]. In process and over TCP the same messages are spoken. Nothing here decides anything about nodes or pods, and nothing here
//! talks to Kubernetes; what a record means is the stages' business, and what a stage owes the others is in `docs/contract.md`.
//!
//! # What it hides
//!
//! `docs/contract.md` tells what is spoken on the wire, in some hundred lines of pseudocode. None of that is left to do:
//!
//! - **Sessions.** They are opened, kept alive and opened again, at the next address if the bus has several, with pauses that grow and
//!   vary. The latest state of every key is kept here: a bus that lost its memory is told all of it, each record as old as it is; one
//!   that did not gets only what it has not acknowledged. [`Publisher::set`] never waits, and drafts of one key coalesce.
//! - **Resuming.** A subscription goes on at its cursor. If that is too old, or the bus is another one, the next update is a snapshot.
//! - **Whole sets.** What happened at one moment comes as one [`Update`], however many messages it took; a set that broke off is never
//!   seen.
//! - **Fencing.** A session is opened with the epoch of the Lease. When another one has the shard, the publisher stops for good and says
//!   so once: [`Published::Fenced`].
//! - **Times.** A record knows how old it is by monotonic clocks ([`Record::age_at`]), its way over the bus included.
//! - **What is not understood.** A record of a newer contract is [`Skipped`], a draft that breaks this one [`Published::Refused`]: that
//!   one alone, and nothing else is affected.
//!
//! # Publishing
//!
//! ```
//! use bailiff_event_bus::{Body, Bus, Draft, PublishOptions, Published, publish};
//! # use bailiff_event_bus::{Server, ServerOptions};
//! # use bailiff_model::health::{NodeHealth, Ready, ReadyStatus, Verdict};
//! # use bailiff_model::{NodeRef, Wall, Zone};
//! use bailiff_model::Topic;
//! use bailiff_runtime::{Clock, Seed};
//! use futures::FutureExt as _;
//!
//! async fn tell(bus: &Bus, health: NodeHealth, clock: &Clock, seed: &Seed) -> Result<(), String> {
//!     let options = PublishOptions {
//!         topic: Topic::NodeHealth,
//!         shard: 0,
//!         shard_count: 1,
//!         // Another one at every start of the process.
//!         producer: "my-monitor/host-7-d41d8c".to_owned(),
//!         // The resourceVersion at which the Lease was taken; 0 without leader election.
//!         epoch: 0,
//!     };
//!     let mut publisher = publish(bus, options, clock, seed);
//!     // Everything that is true. What the process before said and this one does not is gone once it is complete.
//!     publisher.set(Draft::new(Body::NodeHealth(Box::new(health))));
//!     publisher.complete();
//!     // At least every 2 s, from the loop that decides: it turns, and its watches are as fresh as this.
//!     publisher.report(clock.now().mono, Some(clock.now().mono));
//!     // Until everything is on the bus, or somebody else publishes. The bus may be away: this wants a deadline.
//!     publisher.settled().await;
//!     // What happened meanwhile. A loop that decides waits for it beside everything else.
//!     while let Some(news) = publisher.next().now_or_never() {
//!         match news {
//!             // There is no way back but a clean start.
//!             Published::Fenced { detail } => return Err(detail),
//!             Published::Refused { key, detail } => eprintln!("{key} breaks the contract: {detail}"),
//!             Published::Connected { .. } | Published::Lost => {}
//!         }
//!     }
//!     Ok(())
//! }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! #     let (clock, seed) = (Clock::system(), Seed::new(1));
//! #     let bus = Bus::in_process(&Server::new(ServerOptions::default(), &clock, &seed));
//! #     let now = clock.now().wall;
//! #     let health = NodeHealth {
//! #         node: NodeRef { name: "n1".into(), uid: "u1".into(), resource_version: "7".into() },
//! #         zone: Zone::new("eu", "a"),
//! #         excluded_from_disruption: false,
//! #         ready: Ready { status: ReadyStatus::True, reason: "KubeletReady".to_owned(), since: Some(now) },
//! #         verdict: Verdict::Healthy,
//! #         last_sign_of_life: None,
//! #         late_since: None,
//! #         counted_from: now,
//! #         grace: std::time::Duration::from_secs(50),
//! #         decided_at: now,
//! #         held: None,
//! #     };
//! #     tell(&bus, health, &clock, &seed).await.unwrap();
//! # });
//! ```
//!
//! # Following
//!
//! ```
//! use std::collections::{BTreeMap, BTreeSet};
//!
//! use bailiff_event_bus::{Bus, Record, Shards, SubscribeOptions, Update, subscribe};
//! # use bailiff_event_bus::{PublishOptions, Server, ServerOptions, publish};
//! use bailiff_model::Topic;
//! use bailiff_runtime::{Clock, Seed};
//!
//! /// All that is said of nodes, once all of it is known and somebody stands behind it.
//! async fn learn(bus: &Bus, clock: &Clock, seed: &Seed) -> BTreeMap<String, Record> {
//!     let options = SubscribeOptions {
//!         topics: vec![Topic::NodeHealth],
//!         filters: Vec::new(),
//!         subscriber: "my-stage/host-7-d41d8c".to_owned(),
//!     };
//!     let mut subscription = subscribe(bus, options, clock, seed);
//!     let (mut known, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
//!     let mut shards = Shards::default();
//!     loop {
//!         let update = subscription.next().await;
//!         shards.take(&update);
//!         if matches!(update, Update::Snapshot { .. }) {
//!             known.clear();
//!             unreadable.clear();
//!         }
//!         if let Update::Snapshot { records, skipped, .. } | Update::Changes { records, skipped, .. } = update {
//!             for record in records {
//!                 unreadable.remove(&record.key);
//!                 match record.body {
//!                     Some(_) => known.insert(record.key.clone(), record),
//!                     None => known.remove(&record.key),
//!                 };
//!             }
//!             // Not gone: nothing may be concluded from them until their next record.
//!             unreadable.extend(skipped.into_iter().map(|skipped| skipped.key));
//!         }
//!         match shards.trouble(Topic::NodeHealth) {
//!             Some(trouble) => eprintln!("what depends on it waits: {trouble}"),
//!             None => return known,
//!         }
//!     }
//! }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! #     let (clock, seed) = (Clock::system(), Seed::new(1));
//! #     let bus = Bus::in_process(&Server::new(ServerOptions::default(), &clock, &seed));
//! #     let (topic, producer) = (Topic::NodeHealth, "monitor/1".to_owned());
//! #     let publisher = publish(&bus, PublishOptions { topic, shard: 0, shard_count: 1, producer, epoch: 0 }, &clock, &seed);
//! #     publisher.complete();
//! #     publisher.report(clock.now().mono, Some(clock.now().mono));
//! #     assert!(learn(&bus, &clock, &seed).await.is_empty());
//! # });
//! ```
//!
//! # What is left to do
//!
//! - **Write first, then say.** A draft is set when what it claims stands in the API.
//! - **[`complete`](Publisher::complete) last**: when the first word on everything is set, what was inherited included. A shard that is
//!   complete too early has withdrawn what it had not said yet.
//! - **[`report`](Publisher::report) from the loop that decides**, never from a task beside it: a stage that hangs must not say that it
//!   lives. A watch that never listed is `None`, which is not fresh. `bailiff_stage::Beacon` does both.
//! - **Wait for [`next`](Publisher::next) in every turn**, and end the process when it says `Fenced`.
//! - **Conclude nothing from a missing key** before [`Shards::is_complete`], nothing from one that was skipped, and act on nothing while
//!   [`Shards::trouble`] says why not. Withdrawing is never held.
//! - **Name what a record follows from**: `Draft::new(body).derived_from(&record).traced(record.trace)`. Without it nobody can explain
//!   the chain, and an isolation is not acted on.
//! - **Last words**: dropping a [`Publisher`] ends its session with what was not sent. Wait for [`Publisher::settled`] first, for 2 s at
//!   most; `bailiff_stage::settle` does.
//!
//! `examples/smallest-stage` is a stage on top of this, in less than 250 lines; `bailiff conformance STAGE -- ./mine` says what it forgot.

pub mod access;
mod alike;
pub mod client;
pub mod engine;
pub mod record;
pub mod server;
pub mod service;
pub mod wire;

pub use access::Roles;
pub use client::{
    Bus, Line, PublishOptions, Published, Publisher, RouteFilter, Shards, Skipped, SubscribeOptions, Subscription, Update, publish,
    subscribe,
};
pub use record::{Body, Draft, Record, ShardStatus, TombstoneReason};
pub use server::{Server, ServerOptions, Shadow};
