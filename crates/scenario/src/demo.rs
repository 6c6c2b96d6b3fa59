//! The demonstration: a zone of a small cluster falls silent, is isolated and emptied at its rate, and comes back.
//!
//! The same script plays over sockets in real time and in a world in virtual time; only the transport differs. What is told on the
//! way comes from the API's watch history and from the bus; the figures at the end from the history alone.

mod narrator;
mod plan;

use std::collections::BTreeSet;
use std::time::Duration;

use bailiff_event_bus::{SubscribeOptions, Update, subscribe};
use bailiff_model::{Topic, Wall};
use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::cluster::build;
use bailiff_sandbox::driver::Options as ClusterOptions;
use bailiff_sandbox::kubelet::{Change, KubeletSettings, Target};
use tokio::time::{Instant, MissedTickBehavior};

use crate::StageOptions;
use crate::fixture::{Error, Fixture, Transport};
use crate::report::{Figures, Reader};

pub use narrator::{Kind, Line};
pub use plan::Plan;

use narrator::Narrator;

/// How often the history is read: often enough to follow, seldom enough to group what happens together.
const TICK: Duration = Duration::from_millis(500);

/// How long after the zone came back the cluster may take to be as it was: kubelets post their status within a second, and what
/// takes so much longer did not converge.
const RECOVERY: Duration = Duration::from_secs(30);

/// What a demonstration ended with.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The figures.
    pub figures: Figures,
    /// What was expected and did not happen; empty: all is well.
    pub failures: Vec<String>,
}

/// Plays `plan` in a world: in virtual time, without sockets. The same seed gives the same lines.
///
/// # Errors
/// See [`play`].
pub fn world(plan: &Plan, seed: u64, tell: impl FnMut(Line)) -> Result<Ending, Error> {
    crate::world::run(async |clock| {
        let fixture = set_up(plan, Transport::InProcess, clock, Seed::new(seed)).await?;
        play(&fixture, plan, tell).await
    })
}

/// Sets up the cluster, its workloads and the system that looks after it.
///
/// # Errors
/// No loopback port could be had, or the sandbox refused an object.
pub async fn set_up(plan: &Plan, transport: Transport, clock: Clock, seed: Seed) -> Result<Fixture, Error> {
    let mut kubelets = KubeletSettings::cluster();
    kubelets.lease_interval = Some(plan.lease_interval);
    let cluster = ClusterOptions {
        kubelets: Some(kubelets),
        ..ClusterOptions::cluster()
    };
    let options = StageOptions::parse(plan.flags()).map_err(|refusal| Error::Flags(refusal.to_string()))?;
    let mut fixture = Fixture::start(transport, &cluster, options, clock, seed).await?;
    let built = build(&fixture.sandbox, &plan.cluster())?;
    fixture.create("/apis/apps/v1/namespaces/default/daemonsets", &Plan::daemon_set())?;
    fixture.start_stages().await?;
    for node in built.nodes() {
        for pod in plan.pods(node) {
            fixture.create("/api/v1/namespaces/default/pods", &pod)?;
        }
    }
    Ok(fixture)
}

/// Plays `plan` on `fixture`, telling what happens by `tell`.
///
/// # Errors
/// The sandbox refused what a demonstration needs.
pub async fn play(fixture: &Fixture, plan: &Plan, mut tell: impl FnMut(Line)) -> Result<Ending, Error> {
    let mut stage = Play::new(fixture, plan);
    stage.say(&mut tell, Kind::Plan, plan.describe());
    stage.follow(&mut tell, plan.quiet).await;
    stage.say(
        &mut tell,
        Kind::Script,
        format!("the kubelets of zone {} fall silent", plan.silent().0),
    );
    stage.set_alive(false).await?;
    stage.follow(&mut tell, plan.silence).await;
    stage.say(
        &mut tell,
        Kind::Script,
        format!("the kubelets of zone {} come back", plan.silent().0),
    );
    stage.set_alive(true).await?;
    stage.until_recovered(&mut tell).await;
    let figures = stage.reader.figures();
    let failures = plan.judge(&figures);
    Ok(Ending { figures, failures })
}

struct Play<'a> {
    fixture: &'a Fixture,
    plan: &'a Plan,
    reader: Reader,
    narrator: Narrator,
    records: bailiff_event_bus::Subscription,
    started: Wall,
    read: usize,
}

impl<'a> Play<'a> {
    fn new(fixture: &'a Fixture, plan: &'a Plan) -> Self {
        let options = SubscribeOptions {
            topics: Topic::ALL.to_vec(),
            filters: Vec::new(),
            subscriber: "demo".to_owned(),
        };
        Self {
            fixture,
            plan,
            reader: Reader::new(plan.grace),
            narrator: Narrator::default(),
            records: subscribe(&fixture.bus, options, &fixture.clock, &fixture.seed.fork("demo")),
            started: fixture.clock.wall(),
            read: 0,
        }
    }

    fn at(&self) -> Duration {
        self.fixture.clock.wall().duration_since(self.started).unsigned_abs()
    }

    fn say(&self, tell: &mut impl FnMut(Line), kind: Kind, text: String) {
        tell(Line {
            at: self.at(),
            kind,
            text,
        });
    }

    async fn set_alive(&self, alive: bool) -> Result<(), Error> {
        for node in self.plan.silent().1 {
            let change = Change::default().with("alive", &alive.to_string());
            let change = change.expect("the kubelets have this setting");
            self.fixture.driver.change(Target::Node(node), change).await?;
        }
        Ok(())
    }

    /// Tells what happens for so long.
    async fn follow(&mut self, tell: &mut impl FnMut(Line), span: Duration) {
        let end = Instant::now() + span;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while Instant::now() < end {
            self.turn(&mut ticks).await;
            self.narrate(tell);
        }
    }

    async fn until_recovered(&mut self, tell: &mut impl FnMut(Line)) {
        let end = Instant::now() + RECOVERY;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while Instant::now() < end && self.reader.is_troubled() {
            self.turn(&mut ticks).await;
            self.narrate(tell);
        }
        // One more turn for the records that say so.
        self.turn(&mut ticks).await;
        self.turn(&mut ticks).await;
        self.narrate(tell);
    }

    /// Takes in records until the next tick.
    async fn turn(&mut self, ticks: &mut tokio::time::Interval) {
        loop {
            tokio::select! {
                biased;
                update = self.records.next() => match update {
                    Update::Snapshot { records, .. } | Update::Changes { records, .. } => {
                        for record in &records {
                            self.narrator.record(record);
                        }
                    }
                    Update::Status { .. } | Update::Lost { .. } => {}
                },
                _ = ticks.tick() => return,
            }
        }
    }

    fn narrate(&mut self, tell: &mut impl FnMut(Line)) {
        for seen in self.fixture.sandbox.history_after(self.read) {
            self.read += 1;
            for finding in self.reader.observe(&seen) {
                self.narrator.finding(&finding);
            }
        }
        let at = self.at();
        for (kind, text) in self.narrator.take() {
            tell(Line { at, kind, text });
        }
    }
}

/// Names in a list for people: the first three, and how many more.
fn some_of(names: &BTreeSet<String>) -> String {
    const SHOWN: usize = 3;
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}
