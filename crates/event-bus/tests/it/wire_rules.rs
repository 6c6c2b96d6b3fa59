//! What the contract forbids is refused with the field, the value and what is allowed.

use std::time::Duration;

use bailiff_event_bus::record::Incoming;
use bailiff_event_bus::wire::envelope;
use bailiff_event_bus::{Body, Draft};
use bailiff_model::intent::{EvictionCause, Intent, IntentState, PodEviction, Trigger};
use bailiff_model::outcome::PodOutcomeState;
use bailiff_model::{Effect, Origin, PodRef, Revision, Taint, Topic, Wall, Zone};
use bailiff_proto::v1 as pb;
use pb::envelope::Body as W;

use crate::support::{mk_health, mk_node, mk_outcome};

fn mk_envelope(body: Body) -> pb::Envelope {
    let draft = Draft::new(body);
    let topic = draft.body.topic();
    let incoming = Incoming {
        key: draft.key,
        route: draft.route,
        derived_from: Origin::new("bus-1".into(), Revision(3)),
        produced_at: Wall::UNIX_EPOCH,
        age: Duration::ZERO,
        trace: None,
        body: Some(draft.body),
    };
    envelope::to_incoming(topic, &incoming)
}

fn mk_pod_eviction() -> Body {
    Body::Intent(Intent::Pod(Box::new(PodEviction {
        pod: PodRef {
            namespace: "default".into(),
            name: "p1".into(),
            uid: "uid-p1".into(),
            ..PodRef::default()
        },
        node: mk_node("n1"),
        zone: Zone::new("eu", "a"),
        cause: EvictionCause::Taints {
            taints: vec![Taint::new("node.kubernetes.io/unreachable", Effect::NoExecute)],
            tolerations: Vec::new(),
        }
        .into(),
        state: IntentState::Due,
        trigger: Trigger::Untolerated,
        due_at: Wall::UNIX_EPOCH,
        decided_at: Wall::UNIX_EPOCH,
    })))
}

/// Every payload has a route to filter by: its zone, or where it has none its namespace.
#[test]
fn every_payload_has_a_route() {
    use bailiff_model::rollout::{Counts, DaemonSetSync};
    let sync = DaemonSetSync {
        namespace: "kube-system".into(),
        name: "proxy".to_owned(),
        uid: "uid".to_owned(),
        observed_generation: 1,
        current_revision: String::new(),
        revision: 1,
        counts: Counts::default(),
        reasons: Vec::new(),
        nodes: Vec::new(),
        held: None,
        synced_at: Wall::UNIX_EPOCH,
        revision_since: None,
        rolled_out_at: None,
    };
    let rollout = mk_envelope(Body::DaemonSetSync(Box::new(sync)));
    assert_eq!(rollout.route, "kube-system");
    assert_eq!(mk_envelope(mk_health("n1", "a", 1)).route, "eu:a");
    assert_eq!(mk_envelope(mk_pod_eviction()).route, "eu:a");
    assert_eq!(
        mk_envelope(mk_outcome("p1", "n1", PodOutcomeState::Deleted, 0)).route,
        "eu:n1"
    );
    let elsewhere = pb::Envelope {
        route: "default".to_owned(),
        ..rollout
    };
    let refused = refusal(Topic::DaemonRollouts, elsewhere);
    assert!(refused.starts_with("route: \"default\""), "{refused}");
}

fn refusal(topic: Topic, envelope: pb::Envelope) -> String {
    match envelope::incoming(topic, envelope.clone()) {
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(" is not allowed, wanted "), "{text}");
            text
        }
        Ok(incoming) => panic!("{envelope:?} was accepted as {incoming:?}"),
    }
}

fn health_case(change: impl Fn(&mut pb::Envelope, &mut pb::NodeHealth)) -> String {
    let mut envelope = mk_envelope(mk_health("n1", "a", 1));
    let Some(W::NodeHealth(mut health)) = envelope.body.take() else {
        panic!("it is a health");
    };
    change(&mut envelope, &mut health);
    if envelope.body.is_none() {
        envelope.body = Some(W::NodeHealth(health));
    }
    refusal(Topic::NodeHealth, envelope)
}

#[test]
fn a_health_record_is_checked_field_by_field() {
    type Change = fn(&mut pb::Envelope, &mut pb::NodeHealth);
    let cases: [(&str, Change); 24] = [
        ("node_health.node: absent", |_, h| h.node = None),
        ("node_health.node.name: \"\"", |_, h| h.node.as_mut().unwrap().name.clear()),
        ("node_health.node.name: \"a/b\"", |_, h| {
            h.node.as_mut().unwrap().name = "a/b".to_owned()
        }),
        ("node_health.node.uid: \"\"", |_, h| h.node.as_mut().unwrap().uid.clear()),
        ("node_health.node.uid: \"a b\"", |_, h| {
            h.node.as_mut().unwrap().uid = "a b".to_owned()
        }),
        ("node_health.zone.zone: \"a:b\"", |_, h| {
            h.zone.as_mut().unwrap().zone = "a:b".to_owned()
        }),
        ("node_health.verdict: 0", |_, h| h.verdict = 0),
        ("node_health.verdict: 77", |_, h| h.verdict = 77),
        ("node_health.ready: absent", |_, h| h.ready = None),
        ("node_health.ready.status: 0", |_, h| h.ready.as_mut().unwrap().status = 0),
        ("node_health.counted_from: absent", |_, h| h.counted_from = None),
        ("node_health.decided_at: \"9223372036854775807 s 0 ns\"", |_, h| {
            h.decided_at.as_mut().unwrap().seconds = i64::MAX;
        }),
        ("node_health.decided_at: \"0 s -1 ns\"", |_, h| {
            h.decided_at.as_mut().unwrap().nanos = -1
        }),
        ("node_health.grace: \"-1 s 0 ns\"", |_, h| {
            h.grace.as_mut().unwrap().seconds = -1
        }),
        ("node_health.last_sign_of_life.kind: 0", |_, h| {
            h.last_sign_of_life = Some(pb::SignOfLife {
                time: h.decided_at,
                kind: 0,
                renew_time: None,
            });
        }),
        ("topic: \"eviction-intents\"", |e, _| e.topic = "eviction-intents".to_owned()),
        ("key: \"n2\" is not allowed, wanted \"\\\"n1\\\"", |e, _| {
            e.key = "n2".to_owned()
        }),
        ("route: \"eu:b\"", |e, _| e.route = "eu:b".to_owned()),
        ("revision: 1", |e, _| e.revision = 1),
        ("producer: \"me\"", |e, _| e.producer = "me".to_owned()),
        ("derived_from_incarnation: \"bus-1\"", |e, _| e.derived_from = 0),
        ("derived_from_incarnation: \"\"", |e, _| e.derived_from_incarnation.clear()),
        ("traceparent: \"x\"", |e, _| e.traceparent = "x".to_owned()),
        ("age: \"-1 s 0 ns\"", |e, _| e.age.as_mut().unwrap().seconds = -1),
    ];
    for (wanted, change) in cases {
        let text = health_case(change);
        // The key's message quotes what the payload says.
        let wanted = wanted.replace("wanted \"\\\"n1\\\"", "wanted \"n1\"");
        assert!(text.starts_with(&wanted), "{text:?} for {wanted:?}");
    }
}

#[test]
fn keys_and_payloads_agree_on_every_topic() {
    let outcome = mk_outcome("p1", "n1", PodOutcomeState::Deleted, 0);
    let cases = [
        (mk_health("n1", "a", 1), "n1", "n2"),
        (mk_pod_eviction(), "pod/uid-p1", "pod/uid-p2"),
        (mk_pod_eviction(), "pod/uid-p1", "node/uid-p1"),
        (outcome, "pod/uid-p1", "zone/eu:a"),
    ];
    for (body, right, wrong) in cases {
        let (topic, envelope) = (body.topic(), mk_envelope(body));
        assert_eq!(envelope.key, right);
        let accepted = envelope::incoming(topic, envelope.clone()).unwrap();
        assert_eq!((accepted.key.as_str(), accepted.derived_from.revision), (right, Revision(3)));
        let key = wrong.to_owned();
        let text = refusal(topic, pb::Envelope { key, ..envelope });
        assert!(text.starts_with(&format!("key: {wrong:?}")), "{text}");
    }
}

#[test]
fn a_payload_of_another_topic_is_refused() {
    let health = mk_envelope(mk_health("n1", "a", 1));
    let stray = pb::Envelope {
        topic: "daemon-rollouts".to_owned(),
        key: "default/n1".to_owned(),
        ..health.clone()
    };
    let text = refusal(Topic::DaemonRollouts, stray);
    assert!(text.starts_with("body: \"node-health\""), "{text}");
    let empty = pb::Envelope { body: None, ..health };
    assert!(refusal(Topic::NodeHealth, empty).starts_with("body: absent"));
}

#[test]
fn keys_have_the_form_of_their_topic() {
    let long = "n".repeat(600);
    let cases = [
        (Topic::NodeHealth, "n1", true),
        (Topic::NodeHealth, "", false),
        (Topic::NodeHealth, "a/b", false),
        (Topic::NodeHealth, "ä", false),
        (Topic::NodeHealth, &long, false),
        (Topic::EvictionIntents, "node/n1", true),
        (Topic::EvictionIntents, "pod/0000-1", true),
        (Topic::EvictionIntents, "pod/", false),
        (Topic::EvictionIntents, "zone/a:b", false),
        (Topic::EvictionIntents, "n1", false),
        (Topic::EvictionOutcomes, "zone/eu:a", true),
        (Topic::EvictionOutcomes, "zone/:", true),
        (Topic::EvictionOutcomes, "zone/eu", false),
        (Topic::EvictionOutcomes, "node/n1", true),
        (Topic::DaemonRollouts, "kube-system/proxy", true),
        (Topic::DaemonRollouts, "proxy", false),
        (Topic::DaemonRollouts, "a/b/c", false),
    ];
    for (topic, key, allowed) in cases {
        assert_eq!(envelope::check_key(topic, key).is_ok(), allowed, "{topic} {key:?}");
    }
}

#[test]
fn fields_that_belong_to_another_state_are_refused() {
    let outcome = |change: &dyn Fn(&mut pb::PodOutcome)| {
        let mut envelope = mk_envelope(mk_outcome("p1", "n1", PodOutcomeState::Deleted, 0));
        let Some(W::PodOutcome(outcome)) = &mut envelope.body else {
            panic!("it is an outcome");
        };
        change(outcome);
        refusal(Topic::EvictionOutcomes, envelope)
    };
    let blocked = pb::PodOutcomeState::Blocked.into();
    let held = pb::PodOutcomeState::Held.into();
    let refused = pb::PodOutcomeState::Refused.into();
    assert!(outcome(&|o| o.blocked_by = "a/b".to_owned()).starts_with("pod_outcome.blocked_by: \"a/b\""));
    assert!(outcome(&|o| o.refused_reason = 1).starts_with("pod_outcome.refused_reason: 1"));
    assert!(outcome(&|o| o.state = blocked).starts_with("pod_outcome.blocked_by: \"\""));
    assert!(outcome(&|o| o.state = held).starts_with("pod_outcome.held: absent"));
    assert!(outcome(&|o| o.state = refused).starts_with("pod_outcome.refused_reason: 0"));
    assert!(outcome(&|o| o.detail = "x".repeat(2_000)).starts_with("pod_outcome.detail: "));

    let eviction = |change: &dyn Fn(&mut pb::PodEviction)| {
        let mut envelope = mk_envelope(mk_pod_eviction());
        let Some(W::PodEviction(eviction)) = &mut envelope.body else {
            panic!("it is an eviction");
        };
        change(eviction);
        refusal(Topic::EvictionIntents, envelope)
    };
    let withdrawn = pb::IntentState::Withdrawn.into();
    let node = pb::EvictionCauseKind::Node.into();
    assert!(eviction(&|e| e.withdrawn_reason = 1).starts_with("pod_eviction.withdrawn_reason: 1"));
    assert!(eviction(&|e| e.state = withdrawn).starts_with("pod_eviction.withdrawn_reason: 0"));
    assert!(eviction(&|e| e.state = 0).starts_with("pod_eviction.state: 0"));
    assert!(eviction(&|e| e.cause.as_mut().unwrap().kind = node).starts_with("pod_eviction.cause.taints: "));
    assert!(eviction(&|e| e.cause.as_mut().unwrap().taints[0].effect = 0).starts_with("pod_eviction.cause.taints[0].effect: 0"));
    assert!(eviction(&|e| e.pod.as_mut().unwrap().generation = -1).starts_with("pod_eviction.pod.generation: -1"));
}

#[test]
fn a_record_that_is_too_large_is_refused() {
    let mut envelope = mk_envelope(mk_pod_eviction());
    let Some(W::PodEviction(eviction)) = &mut envelope.body else {
        panic!("it is an eviction");
    };
    let cause = eviction.cause.as_mut().unwrap();
    cause.tolerations = vec![
        pb::Toleration {
            key: "k".repeat(300),
            operator: "Exists".to_owned(),
            ..pb::Toleration::default()
        };
        250
    ];
    let text = refusal(Topic::EvictionIntents, envelope);
    assert!(text.starts_with("record: ") && text.contains("at most 65536 bytes"), "{text}");
}

#[test]
fn a_producer_may_only_say_that_it_withdrew() {
    let tombstone = |reason: pb::TombstoneReason| pb::Envelope {
        body: Some(W::Tombstone(pb::Tombstone { reason: reason.into() })),
        ..mk_envelope(mk_health("n1", "a", 1))
    };
    for reason in [pb::TombstoneReason::Unspecified, pb::TombstoneReason::Withdrawn] {
        let incoming = envelope::incoming(Topic::NodeHealth, tombstone(reason)).unwrap();
        assert_eq!(incoming.body, None);
    }
    let text = refusal(Topic::NodeHealth, tombstone(pb::TombstoneReason::Expired));
    assert!(text.starts_with("tombstone.reason: "), "{text}");
}
