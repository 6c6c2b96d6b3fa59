//! Bailiff as separate processes, two replicas of each stage, while a zone is silent: processes are killed, stopped and cut off, the bus
//! loses its memory, and the work is divided anew. What must hold is judged from outside, by what a watch of the API shows.
//!
//! Nothing waits for time to pass: each fault begins when so many nodes are isolated, and ends when its effect was seen.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

mod judge;
mod program;
mod proxy;
#[path = "../process/support.rs"]
#[allow(dead_code, reason = "the other tests of processes need the rest")]
mod support;
mod system;
mod witness;

use bailiff_runtime::Seed;
use system::{Stage, System};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL of the replica that leads.
    Kill(Stage),
    /// SIGSTOP of the replica that leads, until another does; then SIGCONT.
    Pause(Stage),
    /// The replica that leads cannot reach the API server until another leads.
    CutFromApi(Stage),
    /// The replica that leads cannot reach the bus, which must not cost it its Lease, until the bus says that it is not live.
    CutFromBus(Stage),
    /// The bus is killed, with all its memory, and started again.
    KillBus,
    /// Everybody's certificates are replaced, and the CA that signed them.
    ReplaceCertificates,
    /// A rolling update to so many shards.
    Divide(Stage, u32),
}

const FAULTS: [Fault; 12] = [
    Fault::Kill(Stage::ZoneEvictor),
    Fault::Pause(Stage::ZoneEvictor),
    Fault::CutFromApi(Stage::ZoneEvictor),
    Fault::CutFromBus(Stage::ZoneEvictor),
    Fault::Kill(Stage::TaintManager),
    Fault::CutFromBus(Stage::NodeHealthMonitor),
    Fault::Kill(Stage::NodeHealthMonitor),
    Fault::KillBus,
    Fault::ReplaceCertificates,
    Fault::Pause(Stage::NodeHealthMonitor),
    Fault::Divide(Stage::ZoneEvictor, 2),
    Fault::Divide(Stage::NodeHealthMonitor, 2),
];

/// All faults in the order of a seed, in two halves.
fn halves(seed: u64) -> [Vec<Fault>; 2] {
    let draw = Seed::new(seed).fork("faults");
    let mut left = FAULTS.to_vec();
    let mut drawn = || left.swap_remove(usize::try_from(draw.below(left.len() as u64)).unwrap());
    let half = FAULTS.len() / 2;
    [(); 2].map(|()| (0..half).map(|_| drawn()).collect())
}

fn play(faults: &[Fault]) {
    let mut system = System::start();
    system.settle();
    system.silence();
    for (nth, fault) in faults.iter().enumerate() {
        system.until_isolated(2 * nth + 1);
        println!("{} isolated, now {fault:?}", system.witness.isolated());
        match *fault {
            Fault::Kill(stage) => system.kill(stage),
            Fault::Pause(stage) => system.pause(stage),
            Fault::CutFromApi(stage) => system.cut_from_api(stage),
            Fault::CutFromBus(stage) => system.cut_from_bus(stage),
            Fault::KillBus => system.kill_bus(),
            Fault::ReplaceCertificates => system.replace_certificates(),
            Fault::Divide(stage, shards) => system.divide(stage, shards),
        }
    }
    system.until_emptied();
    system.wake();
    system.until_recovered();
    judge::judge(&system.witness, faults.len());
}

#[test]
fn whatever_dies_nothing_is_evicted_early_twice_or_never() {
    for faults in halves(1) {
        play(&faults);
    }
}
