//! What `bailiff explain` answers about a pod, asked of the bus of a running system, with what its API has of the pod.

use bailiff_event_bus::client::Error;
use bailiff_event_bus::{Body, Bus, Record};
use bailiff_explain::Said;
use bailiff_explain::story::{Seen, Story, Told, keys};
use bailiff_model::{Taint, Toleration, Topic};
use bailiff_runtime::Clock;
use bailiff_sandbox::Sandbox;
use serde_json::Value;

use crate::views::{NodeView, PodView};

/// Who is asked about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// `<namespace>/<name>`, for people.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// The node it is, or was, bound to.
    pub node: String,
}

/// An answer, as a program reads it: the JSON form of [`Story`].
#[derive(Clone, Debug, PartialEq)]
pub struct Answer(pub Value);

/// Asks the bus about a pod, and the API what it has of it.
///
/// # Errors
/// The bus does not answer.
pub async fn ask(bus: &Bus, sandbox: &Sandbox, clock: &Clock, subject: &Subject) -> Result<Answer, Error> {
    let mut records = Vec::new();
    for (topic, key) in keys::of_pod(&subject.uid, &subject.node) {
        records.extend(bus.history(topic, &key).await?);
    }
    let zone = keys::of_zone(&records.iter().map(told).collect::<Vec<_>>());
    if let Some((topic, key)) = zone {
        records.extend(bus.history(topic, &key).await?.pop());
    }
    let told: Vec<Told<'_>> = records.iter().map(told).collect();
    let story = Story::of(format!("pod {}", subject.name), &told, None);
    let Some((tolerations, taints)) = standing(sandbox, subject) else {
        return Ok(Answer(story.json()));
    };
    let seen = Seen {
        at: clock.wall(),
        node: &subject.node,
        tolerations: &tolerations,
        taints: &taints,
    };
    Ok(Answer(story.with(&seen).json()))
}

/// What a pod that is there tolerates, and the taints of its node, if that is there.
fn standing(sandbox: &Sandbox, subject: &Subject) -> Option<(Vec<Toleration>, Vec<Taint>)> {
    let (namespace, name) = subject.name.split_once('/')?;
    let pod = sandbox.get("pods", namespace, name).filter(|pod| pod.uid() == subject.uid)?;
    let node = sandbox.get("nodes", "", &subject.node)?;
    let (pod, node) = (pod.decode::<PodView>().ok()?, node.decode::<NodeView>().ok()?);
    let taints = node.spec.taints.iter().filter_map(|one| one.to_model()).collect();
    Some((pod.spec.tolerations, taints))
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

fn said(body: &Body) -> Said<'_> {
    match body {
        Body::NodeHealth(health) => Said::Health(health),
        Body::Intent(intent) => Said::Intent(intent),
        Body::Outcome(outcome) => Said::Outcome(outcome),
        Body::DaemonSetSync(sync) => Said::Rollout(sync),
    }
}

// === impl Answer ===

impl Answer {
    /// What is said last of this kind, such as `podEviction` or `zoneStatus`, unless it was taken back.
    pub fn present(&self, kind: &str) -> Option<&Value> {
        self.bodies("present", kind).next_back()
    }

    /// Everything that was said of this kind, oldest first.
    pub fn past<'a, 'k>(&'a self, kind: &'k str) -> impl DoubleEndedIterator<Item = &'a Value> + use<'a, 'k> {
        self.bodies("past", kind)
    }

    /// What is said last of the node's health.
    pub fn health(&self) -> Option<&Value> {
        let lines = self.0["present"].as_array()?;
        let record = lines
            .iter()
            .map(|line| &line["record"])
            .find(|record| record["topic"] == Topic::NodeHealth.as_str())?;
        record.get("body")
    }

    /// What the API has of the pod: `tolerance`, `taints`, `node`.
    pub fn seen(&self) -> Option<&Value> {
        let lines = self.0["present"].as_array()?;
        lines.iter().find_map(|line| line["record"].get("seen"))
    }

    /// True if what was said under the pod's key of the topic was taken back.
    pub fn is_taken_back(&self, topic: Topic, uid: &str) -> bool {
        let key = format!("pod/{uid}");
        let lines = self.0["past"].as_array().into_iter().flatten();
        let mut of_key = lines.filter(|line| line["record"]["topic"] == topic.as_str() && line["record"]["key"] == *key);
        of_key.next_back().is_some_and(|line| line["record"].get("body").is_none())
    }

    fn bodies<'a, 'k>(&'a self, part: &str, kind: &'k str) -> impl DoubleEndedIterator<Item = &'a Value> + use<'a, 'k> {
        let lines = self.0[part].as_array().map(Vec::as_slice).unwrap_or_default();
        lines.iter().filter_map(move |line| line["record"]["body"].get(kind))
    }

    /// For people.
    pub fn text(&self) -> String {
        let lines = |part: &str| -> Vec<String> {
            let lines = self.0[part].as_array().into_iter().flatten();
            lines
                .map(|line| format!("    {} {}: {}", line["at"], line["by"], line["text"]))
                .collect()
        };
        format!(
            "  past:\n{}\n  present:\n{}\n  future: {}",
            lines("past").join("\n"),
            lines("present").join("\n"),
            self.0["future"]
        )
    }
}
