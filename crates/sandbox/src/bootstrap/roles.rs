//! The roles and bindings that a server with RBAC makes for itself; who they are is data (`roles.txt`). Roles that add up others have
//! no rules of their own: on a real cluster a controller fills them in.

use serde_json::{Map, Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// All of them, each with the table it belongs to.
pub fn all() -> Vec<(&'static str, Value)> {
    let blocks = include_str!("roles.txt").split("\n\n");
    blocks.filter_map(block).collect()
}

fn block(text: &str) -> Option<(&'static str, Value)> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let head: Vec<&str> = lines.next()?.split(' ').collect();
    match head.as_slice() {
        ["role", namespace, name] => {
            let (table, kind) = match *namespace {
                "-" => ("clusterroles.rbac.authorization.k8s.io", "ClusterRole"),
                _ => ("roles.rbac.authorization.k8s.io", "Role"),
            };
            let mut role = named(kind, namespace, name);
            let mut rules = Vec::new();
            for line in lines {
                part(line, &mut role, &mut rules);
            }
            role["rules"] = if rules.is_empty() { Value::Null } else { Value::Array(rules) };
            Some((table, role))
        }
        ["binding", namespace, name, kind, role] => {
            let (table, own) = match *namespace {
                "-" => ("clusterrolebindings.rbac.authorization.k8s.io", "ClusterRoleBinding"),
                _ => ("rolebindings.rbac.authorization.k8s.io", "RoleBinding"),
            };
            let mut binding = named(own, namespace, name);
            let subjects: Vec<Value> = lines.filter_map(subject).collect();
            if !subjects.is_empty() {
                binding["subjects"] = Value::Array(subjects);
            }
            binding["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": role});
            Some((table, binding))
        }
        _ => None,
    }
}

fn named(kind: &str, namespace: &str, name: &str) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    if namespace != "-" {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    metadata.insert("labels".to_owned(), json!({"kubernetes.io/bootstrapping": "rbac-defaults"}));
    let updated = json!({"rbac.authorization.kubernetes.io/autoupdate": "true"});
    metadata.insert("annotations".to_owned(), updated);
    json!({"kind": kind, "apiVersion": VERSION, "metadata": metadata})
}

fn part(line: &str, role: &mut Value, rules: &mut Vec<Value>) {
    let list = |text: &str| -> Vec<String> { text.split(',').map(|one| one.trim_matches('"').to_owned()).collect() };
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["label", label] => role["metadata"]["labels"][*label] = "true".into(),
        ["sum", label] => {
            let mut labels = Map::new();
            labels.insert((*label).to_owned(), "true".into());
            let rule = role.as_object_mut().expect("a literal object").entry("aggregationRule");
            let rule = rule.or_insert_with(|| json!({"clusterRoleSelectors": []}));
            if let Some(Value::Array(selectors)) = rule.get_mut("clusterRoleSelectors") {
                selectors.push(json!({"matchLabels": labels}));
            }
        }
        ["paths", verbs, paths] => rules.push(json!({"verbs": list(verbs), "nonResourceURLs": list(paths)})),
        ["rule", verbs, groups, resources, names @ ..] => {
            let mut rule = json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)});
            if let [names] = names {
                rule["resourceNames"] = json!(list(names));
            }
            rules.push(rule);
        }
        _ => {}
    }
}

fn subject(line: &str) -> Option<Value> {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["subject", kind, "-", name] => Some(json!({"kind": kind, "apiGroup": GROUP, "name": name})),
        ["subject", kind, namespace, name] => Some(json!({"kind": kind, "name": name, "namespace": namespace})),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binding_is_to_a_role_that_exists() {
        let all = all();
        let names = |kind: &str| -> Vec<&str> {
            let of_kind = all.iter().filter(|(_, object)| object["kind"] == kind);
            of_kind
                .filter_map(|(_, object)| object["metadata"]["name"].as_str())
                .collect()
        };
        let bindings = all.iter().filter(|(_, object)| object.get("roleRef").is_some());
        let mut count = 0;
        for (_, binding) in bindings {
            let role = &binding["roleRef"];
            let known = names(role["kind"].as_str().unwrap_or_default());
            assert!(known.iter().any(|name| role["name"] == *name), "{role}");
            count += 1;
        }
        assert!(count > 50 && names("ClusterRole").contains(&"cluster-admin"));
    }
}
