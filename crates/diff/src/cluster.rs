//! What the controllers of a cluster did, as it stands in the API.

use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::{Condition, Conditions, Meta, TaintView, Taints, condition, or_default};
use bailiff_cluster::watch::{Event, Source as Collection};
use bailiff_cluster::{Api, Decode, View, Watch};
use bailiff_model::intent::HealthTaint;
use bailiff_model::{Effect, ReadyStatus, Wall, wellknown};
use bailiff_runtime::Seed;
use serde::Deserialize;

use crate::answer::{Answer, Key, Question};
use crate::duties::ready;
use crate::records;
use crate::source::{News, Source};

/// Follows nodes, pods and DaemonSets.
#[derive(Debug)]
pub struct Cluster {
    nodes: Watch<Node>,
    pods: Watch<Pod>,
    sets: Watch<DaemonSet>,
    /// Which of them are fresh, and what was said of that.
    fresh: [Option<Result<(), String>>; 3],
    said: Option<Result<(), String>>,
}

/// What is answered of a kind of object.
trait Answers: View {
    const QUESTIONS: &'static [Question];

    /// What it answers to each question about it.
    fn answers(&self) -> Vec<(Key, Option<Answer>)>;

    /// It is gone.
    fn gone(meta: &Meta) -> Vec<News>;
}

#[derive(Debug, Deserialize)]
struct Node {
    metadata: Meta,
    #[serde(default, deserialize_with = "or_default")]
    spec: Taints,
    #[serde(default, deserialize_with = "or_default")]
    status: Conditions,
}

#[derive(Debug, Deserialize)]
struct Pod {
    metadata: Meta,
    #[serde(default, deserialize_with = "or_default")]
    status: Conditions,
}

#[derive(Debug, Deserialize)]
struct DaemonSet {
    metadata: Meta,
    #[serde(default, deserialize_with = "or_default")]
    status: SetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SetStatus {
    observed_generation: i64,
    desired_number_scheduled: u32,
    updated_number_scheduled: u32,
    number_misscheduled: u32,
}

// === impl Cluster ===

impl Cluster {
    /// Follows the cluster.
    pub fn follow(api: &Api, seed: &Seed) -> Self {
        Self {
            nodes: Watch::start(api, Collection::all("/api/v1/nodes"), seed),
            pods: Watch::start(api, Collection::all("/api/v1/pods"), seed),
            sets: Watch::start(api, Collection::all("/apis/apps/v1/daemonsets"), seed),
            fresh: [const { None }; 3],
            said: None,
        }
    }

    /// What is heard as a whole: everything, once everything was listed and nothing is stale.
    fn hear(&mut self, place: usize, fresh: Option<Result<(), String>>) -> Option<News> {
        if let (Some(fresh), Some(known)) = (fresh, self.fresh.get_mut(place)) {
            *known = Some(fresh);
        }
        let not_yet = || Err("the cluster was not listed yet".to_owned());
        let heard = self.fresh.iter().map(|fresh| fresh.clone().unwrap_or_else(not_yet));
        let heard: Result<(), String> = heard.collect();
        if self.said.as_ref() == Some(&heard) {
            return None;
        }
        self.said = Some(heard.clone());
        Some(News::Heard(heard))
    }
}

impl Source for Cluster {
    async fn next(&mut self) -> Vec<News> {
        let (place, (mut news, fresh)) = tokio::select! {
            event = self.nodes.next() => (0, take(event)),
            event = self.pods.next() => (1, take(event)),
            event = self.sets.next() => (2, take(event)),
        };
        news.extend(self.hear(place, fresh));
        news
    }
}

fn take<T: Answers>(event: Event<T>) -> (Vec<News>, Option<Result<(), String>>) {
    match event {
        Event::Snapshot(snapshot) => {
            let answers = snapshot.objects.iter().flat_map(T::answers);
            let answers = answers.filter_map(|(key, answer)| Some((key, answer?))).collect();
            (vec![News::All(T::QUESTIONS.to_vec(), answers)], Some(Ok(())))
        }
        Event::Applied(object) => {
            let answers = object.answers().into_iter();
            (answers.map(|(key, answer)| News::Says(key, answer)).collect(), None)
        }
        Event::Deleted(meta) => (T::gone(&meta), None),
        Event::Stale { reason, .. } => (
            Vec::new(),
            Some(Err(format!("the cluster's API cannot be followed: {reason}"))),
        ),
        Event::Fresh => (Vec::new(), Some(Ok(()))),
    }
}

// === impl Answers ===

impl Decode for Node {
    const MESSAGE: Option<&'static Message> = Some(&schema::NODE);
}

impl View for Node {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Answers for Node {
    const QUESTIONS: &'static [Question] = &[Question::Health, Question::Isolation];

    fn answers(&self) -> Vec<(Key, Option<Answer>)> {
        let name = &self.metadata.name;
        let condition = condition(&self.status.conditions, wellknown::CONDITION_READY);
        let status = condition.map_or(ReadyStatus::Absent, Condition::ready_status);
        let why = condition.map_or_else(String::new, |ready| {
            let since = since(ready.last_transition_time);
            format!("Ready is {}{since}: {}", ready.status, ready.reason)
        });
        // The one that is newer is the one that is meant: while one is exchanged for the other, both stand.
        let is_ours = |taint: &&TaintView| {
            let keys = [HealthTaint::NotReady, HealthTaint::Unreachable].map(HealthTaint::key);
            Effect::parse(&taint.effect) == Some(Effect::NoExecute) && keys.contains(&taint.key.as_str())
        };
        let taint = self.spec.taints.iter().filter(is_ours).max_by_key(|taint| taint.time_added);
        let isolation = taint.map(|taint| {
            let since = since(taint.time_added);
            Answer::new(
                records::tainted(&taint.key),
                format!("the node carries {}:NoExecute{since}", taint.key),
            )
        });
        vec![
            (records::node(Question::Health, name), Some(Answer::new(ready(status), why))),
            (records::node(Question::Isolation, name), isolation),
        ]
    }

    fn gone(meta: &Meta) -> Vec<News> {
        let keys = Self::QUESTIONS.iter().map(|question| records::node(*question, &meta.name));
        keys.map(|key| News::Says(key, None)).collect()
    }
}

impl Decode for Pod {
    const MESSAGE: Option<&'static Message> = Some(&schema::POD);
}

impl View for Pod {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Answers for Pod {
    const QUESTIONS: &'static [Question] = &[Question::Eviction];

    fn answers(&self) -> Vec<(Key, Option<Answer>)> {
        // TE-072: who evicts because of a taint says so before it deletes.
        let target = condition(&self.status.conditions, "DisruptionTarget");
        let target = target.filter(|target| target.status == "True" && target.reason == "DeletionByTaintManager");
        let answer = target.map(|target| {
            let since = since(target.last_transition_time);
            records::gone(format!("DisruptionTarget{since}: {}", target.reason))
        });
        vec![(of_pod(&self.metadata), answer)]
    }

    fn gone(meta: &Meta) -> Vec<News> {
        vec![News::Over(of_pod(meta))]
    }
}

fn of_pod(meta: &Meta) -> Key {
    records::pod(&meta.namespace, &meta.name, meta.uid.as_str())
}

/// Read from JSON: the table of its message has no status.
impl Decode for DaemonSet {}

impl View for DaemonSet {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Answers for DaemonSet {
    const QUESTIONS: &'static [Question] = &[Question::Rollout];

    fn answers(&self) -> Vec<(Key, Option<Answer>)> {
        let status = &self.status;
        let says = records::rollout(
            status.observed_generation,
            status.desired_number_scheduled,
            status.updated_number_scheduled,
            status.number_misscheduled,
        );
        vec![(of_set(&self.metadata), Some(Answer::new(says, "its status says so")))]
    }

    fn gone(meta: &Meta) -> Vec<News> {
        vec![News::Says(of_set(meta), None)]
    }
}

fn of_set(meta: &Meta) -> Key {
    records::daemonset(&meta.namespace, &meta.name, meta.uid.as_str())
}

/// Since when something is so, for people; nothing if nobody said.
fn since(at: Option<Wall>) -> String {
    at.map_or_else(String::new, |at| format!(" since {at:.0}"))
}
