//! Whatever a stage can say survives the wire unchanged, and nothing that arrives makes the bus panic.

use std::time::Duration;

use bailiff_event_bus::engine::Limits;
use bailiff_event_bus::record::Incoming;
use bailiff_event_bus::wire::{Wire, envelope};
use bailiff_event_bus::{Body, Record, TombstoneReason};
use bailiff_model::health::{NodeHealth, Ready, ReadyStatus, SignOfLife, Signal, Verdict};
use bailiff_model::intent::{
    EvictionCause, HealthTaint, Intent, IntentState, NodeEviction, NodeIsolation, PodEviction, Trigger, WithdrawnReason,
};
use bailiff_model::outcome::{NodeOutcome, NodeOutcomeState, Outcome, PodOutcome, PodOutcomeState, RefusedReason, ZoneStatus};
use bailiff_model::rollout::{Counts, DaemonSetSync, NodeReason, WhyNot};
use bailiff_model::{
    Effect, Hold, HoldReason, Incarnation, Mono, NodeRef, Operator, Origin, PodRef, Revision, Taint, Toleration, Topic,
    TraceContext, Wall, Zone, ZoneState,
};
use bailiff_proto::v1 as pb;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message as _;

use crate::engine_rig::Rig;
use crate::engines::Kind;

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9][a-z0-9.-]{0,40}"
}

fn label() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_.-]{0,63}"
}

fn sentence() -> impl Strategy<Value = String> {
    "\\PC{0,60}"
}

fn wall() -> impl Strategy<Value = Wall> {
    // Year 1 to 9999.
    (-62_135_596_800_i64..253_402_207_200, 0..1_000_000_000_i32)
        .prop_map(|(seconds, nanos)| Wall::new(seconds, 0).unwrap() + jiff::SignedDuration::new(0, nanos))
}

fn zone() -> impl Strategy<Value = Zone> {
    (label(), label()).prop_map(|(region, zone)| Zone::new(&region, &zone))
}

fn node() -> impl Strategy<Value = NodeRef> {
    (name(), name(), "[0-9]{0,10}").prop_map(|(name, uid, version)| NodeRef {
        name: name.into(),
        uid: uid.into(),
        resource_version: version.into(),
    })
}

fn pod() -> impl Strategy<Value = PodRef> {
    (name(), name(), name(), "[0-9]{0,10}", any::<bool>(), 0..i64::MAX).prop_map(
        |(namespace, name, uid, version, disruption_target, generation)| PodRef {
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
            resource_version: version.into(),
            disruption_target,
            generation,
        },
    )
}

fn hold() -> impl Strategy<Value = Hold> {
    use HoldReason as R;
    let reasons = vec![
        R::Incomplete,
        R::Stale,
        R::ApiStale,
        R::AllZonesDisrupted,
        R::RateZero,
        R::Paused,
        R::Rival,
        R::CorrelatedLoss,
        R::OutdatedIntent,
        R::Observing,
        R::TaintOrder,
        R::RateLimited,
        R::Budget,
    ];
    (select(reasons), sentence(), wall(), option::of(wall())).prop_map(|(reason, detail, since, until)| Hold {
        reason,
        detail,
        since,
        until,
    })
}

fn taint() -> impl Strategy<Value = Taint> {
    let effects = vec![Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute];
    (name(), label(), select(effects), option::of(wall())).prop_map(|(key, value, effect, time_added)| Taint {
        value: value.into(),
        time_added,
        ..Taint::new(&key, effect)
    })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let operators = vec![Operator::Equal, Operator::Exists, Operator::Never];
    let effect = option::of(select(vec![Effect::NoSchedule, Effect::NoExecute]));
    (label(), select(operators), label(), effect, option::of(any::<i64>())).prop_map(|(key, operator, value, effect, seconds)| {
        Toleration {
            key: key.into(),
            operator,
            value: value.into(),
            effect,
            seconds,
        }
    })
}

fn health() -> impl Strategy<Value = Body> {
    use Verdict as V;
    let verdicts = vec![V::Healthy, V::Late, V::NotReady, V::Unreachable, V::NoStatus];
    let statuses = vec![
        ReadyStatus::True,
        ReadyStatus::False,
        ReadyStatus::Unknown,
        ReadyStatus::Absent,
    ];
    let ready = (select(statuses), sentence(), option::of(wall()));
    let sign = option::of((wall(), select(vec![Signal::Lease, Signal::Status]), option::of(wall())));
    let times = (
        option::of(wall()),
        wall(),
        (0..1_u64 << 40, 0..1_000_000_000_u32),
        wall(),
        option::of(hold()),
    );
    (node(), zone(), any::<bool>(), ready, select(verdicts), sign, times).prop_map(
        |(node, zone, excluded, (status, reason, since), verdict, sign, (late_since, counted_from, grace, decided_at, held))| {
            Body::NodeHealth(Box::new(NodeHealth {
                node,
                zone,
                excluded_from_disruption: excluded,
                ready: Ready { status, reason, since },
                verdict,
                last_sign_of_life: sign.map(|(time, signal, renew_time)| SignOfLife {
                    time,
                    signal,
                    renew_time,
                }),
                late_since,
                counted_from,
                grace: Duration::new(grace.0, grace.1),
                decided_at,
                held,
            }))
        },
    )
}

fn intent() -> impl Strategy<Value = Body> {
    let isolation = (
        node(),
        zone(),
        select(vec![HealthTaint::NotReady, HealthTaint::Unreachable]),
        sentence(),
        wall(),
    );
    let isolation = isolation.prop_map(|(node, zone, taint, cause, decided_at)| {
        Intent::Isolation(Box::new(NodeIsolation {
            node,
            zone,
            taint,
            cause,
            decided_at,
        }))
    });
    let eviction = (node(), zone(), wall(), any::<bool>(), sentence(), wall());
    let eviction = eviction.prop_map(|(node, zone, not_before, due, cause, decided_at)| {
        Intent::NodeEviction(Box::new(NodeEviction {
            node,
            zone,
            not_before,
            due,
            cause,
            decided_at,
        }))
    });
    prop_oneof![
        isolation,
        eviction,
        pod_eviction().prop_map(|eviction| Intent::Pod(Box::new(eviction)))
    ]
    .prop_map(Body::Intent)
}

fn pod_eviction() -> impl Strategy<Value = PodEviction> {
    use WithdrawnReason as W;
    let taints = (vec(taint(), 0..4), vec(toleration(), 0..4));
    let cause = prop_oneof![
        taints.prop_map(|(taints, tolerations)| EvictionCause::Taints { taints, tolerations }),
        Just(EvictionCause::Node),
    ];
    let withdrawn = select(vec![W::TaintsGone, W::Tolerated, W::NodeRecovered]);
    let state = prop_oneof![
        Just(IntentState::Scheduled),
        Just(IntentState::Due),
        withdrawn.prop_map(IntentState::Withdrawn),
    ];
    let trigger = select(vec![Trigger::Untolerated, Trigger::Expired]);
    (pod(), (node(), zone()), cause, state, trigger, wall(), wall()).prop_map(
        |(pod, (node, zone), cause, state, trigger, due_at, decided_at)| PodEviction {
            pod,
            node,
            zone,
            trigger: if cause == EvictionCause::Node {
                Trigger::Node
            } else {
                trigger
            },
            cause: cause.into(),
            state,
            due_at,
            decided_at,
        },
    )
}

fn zone_status() -> impl Strategy<Value = Outcome> {
    use ZoneState as Z;
    let states = vec![Z::Initial, Z::Normal, Z::PartialDisruption, Z::FullDisruption];
    let counts = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    (
        zone(),
        select(states),
        counts,
        0.0..1e9_f64,
        option::of(wall()),
        option::of(hold()),
    )
        .prop_map(
            |(zone, state, (voting, not_ready, late, queue_length), rate_per_second, last_grant, held)| {
                Outcome::Zone(Box::new(ZoneStatus {
                    zone,
                    state,
                    voting,
                    not_ready,
                    late,
                    rate_per_second,
                    last_grant,
                    queue_length,
                    held,
                }))
            },
        )
}

fn node_outcome() -> impl Strategy<Value = Outcome> {
    use NodeOutcomeState as N;
    let queued = (1..u32::MAX, option::of(wall())).prop_map(|(position, expected_at)| N::Queued { position, expected_at });
    let state = prop_oneof![
        queued,
        Just(N::Isolated),
        Just(N::Released),
        Just(N::Evicted),
        hold().prop_map(N::Held),
    ];
    (node(), zone(), state, wall(), option::of(wall())).prop_map(|(node, zone, state, since, unhealthy_since)| {
        Outcome::Node(Box::new(NodeOutcome {
            node,
            zone,
            state,
            since,
            unhealthy_since,
        }))
    })
}

fn pod_outcome() -> impl Strategy<Value = Outcome> {
    use PodOutcomeState as P;
    use RefusedReason as R;
    let refused = vec![
        R::NoTaint,
        R::Tolerated,
        R::OtherNode,
        R::NodeReplaced,
        R::NodeReady,
        R::Api,
        R::DaemonSet,
    ];
    let state = prop_oneof![
        Just(P::Evicting),
        Just(P::Deleted),
        name().prop_map(|by| P::Blocked { by }),
        select(refused).prop_map(P::Refused),
        Just(P::Cancelled),
        Just(P::Gone),
        hold().prop_map(P::Held),
    ];
    let times = (wall(), option::of(wall()));
    (pod(), node(), zone(), state, any::<u32>(), sentence(), times).prop_map(
        |(pod, node, zone, state, failed_attempts, detail, (since, next_try_at))| {
            Outcome::Pod(Box::new(PodOutcome {
                pod,
                node,
                zone,
                state,
                failed_attempts,
                detail,
                since,
                next_try_at,
            }))
        },
    )
}

fn rollout() -> impl Strategy<Value = Body> {
    use WhyNot as Y;
    let reason = || {
        select(vec![
            Y::NodeBadBefore,
            Y::NodeBadAfter,
            Y::Unscheduled,
            Y::Image,
            Y::CrashLoop,
            Y::MinReady,
            Y::WaitingForBudget,
            Y::Deleting,
            Y::NoRoom,
            Y::FailedBackoff,
            Y::RequestPending,
            Y::NotReady,
            Y::OnDelete,
            Y::RolloutPaused,
            Y::RolloutPartition,
            Y::RolloutHalted,
            Y::Held,
        ])
    };
    let nodes = vec((name(), reason(), wall()), 0..5);
    let counts = any::<[u32; 7]>();
    let identity = (name(), name(), name(), any::<i64>(), label(), any::<i64>());
    let times = (wall(), option::of(wall()), option::of(wall()));
    let rest = (vec((reason(), any::<u32>()), 0..=17), nodes, option::of(hold()), times);
    (identity, counts, rest).prop_map(
        |((namespace, name, uid, observed_generation, current_revision, revision), counts, (reasons, nodes, held, times))| {
            let (synced_at, revision_since, rolled_out_at) = times;
            let [desired, current, ready, available, unavailable, updated, misscheduled] = counts;
            let mk_reason = |(node, reason, since): (String, WhyNot, Wall)| NodeReason {
                node: node.into(),
                reason,
                since,
            };
            Body::DaemonSetSync(Box::new(DaemonSetSync {
                namespace: namespace.into(),
                name,
                uid,
                observed_generation,
                current_revision,
                revision,
                counts: Counts {
                    desired,
                    current,
                    ready,
                    available,
                    unavailable,
                    updated,
                    misscheduled,
                },
                reasons,
                nodes: nodes.into_iter().map(mk_reason).collect(),
                held,
                synced_at,
                revision_since,
                rolled_out_at,
            }))
        },
    )
}

fn body() -> impl Strategy<Value = Body> {
    let outcome = prop_oneof![zone_status(), node_outcome(), pod_outcome()];
    prop_oneof![health(), intent(), outcome.prop_map(Body::Outcome), rollout()]
}

fn record() -> impl Strategy<Value = Record> {
    use TombstoneReason as T;
    let tombstone = select(vec![T::Withdrawn, T::Replaced, T::Expired, T::LeftFilter, T::LayoutChanged]);
    let trace = option::of((1..u128::MAX, 1..u64::MAX));
    let origin = prop_oneof![
        Just(Origin::default()),
        (1..u64::MAX).prop_map(|revision| Origin::new("bus-1".into(), Revision(revision))),
    ];
    let numbers = (any::<u64>(), origin, any::<u64>(), any::<u32>());
    (
        body(),
        option::weighted(0.1, tombstone),
        trace,
        numbers,
        (wall(), option::of((0..u64::MAX / 4, 0..1_000_000_000_u32))),
    )
        .prop_map(
            |(body, tombstone, trace, (revision, derived_from, epoch, shard), (produced_at, age))| Record {
                topic: body.topic(),
                key: body.key(),
                route: body.route(),
                incarnation: Incarnation::default(),
                revision: Revision(revision),
                derived_from,
                epoch,
                shard,
                producer: "producer 1".to_owned(),
                produced_at,
                age: age.map(|(seconds, nanos)| Duration::new(seconds, nanos)),
                received_at: Mono::ORIGIN,
                trace: trace.and_then(|(trace_id, span_id)| TraceContext::new(trace_id, span_id)),
                body: tombstone.is_none().then_some(body),
                tombstone,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_record_survives_the_wire(record in record()) {
        let bytes = envelope::to_envelope(&record, Mono::ORIGIN).encode_to_vec();
        let arrived = pb::Envelope::decode(bytes.as_slice()).unwrap();
        prop_assert_eq!(Record::try_from(Wire(arrived)).unwrap(), record);
    }

    /// What a bit flip, a bug or an enemy makes of a record is accepted or refused, and what is accepted survives the wire again.
    #[test]
    fn damaged_records_are_refused_or_sound(record in record(), place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = envelope::to_envelope(&record, Mono::ORIGIN).encode_to_vec();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let Ok(damaged) = pb::Envelope::decode(bytes.as_slice()) else { return Ok(()) };
        for topic in Topic::ALL {
            if let Err(error) = envelope::incoming(topic, damaged.clone()) {
                prop_assert!(!error.field.is_empty() && !error.allowed.is_empty());
            }
        }
        if let Ok(accepted) = Record::try_from(Wire(damaged)) {
            let again = Record::try_from(Wire(envelope::to_envelope(&accepted, Mono::ORIGIN)));
            prop_assert_eq!(again, Ok(accepted));
        }
    }

    /// An engine keeps records encoded. What it gives is what it was given, and two records are the same to it where their content,
    /// origin and trace are.
    #[test]
    fn an_engine_gives_what_it_was_given(first in record(), other in record(), which in 0..5) {
        prop_assume!(first.body.is_some());
        let mut rig = Rig::new(Kind::Memory, Limits::default());
        let session = rig.session(first.topic, (0, 1), 1, false);
        let revision = rig.publish(session, vec![to_incoming(&first)])[0];
        let kept = rig.engine.history(first.topic, &first.key)[0].to_record();
        let wanted = Record {
            revision,
            epoch: 1,
            shard: 0,
            producer: "producer-1".to_owned(),
            // More than 584 years are 584 years to it.
            age: Some(first.age.unwrap_or_default().min(Duration::from_nanos(u64::MAX))),
            ..first.clone()
        };
        prop_assert_eq!(kept, Ok(wanted));

        let mut again = first.clone();
        match which {
            0 => again.derived_from = other.derived_from,
            1 => again.trace = other.trace,
            2 => again.body = other.body,
            3 => (again.produced_at, again.age) = (other.produced_at, other.age),
            _ => {}
        }
        let is_same = (&again.derived_from, again.trace, &again.body) == (&first.derived_from, first.trace, &first.body);
        let stands_at = rig.publish(session, vec![to_incoming(&again)])[0];
        prop_assert_eq!(stands_at == revision, is_same);
    }
}

fn to_incoming(record: &Record) -> Incoming {
    Incoming {
        key: record.key.clone(),
        route: record.route.clone(),
        derived_from: record.derived_from.clone(),
        produced_at: record.produced_at,
        age: record.age.unwrap_or_default(),
        trace: record.trace,
        body: record.body.clone(),
    }
}
