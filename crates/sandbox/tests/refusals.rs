//! What a kube-apiserver 1.36 refuses, changes or says beside the recorded topics: facts about its answers, in tables.

use serde_json::{Value, json};

#[path = "refusals/server.rs"]
#[allow(dead_code, reason = "another file uses the rest")]
mod server;

use server::{MERGE, PODS, STRATEGIC, Server, causes, merge, pod};

/// The container's fields and what is wrong with them, below `spec.containers[0]`.
fn containers() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"image": "x "}), "Invalid image"),
        (
            json!({"ports": [{"containerPort": 80, "name": "UPPER"}]}),
            "Invalid ports[0].name",
        ),
        (
            json!({"ports": [{"containerPort": 80, "protocol": "X"}]}),
            "NotSupported ports[0].protocol",
        ),
        (
            json!({"ports": [{"containerPort": 80, "hostPort": 70000}]}),
            "Invalid ports[0].hostPort",
        ),
        (
            json!({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]}),
            "Duplicate ports[1].name",
        ),
        (json!({"env": [{"value": "x"}]}), "Required env[0].name"),
        (json!({"env": [{"name": "a=b"}]}), "Invalid env[0].name"),
        (json!({"env": [{"name": "a", "valueFrom": {}}]}), "Invalid env[0].valueFrom"),
        (
            json!({"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.foo"}}}]}),
            "Invalid env[0].valueFrom.fieldRef.fieldPath",
        ),
        (json!({"envFrom": [{}]}), "Invalid envFrom"),
        (json!({"livenessProbe": {}}), "Required livenessProbe"),
        (
            json!({"livenessProbe": {"httpGet": {"port": 0}}}),
            "Invalid livenessProbe.httpGet.port",
        ),
        (
            json!({"livenessProbe": {"httpGet": {"port": 80}, "tcpSocket": {"port": 80}}}),
            "Forbidden livenessProbe.tcpSocket",
        ),
        (json!({"livenessProbe": {"exec": {}}}), "Required livenessProbe.exec.command"),
        (json!({"lifecycle": {"preStop": {}}}), "Required lifecycle.preStop"),
        (
            json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}),
            "Invalid lifecycle.preStop.sleep",
        ),
        (
            json!({"terminationMessagePolicy": "x"}),
            "NotSupported terminationMessagePolicy",
        ),
        (
            json!({"resources": {"requests": {"example.org/x": "1"}}}),
            "Required resources.limits",
        ),
        (
            json!({"resources": {"claims": [{"name": "x"}]}}),
            "NotFound resources.claims[0]",
        ),
        (
            json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}}),
            "Required securityContext.seccompProfile.localhostProfile",
        ),
        (
            json!({"resizePolicy": [{"resourceName": "x", "restartPolicy": "NotRequired"}]}),
            "NotSupported resizePolicy",
        ),
    ]
}

/// The pod's fields and what is wrong with them, below `spec`.
fn specs() -> Vec<(Value, &'static str)> {
    let node = |term: Value| {
        let required = json!({"nodeSelectorTerms": [term]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    };
    vec![
        (json!({"volumes": [{"name": "V_"}]}), "Invalid volumes[0].name"),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}),
            "Forbidden volumes[0].hostPath",
        ),
        (
            json!({"volumes": [{"name": "v", "hostPath": {}}]}),
            "Required volumes[0].hostPath.path",
        ),
        (
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]}),
            "Invalid volumes[0].hostPath.path",
        ),
        (
            json!({"volumes": [{"name": "v", "secret": {}}]}),
            "Required volumes[0].secret.secretName",
        ),
        (
            json!({"volumes": [{"name": "v", "configMap": {"name": "x", "defaultMode": 1000}}]}),
            "Invalid volumes[0].configMap.defaultMode",
        ),
        (json!({"dnsPolicy": "None"}), "Required dnsConfig"),
        (json!({"initContainers": [{"name": "i"}]}), "Required initContainers[0].image"),
        (
            json!({"initContainers": [{"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["a"]}}}]}),
            "Forbidden initContainers[0].livenessProbe",
        ),
        (
            json!({"ephemeralContainers": [{"name": "e", "image": "x"}]}),
            "Forbidden ephemeralContainers",
        ),
        (json!({"serviceAccountName": "B_"}), "Invalid serviceAccountName"),
        (json!({"hostname": "a.b"}), "Invalid hostname"),
        (json!({"hostAliases": [{"ip": "x"}]}), "Invalid hostAliases[0].ip"),
        (
            json!({"readinessGates": [{"conditionType": "a b"}]}),
            "Invalid readinessGates[0].conditionType",
        ),
        (
            json!({"schedulingGates": [{"name": "x/y"}, {"name": "x/y"}]}),
            "Duplicate schedulingGates[1]",
        ),
        (
            json!({"schedulingGates": [{"name": "x/y"}], "nodeName": "n1"}),
            "Forbidden nodeName",
        ),
        (
            node(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
            "Required affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]\
             .matchExpressions[0].values",
        ),
        (
            node(json!({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["a"]}]})),
            "Invalid affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key",
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]}),
            "Invalid topologySpreadConstraints[0].maxSkew",
        ),
        (json!({"hostUsers": false, "hostNetwork": true}), "Forbidden hostNetwork"),
        (
            json!({"shareProcessNamespace": true, "hostPID": true}),
            "Invalid securityContext.shareProcessNamespace",
        ),
        (
            json!({"securityContext": {"runAsUser": -1}}),
            "Invalid securityContext.runAsUser",
        ),
        (
            json!({"securityContext": {"sysctls": [{"name": "a b"}]}}),
            "Invalid securityContext.sysctls[0].name",
        ),
        (json!({"os": {"name": "x"}}), "NotSupported os"),
    ]
}

#[tokio::test(start_paused = true)]
async fn pods_are_refused_for_the_field_that_is_wrong() {
    let server = Server::new();
    let inside = |expected: &str, path: &str| {
        let (reason, field) = expected.split_once(' ').expect("a reason and a field");
        format!("{reason} {path}{field}")
    };
    let containers = containers()
        .into_iter()
        .map(|(container, expected)| (pod("p", json!({}), container), inside(expected, "spec.containers[0].")));
    let specs = specs()
        .into_iter()
        .map(|(spec, expected)| (pod("p", spec, json!({})), inside(expected, "spec.")));
    for (given, expected) in containers.chain(specs) {
        let (status, answer) = server.post(PODS, &given).await;
        assert_eq!((status, causes(&answer)), (422, vec![expected]), "{given}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_forbidden_what_admission_decides() {
    let server = Server::new();
    for spec in [
        json!({"runtimeClassName": "none"}),
        json!({"overhead": {"cpu": "1"}}),
        json!({"preemptionPolicy": "Never"}),
        json!({"priorityClassName": "none"}),
        json!({"priority": 5}),
    ] {
        let (status, answer) = server.post(PODS, &pod("p", spec.clone(), json!({}))).await;
        assert_eq!((status, answer["reason"].as_str()), (403, Some("Forbidden")), "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_before_it_has_a_name_is_called_by_what_its_name_would_be_made_of() {
    let server = Server::new();
    for (spec, why) in [
        (
            json!({"runtimeClassName": "none"}),
            "pod rejected: RuntimeClass \"none\" not found",
        ),
        (
            json!({"priorityClassName": "none"}),
            "no PriorityClass with name none was found",
        ),
    ] {
        let mut given = pod("p", spec, json!({}));
        given["metadata"] = json!({"generateName": "p-"});
        let (_, answer) = server.post(PODS, &given).await;
        assert_eq!(answer["message"], format!("pods \"p-\" is forbidden: {why}"));
    }
}

/// Objects of other kinds: path, object, and what is wrong with it.
fn others() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let core = |kind: &str, more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}});
        merge(&mut object, more);
        object
    };
    let rbac = |kind: &str, more: Value| {
        let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "x:y"}});
        merge(&mut object, more);
        object
    };
    let maps = "/api/v1/namespaces/default/configmaps";
    let secrets = "/api/v1/namespaces/default/secrets";
    let services = "/api/v1/namespaces/default/services";
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |name: &str, value: i64| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    vec![
        (
            maps,
            core("ConfigMap", json!({"data": {"a b": "x"}})),
            vec!["Invalid data[a b]"],
        ),
        (
            maps,
            core("ConfigMap", json!({"data": {"..a": "x"}})),
            vec!["Invalid data[..a]"],
        ),
        (
            secrets,
            core("Secret", json!({"type": "kubernetes.io/tls"})),
            vec!["Required data[tls.crt]", "Required data[tls.key]"],
        ),
        (services, core("Service", json!({"spec": {}})), vec!["Required spec.ports"]),
        (
            services,
            core("Service", json!({"spec": {"ports": [{"port": 1}, {"port": 2}]}})),
            vec!["Required spec.ports[0].name", "Required spec.ports[1].name"],
        ),
        (
            "/api/v1/nodes",
            core("Node", json!({"spec": {"podCIDR": "x"}})),
            vec!["Invalid spec.podCIDRs[0]"],
        ),
        (
            "/api/v1/nodes",
            core("Node", json!({"spec": {"taints": [{"key": "a"}]}})),
            vec!["Required metadata.taints[0].effect"],
        ),
        (
            "/api/v1/nodes",
            core("Node", json!({"status": {"allocatable": {"cpu": "-1"}}})),
            vec!["Invalid status.allocatable.cpu"],
        ),
        (
            roles,
            rbac("Role", json!({"rules": [{"verbs": ["get"]}]})),
            vec!["Required rules[0].apiGroups", "Required rules[0].resources"],
        ),
        (
            roles,
            rbac("Role", json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]})),
            vec!["Invalid rules[0].nonResourceURLs"],
        ),
        (
            bindings,
            rbac(
                "ClusterRoleBinding",
                json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "X", "name": "y"}]}),
            ),
            vec!["NotSupported roleRef.kind", "NotSupported subjects[0].kind"],
        ),
        (classes, class("system-x", 1), vec!["Forbidden metadata.name"]),
        (classes, class("big", 2_000_000_000), vec!["Forbidden value"]),
    ]
}

#[tokio::test(start_paused = true)]
async fn other_objects_are_refused_for_the_field_that_is_wrong() {
    let server = Server::new();
    for (path, given, expected) in others() {
        let (status, answer) = server.post(path, &given).await;
        assert_eq!(
            (status, causes(&answer)),
            (422, expected.iter().map(|one| (*one).to_owned()).collect()),
            "{given}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn workloads_are_refused_for_the_field_that_is_wrong() {
    let server = Server::new();
    let workload = |kind: &str, spec: Value| {
        let template = json!({
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "main", "image": "example.org/app:1"}]},
        });
        let mut all = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template});
        merge(&mut all, spec);
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": all})
    };
    let mismatch = "Invalid spec.template.metadata.labels";
    let rolling = |unavailable: Value, surge: Value| json!({"maxUnavailable": unavailable, "maxSurge": surge});
    for (kind, spec, expected) in [
        ("DaemonSet", json!({"selector": null}), vec![mismatch]),
        (
            "ReplicaSet",
            json!({"selector": null}),
            vec![mismatch, "Required spec.selector"],
        ),
        ("Deployment", json!({"selector": {}}), vec!["Invalid spec.selector"]),
        (
            "DaemonSet",
            json!({"updateStrategy": {"type": "X"}}),
            vec!["NotSupported spec.updateStrategy"],
        ),
        (
            "DaemonSet",
            json!({"updateStrategy": {"rollingUpdate": rolling(json!("200%"), json!(0))}}),
            vec!["Invalid spec.updateStrategy.rollingUpdate.maxUnavailable"],
        ),
        (
            "Deployment",
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling(json!(0), json!(0))}}),
            vec!["Invalid spec.strategy.rollingUpdate.maxUnavailable"],
        ),
        (
            "Deployment",
            json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}}),
            vec!["Forbidden spec.strategy.rollingUpdate"],
        ),
    ] {
        let resource = format!("/apis/apps/v1/namespaces/default/{}s", kind.to_lowercase());
        let (status, answer) = server.post(&resource, &workload(kind, spec.clone())).await;
        assert_eq!(
            (status, causes(&answer)),
            (422, expected.iter().map(|one| (*one).to_owned()).collect()),
            "{kind} {spec}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn patches_that_lose_the_name_are_no_changes() {
    let server = Server::new();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}});
    assert_eq!(server.post(maps, &map).await.0, 201);
    let one = format!("{maps}/c");
    let json_patch = "application/json-patch+json";
    for (media, patch, expected) in [
        (MERGE, json!({"metadata": null}), 400),
        (MERGE, json!({"apiVersion": null}), 400),
        (STRATEGIC, json!({"$patch": "delete"}), 400),
        (STRATEGIC, json!({"kind": "Pod"}), 200),
        (MERGE, json!({"metadata": {"resourceVersion": "x"}}), 500),
        (MERGE, json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}), 422),
        (
            json_patch,
            json!([{"op": "copy", "from": "/data/none", "path": "/data/q"}]),
            200,
        ),
        (json_patch, json!([{"op": "add", "path": "", "value": {}}]), 422),
        (
            json_patch,
            json!(vec![json!({"op": "test", "path": "/data/k", "value": "v"}); 10_001]),
            413,
        ),
    ] {
        let shown = patch.to_string();
        let (status, answer) = server.patch(&one, media, patch).await;
        assert_eq!(status, expected, "{media} {} {answer}", &shown[..shown.len().min(200)]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_of_managers_is_kept_empty_until_somebody_applies() {
    let server = Server::new();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}});
    let (_, created) = server.post(maps, &map).await;
    assert!(created.pointer("/metadata/managedFields").is_some());
    let one = format!("{maps}/c");
    for patch in [json!({"metadata": {"managedFields": []}}), json!({"data": {"k": "w"}})] {
        let (_, answer) = server.patch(&one, MERGE, patch).await;
        assert_eq!(answer.pointer("/metadata/managedFields"), None);
    }
    let apply = format!("{one}?fieldManager=m&force=true");
    let (_, answer) = server.patch(&apply, "application/apply-patch+yaml", map).await;
    assert!(answer.pointer("/metadata/managedFields").is_some(), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_negative_grace_period_is_one_second() {
    let server = Server::new();
    assert_eq!(
        server.post(PODS, &pod("p", json!({"nodeName": "n1"}), json!({}))).await.0,
        201
    );
    let one = format!("{PODS}/p");
    for (asked, left) in [(10, 10), (20, 10), (5, 5), (-5, 1)] {
        let body = json!({"gracePeriodSeconds": asked});
        let (_, _, answer) = server.send("DELETE", &one, "application/json", &body).await;
        assert_eq!(answer["metadata"]["deletionGracePeriodSeconds"], left, "{asked}");
    }
    assert_eq!(server.get(&one).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn gated_pods_may_be_narrowed_and_ungated() {
    let server = Server::new();
    let gated = pod("p", json!({"schedulingGates": [{"name": "x/a"}]}), json!({}));
    assert_eq!(server.post(PODS, &gated).await.0, 201);
    let one = format!("{PODS}/p");
    for (patch, expected) in [
        (json!({"spec": {"nodeSelector": {"a": "b"}}}), vec![]),
        (
            json!({"spec": {"nodeSelector": {"a": "c"}}}),
            vec!["Invalid spec.nodeSelector"],
        ),
        (
            json!({"spec": {"schedulingGates": [{"name": "x/b"}]}}),
            vec!["Forbidden spec.schedulingGates[0].name"],
        ),
        (json!({"spec": {"schedulingGates": null}}), vec![]),
        (
            json!({"spec": {"nodeSelector": {"a": "b", "c": "d"}}}),
            vec!["Forbidden spec"],
        ),
    ] {
        let (_, answer) = server.patch(&one, MERGE, patch.clone()).await;
        assert_eq!(
            causes(&answer),
            expected.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>(),
            "{patch}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_page_by_page() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        assert_eq!(server.post(PODS, &pod(name, json!({}), json!({}))).await.0, 201);
    }
    let (_, _, answer) = server
        .send("DELETE", &format!("{PODS}?limit=2"), "application/json", &Value::Null)
        .await;
    assert_eq!(answer["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(answer["metadata"]["remainingItemCount"], 1);
    let (_, left) = server.get(PODS).await;
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn defaults_of_pods_are_not_those_of_templates() {
    let server = Server::new();
    let limits = json!({"resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 80}]});
    let (_, made) = server
        .post(PODS, &pod("p", json!({"hostNetwork": true}), limits.clone()))
        .await;
    assert_eq!(made.pointer("/spec/containers/0/resources/requests/cpu"), Some(&json!("1")));
    assert_eq!(made.pointer("/spec/containers/0/ports/0/hostPort"), Some(&json!(80)));
    let mut template = pod("p", json!({"hostNetwork": true}), limits);
    template["metadata"] = json!({"labels": {"app": "a"}});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": template["metadata"], "spec": template["spec"]}},
    });
    let (status, made) = server.post("/apis/apps/v1/namespaces/default/daemonsets", &set).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made.pointer("/spec/template/spec/containers/0/resources/requests"), None);
    assert_eq!(made.pointer("/spec/template/spec/containers/0/ports/0/hostPort"), None);
}
