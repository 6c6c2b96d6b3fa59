//! Plays a story in a world.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_event_bus::{SubscribeOptions, Subscription, Update, subscribe};
use bailiff_model::{Mono, NodeName, Topic, wellknown};
use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::driver::Options as ClusterOptions;
use bailiff_sandbox::kubelet::{Change, KubeletSettings, Target};
use bailiff_sandbox::{User, Verb};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::boundary::{Boundary, Counts};
use super::faults::Faults;
use super::invariants::{self, Verdict};
use super::story::{Deed, Story};
use super::timeline::{Object, Timeline, World};
use crate::fixture::{Error, Fixture, Transport};
use crate::{StageName, StageOptions, world};

/// How long a stage that a fault killed is gone.
const GONE_FOR: Duration = Duration::from_secs(3);

/// What a story ended with.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What the invariants found, by name.
    pub verdicts: Vec<(&'static str, Verdict)>,
    /// How often there was a place for a fault.
    pub counts: Counts,
    /// When each stage published its records.
    pub published: BTreeMap<StageName, Vec<Duration>>,
    /// How it ended.
    pub state: EndState,
    /// Stages that ended by themselves, which none should.
    pub stages_ended: Vec<StageName>,
    /// What was written, for people.
    pub log: Vec<String>,
}

/// What is in the API in the end, as far as it must be the same whatever fault there was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndState {
    /// Ready and taints, by node.
    pub nodes: BTreeMap<String, String>,
    /// Pods that are not daemon pods, and what they are.
    pub pods: BTreeMap<String, String>,
    /// Daemon pods that live, by node.
    pub daemon_pods: BTreeMap<String, usize>,
    /// The DaemonSet's status.
    pub daemon_set: String,
}

/// What is to be done at its time.
#[derive(Debug)]
enum Act {
    Deed(Deed),
    Start(StageName),
    StartBus,
    Kill(StageName),
}

struct Player {
    fixture: Fixture,
    faults: Faults,
    dead: mpsc::Receiver<StageName>,
    records: Subscription,
    began: Mono,
    agenda: BTreeMap<(Duration, u32), Act>,
    acts: u32,
    published: BTreeMap<StageName, Vec<Duration>>,
}

/// Plays a story.
///
/// # Errors
/// The cluster could not be set up.
pub fn play(story: &Story) -> Result<Ended, Error> {
    play_with(story, None)
}

/// Plays a story with one fault at one place. A stage's death before its n-th record needs to know when that is: `moment`.
///
/// # Errors
/// The cluster could not be set up.
pub fn play_with(story: &Story, fault: Option<(Boundary, Duration)>) -> Result<Ended, Error> {
    world::run(async |clock| {
        let mut player = Player::set_up(story, clock).await?;
        if let Some((boundary, moment)) = fault {
            player.faults.put(boundary);
            if let Boundary::BeforeRecord(stage, _) = boundary {
                player.plan(moment.saturating_sub(Duration::from_millis(1)), Act::Kill(stage));
            }
        }
        player.follow(story.end).await?;
        Ok(player.end(story))
    })
}

// === impl Player ===

impl Player {
    async fn set_up(story: &Story, clock: Clock) -> Result<Self, Error> {
        let cluster = ClusterOptions {
            kubelets: Some(KubeletSettings {
                lease_interval: Some(Duration::from_secs(2)),
                ..KubeletSettings::cluster()
            }),
            ..ClusterOptions::cluster()
        };
        let options = StageOptions::parse(story.terms.flags()).map_err(|refusal| Error::Flags(refusal.to_string()))?;
        let seed = Seed::new(story.seed);
        let began = clock.now().mono;
        let mut fixture = Fixture::start(Transport::InProcess, &cluster, options, clock, seed).await?;
        let (faults, dead) = Faults::new(&fixture.seed);
        fixture.inject(faults.clone());
        for (node, zone) in &story.nodes {
            create_node(&fixture, node, zone)?;
        }
        fixture.create("/apis/apps/v1/namespaces/default/daemonsets", &Story::daemon_set(1))?;
        fixture.start_stages().await?;
        let options = SubscribeOptions {
            topics: Topic::ALL.to_vec(),
            filters: Vec::new(),
            subscriber: "chaos".to_owned(),
        };
        let records = subscribe(&fixture.bus, options, &fixture.clock, &fixture.seed.fork("chaos"));
        let mut player = Self {
            fixture,
            faults,
            dead,
            records,
            began,
            agenda: BTreeMap::new(),
            acts: 0,
            published: BTreeMap::new(),
        };
        for (at, deed) in &story.deeds {
            player.plan(*at, Act::Deed(deed.clone()));
        }
        Ok(player)
    }

    fn plan(&mut self, at: Duration, act: Act) {
        self.acts += 1;
        self.agenda.insert((at, self.acts), act);
    }

    fn at(&self) -> Duration {
        self.fixture.clock.now().mono.saturating_since(self.began)
    }

    /// Does what there is to do until the end.
    async fn follow(&mut self, end: Duration) -> Result<(), Error> {
        loop {
            let next = self.agenda.keys().next().map_or(end, |(at, _)| (*at).min(end));
            let due = self.fixture.clock.instant_of(self.began + next);
            tokio::select! {
                biased;
                Some(stage) = self.dead.recv() => self.die(stage),
                update = self.records.next() => self.count(update),
                () = tokio::time::sleep_until(due) => {
                    if next >= end {
                        return Ok(());
                    }
                    if let Some((_, act)) = self.agenda.pop_first() {
                        self.act(act).await?;
                    }
                }
            }
        }
    }

    fn die(&mut self, stage: StageName) {
        self.fixture.kill_stage(stage);
        self.plan(self.at() + GONE_FOR, Act::Start(stage));
    }

    fn count(&mut self, update: Update) {
        let Update::Changes { records, .. } = update else { return };
        for record in records {
            let Some(stage) = producer_of(record.topic) else { continue };
            let at = self.at();
            let moments = self.published.entry(stage).or_default();
            moments.push(at);
            if self.faults.kills(stage, moments.len() as u32) {
                self.die(stage);
            }
        }
    }

    async fn act(&mut self, act: Act) -> Result<(), Error> {
        match act {
            Act::Start(stage) => self.fixture.start_stage(stage).await?,
            Act::StartBus => self.fixture.server.restart(),
            Act::Kill(stage) => self.die(stage),
            Act::Deed(deed) => self.deed(deed).await?,
        }
        Ok(())
    }

    async fn deed(&mut self, deed: Deed) -> Result<(), Error> {
        match deed {
            Deed::Silence(nodes) => self.kubelets(&nodes, "alive", "false").await?,
            Deed::Return(nodes) => self.kubelets(&nodes, "alive", "true").await?,
            Deed::Ready(nodes, is_ready) => {
                let text = if is_ready { "True" } else { "False" };
                self.kubelets(&nodes, "ready", text).await?;
            }
            Deed::Taint { node, key, value } => self.taint(&node, &key, Some(&value)),
            Deed::Untaint { node, key } => self.taint(&node, &key, None),
            Deed::DeleteNode(node) => self.request(Verb::Delete, &format!("/api/v1/nodes/{node}"), &Value::Null),
            Deed::CreateNode(node, zone) => {
                // It may be there: nobody deleted it, or it was created again already.
                let _ = create_node(&self.fixture, &node, &zone);
            }
            Deed::Relabel(node, zone) => {
                let labels = json!({"metadata": {"labels": {(wellknown::LABEL_ZONE): zone}}});
                self.request(Verb::MergePatch, &format!("/api/v1/nodes/{node}"), &labels);
            }
            Deed::CreatePod { name, node, tolerates } => {
                self.request(
                    Verb::Create,
                    "/api/v1/namespaces/default/pods",
                    &Story::pod(&name, &node, tolerates),
                );
            }
            Deed::DeletePod(name) => self.request(Verb::Delete, &format!("/api/v1/namespaces/default/pods/{name}"), &Value::Null),
            Deed::Image(version) => {
                let spec = &Story::daemon_set(version)["spec"]["template"]["spec"];
                let patch = json!({"spec": {"template": {"spec": spec}}});
                self.request(Verb::MergePatch, "/apis/apps/v1/namespaces/default/daemonsets/agent", &patch);
            }
            Deed::Kill(stage, span) => {
                self.fixture.kill_stage(stage);
                self.plan(self.at() + span, Act::Start(stage));
            }
            Deed::KillBus(span) => {
                self.fixture.server.kill();
                self.plan(self.at() + span, Act::StartBus);
            }
            Deed::Disconnect => self.fixture.server.disconnect(),
            Deed::Step(stage, by) => self.fixture.clock_of(stage).step(by),
            Deed::Storm(storm) => self.faults.storm(storm),
        }
        Ok(())
    }

    /// What the cluster's own people do; what cannot be done because the object is gone is not done.
    fn request(&self, verb: Verb, path: &str, body: &Value) {
        let _ = self.fixture.sandbox.request(&User::admin(), verb, path, body);
    }

    fn taint(&self, node: &str, key: &str, value: Option<&str>) {
        let added = self.fixture.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let _ = self.fixture.sandbox.modify("nodes", ("", node, ""), |object| {
            let mut taints = object
                .pointer("/spec/taints")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            taints.retain(|taint| taint["key"] != key);
            if let Some(value) = value {
                taints.push(json!({"key": key, "value": value, "effect": "NoExecute", "timeAdded": added}));
            }
            object["spec"]["taints"] = taints.into();
            true
        });
    }

    async fn kubelets(&self, nodes: &[String], setting: &str, text: &str) -> Result<(), Error> {
        for node in nodes {
            let change = Change::default().with(setting, text).expect("the kubelets have this setting");
            self.fixture
                .driver
                .change(Target::Node(NodeName::from(node.as_str())), change)
                .await?;
        }
        Ok(())
    }

    fn end(self, story: &Story) -> Ended {
        let history = self.fixture.sandbox.history();
        let timeline = Timeline::new(&history, self.fixture.clock.now().mono);
        let judge = |invariant: &invariants::Invariant| (invariant.name, (invariant.judge)(&timeline, &story.terms));
        Ended {
            verdicts: invariants::ALL.iter().map(judge).collect(),
            counts: Counts {
                records: self
                    .published
                    .iter()
                    .map(|(stage, moments)| (*stage, moments.len() as u32))
                    .collect(),
                ..self.faults.counts()
            },
            published: self.published,
            state: EndState::of(&timeline, &self.fixture),
            stages_ended: self.fixture.ended(),
            log: log(&timeline),
        }
    }
}

fn create_node(fixture: &Fixture, node: &str, zone: &str) -> Result<(), Error> {
    let labels = json!({
        (wellknown::LABEL_REGION): "r", (wellknown::LABEL_ZONE): zone, (wellknown::LABEL_OS): "linux", (wellknown::LABEL_ARCH): "amd64",
    });
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}});
    fixture.create("/api/v1/nodes", &object)
}

const fn producer_of(topic: Topic) -> Option<StageName> {
    match topic {
        Topic::NodeHealth => Some(StageName::NodeHealthMonitor),
        Topic::EvictionIntents => Some(StageName::TaintManager),
        Topic::EvictionOutcomes => Some(StageName::ZoneEvictor),
        Topic::DaemonRollouts => Some(StageName::DaemonsetSyncer),
    }
}

/// What the stages wrote, a line each.
fn log(timeline: &Timeline) -> Vec<String> {
    let mut lines = Vec::new();
    timeline.walk(|_, change| {
        let what = match &change.object {
            Object::Node(node) => {
                let taints: Vec<String> = node.taints.iter().map(ToString::to_string).collect();
                format!("node {} Ready={} [{}]", node.name, node.ready.as_str(), taints.join(" "))
            }
            Object::Pod(pod) => format!(
                "pod {} on {}{}{}{}",
                pod.name,
                pod.node,
                if pod.ready == "True" { "" } else { ", not ready" },
                if pod.is_target { ", target" } else { "" },
                if pod.is_terminating { ", terminating" } else { "" },
            ),
            Object::Aside => return,
            Object::Other(what) => what.clone(),
        };
        let gone = if change.is_gone { " is gone" } else { "" };
        lines.push(format!(
            "{:>8.3} s  {:<20} {what}{gone}",
            change.at.since_origin().as_secs_f64(),
            change.actor
        ));
    });
    lines
}

// === impl EndState ===

impl EndState {
    fn of(timeline: &Timeline, fixture: &Fixture) -> Self {
        let world: World = timeline.walk(|_, _| {});
        let mut state = Self::default();
        for (name, now) in &world.nodes {
            let mut taints: Vec<String> = now.node.taints.iter().map(ToString::to_string).collect();
            taints.sort();
            state.nodes.insert(
                name.clone(),
                format!("Ready={} {}", now.node.ready.as_str(), taints.join(" ")),
            );
        }
        for now in world.pods.values() {
            let pod = &now.pod;
            if pod.daemon_of.is_some() {
                *state.daemon_pods.entry(pod.node.clone()).or_default() += usize::from(!pod.is_terminating);
            } else {
                let text = format!(
                    "on {} ready={} target={} terminating={}",
                    pod.node, pod.ready, pod.is_target, pod.is_terminating
                );
                state.pods.insert(pod.name.clone(), text);
            }
        }
        let set = fixture
            .sandbox
            .get("daemonsets.apps", "default", "agent")
            .map(|set| set.value());
        state.daemon_set = set
            .and_then(|set| set.get("status").map(Value::to_string))
            .unwrap_or_default();
        state
    }

    /// How `other` differs, a sentence each.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        differ("node", &self.nodes, &other.nodes, &mut found);
        differ("pod", &self.pods, &other.pods, &mut found);
        let counts = |state: &Self| {
            state
                .daemon_pods
                .iter()
                .map(|(node, count)| (node.clone(), count.to_string()))
                .collect()
        };
        differ("daemon pods of", &counts(self), &counts(other), &mut found);
        if self.daemon_set != other.daemon_set {
            found.push(format!(
                "the DaemonSet ends as {}, undisturbed as {}",
                other.daemon_set, self.daemon_set
            ));
        }
        found
    }
}

fn differ(what: &str, calm: &BTreeMap<String, String>, other: &BTreeMap<String, String>, found: &mut Vec<String>) {
    let names: BTreeSet<&String> = calm.keys().chain(other.keys()).collect();
    for name in names {
        let (calm, other) = (calm.get(name), other.get(name));
        if calm != other {
            let text = |state: Option<&String>| state.map_or("not there", String::as_str).to_owned();
            found.push(format!(
                "{what} {name} ends as {}, undisturbed as {}",
                text(other),
                text(calm)
            ));
        }
    }
}

// === impl Ended ===

impl Ended {
    /// When the stage published its n-th record.
    pub fn moment_of(&self, stage: StageName, nth: u32) -> Duration {
        let moments = self.published.get(&stage);
        let moment = moments.and_then(|moments| moments.get(nth.saturating_sub(1) as usize));
        moment.copied().unwrap_or_default()
    }
}
