//! Bailiff as separate processes, two replicas of each stage, while a zone is silent and DaemonSets are rolled out: processes are killed,
//! stopped, cut off and slowed down, clocks are stepped, the bus loses its memory or has no space left, and the work is divided anew. What
//! must hold is judged from outside, by what a watch of the API shows.
//!
//! Nothing waits for time to pass: each fault begins when one more node was isolated, and ends when its effect was seen. Two systems go
//! through their faults side by side. Which faults in which order, and who is killed at random when, is drawn from a seed.
//!
//! What the same system tells a collector of a zone failure is judged in [`traces`].

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

mod clock;
#[path = "../../../event-bus/tests/it/etcd_process.rs"]
#[allow(dead_code, reason = "the tests of the bus need the rest")]
mod etcd;
mod faketime;
mod fault;
mod judge;
mod program;
mod proxy;
mod record;
#[path = "../process/support.rs"]
#[allow(dead_code, reason = "the other tests of processes need the rest")]
mod support;
mod system;
mod traces;
mod witness;

use std::sync::{Mutex, MutexGuard, PoisonError};

use bailiff_runtime::Seed;
use fault::Fault;
use judge::Premises;
use system::{Engine, PER_ZONE, System};

/// Another seed than that of every run, to search further or to repeat a run.
const SEED: &str = "BAILIFF_FAULTS_SEED";

/// One test at a time: each has as many processes as this machine can take.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn play(engine: Engine, faults: &[Fault], seed: &Seed) -> Premises {
    let begin = clock::now();
    let mut system = System::start(engine);
    system.settle();
    system.silence();
    for (nth, fault) in faults.iter().enumerate() {
        // The last ones are left for what comes after.
        system.until_isolated((nth + 1).min(PER_ZONE / 2));
        let (time, isolated) = (begin.elapsed(), system.witness.isolated());
        println!("{engine:?}: {time:.1?}, {isolated} isolated, now {fault:?}");
        fault.play(&mut system, seed);
    }
    println!("{engine:?}: {:.1?}, {} isolated", begin.elapsed(), system.witness.isolated());
    system.until_emptied();
    system.wake();
    system.until_recovered();
    println!("{engine:?}: {:.1?}, over", begin.elapsed());
    let mut premises = judge::judge(&system.witness, &system.record);
    premises.add(&system.premises);
    premises
}

#[test]
fn whatever_dies_nothing_is_evicted_early_twice_or_never() {
    let _alone = alone();
    let number = std::env::var(SEED).map_or(1, |text| text.parse().expect("a seed is a number"));
    println!("{SEED}={number}");
    let seed = Seed::new(number);
    if !faketime::is_installed() {
        eprintln!("no clock is stepped: there is no libfaketime (Debian: libfaketime)");
    }
    let has_python = system::python().is_some();
    if !has_python {
        eprintln!("no stage is swapped: there is no python3 with examples/maintenance-window/requirements.txt");
    }
    let dealt = fault::deal(
        &seed.fork("faults"),
        etcd::is_installed(),
        faketime::is_installed(),
        has_python,
    );
    let mut premises = Premises::default();
    std::thread::scope(|scope| {
        let playing: Vec<_> = dealt
            .iter()
            .map(|(engine, faults)| {
                let seed = seed.fork(&format!("{engine:?}"));
                let named = std::thread::Builder::new().name(format!("{engine:?}"));
                named.spawn_scoped(scope, move || play(*engine, faults, &seed)).unwrap()
            })
            .collect();
        for played in playing {
            match played.join() {
                Ok(seen) => premises.add(&seen),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    println!("{premises}");
    assert_eq!(premises.missing(), Vec::<&str>::new(), "never seen");
}
