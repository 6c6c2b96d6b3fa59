//! The committed manifests: they are what the chart makes, and what runs by them is held as far as it can be.

use std::process::Command;

use serde_json::{Value, json};

use super::{documents, path};

const MANIFESTS: [&str; 2] = ["deploy/manifests/bailiff.yaml", "deploy/manifests/observe.yaml"];

fn has_helm() -> bool {
    let version = Command::new("helm").args(["version", "--short"]).output();
    version.is_ok_and(|version| version.stdout.starts_with(b"v3."))
}

/// Also that the schema of the values is held, and that examples are allowed by it.
#[test]
fn manifests_are_what_the_chart_makes() {
    if !has_helm() {
        println!("skipped: helm 3 is not installed (go install helm.sh/helm/v3/cmd/helm@v3.22.0)");
        return;
    }
    let output = Command::new(path("deploy/render")).arg("--check").output().unwrap();
    assert!(
        output.status.success(),
        "run deploy/render\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn pods(manifest: &str) -> Vec<(String, Value)> {
    let objects = documents(manifest);
    let pods = objects.into_iter().filter_map(|object| {
        let spec = object.pointer("/spec/template/spec")?.clone();
        Some((object["metadata"]["name"].as_str().unwrap().to_owned(), spec))
    });
    pods.collect()
}

#[test]
fn pods_are_restricted() {
    for manifest in MANIFESTS {
        let pods = pods(manifest);
        assert_eq!(pods.len(), 5, "the bus and four stages");
        for (name, pod) in pods {
            let security = &pod["securityContext"];
            assert_eq!(
                (&security["runAsNonRoot"], &security["seccompProfile"]["type"]),
                (&json!(true), &json!("RuntimeDefault")),
                "{name}"
            );
            assert_eq!(pod["hostNetwork"] == true, manifest.ends_with("bailiff.yaml"), "{name}");
            assert_eq!(pod["automountServiceAccountToken"], name != "event-bus", "{name}");
            for container in pod["containers"].as_array().unwrap() {
                let wanted = json!({
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                });
                assert_eq!(container["securityContext"], wanted, "{name}");
                assert!(container["resources"]["limits"]["memory"].is_string(), "{name}");
                for probe in ["livenessProbe", "readinessProbe"] {
                    // With certificates the admin port speaks TLS, too.
                    assert_eq!(container[probe]["httpGet"]["scheme"], "HTTPS", "{name} {probe}");
                }
            }
        }
    }
}

/// Nothing that a cluster only has once it works is needed where Bailiff replaces what makes it work.
#[test]
fn replace_needs_neither_dns_nor_services() {
    for (name, pod) in pods(MANIFESTS[0]) {
        assert_eq!(pod["dnsPolicy"], "Default", "{name}");
        assert_eq!(pod["priorityClassName"], "system-cluster-critical", "{name}");
        assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]), "{name}");
        let text = pod.to_string();
        assert!(!text.contains(".svc") && !text.contains("configMapKeyRef"), "{name}: {text}");
        let env = pod["containers"][0]["env"].as_array();
        let host = env.into_iter().flatten().find(|env| env["name"] == "KUBERNETES_SERVICE_HOST");
        let field = host.and_then(|host| host.pointer("/valueFrom/fieldRef/fieldPath"));
        assert_eq!(
            field.is_some_and(|field| field == "status.hostIP"),
            name != "event-bus",
            "{name}"
        );
    }
}

/// An observer's roles let it write its own Leases, and nothing else.
#[test]
fn an_observer_may_write_nothing_but_its_leases() {
    let mut rules = 0;
    for role in documents(MANIFESTS[1]) {
        for rule in role["rules"].as_array().into_iter().flatten() {
            rules += 1;
            let verbs: Vec<&str> = rule["verbs"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let reads = verbs.iter().all(|verb| ["get", "list", "watch"].contains(verb));
            let names = rule["resourceNames"].as_array();
            let own = names.is_none_or(|names| names.iter().all(|name| name.as_str().unwrap().starts_with("observe-")));
            let leases = rule["resources"] == json!(["leases"]) && own;
            assert!(reads || leases, "{rule}");
        }
        assert!(!role.to_string().contains("\"*\"") || role["kind"] != "ClusterRole", "{role}");
    }
    assert!(rules > 10);
}
