//! A rival is noticed: a kube-controller-manager that does one of our duties holds what disrupts, until it is quiet or gone.

use serde_json::Value;

use super::*;

const MANAGER: &str = "?fieldManager=kube-controller-manager";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// What a kube-controller-manager is seen to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// What one without our controllers does: it leads, hands out address ranges and attaches volumes.
    OtherDuties,
    /// It says that a node is not ready, as node-lifecycle-controller.
    Conditions,
    /// It adds a NoExecute taint, as node-lifecycle-controller.
    Taints,
    /// It emits an Event, as taint-eviction-controller.
    Event,
}

fn request(fixture: &Fixture, verb: Verb, path: &str, body: &Value) {
    fixture
        .sandbox
        .request(&User::admin(), verb, &format!("{path}{MANAGER}"), body)
        .expect("allowed");
}

/// It leads, as long as this is called every few seconds.
fn renew(fixture: &Fixture, holder: &str) {
    let now = format!("{:.6}", fixture.clock.wall());
    write_lease(
        fixture,
        &json!({"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": 15}),
    );
}

fn write_lease(fixture: &Fixture, spec: &Value) {
    request(
        fixture,
        Verb::MergePatch,
        &format!("{LEASE}/kube-controller-manager"),
        &json!({"spec": spec}),
    );
}

fn act(fixture: &Fixture, deed: Deed, node: &str) {
    let node = format!("/api/v1/nodes/{node}");
    let now = format!("{:.0}", fixture.clock.wall());
    match deed {
        Deed::OtherDuties => {
            request(
                fixture,
                Verb::StrategicMergePatch,
                &node,
                &json!({"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "15"}}}),
            );
            let status = json!({"status": {"volumesAttached": [{"name": "v", "devicePath": ""}]}});
            request(fixture, Verb::StrategicMergePatch, &format!("{node}/status"), &status);
        }
        Deed::Conditions => {
            let ready = json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now});
            request(
                fixture,
                Verb::StrategicMergePatch,
                &format!("{node}/status"),
                &json!({"status": {"conditions": [ready]}}),
            );
        }
        Deed::Taints => {
            let taint = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": now});
            request(
                fixture,
                Verb::StrategicMergePatch,
                &node,
                &json!({"spec": {"taints": [taint]}}),
            );
        }
        Deed::Event => {
            let event = json!({
                "metadata": {"name": "e", "namespace": "default"}, "eventTime": format!("{:.6}", fixture.clock.wall()),
                "reportingController": "taint-eviction-controller", "reportingInstance": "kcm", "action": "x",
                "reason": "TaintManagerEviction", "type": "Normal", "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
            });
            request(
                fixture,
                Verb::Create,
                "/apis/events.k8s.io/v1/namespaces/default/events",
                &event,
            );
        }
    }
}

struct Played {
    /// Nodes marked, nodes isolated and pods evicted by us, while the rival was there; and in the end.
    while_there: usize,
    isolated: usize,
    said: Vec<String>,
    events: Vec<String>,
}

/// Reasons of the Events about the rival, each once.
fn events(fixture: &Fixture) -> Vec<String> {
    let path = "/apis/events.k8s.io/v1/namespaces/kube-system/events";
    let list = fixture
        .sandbox
        .request(&User::admin(), Verb::Get, path, &json!({}))
        .expect("listed");
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let about = items.iter().filter(|event| event["regarding"]["kind"] == "Lease");
    let reasons: BTreeSet<String> = about.filter_map(|event| Some(event["reason"].as_str()?.to_owned())).collect();
    reasons.into_iter().collect()
}

/// When the process that leads acquired the Lease: before or after one did everything to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acquired {
    Before,
    After,
}

/// A running system, in which a kube-controller-manager did everything to a node before any stage ran.
async fn set_up(plan: &Plan, clock: bailiff_runtime::Clock, node: &str, acquired: Acquired) -> Fixture {
    let mut fixture = demo::set_up(plan, Transport::InProcess, clock, Seed::new(13))
        .await
        .expect("a world");
    for name in StageName::ALL {
        fixture.kill_stage(name);
    }
    let lease = json!({"metadata": {"name": "kube-controller-manager"}, "spec": {}});
    fixture.create(LEASE, &lease).expect("created");
    let acquire = |by: Acquired| {
        if by == acquired {
            let now = format!("{:.6}", fixture.clock.wall());
            write_lease(&fixture, &json!({"acquireTime": now}));
        }
    };
    acquire(Acquired::Before);
    tokio::time::sleep(Duration::from_secs(5)).await;
    for past in [Deed::Conditions, Deed::Taints] {
        act(&fixture, past, node);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    acquire(Acquired::After);
    fixture.start_stages().await.expect("stages start");
    fixture
}

/// It leads for so long.
async fn lead(observer: &mut Observer, fixture: &Fixture, seconds: u64) {
    for _ in 0..seconds / 2 {
        renew(fixture, "kcm");
        observer.follow(fixture, Duration::from_secs(2)).await;
    }
}

/// It leads; before a zone falls silent it does `deed` once, to a node of another zone; 90 s into the silence it stops.
fn play_rival(deed: Deed) -> Played {
    let plan = mk_plan();
    world::run(async |clock| {
        let bystander = plan.cluster().layout().zones[0].1[0].to_string();
        let fixture = set_up(&plan, clock, &bystander, Acquired::After).await;
        let mut observer = Observer::new(&fixture, &plan);
        lead(&mut observer, &fixture, 30).await;
        let stale = fixture.failing_checks(StageName::ZoneEvictor);
        assert!(
            !stale.iter().any(|said| said.contains("rival")),
            "the past holds nobody: {stale:?}"
        );
        act(&fixture, deed, &bystander);
        lead(&mut observer, &fixture, 2).await;
        let before = observer.acts;
        let (_, silent) = plan.silent();
        set_alive(&fixture, &silent, false).await;
        lead(&mut observer, &fixture, 90).await;
        let while_there = observer.acts - before;
        let said = [StageName::NodeHealthMonitor, StageName::ZoneEvictor]
            .map(|name| fixture.failing_checks(name))
            .concat();
        // It is gone a minute after its last renewal.
        observer.follow(&fixture, Duration::from_secs(60) + plan.silence).await;
        assert_eq!(fixture.ended(), [], "no stage ends by itself");
        let of_the_zone: BTreeSet<String> = silent.iter().map(NodeName::to_string).collect();
        let isolated: BTreeSet<String> = observer.isolated.iter().map(|(node, _)| node.clone()).collect();
        Played {
            while_there,
            isolated: isolated.intersection(&of_the_zone).count(),
            said,
            events: events(&fixture),
        }
    })
}

/// A write of a duty of ours that is seen to happen holds; the Lease, other duties and the past do not; once it is gone all goes on.
#[test]
fn a_rival_holds_what_disrupts_until_it_is_gone() {
    let nodes = mk_plan().nodes_per_zone;
    for deed in [Deed::OtherDuties, Deed::Conditions, Deed::Taints, Deed::Event] {
        let Played {
            while_there,
            isolated,
            said,
            events,
        } = play_rival(deed);
        assert_eq!(isolated, nodes, "{deed:?}: in the end all are isolated");
        let is_rival = deed != Deed::OtherDuties;
        assert_eq!(while_there == 0, is_rival, "{deed:?}: {while_there} acts");
        let is_said = said.iter().any(|said| said.contains("rival (kube-controller-manager (kcm)"));
        assert_eq!(is_said, is_rival, "{deed:?}: {said:?}");
        let wanted: &[&str] = if is_rival {
            &["RivalController", "RivalControllerGone"]
        } else {
            &[]
        };
        assert_eq!(events, wanted, "{deed:?}");
    }
}

/// What the process that leads did before any stage ran holds from the start, until it is gone; what was done before it led does not.
#[test]
fn a_rival_that_acted_before_the_start_holds_from_the_start() {
    let plan = mk_plan();
    for (acquired, is_rival) in [(Acquired::Before, true), (Acquired::After, false)] {
        let (while_there, isolated, said) = world::run(async |clock| {
            let bystander = plan.cluster().layout().zones[0].1[0].to_string();
            let fixture = set_up(&plan, clock, &bystander, acquired).await;
            let mut observer = Observer::new(&fixture, &plan);
            let (_, silent) = plan.silent();
            lead(&mut observer, &fixture, 6).await;
            let before = observer.acts;
            set_alive(&fixture, &silent, false).await;
            lead(&mut observer, &fixture, 90).await;
            let while_there = observer.acts - before;
            let said = fixture.failing_checks(StageName::ZoneEvictor).concat();
            observer.follow(&fixture, Duration::from_secs(60) + plan.silence).await;
            let of_the_zone: BTreeSet<String> = silent.iter().map(NodeName::to_string).collect();
            let isolated: BTreeSet<String> = observer.isolated.iter().map(|(node, _)| node.clone()).collect();
            (while_there, isolated.intersection(&of_the_zone).count(), said)
        });
        assert_eq!(while_there == 0, is_rival, "{acquired:?}: {while_there} acts");
        assert_eq!(
            said.contains("rival (kube-controller-manager (kcm)"),
            is_rival,
            "{acquired:?}: {said}"
        );
        assert_eq!(isolated, plan.nodes_per_zone, "{acquired:?}: in the end all are isolated");
    }
}
