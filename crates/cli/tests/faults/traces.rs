//! What the system tells a collector while a zone is silent: for each node one trace, from its last sign of life to its last pod gone.
//!
//! The collector is one in this process, and a real Jaeger where that can be had, side by side.

mod jaeger;
mod judge;
mod receiver;
mod span;

use std::collections::BTreeSet;

use crate::alone;
use crate::clock;
use crate::judge::Premises;
use crate::system::{Engine, SILENT_ZONE, Stage, System};
use crate::witness::Seen;
use jaeger::Jaeger;
use judge::Facts;
use receiver::Receiver;
use span::{Collector, SeenSpan};

/// Isolations, and evictions, before something else happens.
const SOME: usize = 4;

fn play(collector: &dyn Collector, kills: bool) -> Premises {
    let environment = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.address())),
        // Whoever is killed loses what it has not told yet; the less, the more there is to judge.
        ("OTEL_BSP_SCHEDULE_DELAY", "200".to_owned()),
    ];
    let begin = clock::wall();
    let mut system = System::start_with(Engine::Memory, environment);
    system.settle();
    system.silence();
    system.until_isolated(SOME);
    system.until_evicted(1);
    let killed = kills.then(clock::wall);
    if kills {
        system.kill(Stage::ZoneEvictor);
    } else {
        system.pause_zone();
    }
    system.until_isolated(2 * SOME);
    system.until_evicted(SOME);
    system.wake();
    system.until_recovered();
    until_told(&mut system, collector);
    system.end_all();
    collector.settle();
    let facts = Facts {
        begin,
        end: clock::wall(),
        killed,
    };
    system.witness.with(|seen| judge::judge(collector, seen, &facts))
}

/// Waits until it was told how everything ended: whoever ends before it sees that has nothing to tell, and each stage sees it when its
/// own watch says so, which may be after all is well.
fn until_told(system: &mut System, collector: &dyn Collector) {
    system.until_answered("the end of everything in its trace", |system| {
        let told = Told::of(collector.all());
        let ended = told.incidents.is_subset(&told.recoveries);
        ended && system.witness.with(|seen| told.is_all_of(seen))
    });
}

/// What was told so far.
#[derive(Default)]
struct Told {
    /// Traces of incidents.
    incidents: BTreeSet<String>,
    /// Traces of those that are over.
    recoveries: BTreeSet<String>,
    /// Names of nodes that waited for their turn, and do no longer.
    waits: BTreeSet<String>,
    /// Uids of pods that are gone.
    pods: BTreeSet<String>,
}

impl Told {
    fn of(spans: Vec<SeenSpan>) -> Self {
        let mut told = Self::default();
        for span in spans {
            match &*span.name {
                "node incident" => told.incidents.insert(span.trace),
                "recovery" => told.recoveries.insert(span.trace),
                "zone queue wait" => told.waits.insert(span.get("k8s.node.name").to_owned()),
                "pod termination" => told.pods.insert(span.get("k8s.pod.uid").to_owned()),
                _ => continue,
            };
        }
        told
    }

    /// The end of every evicted pod, and of the wait of every node whose turn did not come.
    fn is_all_of(&self, seen: &Seen) -> bool {
        let mut nodes = seen.nodes.iter().filter(|(_, node)| node.zone == SILENT_ZONE);
        let mut pods = seen.pods.iter().filter(|(_, pod)| pod.daemon_set.is_none());
        nodes.all(|(name, node)| !node.isolated.is_empty() || self.waits.contains(name))
            && pods.all(|(uid, pod)| pod.deleted.is_none() || self.pods.contains(uid))
    }
}

/// Plays it for each collector there is.
fn play_all(kills: bool) {
    let _alone = alone();
    let mut collectors: Vec<(&str, Box<dyn Collector>)> = vec![("receiver", Box::new(Receiver::start()))];
    if let Some(program) = jaeger::program() {
        collectors.push(("Jaeger", Box::new(Jaeger::start(program))));
    }
    std::thread::scope(|scope| {
        let playing: Vec<_> = collectors
            .iter()
            .map(|(name, collector)| {
                let named = std::thread::Builder::new().name((*name).to_owned());
                let playing = named.spawn_scoped(scope, move || play(&**collector, kills));
                (name, playing.unwrap())
            })
            .collect();
        for (name, played) in playing {
            let premises = played.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            println!("{name}:\n{premises}");
            assert_eq!(premises.missing(), Vec::<&str>::new(), "never seen");
        }
    });
}

#[test]
fn a_zone_failure_is_a_trace_for_each_node() {
    play_all(false);
}

#[test]
fn a_zone_failure_is_the_same_traces_when_the_zone_evictor_is_killed_half_way() {
    play_all(true);
}
