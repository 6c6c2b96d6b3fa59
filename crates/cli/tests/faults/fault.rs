//! What can go wrong, and who gets it.

use bailiff_runtime::Seed;

use super::system::{Engine, Stage, System, Whose};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// SIGKILL of the replica that leads.
    Kill(Stage),
    /// SIGSTOP of the replica that leads, until another does; then SIGCONT.
    Pause(Stage),
    /// The replica that leads cannot reach the API server until another leads.
    CutFromApi(Stage),
    /// The replica that leads cannot reach the bus, which must not cost it its Lease, until the bus says that it is not live.
    CutFromBus(Stage),
    /// The replica that leads has slow ways with little bandwidth to everybody.
    SlowDown(Stage),
    /// Wall clocks of a stage are stepped.
    Step(Stage, Whose),
    /// The bus is killed, all of its replicas, and started again. What was in memory is lost.
    KillBus,
    /// One replica of the bus is killed, where there are two.
    KillABus,
    /// One replica of the bus cannot reach etcd.
    CutABusFromEtcd,
    /// A member of etcd is killed, and started again on its data.
    KillAMember,
    /// The member of etcd that leads cannot reach the others.
    PartTheLeader,
    /// All members of etcd are stopped until the stages have lost the bus.
    StopEtcd,
    /// Etcd has no space left until nobody on the bus is live.
    FillEtcd,
    /// Everybody's certificates are replaced, and the CA that signed them.
    ReplaceCertificates,
    /// A rolling update to so many shards.
    Divide(Stage, u32),
    /// The zone-evictor is another program for a while.
    SwapTheEvictor,
    /// Kills of anybody at any time.
    KillAtRandom(usize),
    /// SIGKILL of the daemonset-syncer that leads, amid a rollout.
    KillAmidARollout,
    /// SIGSTOP of the daemonset-syncer that leads, amid a rollout.
    PauseAmidARollout,
    /// The daemonset-syncer that leads cannot reach the API server, amid a rollout.
    CutAmidARollout,
}

const OF_ANY: &[Fault] = &[
    Fault::Kill(Stage::ZoneEvictor),
    Fault::Pause(Stage::ZoneEvictor),
    Fault::CutFromApi(Stage::ZoneEvictor),
    Fault::CutFromBus(Stage::ZoneEvictor),
    Fault::SlowDown(Stage::ZoneEvictor),
    Fault::Kill(Stage::TaintManager),
    Fault::CutFromBus(Stage::NodeHealthMonitor),
    Fault::Kill(Stage::NodeHealthMonitor),
    Fault::Pause(Stage::NodeHealthMonitor),
    Fault::SlowDown(Stage::NodeHealthMonitor),
    Fault::KillBus,
    Fault::ReplaceCertificates,
    Fault::Divide(Stage::NodeHealthMonitor, 2),
    Fault::KillAmidARollout,
    Fault::PauseAmidARollout,
    Fault::CutAmidARollout,
];

/// Those that need libfaketime.
const OF_CLOCKS: &[Fault] = &[
    Fault::Step(Stage::NodeHealthMonitor, Whose::Leader),
    Fault::Step(Stage::TaintManager, Whose::All),
    Fault::Step(Stage::ZoneEvictor, Whose::Leader),
    Fault::Step(Stage::ZoneEvictor, Whose::All),
];

/// Those of a bus over etcd.
const OF_ETCD: &[Fault] = &[
    Fault::KillABus,
    Fault::CutABusFromEtcd,
    Fault::KillAMember,
    Fault::PartTheLeader,
    Fault::StopEtcd,
    Fault::FillEtcd,
];

/// Faults in the order of a seed, dealt to systems with one engine and the other.
pub fn deal(seed: &Seed, has_etcd: bool, has_clocks: bool, has_python: bool) -> Vec<(Engine, Vec<Fault>)> {
    let mut left = OF_ANY.to_vec();
    if has_clocks {
        left.extend(OF_CLOCKS);
    }
    let (mut memory, mut etcd) = (Vec::new(), if has_etcd { OF_ETCD.to_vec() } else { Vec::new() });
    for fault in shuffle(seed, left) {
        let gets_it = has_etcd && etcd.len() < memory.len();
        let fewer = if gets_it { &mut etcd } else { &mut memory };
        fewer.push(fault);
    }
    let mut dealt = vec![(Engine::Memory, memory)];
    if has_etcd {
        dealt.push((Engine::Etcd, etcd));
    }
    for (_, faults) in &mut dealt {
        *faults = shuffle(seed, std::mem::take(faults));
        faults.insert(faults.len() / 2, Fault::KillAtRandom(6));
    }
    if has_python {
        // The other program knows one address of the bus.
        let place = seed.below(dealt[0].1.len() as u64 + 1);
        dealt[0].1.insert(usize::try_from(place).unwrap(), Fault::SwapTheEvictor);
    }
    // What is divided in three was divided in two before.
    let (_, faults) = &mut dealt[usize::try_from(seed.below(u64::from(has_etcd) + 1)).unwrap()];
    let third = faults.len() / 3;
    faults.insert(2 * third, Fault::Divide(Stage::ZoneEvictor, 3));
    faults.insert(third, Fault::Divide(Stage::ZoneEvictor, 2));
    dealt
}

fn shuffle(seed: &Seed, mut faults: Vec<Fault>) -> Vec<Fault> {
    let mut shuffled = Vec::new();
    while !faults.is_empty() {
        let drawn = seed.below(faults.len() as u64);
        shuffled.push(faults.swap_remove(usize::try_from(drawn).unwrap()));
    }
    shuffled
}

impl Fault {
    /// It happens, and is over when its effect was seen.
    pub fn play(self, system: &mut System, seed: &Seed) {
        match self {
            Self::Kill(stage) => system.kill(stage),
            Self::Pause(stage) => system.pause(stage),
            Self::CutFromApi(stage) => system.cut_from_api(stage),
            Self::CutFromBus(stage) => system.cut_from_bus(stage),
            Self::SlowDown(stage) => system.slow_down(stage),
            Self::Step(stage, whose) => system.step(stage, whose),
            Self::KillBus => system.kill_bus(),
            Self::KillABus => system.kill_a_bus(),
            Self::CutABusFromEtcd => system.cut_a_bus_from_etcd(),
            Self::KillAMember => system.kill_a_member(),
            Self::PartTheLeader => system.part_the_leader(),
            Self::StopEtcd => system.stop_etcd(),
            Self::FillEtcd => system.fill_etcd(),
            Self::ReplaceCertificates => system.replace_certificates(),
            Self::Divide(stage, 3) => system.divide_beside_a_partition(stage, 3),
            Self::Divide(stage, shards) => system.divide(stage, shards),
            Self::SwapTheEvictor => system.swap_the_evictor(),
            Self::KillAtRandom(kills) => system.kill_at_random(seed, kills),
            Self::KillAmidARollout => system.kill_amid_a_rollout(),
            Self::PauseAmidARollout => system.pause_amid_a_rollout(),
            Self::CutAmidARollout => system.cut_amid_a_rollout(),
        }
    }
}
