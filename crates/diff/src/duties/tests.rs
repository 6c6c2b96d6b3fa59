use std::time::Duration;

use bailiff_model::health::{NodeHealth, Ready, Verdict};
use bailiff_model::intent::{HealthTaint, NodeIsolation};
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState};
use bailiff_model::{Hold, HoldReason, NodeRef, Zone};

use super::*;
use crate::fixture::{mk_record, wall};

fn mono(second: u64) -> Mono {
    Mono::from_origin(Duration::from_secs(second))
}

fn mk_node() -> NodeRef {
    NodeRef {
        name: "a".into(),
        ..NodeRef::default()
    }
}

/// Counted from 70, with a grace of 40 s: what is late at 100 is lost ten seconds later.
fn mk_health(verdict: Verdict, status: ReadyStatus, came: (u64, u64)) -> Record {
    let health = NodeHealth {
        node: mk_node(),
        zone: Zone::new("eu", "a"),
        excluded_from_disruption: false,
        ready: Ready {
            status,
            reason: String::new(),
            since: None,
        },
        verdict,
        last_sign_of_life: None,
        late_since: None,
        counted_from: wall(70),
        grace: Duration::from_secs(40),
        decided_at: wall(100),
        held: None,
    };
    mk_record(Some(Body::NodeHealth(Box::new(health))), "a", Topic::NodeHealth, came)
}

fn says(news: &[News]) -> Vec<String> {
    let one = |news: &News| match news {
        News::Says(key, answer) => {
            let in_turn = answer.as_ref().is_some_and(|answer| answer.in_turn);
            let says = answer.as_ref().map_or("nothing", |answer| answer.says.as_str());
            format!("{}: {}{says}", key.question.as_str(), if in_turn { "~" } else { "" })
        }
        other => format!("{other:?}"),
    };
    news.iter().map(one).collect()
}

#[test]
fn a_silent_node_is_lost_when_its_grace_is_over_whoever_writes_that() {
    let mut duties = Duties::default();
    let healthy = mk_health(Verdict::Healthy, ReadyStatus::True, (0, 1_000));
    assert_eq!(says(&duties.read(&healthy, mono(1_000))), ["health: Ready=True"]);
    // Three seconds old when it came, and read two seconds later.
    let late = mk_health(Verdict::Late, ReadyStatus::True, (3, 1_020));
    assert_eq!(says(&duties.read(&late, mono(1_022))), ["health: Ready=True"]);
    assert_eq!(duties.next_due(), Some(mono(1_027)));
    assert_eq!(duties.wake(mono(1_026)), []);
    assert_eq!(says(&duties.wake(mono(1_027))), ["health: Ready=Unknown"]);
    assert_eq!(duties.next_due(), None);

    let late = mk_health(Verdict::Late, ReadyStatus::True, (0, 2_000));
    duties.read(&late, mono(2_000));
    let healthy = mk_health(Verdict::Healthy, ReadyStatus::True, (0, 2_005));
    assert_eq!(says(&duties.read(&healthy, mono(2_005))), ["health: Ready=True"]);
    assert_eq!(duties.next_due(), None, "a sign of life came in time");
}

#[test]
fn a_silent_node_whose_zone_is_held_is_not_lost() {
    let mut duties = Duties::default();
    let mut late = mk_health(Verdict::Late, ReadyStatus::True, (0, 1_000));
    if let Some(Body::NodeHealth(health)) = &mut late.body {
        health.held = Some(Hold {
            reason: HoldReason::CorrelatedLoss,
            detail: String::new(),
            since: wall(100),
            until: None,
        });
    }
    assert_eq!(says(&duties.read(&late, mono(1_000))), ["health: Ready=True"]);
    assert_eq!(duties.next_due(), None);
    // Told again when that ends.
    let late = mk_health(Verdict::Late, ReadyStatus::True, (0, 1_060));
    duties.read(&late, mono(1_060));
    assert_eq!(duties.next_due(), Some(mono(1_070)));
}

#[test]
fn a_taint_is_wanted_and_set_in_its_turn_unless_something_holds_it() {
    let isolation = Body::Intent(Intent::Isolation(Box::new(NodeIsolation {
        node: mk_node(),
        zone: Zone::default(),
        taint: HealthTaint::Unreachable,
        cause: "silent".to_owned(),
        decided_at: wall(100),
    })));
    let mk_outcome = |state| {
        Body::Outcome(Outcome::Node(Box::new(NodeOutcome {
            node: mk_node(),
            zone: Zone::default(),
            state,
            since: wall(100),
            unhealthy_since: None,
        })))
    };
    let held = |reason| {
        NodeOutcomeState::Held(Hold {
            reason,
            detail: String::new(),
            since: wall(100),
            until: None,
        })
    };
    let mut duties = Duties::default();
    let mut read = |body: Option<Body>, topic| {
        let record = mk_record(body, "node/a", topic, (0, 0));
        says(&duties.read(&record, mono(0))).remove(0)
    };
    let taint = "node.kubernetes.io/unreachable:NoExecute";
    assert_eq!(
        read(Some(isolation), Topic::EvictionIntents),
        format!("isolation: ~taint {taint}")
    );
    let steps = [
        (held(HoldReason::Observing), format!("isolation: ~taint {taint}")),
        (
            held(HoldReason::AllZonesDisrupted),
            "isolation: stays, held: all_zones_disrupted".to_owned(),
        ),
        (NodeOutcomeState::Isolated, format!("isolation: taint {taint}")),
        (NodeOutcomeState::Released, format!("isolation: ~taint {taint}")),
    ];
    for (state, wanted) in steps {
        assert_eq!(read(Some(mk_outcome(state)), Topic::EvictionOutcomes), wanted);
    }
    assert_eq!(read(None, Topic::EvictionIntents), "isolation: nothing");
}
