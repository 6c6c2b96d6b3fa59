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
use crate::system::{Engine, Stage, System};
use jaeger::Jaeger;
use judge::Facts;
use receiver::Receiver;
use span::Collector;

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

/// Waits until it was told of each pod that was evicted that it is gone: whoever ends before it sees that has nothing to tell.
fn until_told(system: &mut System, collector: &dyn Collector) {
    system.until_answered("the end of every evicted pod in its trace", |system| {
        let spans = collector.all();
        let of_pods = spans.iter().filter(|span| span.name == "pod termination");
        let told: BTreeSet<&str> = of_pods.map(|span| span.get("k8s.pod.uid")).collect();
        system.witness.with(|seen| {
            let mut evicted = seen
                .pods
                .iter()
                .filter(|(_, pod)| pod.daemon_set.is_none() && pod.deleted.is_some());
            evicted.all(|(uid, _)| told.contains(&**uid))
        })
    });
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
