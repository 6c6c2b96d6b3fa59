//! `bailiff bus`.

use std::process::ExitCode;
use std::time::Duration;

use bailiff_event_bus::client::BusStatus;
use bailiff_event_bus::{Bus, Record, ShardStatus, SubscribeOptions, Subscription, Update, subscribe};
use bailiff_model::{Mono, Topic};
use bailiff_runtime::args::exit_invalid;
use bailiff_runtime::{BusArgs, Clock, GoDuration, Seed};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::Failure;

/// How long a bus may take to tell everything: it tells 100,000 records in less than a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// Flags of `bailiff bus`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff bus status
  bailiff bus status --output json
  bailiff bus reset-epoch node-health 0      only after the history of the shard's Lease was lost")]
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
    Status {
        /// How it is written
        #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
        output: Output,
    },
    /// Set a shard's epoch back to zero and end its sessions: break-glass
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
    #[arg(long, short, global = true, value_enum, default_value = "text", value_name = "FORMAT")]
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

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let Args { command, bus } = args;
    crate::runtime()?.block_on(async {
        let bus = reach(&bus, &Clock::system());
        match command {
            Command::Status { output } => status(&bus, output).await,
            Command::ResetEpoch { topic, shard } => {
                let before = bus.reset_epoch(topic, shard).await?;
                println!("epoch of {topic}, shard {shard}, was {before} and is 0 now; its sessions were ended");
                Ok(ExitCode::SUCCESS)
            }
        }
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
        println!(
            "{}",
            json!({
                "incarnation": status.incarnation, "revision": status.revision.0,
                "oldestResumable": status.oldest_resumable.0, "topics": topics,
            })
        );
        return Ok(ExitCode::SUCCESS);
    }
    println!("incarnation {}, revision {}", status.incarnation, status.revision);
    for topic in &status.topics {
        println!(
            "{:<18} {:>7} keys {:>6} tombstones {:>3} subscribers",
            topic.topic.as_str(),
            topic.keys,
            topic.tombstones,
            topic.subscribers
        );
        if topic.shards.is_empty() {
            println!("    nobody has published yet");
        }
        for shard in &topic.shards {
            println!(
                "    shard {}/{} epoch {} {} {}, lag {}, {}{}",
                shard.shard,
                shard.shard_count,
                shard.epoch,
                if shard.complete { "complete" } else { "INCOMPLETE" },
                if shard.live { "live" } else { "STALE" },
                GoDuration::new(shard.lag),
                shard.producer,
                if shard.detail.is_empty() {
                    String::new()
                } else {
                    format!(": {}", shard.detail)
                }
            );
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
