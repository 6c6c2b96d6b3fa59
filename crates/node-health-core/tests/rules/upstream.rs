//! Profile `upstream`: what of kube-controller-manager's behaviour can be switched back on.

use bailiff_model::ReadyStatus;
use bailiff_node_health_core::{Config, Profile};
use jiff::SignedDuration;

use crate::support::World;

fn mk_config() -> Config {
    Config {
        profile: Profile::Upstream,
        ..Config::default()
    }
}

/// NL-048: an earlier renewTime is no renewal, until it passes the old value or a status comes.
#[test]
fn an_earlier_renewal_is_none() {
    let mut world = World::running(mk_config(), &["n1"]);
    for _ in 0..9 {
        world.pass(10.0);
        let back = world.now.wall - SignedDuration::from_hours(1);
        world.renew_at("n1", Some(back));
    }
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);

    let mut world = World::running(mk_config(), &["n1"]);
    for turn in 0..20 {
        world.pass(10.0);
        let back = world.now.wall - SignedDuration::from_hours(1);
        world.renew_at("n1", Some(back));
        if turn == 0 {
            world.post("n1", ReadyStatus::True);
        }
    }
    assert_eq!(world.ready("n1"), ReadyStatus::True, "the status dropped the saved lease");
}

/// NL-006, NL-060: signs count from the pass that notices them, and the first pass after the grace judges.
#[test]
fn nodes_are_judged_in_passes() {
    let mut world = World::running(mk_config(), &["n1"]);
    world.pass(11.0);
    world.renew("n1");
    world.pass(58.9);
    assert_eq!(
        world.ready("n1"),
        ReadyStatus::True,
        "noticed at 15 s, due strictly after 65 s, next pass at 70 s"
    );
    world.pass(0.2);
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
}

/// NL-050: a status without a renewal in the same pass extends the grace by one period.
#[test]
fn a_status_alone_counts_until_the_next_pass() {
    let mut world = World::running(mk_config(), &["n1"]);
    world.pass(11.0);
    world.post("n1", ReadyStatus::True);
    world.pass(63.9);
    assert_eq!(
        world.ready("n1"),
        ReadyStatus::True,
        "noticed at 15 s, again at 20 s, due after 70 s, judged at 75 s"
    );
    world.pass(0.2);
    assert_eq!(world.ready("n1"), ReadyStatus::Unknown);
}
