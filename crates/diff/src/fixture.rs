//! Records for tests.

use std::time::Duration;

use bailiff_event_bus::{Body, Record};
use bailiff_model::{Mono, Origin, Revision, Topic, Wall};

/// A second of the producers' wall clock.
pub(crate) fn wall(second: i64) -> Wall {
    Wall::from_second(1_700_000_000 + second).expect("in range")
}

/// A record that was made at 100, `age` seconds before it came, at this second of the reader's clock.
pub(crate) fn mk_record(body: Option<Body>, key: &str, topic: Topic, (age, received): (u64, u64)) -> Record {
    Record {
        topic,
        key: key.to_owned(),
        route: String::new(),
        incarnation: "i".into(),
        revision: Revision(1),
        derived_from: Origin::default(),
        epoch: 1,
        shard: 0,
        producer: "p".to_owned(),
        produced_at: wall(100),
        age: Some(Duration::from_secs(age)),
        received_at: Mono::from_origin(Duration::from_secs(received)),
        trace: None,
        body,
        tombstone: None,
    }
}
