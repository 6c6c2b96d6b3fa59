//! What tests of several modules are about.

use bailiff_model::{NodeRef, PodRef, Wall};

pub(crate) fn at(second: i64) -> Wall {
    Wall::from_second(1_700_000_000 + second).expect("in range")
}

pub(crate) fn node() -> NodeRef {
    NodeRef {
        name: "n1".into(),
        ..NodeRef::default()
    }
}

pub(crate) fn pod(name: &str) -> PodRef {
    PodRef {
        namespace: "shop".into(),
        name: name.into(),
        ..PodRef::default()
    }
}
