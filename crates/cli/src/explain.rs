//! `bailiff explain`: why something is as it is, what it waits for, and what would stop it.

use std::collections::BTreeMap;
use std::process::ExitCode;

use bailiff_diff::said;
use bailiff_event_bus::{Body, Bus, Record};
use bailiff_explain::story::{Story, Told, keys};
use bailiff_model::intent::Intent;
use bailiff_model::names::{is_dns_label, is_subdomain};
use bailiff_model::outcome::Outcome;
use bailiff_model::{Topic, Wall, Zone};
use bailiff_runtime::Clock;
use clap::Subcommand;

use crate::bus::{Output, Shared, asked, reach, read_all};
use crate::cluster::node_name;
use crate::{Failure, out};

/// Flags of `bailiff explain`.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_args(|arg| arg.global(true)))]
#[command(after_help = "Examples:
  bailiff explain pod web-1 --namespace shop
  bailiff explain node worker-7
  bailiff explain node worker-7 --brief
  bailiff explain node worker-7 --at 2026-11-21T12:00:00Z
  bailiff explain zone eu-1:a --output json
  bailiff explain daemonset cni --namespace kube-system

It knows what the bus remembers: the last 16 records of each key, and of pods that were evicted those of the last day. A pod is found by \
its name in what the bus says now, with --at too: one of which it says nothing any more is not found, and one of which no stage has ever \
said anything is one that nobody wants to go. Times are those of the stages' clocks.
Exit code 1: nothing is known of it.")]
pub struct Args {
    #[command(subcommand)]
    what: What,

    /// As it was known at this time, in RFC 3339
    #[arg(long, value_parser = time, value_name = "TIME")]
    at: Option<Wall>,

    /// Only where it stands and what comes next, without what happened
    #[arg(long)]
    brief: bool,

    /// Link to the trace: what the trace's id is added to, such as http://localhost:16686/trace/
    #[arg(long, env = "BAILIFF_TRACE_URL", value_name = "URL")]
    trace_url: Option<String>,

    #[command(flatten)]
    shared: Shared,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Why a pod is evicted, or not; also one that is gone, as long as the bus remembers
    #[command(after_help = "Example:
  bailiff explain pod web-1 --namespace shop")]
    Pod {
        /// Name
        #[arg(value_parser = name)]
        name: String,
        /// Namespace
        #[arg(long, short, default_value = "default", value_parser = namespace, value_name = "NAMESPACE")]
        namespace: String,
    },
    /// How a node is judged, and what follows from that
    #[command(after_help = "Example:
  bailiff explain node worker-7 --brief")]
    Node {
        /// Name
        #[arg(value_parser = node_name)]
        name: String,
    },
    /// How a zone stands: its state, its rate and its queue
    #[command(after_help = "Example:
  bailiff explain zone eu-1:a --output json")]
    Zone {
        /// Zone, as <region>:<zone>
        name: Zone,
    },
    /// How far the rollout of a DaemonSet is, and what it waits for
    #[command(after_help = "Example:
  bailiff explain daemonset cni --namespace kube-system")]
    Daemonset {
        /// Name
        #[arg(value_parser = name)]
        name: String,
        /// Namespace
        #[arg(long, short, default_value = "default", value_parser = namespace, value_name = "NAMESPACE")]
        namespace: String,
    },
}

fn name(text: &str) -> Result<String, String> {
    let allowed = "allowed is a name: lower-case letters, digits, '-' and '.'; a namespace is told by --namespace";
    is_subdomain(text).then(|| text.to_owned()).ok_or_else(|| allowed.to_owned())
}

fn namespace(text: &str) -> Result<String, String> {
    let allowed = "allowed is the name of a namespace: lower-case letters, digits and '-'";
    is_dns_label(text).then(|| text.to_owned()).ok_or_else(|| allowed.to_owned())
}

fn time(text: &str) -> Result<Wall, String> {
    let said = |error| format!("{error}; allowed is a time such as 2026-11-21T12:00:00Z");
    text.parse::<Wall>().map_err(said)
}

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let came = crate::runtime()?.block_on(async {
        let clock = Clock::system();
        let bus = reach(&args.shared.bus, &clock);
        let (about, records) = find(&args.what, args.at, &bus, &clock).await?;
        let told: Vec<Told<'_>> = records.iter().map(told).collect();
        let story = Story::of(about, &told, args.at);
        match args.shared.output {
            Output::Json => {
                let mut object = story.json();
                if args.brief
                    && let Some(parts) = object.as_object_mut()
                {
                    parts.shift_remove("past");
                }
                out::line(object)?;
            }
            Output::Text => {
                out::print(if args.brief { story.brief() } else { story.text() })?;
                if let (Some(url), Some(trace_id)) = (&args.trace_url, &story.trace_id) {
                    out::line(format_args!("  {url}{trace_id}"))?;
                }
            }
        }
        let is_known = !story.past.is_empty();
        Ok(if is_known { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    });
    asked(&args.shared.bus, came)
}

fn told(record: &Record) -> Told<'_> {
    Told {
        topic: record.topic,
        key: &record.key,
        revision: record.revision.0,
        at: record.produced_at,
        by: &record.producer,
        trace: record.trace,
        said: record.body.as_ref().map(said),
    }
}

/// What it is called, and all records that concern it and were known at `at`.
async fn find(what: &What, at: Option<Wall>, bus: &Bus, clock: &Clock) -> Result<(String, Vec<Record>), Failure> {
    match what {
        What::Node { name } => {
            let mut records = known(bus, &keys::of_node(name), at).await?;
            records.extend(zone_of(bus, &records, at).await?);
            Ok((format!("node {name}"), records))
        }
        What::Zone { name } => {
            let key = (Topic::EvictionOutcomes, format!("zone/{name}"));
            Ok((format!("zone {name}"), known(bus, &[key], at).await?))
        }
        What::Daemonset { name, namespace } => {
            let key = (Topic::DaemonRollouts, format!("{namespace}/{name}"));
            Ok((format!("daemonset {namespace}/{name}"), known(bus, &[key], at).await?))
        }
        What::Pod { name, namespace } => {
            // Its key is its uid, which the name alone does not tell: what the bus says of it does.
            let (all, _) = read_all(bus, clock).await?;
            let mut records = Vec::new();
            let found = match at {
                Some(at) => pod_of_then(bus, &pods_of_name(&all, namespace, name), at).await?,
                None => pod_of_now(&all, namespace, name),
            };
            if let Some((uid, node)) = found {
                records = known(bus, &keys::of_pod(&uid, &node), at).await?;
                records.extend(zone_of(bus, &records, at).await?);
            }
            Ok((format!("pod {namespace}/{name}"), records))
        }
    }
}

/// The last word on the node's zone, if the zone-evictor has said anything of the node: what holds a zone is said there.
async fn zone_of(bus: &Bus, records: &[Record], at: Option<Wall>) -> Result<Option<Record>, Failure> {
    let told: Vec<Told<'_>> = records.iter().map(told).collect();
    let Some(key) = keys::of_zone(&told) else { return Ok(None) };
    Ok(known(bus, &[key], at).await?.pop())
}

/// The pod of this name of which something was said last, with its node.
fn pod_of_now(all: &[Record], namespace: &str, name: &str) -> Option<(String, String)> {
    let said = all
        .iter()
        .filter_map(|record| Some((record.revision, is_of_pod(record, namespace, name)?)));
    said.max_by_key(|(revision, _)| *revision).map(|(_, pod)| pod)
}

/// The pods of this name that the bus knows, one after the other in the life of the cluster: node by uid.
fn pods_of_name(all: &[Record], namespace: &str, name: &str) -> BTreeMap<String, String> {
    all.iter().filter_map(|record| is_of_pod(record, namespace, name)).collect()
}

/// Uid and node of the pod of this name, if the record is about it.
fn is_of_pod(record: &Record, namespace: &str, name: &str) -> Option<(String, String)> {
    let (pod, node) = match record.body.as_ref()? {
        Body::Intent(Intent::Pod(eviction)) => (&eviction.pod, &eviction.node),
        Body::Outcome(Outcome::Pod(outcome)) => (&outcome.pod, &outcome.node),
        _ => return None,
    };
    let is_it = pod.namespace.as_str() == namespace && pod.name.as_str() == name;
    is_it.then(|| (pod.uid.to_string(), node.name.to_string()))
}

/// The pod of which something was said last, as it was known at `at`; with its node. What is taken back says nothing of who is there.
async fn pod_of_then(bus: &Bus, pods: &BTreeMap<String, String>, at: Wall) -> Result<Option<(String, String)>, Failure> {
    let mut last = None;
    for (uid, node) in pods {
        let records = known(bus, &keys::of_pod_alone(uid), Some(at)).await?;
        let said = records.iter().filter(|record| record.body.is_some());
        let revision = said.map(|record| record.revision).max();
        last = last.max(revision.map(|revision| (revision, uid, node)));
    }
    Ok(last.map(|(_, uid, node)| (uid.clone(), node.clone())))
}

/// The records that the bus has of these keys, as it was known at `at`.
async fn known(bus: &Bus, keys: &[(Topic, String)], at: Option<Wall>) -> Result<Vec<Record>, Failure> {
    let mut records = Vec::new();
    for (topic, key) in keys {
        records.extend(bus.history(*topic, key).await?);
    }
    records.retain(|record| at.is_none_or(|at| record.produced_at <= at));
    Ok(records)
}

#[cfg(test)]
mod tests;
