//! Nodes of a large cluster in a cloud, as long-winded as they are there: each has a number, from 0 to 50,000.

use std::time::Duration;

use bailiff_model::health::{NodeHealth, Ready, SignOfLife, Signal};
use bailiff_model::{Effect, Mono, NodeName, NodeRef, NodeUid, Now, PodRef, PodUid, ReadyStatus, Taint, Verdict, Wall, Zone};

/// What time it is.
pub const NOW: Now = Now {
    mono: Mono::from_origin(Duration::from_secs(1000)),
    wall: Wall::UNIX_EPOCH,
};

/// Its name.
pub fn name(nth: usize) -> NodeName {
    let (high, low) = (100 + nth / 250, nth % 250);
    NodeName::from(format!("ip-10-{high}-{low}-{low}.eu-west-1.compute.internal"))
}

/// Its uid.
pub fn uid(nth: usize) -> NodeUid {
    format!("{nth:08x}-5f02-4c8c-b8a2-9f0d6f2b{nth:04x}").into()
}

/// The node.
pub fn reference(nth: usize) -> NodeRef {
    NodeRef {
        name: name(nth),
        uid: uid(nth),
        resource_version: "123456789".into(),
    }
}

/// Its zone, one of three.
pub fn zone(nth: usize) -> Zone {
    Zone::new("eu-west-1", ["eu-west-1a", "eu-west-1b", "eu-west-1c"][nth % 3])
}

/// Its taint. One in twenty has one, as nodes for some special use do.
pub fn taint(nth: usize) -> Option<Taint> {
    nth.is_multiple_of(20)
        .then(|| Taint::new("nvidia.com/gpu", Effect::NoSchedule))
}

/// What the monitor says of it: it is healthy.
pub fn health(nth: usize) -> NodeHealth {
    NodeHealth {
        node: reference(nth),
        zone: zone(nth),
        excluded_from_disruption: false,
        ready: Ready {
            status: ReadyStatus::True,
            reason: "KubeletReady".to_owned(),
            since: Some(Wall::UNIX_EPOCH),
        },
        verdict: Verdict::Healthy,
        last_sign_of_life: Some(SignOfLife {
            time: Wall::UNIX_EPOCH,
            signal: Signal::Lease,
            renew_time: Some(Wall::UNIX_EPOCH),
        }),
        late_since: None,
        counted_from: Wall::UNIX_EPOCH,
        grace: Duration::from_secs(50),
        decided_at: Wall::UNIX_EPOCH,
        held: None,
    }
}

/// A pod of a Deployment, of one of three namespaces.
pub fn pod(nth: usize) -> PodRef {
    PodRef {
        namespace: ["kube-system", "default", "payments"][nth % 3].into(),
        name: format!("coredns-{:010x}-{:05x}", nth / 10, nth).into(),
        uid: pod_uid(nth),
        resource_version: "123456789".into(),
        disruption_target: false,
        generation: 1,
    }
}

/// The uid of a pod.
pub fn pod_uid(nth: usize) -> PodUid {
    format!("{nth:08x}-3a1b-4d52-9e77-0c5d8e1a{:04x}", nth % 0x1_0000).into()
}
