//! `bailiff bus`.

use std::process::ExitCode;
use std::time::Duration;

use bailiff_event_bus::{Bus, Record, ShardStatus, SubscribeOptions, Update, subscribe};
use bailiff_model::{Mono, Topic};
use bailiff_runtime::args::exit_invalid;
use bailiff_runtime::{BusArgs, Clock, GoDuration, Seed};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::Failure;

/// How long a bus may take to tell everything: it tells 100,000 records in less than a second.
pub const PATIENCE: Duration = Duration::from_secs(30);

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

/// All that the bus knows: the latest record of every key, in the order of the bus, and every shard.
pub async fn read_all(bus: &Bus, clock: &Clock) -> Result<(Vec<Record>, Vec<ShardStatus>), Failure> {
    // Whoever cannot be asked is told why, which a subscription would wait for.
    bus.status().await?;
    let options = SubscribeOptions {
        topics: Topic::ALL.to_vec(),
        filters: Vec::new(),
        subscriber: format!("bailiff {}", std::process::id()),
    };
    let mut subscription = subscribe(bus, options, clock, &Seed::from_system());
    let end: Mono = clock.now().mono + PATIENCE;
    loop {
        let update = tokio::time::timeout_at(clock.instant_of(end), subscription.next()).await;
        match update.map_err(|_| format!("the bus did not tell everything within {PATIENCE:?}: try again"))? {
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
