//! `bailiff events`: the bus as readable lines, or as JSON.

use std::process::ExitCode;

use bailiff_diff::said;
use bailiff_event_bus::{Bus, Record, Skipped, TombstoneReason, Update};
use bailiff_explain::{json, sentence};
use bailiff_model::Topic;
use bailiff_runtime::Clock;
use serde_json::{Value, json};

use crate::bus::{Output, Shared, asked, listen, next_since, reach, topic};
use crate::out::Reader;
use crate::{Failure, out};

/// Flags of `bailiff events`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff events                                      what is true now, one line for each key
  bailiff events --follow                             and every change from now on
  bailiff events --follow --topic eviction-outcomes
  bailiff events --follow --grep web-1                lines about one pod, node or zone
  bailiff events --until 'worker-7 is isolated'       and every change until it is so
  bailiff events --follow --output json | jq .says

Without --follow it ends with what the bus knows. With it, it goes on until it is interrupted, over restarts of the bus too.
Exit code 1: the bus cannot be asked, or what --until waits for was not said before it was interrupted.")]
pub struct Args {
    /// Go on with every change
    #[arg(long, short)]
    follow: bool,

    /// Go on with every change until a line that is printed contains this
    #[arg(long, value_name = "TEXT")]
    until: Option<String>,

    /// Only this topic, and others that are named the same way: node-health, eviction-intents, eviction-outcomes, daemon-rollouts
    #[arg(long, value_parser = topic, value_name = "TOPIC")]
    topic: Vec<Topic>,

    /// Only records whose key or sentence contains this
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,

    #[command(flatten)]
    shared: Shared,
}

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let came = crate::runtime()?.block_on(async {
        let clock = Clock::system();
        let bus = reach(&args.shared.bus, &clock);
        tokio::select! {
            biased;
            ended = crate::interrupted() => ended.map(|()| unsaid(&args)).map_err(Into::into),
            done = print(&args, &bus, &clock) => done,
        }
    });
    asked(&args.shared.bus, came)
}

/// How it ends where nothing more is to be said: what was waited for was not.
fn unsaid(args: &Args) -> ExitCode {
    ExitCode::from(u8::from(args.until.is_some()))
}

async fn print(args: &Args, bus: &Bus, clock: &Clock) -> Result<ExitCode, Failure> {
    let topics = if args.topic.is_empty() {
        Topic::ALL.to_vec()
    } else {
        args.topic.clone()
    };
    let mut subscription = listen(bus, &topics, clock).await?;
    // What is lost later is waited for.
    let (begun, mut is_told) = (clock.now().mono, false);
    loop {
        let update = if is_told {
            subscription.next().await
        } else {
            next_since(begun, &mut subscription, clock).await?
        };
        let (records, skipped, is_all) = match update {
            Update::Snapshot { records, skipped, .. } => (records, skipped, true),
            Update::Changes { records, skipped, .. } => (records, skipped, false),
            Update::Status { .. } => continue,
            Update::Lost { .. } => {
                out::note("the bus is lost: waiting for it");
                continue;
            }
        };
        is_told |= is_all;
        let lines = records.iter().map(|record| (&record.key, line(record, args.shared.output)));
        let lines = lines.chain(
            skipped
                .iter()
                .map(|skipped| (&skipped.key, line_of_skipped(skipped, args.shared.output))),
        );
        let is_wanted = |text: &String| args.grep.as_ref().is_none_or(|wanted| text.contains(wanted));
        for (_, line) in lines.filter(|(key, line)| is_wanted(key) || is_wanted(line)) {
            if out::line(out::one_line(&line))? == Reader::Gone {
                return Ok(unsaid(args));
            }
            if args.until.as_ref().is_some_and(|wanted| line.contains(wanted)) {
                return Ok(ExitCode::SUCCESS);
            }
        }
        if is_all && !args.follow && args.until.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Why a key is gone, as a label.
fn reason_of(tombstone: Option<TombstoneReason>) -> &'static str {
    match tombstone {
        Some(TombstoneReason::Withdrawn) | None => "withdrawn",
        Some(TombstoneReason::Replaced) => "replaced",
        Some(TombstoneReason::Expired) => "expired",
        Some(TombstoneReason::LeftFilter) => "left_filter",
        Some(TombstoneReason::LayoutChanged) => "layout_changed",
    }
}

fn line(record: &Record, output: Output) -> String {
    let said = record.body.as_ref().map(said);
    let gone = || format!("{} is gone: {}", record.key, reason_of(record.tombstone));
    let sentence = said.map_or_else(gone, sentence::sentence);
    match output {
        Output::Text => format!("{:.3} {:<17} {sentence}", record.produced_at, record.topic.as_str()),
        Output::Json => {
            let mut object = json!({
                "topic": record.topic.as_str(), "key": record.key, "incarnation": record.incarnation.as_str(),
                "revision": record.revision.0, "producer": record.producer, "epoch": record.epoch, "shard": record.shard,
                "producedAt": record.produced_at.to_string(), "says": sentence,
            });
            let mut put = |name: &str, value: Option<Value>| {
                if let Some(value) = value {
                    object[name] = value;
                }
            };
            let origin = &record.derived_from;
            let is_derived = !origin.is_none();
            let derived = json!({"incarnation": origin.incarnation.as_str(), "revision": origin.revision.0});
            put("derivedFrom", is_derived.then_some(derived));
            put(
                "traceId",
                record.trace.map(|trace| json!(format!("{:032x}", trace.trace_id()))),
            );
            put("body", said.map(json::json));
            put("gone", said.is_none().then(|| json!(reason_of(record.tombstone))));
            object.to_string()
        }
    }
}

fn line_of_skipped(skipped: &Skipped, output: Output) -> String {
    let says = format!("{} has a record that this program does not understand", skipped.key);
    match output {
        Output::Text => format!("{:<24} {:<17} {says}", "", skipped.topic.as_str()),
        Output::Json => json!({"topic": skipped.topic.as_str(), "key": skipped.key, "says": says}).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use bailiff_event_bus::{Body, Draft};
    use bailiff_model::Zone;
    use bailiff_model::outcome::{Outcome, ZoneStatus};
    use bailiff_model::{Mono, Origin, Revision, Wall, ZoneState};

    use super::*;

    fn mk_record(body: Option<Body>) -> Record {
        let tombstone = body.is_none().then_some(TombstoneReason::Expired);
        Record {
            topic: Topic::EvictionOutcomes,
            key: "zone/eu-1:a".to_owned(),
            route: String::new(),
            incarnation: "i".into(),
            revision: Revision(7),
            derived_from: Origin::default(),
            epoch: 3,
            shard: 0,
            producer: "zone-evictor-0".to_owned(),
            produced_at: Wall::from_second(1_700_000_000).expect("in range"),
            age: None,
            received_at: Mono::ORIGIN,
            trace: None,
            body,
            tombstone,
        }
    }

    fn mk_zone() -> Body {
        Body::Outcome(Outcome::Zone(Box::new(ZoneStatus {
            zone: Zone::new("eu-1", "a"),
            state: ZoneState::Normal,
            voting: 3,
            not_ready: 0,
            late: 0,
            rate_per_second: 0.1,
            last_grant: None,
            queue_length: 0,
            held: None,
        })))
    }

    #[test]
    fn a_record_is_one_line_that_says_what_it_means() {
        assert_eq!(
            line(&mk_record(Some(mk_zone())), Output::Text),
            "2023-11-14T22:13:20.000Z eviction-outcomes zone eu-1:a is in state Normal: 0 of 3 voting nodes not ready, \
             0 late; 0 waiting at 0.1 nodes/s"
        );
        assert_eq!(
            line(&mk_record(None), Output::Text),
            "2023-11-14T22:13:20.000Z eviction-outcomes zone/eu-1:a is gone: expired"
        );
    }

    #[test]
    fn json_carries_the_record_and_its_sentence() {
        let read = |body| -> Value { serde_json::from_str(&line(&mk_record(body), Output::Json)).expect("JSON") };
        let zone = read(Some(mk_zone()));
        assert_eq!(zone["body"]["zoneStatus"]["zone"], json!({"region": "eu-1", "zone": "a"}));
        assert_eq!(
            (&zone["revision"], zone.get("gone"), zone.get("derivedFrom")),
            (&json!(7), None, None)
        );
        let gone = read(None);
        assert_eq!((&gone["gone"], gone.get("body")), (&json!("expired"), None));
        assert_eq!(Draft::new(mk_zone()).key, "zone/eu-1:a", "the key is the body's");
    }
}
