//! Worlds: the same seed gives the same run, and whatever dies while nodes are failing, nothing is evicted that should not be.

#[path = "worlds/crowd.rs"]
mod crowd;
#[path = "worlds/loss.rs"]
mod loss;
#[path = "worlds/observe.rs"]
mod observe;
#[path = "worlds/rival.rs"]
mod rival;
#[path = "worlds/rollouts.rs"]
mod rollouts;

use std::collections::BTreeSet;
use std::time::Duration;

use bailiff_event_bus::{Body, SubscribeOptions, Subscription, Update, subscribe};
use bailiff_model::outcome::{Outcome, PodOutcomeState};
use bailiff_model::{HoldReason, Mono, NodeName, Topic};
use bailiff_runtime::Seed;
use bailiff_sandbox::kubelet::{Change, Target};
use bailiff_sandbox::{Observation, User, Verb};
use bailiff_scenario::demo::{self, Plan};
use bailiff_scenario::report::{Figures, Finding, Reader};
use bailiff_scenario::{Fixture, StageName, Transport, world};
use serde_json::json;

const PAUSES: &str = "/api/v1/namespaces/kube-system/configmaps";

/// A small cluster, so that a world takes a second of real time in a debug build.
fn mk_plan() -> Plan {
    Plan {
        zones: 2,
        nodes_per_zone: 4,
        // One node every ten seconds: the failure lasts longer than the death.
        eviction_rate: 0.1,
        silence: Duration::from_secs(90),
        ..Plan::default()
    }
}

/// What dies in the middle of the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Nobody,
    Stage(StageName),
    Bus,
    /// The evictions: a person pauses them for half a minute.
    Paused,
    /// The same, by an entry that nobody can read.
    Unreadable,
}

/// What an observer of the world saw.
struct Seen {
    figures: Figures,
    evicted_from: BTreeSet<String>,
    /// Nodes isolated, and when.
    isolated: Vec<(String, Mono)>,
    /// Reasons of holds that the zone-evictor published.
    holds: BTreeSet<HoldReason>,
    /// What the zone-evictor said on `/readyz` while the victim was dead.
    said: Vec<String>,
    /// Nodes isolated and pods evicted between ten seconds after the death (when it counts as stale) and the return.
    acts_while_dead: usize,
}

struct Observer {
    reader: Reader,
    read: usize,
    outcomes: Subscription,
    holds: BTreeSet<HoldReason>,
    evicted_from: BTreeSet<String>,
    isolated: Vec<(String, Mono)>,
    acts: usize,
}

impl Observer {
    fn new(fixture: &Fixture, plan: &Plan) -> Self {
        let options = SubscribeOptions {
            topics: vec![Topic::EvictionOutcomes],
            filters: Vec::new(),
            subscriber: "test".to_owned(),
        };
        Self {
            reader: Reader::new(plan.grace),
            read: 0,
            outcomes: subscribe(&fixture.bus, options, &fixture.clock, &fixture.seed.fork("test")),
            holds: BTreeSet::new(),
            evicted_from: BTreeSet::new(),
            isolated: Vec::new(),
            acts: 0,
        }
    }

    /// Observes for so long.
    async fn follow(&mut self, fixture: &Fixture, span: Duration) {
        let end = tokio::time::sleep(span);
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                update = self.outcomes.next() => self.update(update),
                () = &mut end => break,
            }
        }
        for seen in fixture.sandbox.history_after(self.read) {
            self.read += 1;
            for finding in self.reader.observe(&seen) {
                match finding {
                    Finding::Evicted { node, .. } => {
                        self.evicted_from.insert(node);
                        self.acts += 1;
                    }
                    Finding::Isolated { node, .. } => {
                        self.isolated.push((node, seen.at.mono));
                        self.acts += 1;
                    }
                    _ => {}
                }
            }
        }
    }

    fn update(&mut self, update: Update) {
        let (Update::Snapshot { records, .. } | Update::Changes { records, .. }) = update else {
            return;
        };
        for record in records {
            if let Some(Body::Outcome(Outcome::Zone(status))) = record.body
                && let Some(held) = status.held
            {
                self.holds.insert(held.reason);
            }
        }
    }
}

/// Puts the ConfigMap of pauses there, with one entry.
fn put_pauses(fixture: &Fixture, entry: &str) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bailiff-pauses"}, "data": {"entry": entry}});
    fixture.create(PAUSES, &object).expect("created");
}

fn drop_pauses(fixture: &Fixture) {
    let path = format!("{PAUSES}/bailiff-pauses");
    let deleted = fixture.sandbox.request(&User::admin(), Verb::Delete, &path, &json!({}));
    deleted.expect("deleted");
}

/// Pauses everything for so long.
fn pause(fixture: &Fixture, span: Duration) {
    let now = fixture.clock.wall();
    let until = now.checked_add(span).expect("in range");
    let entry = json!({"all": true, "since": now.to_string(), "until": until.to_string(), "reason": "as the test wanted"});
    put_pauses(fixture, &entry.to_string());
}

async fn set_alive(fixture: &Fixture, nodes: &[NodeName], alive: bool) {
    for node in nodes {
        let change = Change::default().with("alive", &alive.to_string()).expect("a setting");
        fixture
            .driver
            .change(Target::Node(node.clone()), change)
            .await
            .expect("the kubelets run");
    }
}

/// A zone falls silent; `victim` dies two grants into its isolation and is back half a minute later.
fn play(victim: Victim, seed: u64) -> Seen {
    let plan = mk_plan();
    world::run(async |clock| {
        let mut fixture = demo::set_up(&plan, Transport::InProcess, clock, Seed::new(seed))
            .await
            .expect("a world can be set up");
        let mut observer = Observer::new(&fixture, &plan);
        observer.follow(&fixture, plan.quiet).await;
        let (_, silent) = plan.silent();
        set_alive(&fixture, &silent, false).await;
        observer.follow(&fixture, plan.grace + Duration::from_secs(4)).await;
        match victim {
            Victim::Nobody => {}
            Victim::Stage(name) => fixture.kill_stage(name),
            Victim::Bus => fixture.server.kill(),
            Victim::Paused => pause(&fixture, Duration::from_secs(30)),
            Victim::Unreadable => put_pauses(&fixture, "until tomorrow"),
        }
        // What counts as stale after ten seconds is held from then on; five more is the grace on reconnecting.
        observer.follow(&fixture, Duration::from_secs(16)).await;
        let before = observer.acts;
        let said = fixture.failing_checks(StageName::ZoneEvictor);
        observer.follow(&fixture, Duration::from_secs(14)).await;
        let acts_while_dead = observer.acts - before;
        match victim {
            // A pause ends by itself.
            Victim::Nobody | Victim::Paused => {}
            Victim::Unreadable => drop_pauses(&fixture),
            Victim::Stage(name) => fixture.start_stage(name).await.expect("a stage can start"),
            Victim::Bus => fixture.server.restart(),
        }
        observer.follow(&fixture, plan.silence).await;
        set_alive(&fixture, &silent, true).await;
        observer.follow(&fixture, Duration::from_secs(30)).await;
        assert_eq!(fixture.ended(), [], "no stage ends by itself");
        Seen {
            figures: observer.reader.figures(),
            evicted_from: observer.evicted_from,
            isolated: observer.isolated,
            holds: observer.holds,
            said,
            acts_while_dead,
        }
    })
}

/// The end is as without the death, and on the way nothing happened that should not.
fn check_same_end(victim: Victim) -> Seen {
    let (without, with) = (play(Victim::Nobody, 3), play(victim, 3));
    assert!(
        without.acts_while_dead > 0,
        "without the death there is something to do in that time"
    );
    let plan = mk_plan();
    let silent: BTreeSet<String> = plan.silent().1.iter().map(NodeName::to_string).collect();
    assert!(
        with.evicted_from.is_subset(&silent),
        "{victim:?}: pods went from {:?}",
        with.evicted_from
    );
    let isolated: BTreeSet<String> = with.isolated.iter().map(|(node, _)| node.clone()).collect();
    assert!(isolated.is_subset(&silent), "{victim:?}: isolated {isolated:?}");
    assert_eq!(with.isolated.len(), isolated.len(), "{victim:?}: a node was isolated twice");
    assert_eq!(with.figures.early_evictions, 0, "{victim:?}");
    assert_eq!(with.figures.daemon_pods_lost, 0, "{victim:?}");
    let end = |figures: &Figures| {
        let Figures {
            detection_delay: _,
            nodes_detected,
            nodes_isolated,
            pods_evicted,
            early_evictions,
            pods_kept,
            daemon_pods_lost,
            not_recovered,
        } = figures.clone();
        (
            nodes_detected,
            nodes_isolated,
            pods_evicted,
            early_evictions,
            pods_kept,
            daemon_pods_lost,
            not_recovered,
        )
    };
    assert_eq!(end(&with.figures), end(&without.figures), "{victim:?}");
    assert_eq!(plan.judge(&with.figures), Vec::<String>::new(), "{victim:?}");
    with
}

#[test]
fn the_same_seed_gives_the_same_log_byte_for_byte() {
    let log = |seed| {
        let mut lines = String::new();
        let ending = demo::world(
            &Plan {
                nodes_per_zone: 4,
                ..Plan::default()
            },
            seed,
            |line| {
                lines.push_str(&serde_json::to_string(&line).expect("plain data"));
                lines.push('\n');
            },
        )
        .expect("a world can be set up");
        assert_eq!(ending.failures, Vec::<String>::new(), "seed {seed}");
        lines.push_str(&serde_json::to_string(&ending.figures).expect("plain data"));
        lines
    };
    let (first, second, other) = (log(7), log(7), log(8));
    assert_eq!(first, second);
    assert_ne!(first, other, "the seed matters");
    assert!(first.lines().count() > 20, "{first}");
}

#[test]
fn a_monitor_that_dies_holds_what_depends_on_it_and_changes_nothing_else() {
    let seen = check_same_end(Victim::Stage(StageName::NodeHealthMonitor));
    assert!(seen.holds.contains(&HoldReason::Stale), "{:?}", seen.holds);
    assert_eq!(seen.acts_while_dead, 0);
}

#[test]
fn a_taint_manager_that_dies_holds_what_depends_on_it_and_changes_nothing_else() {
    let seen = check_same_end(Victim::Stage(StageName::TaintManager));
    assert!(seen.holds.contains(&HoldReason::Stale), "{:?}", seen.holds);
    assert_eq!(seen.acts_while_dead, 0);
}

#[test]
fn a_bus_that_dies_and_forgets_holds_what_depends_on_it_and_changes_nothing_else() {
    let seen = check_same_end(Victim::Bus);
    assert!(!seen.said.is_empty(), "the evictor says that it waits");
    assert_eq!(seen.acts_while_dead, 0);
}

#[test]
fn an_evictor_that_dies_gives_no_free_node_and_loses_no_eviction() {
    let seen = check_same_end(Victim::Stage(StageName::ZoneEvictor));
    assert_eq!(seen.acts_while_dead, 0);
    let between = Duration::from_secs_f32(1.0 / mk_plan().eviction_rate);
    for pair in seen.isolated.windows(2) {
        let [(first, from), (second, to)] = pair else { continue };
        let span = to.saturating_since(*from);
        // A token is counted in fractions, which round.
        assert!(
            span + Duration::from_millis(1) >= between,
            "{second} is isolated {span:?} after {first}"
        );
    }
}

#[test]
fn a_daemonset_syncer_that_dies_loses_no_daemon_pod() {
    check_same_end(Victim::Stage(StageName::DaemonsetSyncer));
}

/// Pause: harmful acts wait, it is said, it ends by itself, and after it the zone's rate holds.
#[test]
fn a_pause_in_the_middle_of_a_failure_holds_and_changes_nothing_else() {
    let seen = check_same_end(Victim::Paused);
    assert_eq!(seen.acts_while_dead, 0);
    assert!(seen.holds.contains(&HoldReason::Paused), "{:?}", seen.holds);
    assert!(
        seen.said.iter().any(|said| said.contains("as the test wanted")),
        "{:?}",
        seen.said
    );
}

/// Pause: a ConfigMap that cannot be read is a pause.
#[test]
fn pauses_that_cannot_be_read_hold_everything() {
    let seen = check_same_end(Victim::Unreadable);
    assert_eq!(seen.acts_while_dead, 0);
    assert!(
        seen.said.iter().any(|said| said.contains("cannot be read")),
        "{:?}",
        seen.said
    );
}

/// Pause: under a pause from before the failure no stage does anything harmful, whatever restarts; on resume it all happens.
#[test]
fn a_pause_from_before_the_failure_holds_every_stage() {
    let plan = mk_plan();
    world::run(async |clock| {
        let mut fixture = demo::set_up(&plan, Transport::InProcess, clock, Seed::new(5))
            .await
            .expect("a world");
        let mut observer = Observer::new(&fixture, &plan);
        observer.follow(&fixture, plan.quiet).await;
        pause(&fixture, Duration::from_secs(3600));
        let (_, silent) = plan.silent();
        set_alive(&fixture, &silent, false).await;
        for name in StageName::ALL {
            observer.follow(&fixture, plan.grace).await;
            fixture.kill_stage(name);
            fixture.start_stage(name).await.expect("a stage can start");
        }
        observer.follow(&fixture, plan.grace).await;
        let figures = observer.reader.figures();
        let done = (figures.nodes_detected, figures.nodes_isolated, figures.pods_evicted);
        assert_eq!(done, (0, 0, 0), "nothing is marked, isolated or evicted");
        drop_pauses(&fixture);
        observer.follow(&fixture, plan.silence).await;
        let isolated: BTreeSet<String> = observer.isolated.iter().map(|(node, _)| node.clone()).collect();
        let wanted: BTreeSet<String> = silent.iter().map(NodeName::to_string).collect();
        assert_eq!(isolated, wanted);
    });
}
