//! What `bailiff explain` answers about a pod agrees with what the API's history says happened to it, and why: one world with a pod of
//! every kind of fate. `chaos.rs` holds made-up stories to the same.

#[path = "explain/town.rs"]
mod town;

use bailiff_model::Topic;
use bailiff_scenario::StageName;
use bailiff_scenario::answers::Answer;
use bailiff_scenario::chaos::Cut;
use serde_json::{Value, json};

use town::{Deleted, Town, tolerating};

const A: &str = "example.com/a";
const B: &str = "example.com/b";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The names of the taints that a record lists, without times.
fn taints(wish: &Value) -> Vec<String> {
    let taints = wish["cause"]["taints"].as_array().cloned().unwrap_or_default();
    let name = |taint: &Value| {
        format!(
            "{}={}",
            taint["key"].as_str().unwrap_or_default(),
            taint["value"].as_str().unwrap_or_default()
        )
    };
    taints.iter().map(name).collect()
}

fn outcome(answer: &Answer) -> &Value {
    answer.present("podOutcome").unwrap_or(&Value::Null)
}

/// The last wish that said that the pod should go.
fn due_wish(answer: &Answer) -> &Value {
    let due = |wish: &&Value| wish["state"] == "due";
    answer.past("podEviction").rfind(due).unwrap_or(&Value::Null)
}

fn future(answer: &Answer) -> Vec<&str> {
    let future = answer.0["future"].as_array().map(Vec::as_slice).unwrap_or_default();
    future.iter().filter_map(|next| next["text"].as_str()).collect()
}

#[test]
fn an_answer_agrees_with_what_the_api_says_happened() {
    Town::run(async |town| {
        a_hand_made_taint(town).await;
        an_outage(town).await;
        a_pause(town).await;
        a_budget(town).await;
        everything_is_down(town).await;
        another_node_of_the_name(town).await;
        what_the_api_does_not_justify(town).await;
    });
}

/// TE-032, TE-052, TE-054, TE-055: a taint comes, and is taken off before it is everybody's time.
async fn a_hand_made_taint(town: &mut Town) {
    let node = "z0-n0";
    town.pod("at-once", node, &json!([]));
    town.pod("after-ten", node, &tolerating(A, Some(10)));
    town.pod("for-ever", node, &tolerating(A, None));
    town.pod("longer", node, &tolerating(A, Some(60)));
    town.pod("owned", node, &tolerating(A, Some(60)));
    town.pod("leaving", node, &json!([]));
    town.keep("leaving");
    town.until(8).await;
    town.delete_pod("leaving");
    town.until(12).await;
    town.taint(node, A, Some("1"));
    town.until(15).await;

    // Evicted at once.
    let answer = town.explain("at-once").await;
    let (by, at) = town.deleted("at-once").expect("it went");
    assert_eq!((by, at.floor()), (Deleted::By(StageName::ZoneEvictor), 12.0));
    assert_eq!(outcome(&answer)["state"], "deleted");
    assert_eq!(town.second_of(&outcome(&answer)["since"]).floor(), at.floor());
    assert_eq!(due_wish(&answer)["trigger"], "untolerated");
    assert_eq!(taints(due_wish(&answer)), [format!("{A}=1")]);
    assert_eq!(answer.seen(), None, "the API has nothing of it");
    assert_eq!(future(&answer), Vec::<&str>::new());

    // Its time runs.
    let answer = town.explain("after-ten").await;
    assert_eq!(town.deleted("after-ten"), None);
    let wish = answer.present("podEviction").expect("it is to go");
    assert_eq!(wish["state"], "scheduled");
    assert_eq!(town.second_of(&wish["dueAt"]).floor(), 22.0);
    assert_eq!(taints(wish), [format!("{A}=1")]);
    assert_eq!(wish["cause"]["tolerations"][0]["tolerationSeconds"], 10);
    assert_eq!(answer.seen().expect("it is there")["tolerance"], json!({"seconds": 10}));
    assert_eq!(future(&answer), ["the pod is evicted"]);

    // Tolerates it for ever: nobody has said anything of it.
    let answer = town.explain("for-ever").await;
    assert_eq!(answer.past("podEviction").count() + answer.past("podOutcome").count(), 0);
    let seen = answer.seen().expect("it is there");
    assert_eq!(
        (&seen["tolerance"], &seen["taints"][0]),
        (&json!({"forever": true}), &json!(format!("{A}=1:NoExecute")))
    );

    // On its way out before anybody wanted it to go: it was asked to go once more, which the API accepts.
    let answer = town.explain("leaving").await;
    let (by, at) = town.deleted("leaving").expect("its owner deleted it");
    assert_eq!((by, at.floor()), (Deleted::ByOthers, 8.0));
    assert_eq!(outcome(&answer)["state"], "deleted");
    assert_eq!(town.second_of(&outcome(&answer)["since"]).floor(), 12.0);

    town.until(20).await;
    town.delete_pod("owned");
    town.until(26).await;

    // Its time was over.
    let answer = town.explain("after-ten").await;
    let (by, at) = town.deleted("after-ten").expect("it went");
    assert_eq!((by, at.floor()), (Deleted::By(StageName::ZoneEvictor), 22.0));
    assert_eq!(outcome(&answer)["state"], "deleted");
    assert_eq!(due_wish(&answer)["trigger"], "expired");
    assert_eq!(town.second_of(&due_wish(&answer)["dueAt"]).floor(), 22.0);

    // Its owner was first: nothing is claimed, and the wish is withdrawn with the pod.
    let answer = town.explain("owned").await;
    assert_eq!(town.deleted("owned").map(|(by, _)| by), Some(Deleted::ByOthers));
    assert_eq!(answer.past("podOutcome").count(), 0);
    assert_eq!(answer.past("podEviction").next().expect("it was to go")["state"], "scheduled");
    assert!(
        town.is_taken_back(&answer, Topic::EvictionIntents, "owned"),
        "{}",
        answer.text()
    );

    town.until(40).await;
    town.taint(node, A, None);
    town.until(44).await;

    // The taint went first.
    let answer = town.explain("longer").await;
    assert_eq!(town.deleted("longer"), None);
    let wish = answer.present("podEviction").expect("it was to go");
    assert_eq!(
        (&wish["state"], &wish["withdrawnReason"]),
        (&json!("withdrawn"), &json!("taints_gone"))
    );
    assert_eq!(town.second_of(&wish["decidedAt"]).floor(), 40.0);
    assert_eq!(answer.seen().expect("it is there")["taints"], json!([]));
    assert_eq!(future(&answer), Vec::<&str>::new());
}

/// NL-072, NL-093, TE-054: two of a zone's nodes fall silent, and its rate lets one be isolated; they come back.
async fn an_outage(town: &mut Town) {
    let nodes = ["z0-n1", "z0-n2"];
    for node in nodes {
        town.pod(&format!("short-{node}"), node, &tolerating(UNREACHABLE, Some(3)));
        town.pod(&format!("patient-{node}"), node, &tolerating(UNREACHABLE, Some(100)));
    }
    town.until(50).await;
    town.silence(&nodes, true).await;
    town.until(64).await;
    let isolated = |node: &&str| town.taints_of(node).contains(&format!("{UNREACHABLE}:NoExecute"));
    let (isolated, waiting): (Vec<&str>, Vec<&str>) = nodes.iter().partition(|node| isolated(node));
    assert_eq!((isolated.len(), waiting.len()), (1, 1), "{isolated:?}, {waiting:?}");
    let (isolated, waiting) = (isolated[0], waiting[0]);

    let answer = town.explain(&format!("short-{isolated}")).await;
    assert_eq!(outcome(&answer)["state"], "deleted");
    assert_eq!(taints(due_wish(&answer)), [format!("{UNREACHABLE}=")]);
    assert_eq!(answer.present("nodeOutcome").expect("the node")["state"], "isolated");
    assert_eq!(answer.health().expect("its health")["verdict"], "unreachable");

    let answer = town.explain(&format!("patient-{isolated}")).await;
    let wish = answer.present("podEviction").expect("it is to go");
    assert_eq!(wish["state"], "scheduled");
    let isolated_at = town.tainted_at(isolated, UNREACHABLE).expect("it is isolated");
    assert_eq!(town.second_of(&wish["dueAt"]).floor(), (isolated_at + 100.0).floor());

    // A daemon pod tolerates what isolates nodes.
    let answer = town.explain_daemon(isolated).await;
    assert_eq!(answer.past("podEviction").count(), 0);
    assert_eq!(answer.seen().expect("it is there")["tolerance"], json!({"forever": true}));

    // Its node waits, so it does.
    for name in ["short", "patient"] {
        let answer = town.explain(&format!("{name}-{waiting}")).await;
        assert_eq!(town.deleted(&format!("{name}-{waiting}")), None);
        assert_eq!(answer.past("podEviction").count(), 0);
        let node = answer.present("nodeOutcome").expect("the node");
        assert_eq!((&node["state"], &node["queued"]["position"]), (&json!("queued"), &json!(1)));
        let expected = town.second_of(&node["queued"]["expectedAt"]);
        assert_eq!(expected.round(), (isolated_at + 20.0).round(), "{}", answer.text());
        assert_eq!(answer.present("zoneStatus").expect("the zone")["queueLength"], 1);
    }

    town.until(70).await;
    town.silence(&nodes, false).await;
    town.until(78).await;
    let answer = town.explain(&format!("patient-{isolated}")).await;
    assert_eq!(
        answer.present("podEviction").expect("a wish")["withdrawnReason"],
        "taints_gone"
    );
    assert_eq!(answer.present("nodeOutcome").expect("the node")["state"], "released");
    let answer = town.explain(&format!("short-{waiting}")).await;
    assert_eq!(town.deleted(&format!("short-{waiting}")), None);
    assert_eq!(answer.past("podEviction").count(), 0);
    assert_eq!(answer.present("nodeOutcome").expect("the node")["state"], "released");
}

/// What is due in a pause is held, and goes when it ends.
async fn a_pause(town: &mut Town) {
    town.pod("paused", "z0-n3", &json!([]));
    town.until(82).await;
    town.pause(20);
    town.until(84).await;
    town.taint("z0-n3", A, Some("1"));
    town.until(90).await;
    let answer = town.explain("paused").await;
    assert_eq!(town.deleted("paused"), None);
    let held = outcome(&answer);
    assert_eq!((&held["state"], &held["held"]["reason"]), (&json!("held"), &json!("paused")));
    assert_eq!(town.second_of(&held["held"]["since"]).floor(), 84.0);
    assert_eq!(future(&answer), ["once the pause ends (bailiff pauses), the pod is evicted"]);

    town.until(108).await;
    let answer = town.explain("paused").await;
    let (by, at) = town.deleted("paused").expect("it went");
    assert_eq!((by, at.floor()), (Deleted::By(StageName::ZoneEvictor), 102.0));
    assert_eq!(outcome(&answer)["state"], "deleted");
    let states: Vec<&Value> = answer.past("podOutcome").map(|outcome| &outcome["state"]).collect();
    assert_eq!(states, ["held", "evicting", "deleted"]);
    town.taint("z0-n3", A, None);
}

/// A budget that is used up keeps its pod.
async fn a_budget(town: &mut Town) {
    town.pod("guarded", "z1-n0", &json!([]));
    town.budget("guarded", 1);
    town.until(116).await;
    town.taint("z1-n0", A, Some("1"));
    town.until(122).await;
    let answer = town.explain("guarded").await;
    assert_eq!(town.deleted("guarded"), None);
    let blocked = outcome(&answer);
    assert_eq!(
        (&blocked["state"], &blocked["blocked"]["by"]),
        (&json!("blocked"), &json!("default/guarded"))
    );
    assert_eq!(future(&answer).len(), 1, "{}", answer.text());
    town.taint("z1-n0", A, None);
}

/// NL-096: a zone that is all down would lose its nodes at its rate; with every zone down, none is isolated.
async fn everything_is_down(town: &mut Town) {
    town.pod("among-all", "z0-n0", &json!([]));
    town.until(130).await;
    let nodes = ["z0-n0", "z0-n1", "z0-n2", "z0-n3", "z1-n0", "z1-n1"];
    town.silence(&nodes, true).await;
    town.until(144).await;
    let answer = town.explain("among-all").await;
    assert_eq!(town.deleted("among-all"), None);
    assert!(
        nodes
            .iter()
            .all(|node| !town.taints_of(node).iter().any(|taint| taint.ends_with("NoExecute")))
    );
    let node = answer.present("nodeOutcome").expect("the node");
    assert_eq!(
        (&node["state"], &node["held"]["reason"]),
        (&json!("held"), &json!("all_zones_disrupted"))
    );
    let zone = answer.present("zoneStatus").expect("the zone");
    assert_eq!(
        (&zone["state"], &zone["notReady"], &zone["voting"]),
        (&json!("FullDisruption"), &json!(4), &json!(4))
    );
    assert_eq!(answer.past("podEviction").count(), 0);
    town.silence(&nodes, false).await;
    town.until(154).await;
    let answer = town.explain("among-all").await;
    assert_eq!(answer.present("nodeOutcome").expect("the node")["state"], "released");
}

/// NL-035, TE-043: what was wished for one node is not done at another of its name.
async fn another_node_of_the_name(town: &mut Town) {
    let node = "z1-n1";
    town.pod("outlives-its-node", node, &tolerating(A, Some(8)));
    town.until(160).await;
    town.taint(node, A, Some("1"));
    town.until(164).await;
    let before = town.explain("outlives-its-node").await;
    let wish = before.present("podEviction").expect("it is to go").clone();
    town.replace_node(node);
    town.until(175).await;
    let answer = town.explain("outlives-its-node").await;
    assert_eq!(town.deleted("outlives-its-node"), None);
    assert_eq!(wish["state"], "scheduled");
    let after = answer.present("podEviction").expect("a wish");
    assert_eq!(
        (&after["state"], &after["withdrawnReason"]),
        (&json!("withdrawn"), &json!("taints_gone"))
    );
    assert_ne!(after["node"]["uid"], wish["node"]["uid"], "{}", answer.text());
    assert_eq!(answer.past("podOutcome").count(), 0);
}

/// A taint-manager that does not see that the taint went wants the pod to go; the zone-evictor asks the API.
async fn what_the_api_does_not_justify(town: &mut Town) {
    let node = "z1-n0";
    town.pod("pardoned", node, &tolerating(B, Some(10)));
    town.until(180).await;
    town.taint(node, B, Some("1"));
    town.until(182).await;
    town.faults.cut(StageName::TaintManager, Cut::Events, true);
    town.taint(node, B, None);
    town.until(193).await;
    let answer = town.explain("pardoned").await;
    assert_eq!(town.deleted("pardoned"), None);
    let refused = outcome(&answer);
    assert_eq!(
        (&refused["state"], &refused["refused"]["reason"]),
        (&json!("refused"), &json!("no_taint"))
    );
    assert_eq!(due_wish(&answer)["trigger"], "expired");
    assert_eq!(answer.seen().expect("it is there")["taints"], json!([]));
    assert_eq!(future(&answer), Vec::<&str>::new());
}
