//! Several evictors: each zone is one's, and the others neither do nor say anything about it.

use bailiff_model::Effect;
use bailiff_zone_core::Shard;

use crate::world::{World, mk_config, zone};

const COUNT: u32 = 4;

/// Design §8: a pod is evicted by the evictor of its node's zone, and no other says anything about pod, node or zone.
#[test]
fn what_belongs_to_another_shard_is_neither_done_nor_told() {
    let mut owners = 0;
    for index in 0..COUNT {
        let shard = Shard { index, count: COUNT };
        let mut world = World::new(
            mk_config(|config| config.shard = shard),
            &[("n1", "a"), ("n2", "a"), ("n3", "a")],
        );
        world.taint("n2", "maintenance", Effect::NoExecute);
        let pod = world.add_pod("p", "n2", vec![]);
        world.due(&pod);
        world.fall_silent(&["n1"]);
        let owns = shard.owns_zone(&zone("a"));
        owners += u32::from(owns);
        assert_eq!((world.deleted() == 1, world.is_isolated("n1")), (owns, owns), "shard {index}");
        world.withdraw(&pod);
        assert_eq!(world.outcomes.is_empty(), !owns, "{:?}", world.outcomes);
        assert_eq!(world.spans.is_empty(), !owns, "{:?}", world.spans);
    }
    assert_eq!(owners, 1);
}
