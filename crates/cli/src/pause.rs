//! `bailiff pause`, `bailiff resume` and `bailiff pauses`: the brake, by hand.
//!
//! They write one ConfigMap, which every stage watches (docs/adr/0002); they need neither a bus nor any stage. How it is written is
//! [`store`]'s.

mod store;

use std::collections::BTreeSet;
use std::process::ExitCode;

use bailiff_cluster::Api;
use bailiff_model::{HoldScope, NodeName, Wall, Zone};
use bailiff_runtime::args::{Error as Invalid, exit_invalid};
use bailiff_runtime::{Clock, GoDuration};
use bailiff_stage::brake::pauses::{LONGEST, LONGEST_REASON, Pause};
use clap::{Subcommand, ValueEnum};
use serde_json::json;

use crate::cluster::{Kube, Target, pick};
use crate::{Failure, out};
use store::{Pauses, Store};

/// Flags of `bailiff pause`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "Examples:
  bailiff pause --node worker-7 --for 30m --reason 'reading its disk'
  bailiff pause --zone eu-1:a --for 2h --reason 'switch replacement'
  bailiff pause --all --for 1h --reason 'control plane upgrade'
  bailiff pause list --output json

While it stands, no node in it is marked Unknown or isolated, no pod in it is marked not ready or evicted, and no running daemon \
pod in it is deleted. Withdrawing, untainting and cancelling go on. It ends by itself; what is true then counts. It is kept in the \
ConfigMap kube-system/bailiff-pauses; if that cannot be read, everything is paused."
)]
pub struct PauseArgs {
    #[command(subcommand)]
    command: Option<PauseCommand>,

    #[command(flatten)]
    target: Target,

    /// How long, at most a year (8760h); a pause of the same target is replaced
    #[arg(long = "for", required = true, value_parser = duration, value_name = "DURATION")]
    duration: Option<GoDuration>,

    /// Why, for people: it is part of every record and Event about what is held
    #[arg(long, required = true, value_parser = reason, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    kube: Kube,
}

/// Flags of `bailiff resume`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff resume --node worker-7     whether it exists or not
  bailiff resume --all               ends the pause of everything; those of zones and nodes stand
  bailiff resume --entry old-note    removes an entry by its key, for one that cannot be read

Exit code 0: ended, or there was none.")]
pub struct ResumeArgs {
    #[command(flatten)]
    target: Target,

    /// Key of the entry in the ConfigMap, for one that cannot be read
    #[arg(long, group = "target", value_name = "KEY")]
    entry: Option<String>,

    #[command(flatten)]
    kube: Kube,
}

/// Flags of `bailiff pauses` and `bailiff pause list`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff pauses
  bailiff pause list --output json | jq -r '.pauses[] | select(.expired | not).entry'")]
pub struct ListArgs {
    /// How it is written
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,

    #[command(flatten)]
    kube: Kube,
}

#[derive(Clone, Debug, Subcommand)]
enum PauseCommand {
    /// List the pauses there are
    List(ListArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One JSON object
    Json,
}

fn duration(text: &str) -> Result<GoDuration, String> {
    let duration: GoDuration = text
        .parse()
        .map_err(|error: bailiff_runtime::args::DurationError| error.to_string())?;
    if duration.is_zero() || duration.get() > LONGEST {
        return Err("allowed is more than 0 and at most a year, such as 30m, 2h or 8760h".to_owned());
    }
    Ok(duration)
}

fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.len() > LONGEST_REASON || text.chars().any(char::is_control) {
        return Err(format!("allowed is a line of 1 to {LONGEST_REASON} bytes"));
    }
    Ok(text.to_owned())
}

/// Runs `bailiff pause`.
pub fn pause(args: PauseArgs) -> Result<ExitCode, Failure> {
    let PauseArgs {
        command,
        target,
        duration,
        reason,
        kube,
    } = args;
    if let Some(PauseCommand::List(list)) = command {
        return pauses(list);
    }
    let (Some(duration), Some(reason)) = (duration, reason) else {
        return Err("--for and --reason are required".into());
    };
    crate::runtime()?.block_on(kube.asked(async |kube| {
        let (store, clock) = connect(kube).await?;
        let scope = scope(&store, target).await?;
        let now = clock.wall();
        let pause = Pause {
            scope,
            since: Some(now),
            until: now.checked_add(duration.get()).unwrap_or(Wall::MAX),
            reason,
            by: whoami(),
        };
        store.pause(&pause, now).await?;
        out::line(out::one_line(format_args!(
            "paused {} until {:.0}: {}",
            pause.scope, pause.until, pause.reason
        )))?;
        Ok(ExitCode::SUCCESS)
    }))
}

/// Runs `bailiff resume`.
pub fn resume(args: ResumeArgs) -> Result<ExitCode, Failure> {
    let ResumeArgs { target, entry, kube } = args;
    crate::runtime()?.block_on(kube.asked(async |kube| {
        let (store, clock) = connect(kube).await?;
        let now = clock.wall();
        let (ended, left) = match entry {
            Some(key) => (store.remove(&key, &whoami(), now).await?, key),
            None => {
                let given = target.zone.clone();
                let scope = paused(&store.read().await?, target).unwrap_or_else(|error| exit_invalid(&error));
                (store.resume(&scope, &whoami(), now).await?, shown(&scope, given.as_deref()))
            }
        };
        if ended {
            out::line(format_args!("resumed {}", out::one_line(left)))?;
        } else {
            out::line(format_args!("there was no pause of {}", out::one_line(left)))?;
        }
        let found = store.read().await?;
        for (key, pause) in found.standing(now) {
            out::line(out::one_line(format_args!(
                "still paused: {} until {:.0} (entry {key}): {}",
                pause.scope, pause.until, pause.reason
            )))?;
        }
        out::print(unreadable(&found))?;
        Ok(ExitCode::SUCCESS)
    }))
}

/// Runs `bailiff pauses`.
pub fn pauses(args: ListArgs) -> Result<ExitCode, Failure> {
    let ListArgs { output, kube } = args;
    crate::runtime()?.block_on(kube.asked(async |kube| {
        let (store, clock) = connect(kube).await?;
        let found = store.read().await?;
        out::print(listing(&found, output, clock.wall()))?;
        Ok(ExitCode::SUCCESS)
    }))
}

/// What pauses everything because it cannot be read, and what ends that.
fn unreadable(found: &Pauses) -> String {
    let line = |(key, why): (&String, &String)| {
        let line = format!("UNREADABLE, so everything is paused: entry {key}: {why}; to remove it: bailiff resume --entry {key}");
        out::one_line(line) + "\n"
    };
    found.unreadable.iter().map(line).collect()
}

fn listing(found: &Pauses, output: Output, now: Wall) -> String {
    let mut text = String::new();
    match output {
        Output::Json => {
            let pauses: Vec<_> = found
                .readable
                .iter()
                .map(|(key, pause)| {
                    let (kind, name) = match &pause.scope {
                        HoldScope::All => ("all", String::new()),
                        HoldScope::Zone(zone) => ("zone", zone.to_string()),
                        HoldScope::Node(node) => ("node", node.to_string()),
                    };
                    json!({
                        "entry": key, "scope": kind, "name": name, "since": pause.since.map(|since| since.to_string()),
                        "until": pause.until.to_string(), "expired": pause.until <= now, "reason": pause.reason, "by": pause.by,
                    })
                })
                .collect();
            let unreadable: Vec<_> = found
                .unreadable
                .iter()
                .map(|(key, why)| json!({"entry": key, "error": why}))
                .collect();
            text = json!({"pauses": pauses, "unreadable": unreadable}).to_string();
            text.push('\n');
        }
        Output::Text => {
            for (key, pause) in &found.readable {
                let state = if pause.until <= now { "expired" } else { "paused " };
                let line = format!(
                    "{state} {} until {:.0} by {} (entry {key}): {}",
                    pause.scope, pause.until, pause.by, pause.reason
                );
                text.push_str(&out::one_line(line));
                text.push('\n');
            }
            text.push_str(&unreadable(found));
            if text.is_empty() {
                text.push_str("nothing is paused\n");
            }
        }
    }
    text
}

async fn connect(kube: Kube) -> Result<(Store, Clock), Failure> {
    let clock = Clock::system();
    let api = Api::new(kube.client("pause").await, clock.clone(), bailiff_cluster::Metrics::default());
    Ok((Store::new(api), clock))
}

/// What is meant; one that does not exist is refused: a brake on nothing holds nothing.
async fn scope(store: &Store, target: Target) -> Result<HoldScope, Failure> {
    match (target.zone, target.node) {
        (Some(zone), _) => {
            let zones = store.zones().await?;
            match pick(&zone, &zones) {
                Ok(zone) => Ok(HoldScope::Zone(zone)),
                Err(error) => exit_invalid(&error),
            }
        }
        (None, Some(node)) if store.has_node(&node).await? => Ok(HoldScope::Node(NodeName::from(node))),
        (None, Some(node)) => exit_invalid(&Invalid::new("node", node, "there is no such node")),
        (None, None) => Ok(HoldScope::All),
    }
}

/// Which of the pauses is meant. The cluster is not asked: what was paused may be gone by now, and would be paused still if it came back.
fn paused(found: &Pauses, target: Target) -> Result<HoldScope, Invalid> {
    let Some(text) = target.zone else {
        return Ok(target.node.map_or(HoldScope::All, |node| HoldScope::Node(node.into())));
    };
    if let Ok(zone) = text.parse() {
        return Ok(HoldScope::Zone(zone));
    }
    let zones = found.readable.values().filter_map(|pause| match &pause.scope {
        HoldScope::Zone(zone) if *zone.zone == *text => Some(zone),
        _ => None,
    });
    let zones: BTreeSet<&Zone> = zones.collect();
    let names: Vec<String> = zones.iter().map(|zone| zone.to_string()).collect();
    match zones.into_iter().collect::<Vec<_>>()[..] {
        [] => Ok(HoldScope::Zone(Zone::new("", &text))),
        [zone] => Ok(HoldScope::Zone(zone.clone())),
        _ => {
            let allowed = format!("it is paused in several regions; allowed is one of {}", names.join(", "));
            Err(Invalid::new("zone", text, allowed))
        }
    }
}

/// What is meant, for people: a zone of no region, which may be that of any that is not paused, as it was given.
fn shown(scope: &HoldScope, given: Option<&str>) -> String {
    match (scope, given) {
        (HoldScope::Zone(zone), Some(given)) if zone.region.is_empty() => format!("zone {given}"),
        _ => scope.to_string(),
    }
}

fn whoami() -> String {
    let user = std::env::var("USER").unwrap_or_default().replace(char::is_control, "");
    let user = if user.is_empty() { "somebody".to_owned() } else { user };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => user,
        host => format!("{user}@{host}"),
    }
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::args::{EXIT_CONFIGURATION, parse_from};

    use super::*;
    use crate::Cli;

    #[test]
    fn exactly_one_target_a_time_and_a_reason_are_wanted() {
        let full = ["--for=2h", "--reason=r"];
        let cases: [(&[&str], bool); 15] = [
            (&["pause", "--all", full[0], full[1]], true),
            (&["pause", "--zone=a", full[0], full[1]], true),
            (&["pause", "--node=a", full[0], full[1], "--kubeconfig=f"], true),
            (&["pause", "list", "--output=json"], true),
            (&["pauses", "--kubeconfig=f"], true),
            (&["resume", "--all"], true),
            (&["resume", "--entry=x"], true),
            (&["pause", full[0], full[1]], false),
            (&["pause", "--all", "--node=a", full[0], full[1]], false),
            (&["resume", "--all", "--entry=x"], false),
            (&["resume"], false),
            // Of variables that are not set.
            (&["pause", "--node=", full[0], full[1]], false),
            (&["pause", "--zone=", full[0], full[1]], false),
            (&["resume", "--node="], false),
            (&["resume", "--zone="], false),
        ];
        for (arguments, wanted) in cases {
            let parsed = parse_from::<Cli>(std::iter::once("bailiff").chain(arguments.iter().copied()));
            match parsed {
                Ok(_) => assert!(wanted, "{arguments:?}"),
                Err(refusal) => {
                    assert!(!wanted, "{arguments:?}: {refusal}");
                    assert_eq!(refusal.exit_code(), EXIT_CONFIGURATION);
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_is_answered_with_flag_value_and_what_is_allowed() {
        for (flag, part) in [
            ("--for=0s", "at most a year"),
            ("--for=9000h", "8760h"),
            ("--for=2", "no unit"),
            ("--reason= ", "a line"),
        ] {
            let arguments = ["bailiff", "pause", "--all", "--for=2h", "--reason=r", flag];
            let arguments: Vec<&str> = arguments
                .into_iter()
                .filter(|given| *given == flag || given.split('=').next() != flag.split('=').next())
                .collect();
            let refusal = parse_from::<Cli>(arguments).expect_err(flag);
            assert!(refusal.to_string().contains(part), "{flag}: {refusal}");
        }
    }

    #[test]
    fn what_is_gone_can_be_resumed() {
        let zone = |region, zone| HoldScope::Zone(Zone::new(region, zone));
        let scopes = [zone("eu", "a"), zone("eu", "b"), zone("us", "b")];
        let mut found = Pauses::default();
        for (nth, scope) in scopes.into_iter().enumerate() {
            let pause = Pause {
                scope,
                since: None,
                until: Wall::MAX,
                reason: "r".to_owned(),
                by: "b".to_owned(),
            };
            found.readable.insert(nth.to_string(), pause);
        }
        let meant = |zone: Option<&str>, node: Option<&str>| {
            let target = Target {
                zone: zone.map(str::to_owned),
                node: node.map(str::to_owned),
                all: zone.is_none() && node.is_none(),
            };
            paused(&found, target).map_err(|error| error.to_string())
        };
        assert_eq!(meant(None, None), Ok(HoldScope::All));
        assert_eq!(meant(None, Some("gone")), Ok(HoldScope::Node("gone".into())));
        assert_eq!(meant(Some("us:b"), None), Ok(zone("us", "b")));
        assert_eq!(meant(Some("a"), None), Ok(zone("eu", "a")));
        assert_eq!(meant(Some("c"), None), Ok(zone("", "c")), "none is paused");
        assert_eq!(shown(&zone("", "c"), Some("c")), "zone c");
        assert_eq!(shown(&zone("", "c"), Some(":c")), "zone :c");
        assert_eq!(shown(&zone("eu", "a"), Some("a")), "zone eu:a");
        assert_eq!(shown(&HoldScope::All, None), "everything");
        let refusal = meant(Some("b"), None).expect_err("two are");
        assert!(refusal.contains("eu:b, us:b"), "{refusal}");
    }

    #[test]
    fn what_cannot_be_read_is_listed_with_what_ends_it() {
        let now = Wall::UNIX_EPOCH;
        let mut found = Pauses::default();
        assert_eq!(listing(&found, Output::Text, now), "nothing is paused\n");
        found.unreadable.insert("x".to_owned(), "it is in binaryData".to_owned());
        let wanted = "UNREADABLE, so everything is paused: entry x: it is in binaryData; to remove it: bailiff resume --entry x\n";
        assert_eq!(listing(&found, Output::Text, now), wanted);
        let json: serde_json::Value = serde_json::from_str(&listing(&found, Output::Json, now)).expect("JSON");
        assert_eq!(json["unreadable"], json!([{"entry": "x", "error": "it is in binaryData"}]));
    }

    #[test]
    fn what_somebody_wrote_says_nothing_in_a_line_of_its_own() {
        let mut found = Pauses::default();
        let pause = Pause {
            scope: HoldScope::All,
            since: None,
            until: Wall::MAX,
            reason: "x\nnothing is paused".to_owned(),
            by: "b".to_owned(),
        };
        found.readable.insert("k".to_owned(), pause);
        found.unreadable.insert("u".to_owned(), "y\nnothing is paused".to_owned());
        let text = listing(&found, Output::Text, Wall::UNIX_EPOCH);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("): x\\u000anothing is paused\n"), "{text}");
    }
}
