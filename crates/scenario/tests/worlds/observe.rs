//! Observing: everything is read, decided and published, and nothing is written.

use bailiff_model::intent::{Intent, IntentState};
use serde_json::Value;

use super::*;

/// What is on the bus.
async fn records(fixture: &Fixture) -> Vec<Body> {
    let options = SubscribeOptions {
        topics: Topic::ALL.to_vec(),
        filters: Vec::new(),
        subscriber: "observe".to_owned(),
    };
    let mut all = subscribe(&fixture.bus, options, &fixture.clock, &fixture.seed.fork("observe"));
    // The first that comes is all there is.
    let Update::Snapshot { records, .. } = all.next().await else {
        return Vec::new();
    };
    records.into_iter().filter_map(|record| record.body).collect()
}

/// Beside a kube-controller-manager, whose acts are none of a rival then.
#[test]
fn an_observer_decides_and_writes_nothing() {
    let plan = mk_plan();
    world::run(async |clock| {
        let mut fixture = demo::set_up(&plan, Transport::InProcess, clock, Seed::new(17))
            .await
            .expect("a world");
        for name in StageName::ALL {
            fixture.stop_stage(name).await;
        }
        fixture.observe();
        fixture.start_stages().await.expect("stages start");
        let mut observer = Observer::new(&fixture, &plan);
        observer.follow(&fixture, Duration::from_secs(30)).await;
        let (_, silent) = plan.silent();
        let layout = plan.cluster().layout();
        let (awake, absent) = (layout.zones[0].1[0].to_string(), silent[0].to_string());
        let by_admin = || {
            fixture
                .sandbox
                .history()
                .iter()
                .filter(|seen| &*seen.actor == "admin")
                .count()
        };
        let before = by_admin();
        let manager = |path: &str, body: &Value| {
            let path = format!("{path}?fieldManager=kube-controller-manager");
            fixture
                .sandbox
                .request(&User::admin(), Verb::StrategicMergePatch, &path, body)
                .expect("allowed");
        };
        // What the cluster's own controllers do.
        set_alive(&fixture, &silent, false).await;
        observer.follow(&fixture, Duration::from_secs(60)).await;
        let ready = json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"});
        manager(
            &format!("/api/v1/nodes/{absent}/status"),
            &json!({"status": {"conditions": [ready]}}),
        );
        let taint = json!({"key": "maintenance", "value": "now", "effect": "NoExecute"});
        manager(&format!("/api/v1/nodes/{awake}"), &json!({"spec": {"taints": [taint]}}));
        observer.follow(&fixture, Duration::from_secs(400)).await;

        assert_eq!(by_admin() - before, 2, "nothing but what the test did");
        let records = records(&fixture).await;
        let is_absent = |body: &&Body| matches!(body, Body::NodeHealth(health) if health.node.name.as_str() == absent);
        let health: Vec<_> = records.iter().filter(is_absent).collect();
        assert!(
            matches!(health[..], [Body::NodeHealth(health)] if health.verdict.as_str() == "unreachable"),
            "{health:?}"
        );
        let due = records
            .iter()
            .filter(|body| matches!(body, Body::Intent(Intent::Pod(intent)) if intent.state == IntentState::Due));
        assert!(due.count() > 0, "{records:?}");
        assert!(observer.holds.contains(&HoldReason::Observing), "{:?}", observer.holds);
        assert_eq!(observer.acts, 0);
        assert_eq!(fixture.ended(), [], "no stage ends by itself");
        let said = fixture.failing_checks(StageName::ZoneEvictor);
        assert!(said.iter().any(|said| said.contains("only observes")), "{said:?}");
        assert!(!said.iter().any(|said| said.contains("rival")), "{said:?}");
    });
}
