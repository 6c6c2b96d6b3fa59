//! Questions about pods, asked in the middle of a story.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_cluster::views;
use bailiff_model::taint::Effect;
use bailiff_model::{Topic, wellknown};

use super::{Act, Player};
use crate::answers::{Subject, ask};
use crate::chaos::agreement::Question;
use crate::chaos::story::Story;
use crate::views::{NodeView, PodView};

/// How often is asked about what is threatened.
const OFTEN: Duration = Duration::from_secs(6);
/// The stages that decide about pods have been whole for so long when they are asked.
const WHOLE: Duration = Duration::from_secs(10);
/// So long before the bus loses its memory.
const BEFORE: Duration = Duration::from_millis(1);

impl Player {
    /// Plans when to ask: every few seconds, while everything is whole, and before what is known is lost.
    pub(super) fn plan_questions(&mut self, story: &Story) {
        let mut at = WHOLE;
        while at < story.end {
            let now = self.began + at;
            if !self.trouble.is_any_amid(now.saturating_sub(WHOLE), now) {
                self.plan(at, Act::AskAboutThreatened);
            }
            at += OFTEN;
        }
        for loss in self.trouble.losses().to_vec() {
            self.plan(loss.saturating_since(self.began).saturating_sub(BEFORE), Act::AskAboutAll);
        }
    }

    /// Asks about all pods that there ever were.
    pub(super) async fn ask_about_all(&mut self) {
        let mut subjects = BTreeMap::new();
        for seen in self.fixture.sandbox.history() {
            if &*seen.resource == "pods"
                && let Ok(view) = seen.event.object.decode::<PodView>()
                && let Some(subject) = subject(view)
            {
                subjects.insert(subject.uid.clone(), subject);
            }
        }
        self.ask(subjects.into_values()).await;
    }

    /// Asks about the pods whose node is not well, or has a NoExecute taint.
    pub(super) async fn ask_about_threatened(&mut self) {
        let (_, nodes) = self.fixture.sandbox.list("nodes");
        let views = nodes.iter().filter_map(|node| node.decode::<NodeView>().ok());
        let threatened: Vec<String> = views.filter(is_threatening).map(|node| node.metadata.name).collect();
        if threatened.is_empty() {
            return;
        }
        let (_, pods) = self.fixture.sandbox.list("pods");
        let views = pods.iter().filter_map(|pod| pod.decode::<PodView>().ok());
        let subjects: Vec<Subject> = views
            .filter(|pod| threatened.contains(&pod.spec.node_name))
            .filter_map(subject)
            .collect();
        self.ask(subjects).await;
    }

    async fn ask(&mut self, subjects: impl IntoIterator<Item = Subject>) {
        let is_live = self.is_live().await;
        for subject in subjects {
            let now = self.fixture.clock.now();
            // Nobody answers while the bus is gone.
            if let Ok(answer) = ask(&self.fixture.bus, &self.fixture.sandbox, &self.fixture.clock, &subject).await {
                self.questions.push(Question {
                    at: now.mono,
                    wall: now.wall,
                    subject,
                    answer,
                    is_live,
                });
            }
        }
    }
}

impl Player {
    /// True if the bus says that the stages that decide about pods are live, and have said everything.
    async fn is_live(&self) -> bool {
        let Ok(status) = self.fixture.bus.status().await else {
            return false;
        };
        let of_pods = status.topics.iter().filter(|topic| topic.topic != Topic::DaemonRollouts);
        let mut shards = of_pods.flat_map(|topic| &topic.shards);
        shards.all(|shard| shard.live && shard.complete)
    }
}

fn subject(pod: PodView) -> Option<Subject> {
    let meta = pod.metadata.meta;
    (!pod.spec.node_name.is_empty()).then(|| Subject {
        name: format!("{}/{}", meta.namespace, meta.name),
        uid: meta.uid,
        node: pod.spec.node_name,
    })
}

fn is_threatening(node: &NodeView) -> bool {
    let ready = views::condition(&node.status.conditions, wellknown::CONDITION_READY);
    let is_tainted = node.spec.taints.iter().filter_map(views::TaintView::to_model);
    ready.is_none_or(|ready| ready.status != "True") || is_tainted.into_iter().any(|taint| taint.effect == Effect::NoExecute)
}
