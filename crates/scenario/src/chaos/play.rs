//! Plays a story in a world.

mod asking;
mod deeds;
mod state;

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_event_bus::{Body, Record, SubscribeOptions, Subscription, Update, subscribe};
use bailiff_model::outcome::{Outcome, PodOutcomeState, RefusedReason};
use bailiff_model::{Mono, Topic, wellknown};
use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::driver::Options as ClusterOptions;
use bailiff_sandbox::kubelet::KubeletSettings;
use jiff::SignedDuration;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::agreement::{Agreement, Question, Trouble};
use super::boundary::{Boundary, Counts};
use super::faults::Faults;
use super::invariants::{self, Verdict};
use super::story::{Deed, Story};
use super::timeline::{Object, Timeline};
use crate::fixture::{Error, Fixture, Transport};
use crate::{StageName, StageOptions, world};

pub use state::EndState;

/// How long a stage that a fault killed is gone.
const GONE_FOR: Duration = Duration::from_secs(3);

/// After so many attempts upstream gives an eviction up (TE-076).
const ATTEMPTS: u32 = 5;

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
    /// What `bailiff explain` answered about pods, held against what happened to them.
    pub agreement: Agreement,
    /// Stages that ended by themselves, which none should.
    pub stages_ended: Vec<StageName>,
    /// What was written, for people.
    pub log: Vec<String>,
}

/// What is to be done at its time.
#[derive(Debug)]
enum Act {
    Deed(Deed),
    Start(StageName),
    StartBus,
    Kill(StageName),
    /// Questions are asked about the pods that are threatened.
    AskAboutThreatened,
    /// Questions are asked about all pods there ever were.
    AskAboutAll,
    /// A rival goes on until then.
    Rival {
        until: Duration,
        turn: u32,
    },
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
    /// When stages were started again.
    starts: Vec<(Mono, StageName)>,
    /// By what clocks were stepped.
    steps: Vec<(StageName, SignedDuration)>,
    /// Pods that the zone-evictor says it gave up: name by uid.
    given_up: BTreeMap<String, String>,
    trouble: Trouble,
    questions: Vec<Question>,
}

/// Plays a story, and asks about its pods.
///
/// # Errors
/// The cluster could not be set up.
pub fn play(story: &Story) -> Result<Ended, Error> {
    world::run(async |clock| {
        let mut player = Player::set_up(story, clock).await?;
        player.plan_questions(story);
        player.follow(story.end).await?;
        player.ask_about_all().await;
        Ok(player.end(story))
    })
}

/// Plays a story with one fault at one place, or none, and asks nothing. A stage's death before its n-th record needs to know when that
/// is: `moment`.
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
        fixture.create(
            "/apis/apps/v1/namespaces/default/daemonsets",
            &Story::daemon_set(1, story.terms.rollout),
        )?;
        for (name, shards) in StageName::ALL.into_iter().zip(story.terms.shards.into_iter().flatten()) {
            fixture.divide(name, Story::division(shards));
        }
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
            starts: Vec::new(),
            steps: Vec::new(),
            given_up: BTreeMap::new(),
            trouble: Trouble::of(story, began),
            questions: Vec::new(),
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
        let is_news = matches!(update, Update::Changes { .. });
        let (Update::Changes { records, .. } | Update::Snapshot { records, .. }) = update else {
            return;
        };
        for record in &records {
            self.hear_of_pod(record);
        }
        for record in records.iter().filter(|_| is_news) {
            let Some(stage) = producer_of(record.topic) else { continue };
            let at = self.at();
            let moments = self.published.entry(stage).or_default();
            moments.push(at);
            if self.faults.kills(stage, moments.len() as u32) {
                self.die(stage);
            }
        }
    }

    fn hear_of_pod(&mut self, record: &Record) {
        if record.topic != Topic::EvictionOutcomes {
            return;
        }
        let Some(uid) = record.key.strip_prefix("pod/") else { return };
        match &record.body {
            Some(Body::Outcome(Outcome::Pod(pod))) if pod.state == PodOutcomeState::Refused(RefusedReason::Api) => {
                self.given_up.insert(uid.to_owned(), pod.pod.name.to_string());
            }
            _ => {
                self.given_up.remove(uid);
            }
        }
    }

    async fn act(&mut self, act: Act) -> Result<(), Error> {
        match act {
            Act::Start(stage) => {
                self.fixture.start_stage(stage).await?;
                self.starts.push((self.fixture.clock.now().mono, stage));
            }
            Act::Rival { until, turn } => self.rival(until, turn),
            Act::StartBus => self.fixture.server.restart(),
            Act::Kill(stage) => self.die(stage),
            Act::AskAboutThreatened => self.ask_about_threatened().await,
            Act::AskAboutAll => self.ask_about_all().await,
            Act::Deed(deed) => self.deed(deed).await?,
        }
        Ok(())
    }

    fn end(mut self, story: &Story) -> Ended {
        let (now, instant) = (self.fixture.clock.now().mono, Instant::now());
        let mono = |at: Instant| now.saturating_sub(instant.duration_since(at));
        for (stage, from, until) in self.faults.waits() {
            self.trouble.waited(stage, mono(from), until.map_or(now, mono));
        }
        let history = self.fixture.sandbox.history();
        let mut timeline = Timeline::new(&history, self.starts.clone(), self.fixture.clock.now().mono);
        timeline.steps.clone_from(&self.steps);
        // What is said of the API is believed only if it is true.
        let is_true = |name: &String| self.faults.failed(name) >= ATTEMPTS;
        let given_up = self.given_up.iter().filter(|(_, name)| is_true(name));
        timeline.given_up = given_up.map(|(uid, _)| uid.clone()).collect();
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
            agreement: match self.questions.is_empty() {
                true => Agreement::default(),
                false => Agreement::of(&self.questions, &timeline, &story.terms, &self.trouble),
            },
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
            Object::DaemonSet(set) => format!("DaemonSet with {}", set.image),
            Object::Budget(least) => format!("budget of {least}"),
            Object::Pauses(pauses) => {
                let scopes = pauses
                    .values()
                    .map(|pause| pause.as_ref().map_or("?".to_owned(), |pause| pause.scope.to_string()));
                format!("pauses [{}]", scopes.collect::<Vec<_>>().join(", "))
            }
            Object::Said { reason, .. } if reason.starts_with("Correlated") || reason.starts_with("Rival") => reason.clone(),
            Object::Said { .. } => return,
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

// === impl Ended ===

impl Ended {
    /// When the stage published its n-th record.
    pub fn moment_of(&self, stage: StageName, nth: u32) -> Duration {
        let moments = self.published.get(&stage);
        let moment = moments.and_then(|moments| moments.get(nth.saturating_sub(1) as usize));
        moment.copied().unwrap_or_default()
    }
}
