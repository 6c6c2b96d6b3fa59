//! What anybody can play with requests alone: broken pods, sick and returning nodes, cordon and drain.

use super::*;

/// Binds a new pod to a node, and returns its state after some seconds.
async fn run_pod(bench: &Bench, node: &str, name: &str, seconds: f64) -> Value {
    let body = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "m", "image": "i:1"}]}});
    bench.request(Verb::Create, "/api/v1/namespaces/default/pods", body);
    pass(seconds).await;
    bench.object("pods", "default", name)
}

#[tokio::test(start_paused = true)]
async fn pods_break_as_the_annotation_of_their_node_says() {
    let bench = Bench::ready(&spec(3, 0)).await;
    let node = bench.names("nodes")[0].clone();
    let waiting = "/status/containerStatuses/0/state/waiting/reason";
    let restarts = "/status/containerStatuses/0/restartCount";
    let cases = [
        ("pods", "ready", "/status/phase", json!("Running")),
        ("pods", "fail", "/status/phase", json!("Failed")),
        ("pods", "succeed", "/status/phase", json!("Succeeded")),
        ("pods", "none", "/status/phase", json!("Pending")),
        ("pods", "image-pull-failure", waiting, json!("ImagePullBackOff")),
        ("pods", "crash-loop", waiting, json!("CrashLoopBackOff")),
        ("pods", "crash-loop", restarts, json!(2)),
        ("run-delay", "20s", "/status/phase", json!("Pending")),
        ("run-delay", "5s", "/status/phase", json!("Running")),
    ];
    for (nth, (name, text, pointer, wanted)) in cases.into_iter().enumerate() {
        bench.annotate(&node, name, Some(text));
        let pod = run_pod(&bench, &node, &format!("p{nth}"), 15.0).await;
        bench.annotate(&node, name, None);
        assert_eq!(pod.pointer(pointer), Some(&wanted), "{name}={text}: {}", pod["status"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_sick_reboots_and_is_cut_off_as_its_annotations_say() {
    let bench = Bench::ready(&spec(3, 0)).await;
    let node = bench.names("nodes")[0].clone();
    let conditions = [
        ("ready", "False", "Ready", "False"),
        ("memory-pressure", "true", "MemoryPressure", "True"),
    ];
    for (name, text, kind, wanted) in conditions {
        bench.annotate(&node, name, Some(text));
        pass(1.0).await;
        assert_eq!(status_of(&bench.object("nodes", "", &node), kind), wanted);
        bench.annotate(&node, name, None);
        pass(1.0).await;
        assert_ne!(status_of(&bench.object("nodes", "", &node), kind), wanted, "it recovers");
    }

    let pod = run_pod(&bench, &node, "p", 5.0).await;
    let boot = |bench: &Bench| bench.object("nodes", "", &node)["status"]["nodeInfo"]["bootID"].clone();
    let before = boot(&bench);
    bench.annotate(&node, "reboot-delay", Some("3s"));
    bench.annotate(&node, "reboot", Some("1"));
    pass(15.0).await;
    assert_ne!(boot(&bench), before);
    let restarted = bench.object("pods", "default", "p");
    assert_eq!(restarted["metadata"]["uid"], pod["metadata"]["uid"]);
    assert_eq!(restarted["status"]["containerStatuses"][0]["restartCount"], 1);

    bench.annotate(&node, "partitioned", Some("true"));
    let renewed = |bench: &Bench| bench.object(LEASES, "kube-node-lease", &node)["spec"]["renewTime"].clone();
    let last = renewed(&bench);
    bench.request(Verb::Delete, "/api/v1/namespaces/default/pods/p", Value::Null);
    pass(60.0).await;
    assert_eq!(renewed(&bench), last);
    assert!(
        bench.object("pods", "default", "p")["metadata"]["deletionTimestamp"].is_string(),
        "nobody ends it"
    );
    bench.annotate(&node, "partitioned", None);
    pass(12.0).await;
    assert_ne!(renewed(&bench), last);
    assert_eq!(
        bench.sandbox.get("pods", "default", "p").map(|pod| pod.uid().to_owned()),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_is_another_one_and_gets_its_lease() {
    let bench = Bench::ready(&spec(3, 0)).await;
    let name = bench.names("nodes")[0].clone();
    let mut node = bench.object("nodes", "", &name);
    let (path, old) = (format!("/api/v1/nodes/{name}"), node["metadata"]["uid"].clone());
    bench.request(Verb::Delete, &path, Value::Null);
    pass(5.0).await;
    node["metadata"] = json!({"name": name, "labels": node["metadata"]["labels"]});
    bench.request(Verb::Create, "/api/v1/nodes", node);
    pass(15.0).await;
    let node = bench.object("nodes", "", &name);
    assert_ne!(node["metadata"]["uid"], old);
    assert_eq!(status_of(&node, "Ready"), "True");
    let lease = bench.object(LEASES, "kube-node-lease", &name);
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_honours_a_budget_and_cordoned_nodes_get_nothing() {
    let spec = ClusterSpec {
        replace_evicted: true,
        ..spec(3, 1)
    };
    let bench = Bench::ready(&spec).await;
    let budget = json!({"metadata": {"name": "b"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "app"}}}});
    bench.request(
        Verb::Create,
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        budget,
    );
    pass(1.0).await;
    let said = |bench: &Bench| bench.object("poddisruptionbudgets.policy", "default", "b")["status"].clone();
    let status = said(&bench);
    assert_eq!(
        (
            &status["disruptionsAllowed"],
            &status["currentHealthy"],
            &status["desiredHealthy"],
            &status["expectedPods"]
        ),
        (&json!(1), &json!(3), &json!(2), &json!(3))
    );
    let node = bench.names("nodes")[0].clone();
    bench.patch(&format!("/api/v1/nodes/{node}"), json!({"spec": {"unschedulable": true}}));
    let evict = |pod: &str| {
        let path = format!("/api/v1/namespaces/default/pods/{pod}/eviction");
        let answer = bench
            .sandbox
            .request(&User::admin(), Verb::Create, &path, &json!({"metadata": {"name": pod}}));
        answer.map_or_else(|status| status.code, |_| 201)
    };
    let pods = bench.names("pods");
    assert_eq!((evict(&pods[0]), evict(&pods[1])), (201, 429));
    pass(0.1).await;
    assert_eq!(said(&bench)["disruptionsAllowed"], 0);
    // The replacement is ready: the budget allows the next.
    pass(20.0).await;
    assert_eq!(said(&bench)["disruptionsAllowed"], 1, "{}", said(&bench));
    assert_eq!(evict(&pods[1]), 201);
    for pod in bench.pods_on(&node) {
        evict(pod["metadata"]["name"].as_str().unwrap());
        pass(20.0).await;
    }
    assert_eq!(
        bench.pods_on(&node),
        [Value::Null; 0],
        "drained, and nothing new is put there"
    );
    assert_eq!(bench.names("pods").len(), 3);
}
