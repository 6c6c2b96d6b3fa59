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

#[path = "../../../event-bus/tests/it/etcd_process.rs"]
#[allow(dead_code, reason = "the tests of the bus need the rest")]
mod etcd;
mod judge;
mod program;
mod proxy;
#[path = "../process/support.rs"]
#[allow(dead_code, reason = "the other tests of processes need the rest")]
mod support;
mod system;
mod witness;

use bailiff_runtime::Seed;
use system::{Engine, Stage, System};

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
    /// The bus is killed, all of its replicas, and started again. What was in memory is lost.
    KillBus,
    /// One replica of the bus is killed, where there are two.
    KillABus,
    /// A member of etcd is killed, and started again on its data.
    KillAMember,
    /// All members of etcd are stopped until the stages have lost the bus.
    StopEtcd,
    /// Everybody's certificates are replaced, and the CA that signed them.
    ReplaceCertificates,
    /// A rolling update to so many shards.
    Divide(Stage, u32),
}

const FAULTS: [Fault; 15] = [
    Fault::Kill(Stage::ZoneEvictor),
    Fault::Pause(Stage::ZoneEvictor),
    Fault::CutFromApi(Stage::ZoneEvictor),
    Fault::CutFromBus(Stage::ZoneEvictor),
    Fault::Kill(Stage::TaintManager),
    Fault::CutFromBus(Stage::NodeHealthMonitor),
    Fault::Kill(Stage::NodeHealthMonitor),
    Fault::KillBus,
    Fault::KillABus,
    Fault::KillAMember,
    Fault::StopEtcd,
    Fault::ReplaceCertificates,
    Fault::Pause(Stage::NodeHealthMonitor),
    Fault::Divide(Stage::ZoneEvictor, 2),
    Fault::Divide(Stage::NodeHealthMonitor, 2),
];

/// Faults in the order of a seed, dealt to systems with one engine and the other. Those of etcd are its own.
fn deal(seed: u64) -> [(Engine, Vec<Fault>); 2] {
    let draw = Seed::new(seed).fork("faults");
    let is_of_etcd = |fault: &Fault| matches!(fault, Fault::KillABus | Fault::KillAMember | Fault::StopEtcd);
    let (mut etcd, mut left): (Vec<_>, Vec<_>) = FAULTS.iter().copied().partition(is_of_etcd);
    let mut memory = Vec::new();
    while !left.is_empty() {
        let fault = left.swap_remove(usize::try_from(draw.below(left.len() as u64)).unwrap());
        let fewer = if memory.len() <= etcd.len() { &mut memory } else { &mut etcd };
        fewer.push(fault);
    }
    [(Engine::Memory, memory), (Engine::Etcd, etcd)]
}

fn play(engine: Engine, faults: &[Fault]) {
    let mut system = System::start(engine);
    system.settle();
    system.silence();
    for (nth, fault) in faults.iter().enumerate() {
        // The zone has a dozen nodes.
        system.until_isolated((3 * nth / 2 + 1).min(11));
        println!("{} isolated, now {fault:?}", system.witness.isolated());
        match *fault {
            Fault::Kill(stage) => system.kill(stage),
            Fault::Pause(stage) => system.pause(stage),
            Fault::CutFromApi(stage) => system.cut_from_api(stage),
            Fault::CutFromBus(stage) => system.cut_from_bus(stage),
            Fault::KillBus => system.kill_bus(),
            Fault::KillABus => system.kill_a_bus(),
            Fault::KillAMember => system.kill_a_member(),
            Fault::StopEtcd => system.stop_etcd(),
            Fault::ReplaceCertificates => system.replace_certificates(),
            Fault::Divide(stage, shards) => system.divide(stage, shards),
        }
    }
    system.until_emptied();
    system.wake();
    system.until_recovered();
    let stops = |fault: &&Fault| match fault {
        Fault::Kill(stage)
        | Fault::Pause(stage)
        | Fault::CutFromApi(stage)
        | Fault::CutFromBus(stage)
        | Fault::Divide(stage, _) => *stage == Stage::ZoneEvictor,
        // What the evictor remembers of its grants is with it, and in the API.
        Fault::KillBus | Fault::KillABus | Fault::KillAMember | Fault::StopEtcd | Fault::ReplaceCertificates => false,
    };
    judge::judge(&system.witness, faults.iter().filter(stops).count());
}

#[test]
fn whatever_dies_nothing_is_evicted_early_twice_or_never() {
    for (engine, faults) in deal(1) {
        if engine == Engine::Memory || etcd::is_installed() {
            play(engine, &faults);
        }
    }
}
