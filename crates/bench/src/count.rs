//! What a request asks for, as the API counts it: verb and resource. Pure.

/// Verb and resource of a request, the resource with its subresource: `patch`, `nodes/status`.
///
/// What is about no resource, such as discovery and health, is `get` of the first part of its path.
pub fn classify(method: &str, path: &str, query: &str) -> (&'static str, String) {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let root = parts.next().unwrap_or_default();
    let rest: Vec<&str> = match root {
        // The version, and before it the group.
        "api" => parts.skip(1).collect(),
        "apis" => parts.skip(2).collect(),
        _ => Vec::new(),
    };
    let rest = match rest.as_slice() {
        // The namespace itself has fewer parts.
        ["namespaces", _, rest @ ..] if !rest.is_empty() && !is_of_namespaces(rest) => rest,
        all => all,
    };
    let (resource, is_named) = match rest {
        [] => return (verb_of(method, true, false), format!("/{root}")),
        [resource] => ((*resource).to_owned(), false),
        [resource, _name] => ((*resource).to_owned(), true),
        [resource, _name, sub, ..] => (format!("{resource}/{sub}"), true),
    };
    let is_watch = query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch"));
    (verb_of(method, is_named, is_watch), resource)
}

/// Subresources of a namespace.
fn is_of_namespaces(rest: &[&str]) -> bool {
    matches!(rest, ["status" | "finalize"])
}

fn verb_of(method: &str, is_named: bool, is_watch: bool) -> &'static str {
    match (method, is_named) {
        ("GET" | "HEAD", _) if is_watch => "watch",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "other",
    }
}

/// It changes something that is neither a Lease nor an Event: those never come to rest.
pub fn is_work(verb: &str, resource: &str) -> bool {
    let is_write = matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection");
    is_write && !matches!(resource, "leases" | "events")
}

/// It is sent whatever happens: a watch that is begun anew, the renewal of a leader's Lease.
pub fn is_background(verb: &str, resource: &str) -> bool {
    verb == "watch" || (verb == "update" && resource == "leases")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_as_the_api_names_them() {
        let cases = [
            ("GET /api/v1/nodes limit=500", "list nodes"),
            ("GET /api/v1/nodes watch=true&resourceVersion=7", "watch nodes"),
            ("GET /api/v1/nodes/a ", "get nodes"),
            ("PATCH /api/v1/nodes/a/status ", "patch nodes/status"),
            ("DELETE /api/v1/namespaces/default/pods/b ", "delete pods"),
            ("DELETE /api/v1/namespaces/default/pods ", "deletecollection pods"),
            ("POST /api/v1/namespaces/default/pods/b/eviction ", "create pods/eviction"),
            ("PUT /apis/coordination.k8s.io/v1/namespaces/n/leases/a ", "update leases"),
            ("GET /apis/apps/v1/daemonsets watch=1", "watch daemonsets"),
            ("GET /api/v1/namespaces/default ", "get namespaces"),
            ("PUT /api/v1/namespaces/default/finalize ", "update namespaces/finalize"),
            ("GET /api/v1/namespaces ", "list namespaces"),
            ("GET /healthz ", "get /healthz"),
            ("GET /apis/apps/v1 ", "get /apis"),
        ];
        for (request, wanted) in cases {
            let mut parts = request.split(' ');
            let mut next = || parts.next().unwrap_or_default();
            let (verb, resource) = classify(next(), next(), next());
            assert_eq!(format!("{verb} {resource}"), wanted, "{request}");
        }
    }

    #[test]
    fn what_is_sent_at_rest_too_is_background() {
        assert!(is_background("watch", "pods") && is_background("update", "leases"));
        assert!(!is_background("get", "leases") && !is_background("list", "pods") && !is_background("update", "nodes"));
    }

    #[test]
    fn what_never_rests_is_no_work() {
        assert!(is_work("patch", "nodes") && is_work("create", "pods/binding"));
        assert!(!is_work("update", "leases") && !is_work("create", "events") && !is_work("list", "pods"));
    }
}
