//! `bailiff status`: everything on one screen, as the bus knows it now.

use std::fmt::Write as _;
use std::process::ExitCode;

use bailiff_diff::said;
use bailiff_event_bus::{Record, ShardStatus};
use bailiff_explain::overview::{End, NodeStanding, Overview, PodStanding, Timer};
use bailiff_explain::{Said, json, sentence};
use bailiff_model::Topic;
use bailiff_model::health::Verdict;
use bailiff_model::outcome::Outcome;
use bailiff_runtime::Clock;
use serde_json::{Value, json};

use crate::bus::{Output, Shared, asked, lag, reach, read_all};
use crate::{Failure, out};

/// How many single pods are listed: what fits a screen.
const LISTED: usize = 10;

/// Flags of `bailiff status`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff status
  bailiff status --output json | jq '.zones[] | select(.queueLength > 0)'
  watch --interval 2 bailiff status

Exit code 1 if the bus cannot be asked, or a topic has a shard that is not live or not complete, or nobody who publishes it.")]
pub struct Args {
    #[command(flatten)]
    shared: Shared,
}

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let came = crate::runtime()?.block_on(async {
        let clock = Clock::system();
        let bus = reach(&args.shared.bus, &clock);
        let (records, shards) = read_all(&bus, &clock).await?;
        let overview = overview_of(&records);
        match args.shared.output {
            Output::Text => out::print(text(&overview, &shards))?,
            Output::Json => out::line(object(&overview, &shards))?,
        };
        let is_fine = Topic::ALL
            .iter()
            .all(|topic| shards.iter().any(|shard| shard.topic == *topic) && ShardStatus::is_topic_complete(*topic, &shards))
            && shards.iter().all(|shard| shard.live);
        Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    });
    asked(&args.shared.bus, came)
}

fn overview_of(records: &[Record]) -> Overview {
    let mut overview = Overview::default();
    for record in records {
        overview.apply(record.topic, &record.key, record.body.as_ref().map(said));
    }
    overview
}

fn text(overview: &Overview, shards: &[ShardStatus]) -> String {
    let mut text = String::from("STAGES\n");
    for topic in Topic::ALL {
        let of_topic: Vec<&ShardStatus> = shards.iter().filter(|shard| shard.topic == topic).collect();
        if of_topic.is_empty() {
            let _ = writeln!(text, "  {:<18} nobody has published yet", topic.as_str());
        }
        for shard in of_topic {
            let (index, count) = (shard.shard, shard.shard_count);
            let state = match (shard.live, shard.complete) {
                (true, true) => "live",
                (true, false) => "live, not complete",
                (false, _) => "NOT LIVE",
            };
            let _ = write!(
                text,
                "  {:<18} {index}/{count} {state}, lag {}, {}",
                topic.as_str(),
                lag(shard),
                shard.producer
            );
            let detail = out::one_line(&shard.detail);
            let _ = writeln!(text, "{}{detail}", if detail.is_empty() { "" } else { ": " });
        }
    }
    let judged = Verdict::ALL.map(|verdict| (verdict.as_str(), overview.nodes_judged(verdict)));
    let _ = writeln!(text, "NODES\n  {}\n  {}", listed(&judged), listed(&isolation(overview)));
    for node in overview.waiting().take(LISTED) {
        let _ = writeln!(
            text,
            "  {}",
            sentence::sentence(Said::Outcome(&Outcome::Node(Box::new(node.clone()))))
        );
    }
    text.push_str("ZONES\n");
    for zone in overview.zones() {
        let _ = writeln!(
            text,
            "  {}",
            sentence::sentence(Said::Outcome(&Outcome::Zone(Box::new(zone.clone()))))
        );
    }
    let pods = pods(overview);
    let _ = writeln!(text, "PODS\n  {}", listed(&pods));
    for next in overview.next_due().take(LISTED) {
        let _ = writeln!(text, "  at {:.0} {}", next.due_at, next.text());
    }
    for stuck in overview.stuck().take(LISTED) {
        let _ = writeln!(
            text,
            "  {}",
            sentence::sentence(Said::Outcome(&Outcome::Pod(Box::new(stuck.clone()))))
        );
    }
    text.push_str("DAEMONSETS\n");
    for sync in overview.rollouts() {
        let _ = writeln!(text, "  {}", sentence::sentence(Said::Rollout(sync)));
    }
    if overview.rollouts().next().is_none() {
        text.push_str("  none\n");
    }
    text
}

/// How many nodes are not well, and how their isolation stands.
pub fn isolation(overview: &Overview) -> [(&'static str, usize); 3] {
    [
        ("waiting", overview.nodes_standing(NodeStanding::Waiting)),
        ("isolated", overview.nodes_standing(NodeStanding::Isolated)),
        ("held", overview.nodes_standing(NodeStanding::Held)),
    ]
}

/// How many pods are to go, and how that stands.
pub fn pods(overview: &Overview) -> [(&'static str, usize); 5] {
    [
        ("scheduled", overview.scheduled()),
        ("evicting", overview.pods_standing(PodStanding::Evicting)),
        ("blocked", overview.pods_standing(PodStanding::Blocked)),
        ("held", overview.pods_standing(PodStanding::Held)),
        ("refused", overview.pods_standing(PodStanding::Refused)),
    ]
}

/// `3 healthy, 1 late`.
pub fn listed(counts: &[(&str, usize)]) -> String {
    let one = |(word, count): &(&str, usize)| format!("{count} {}", word.replace('_', " "));
    counts.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn timer_object(timer: &Timer) -> Value {
    let mut object = json!({"dueAt": timer.due_at.to_string(), "node": timer.node.as_str(), "end": timer.end.as_str()});
    if let End::Toleration(pod) = &timer.end {
        object["namespace"] = json!(pod.namespace.as_str());
        object["name"] = json!(pod.name.as_str());
    }
    object
}

/// Everything as one object.
pub fn object(overview: &Overview, shards: &[ShardStatus]) -> Value {
    let stages: Vec<Value> = shards.iter().map(crate::bus::shard_object).collect();
    let counts = |counts: &[(&str, usize)]| -> Value {
        counts
            .iter()
            .map(|(word, count)| ((*word).to_owned(), json!(count)))
            .collect()
    };
    let body = |outcome: Outcome, kind: &str| json::json(Said::Outcome(&outcome))[kind].take();
    let zones: Vec<Value> = overview
        .zones()
        .map(|zone| body(Outcome::Zone(Box::new(zone.clone())), "zoneStatus"))
        .collect();
    let waiting: Vec<Value> = overview
        .waiting()
        .take(LISTED)
        .map(|node| body(Outcome::Node(Box::new(node.clone())), "nodeOutcome"))
        .collect();
    let stuck: Vec<Value> = overview
        .stuck()
        .map(|pod| body(Outcome::Pod(Box::new(pod.clone())), "podOutcome"))
        .collect();
    let next: Vec<Value> = overview.next_due().take(LISTED).map(timer_object).collect();
    let rollouts: Vec<Value> = overview.rollouts().map(|sync| json::json(Said::Rollout(sync))).collect();
    json!({
        "stages": stages,
        "nodes": counts(&Verdict::ALL.map(|verdict| (verdict.as_str(), overview.nodes_judged(verdict)))),
        "isolation": counts(&isolation(overview)), "waitingNodes": waiting,
        "zones": zones, "pods": counts(&pods(overview)), "nextDue": next, "stuck": stuck, "daemonsets": rollouts,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_idle_bus_says_that_nobody_has_published() {
        let overview = Overview::default();
        let said = text(&overview, &[]);
        assert_eq!(said.matches("nobody has published yet").count(), Topic::ALL.len());
        assert!(
            said.contains("0 no status") && said.ends_with("DAEMONSETS\n  none\n"),
            "{said}"
        );
        assert!(
            said.contains("0 healthy, 0 late") && said.contains("0 scheduled, 0 evicting"),
            "{said}"
        );
        let object = object(&overview, &[]);
        assert_eq!((&object["nodes"]["healthy"], &object["stages"]), (&json!(0), &json!([])));
    }

    #[test]
    fn a_stage_that_is_not_live_says_why() {
        let shard = ShardStatus {
            topic: Topic::NodeHealth,
            shard: 1,
            shard_count: 2,
            epoch: 7,
            complete: true,
            live: false,
            lag: Duration::from_millis(12_345),
            producer: "me".to_owned(),
            detail: "no word for 12s".to_owned(),
        };
        let said = text(&Overview::default(), std::slice::from_ref(&shard));
        let line = said.lines().find(|line| line.contains("1/2")).expect("a line of the shard");
        assert_eq!(line, "  node-health        1/2 NOT LIVE, lag 12.3s, me: no word for 12s");
        assert_eq!(object(&Overview::default(), &[shard])["stages"][0]["live"], json!(false));
    }
}
