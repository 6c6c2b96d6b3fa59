//! What the syncer asks of the API server, and so what it has to be allowed.

use std::collections::BTreeSet;
use std::sync::Arc;

use bailiff_daemonset_core::effect::{Owner, RevisionChange, RevisionDraft};
use bailiff_daemonset_core::template::{Blueprint, Template};
use bailiff_daemonset_core::wire::Call;
use bailiff_daemonset_core::{Request, Scope, Watched};
use bailiff_model::rollout::Counts;
use serde_json::json;

/// One of each. The match has no default: a new request has to be thought of here.
fn requests(owner: &Owner) -> Vec<Request> {
    let raw = serde_json::value::to_raw_value(&json!({"metadata": {"labels": {"app": "ds"}}, "spec": {}})).expect("JSON");
    let template = Template::parse(&raw).expect("a template");
    let blueprint = Arc::new(Blueprint::new(owner, &template, None, "h").expect("it has labels"));
    let draft = RevisionDraft {
        name: "ds-h".to_owned(),
        labels: json!({}),
        annotations: json!({}),
        number: 1,
        data: template.data().clone(),
    };
    let changes = [
        RevisionChange::Adopt,
        RevisionChange::Release,
        RevisionChange::Label("h".into()),
        RevisionChange::Renumber(2),
    ];
    let (name, uid) = ("p", "u");
    let mut next = Some(Request::CreatePod {
        blueprint,
        name: name.into(),
        node: "n".into(),
    });
    let mut all = Vec::new();
    while let Some(request) = next {
        next = match &request {
            Request::CreatePod { .. } => Some(Request::DeletePod {
                name: name.into(),
                uid: uid.into(),
            }),
            Request::DeletePod { .. } => Some(Request::AdoptPod {
                name: name.into(),
                uid: uid.into(),
            }),
            Request::AdoptPod { .. } => Some(Request::ReleasePod {
                name: name.into(),
                uid: uid.into(),
            }),
            Request::ReleasePod { .. } => Some(Request::RelabelPod {
                name: name.into(),
                uid: uid.into(),
                hash: "h".into(),
            }),
            Request::RelabelPod { .. } => Some(Request::ReadDaemonSet),
            Request::ReadDaemonSet => Some(Request::CreateRevision(Arc::new(draft.clone()))),
            Request::CreateRevision(_) => Some(Request::ReadRevision { name: name.into() }),
            Request::ReadRevision { .. } => Some(Request::DeleteRevision {
                name: name.into(),
                uid: uid.into(),
            }),
            Request::DeleteRevision { .. } => Some(Request::WriteStatus {
                counts: Counts::default(),
                observed_generation: 1,
                condition: None,
            }),
            Request::WriteStatus { .. } => Some(Request::RaiseCollisionCount {
                version: "1".into(),
                to: 1,
            }),
            Request::RaiseCollisionCount { .. } | Request::ChangeRevision { .. } => None,
        };
        all.push(request);
    }
    all.extend(changes.map(|change| Request::ChangeRevision {
        name: name.into(),
        uid: uid.into(),
        change,
    }));
    all
}

/// `pods`, or `daemonsets/status`, of a path; `is_one` says whether the path is that of an object.
fn resource(path: &str, is_one: bool) -> String {
    let parts: Vec<&str> = path.split("/namespaces/ns/").nth(1).unwrap_or_default().split('/').collect();
    match parts.as_slice() {
        [resource] if !is_one => (*resource).to_owned(),
        [resource, _] if is_one => (*resource).to_owned(),
        [resource, _, part] if is_one => format!("{resource}/{part}"),
        _ => unreachable!("{path} is no path of what is asked"),
    }
}

/// DS-007: nothing is asked for that upstream's role does not grant, but that the status is patched. Events, the Lease of the stage and
/// what pauses it are other crates' doing.
#[test]
fn no_more_is_asked_for_than_the_role_of_upstreams_controller_grants() {
    let owner = Owner {
        namespace: "ns".into(),
        name: "ds".into(),
        uid: "ds".into(),
    };
    let mut used: BTreeSet<(String, &str)> = requests(&owner)
        .iter()
        .map(|request| match request.call(&owner).expect("JSON") {
            Call::Get { path } => (resource(&path, true), "get"),
            Call::Create { path, .. } => (resource(&path, false), "create"),
            Call::Strategic { path, .. } | Call::Merge { path, .. } => (resource(&path, true), "patch"),
            Call::Delete { path, .. } => (resource(&path, true), "delete"),
        })
        .collect();
    for watched in [
        Watched::DaemonSets,
        Watched::Revisions,
        Watched::Nodes,
        Watched::Pods(Scope::All),
    ] {
        used.extend(["list", "watch"].map(|verb| (watched.as_str().to_owned(), verb)));
    }
    let upstream: [(&str, &[&str]); 7] = [
        ("daemonsets", &["get", "list", "watch"]),
        ("daemonsets/status", &["update"]),
        ("daemonsets/finalizers", &["update"]),
        ("nodes", &["list", "watch"]),
        ("pods", &["list", "watch", "create", "delete", "patch"]),
        ("pods/binding", &["create"]),
        (
            "controllerrevisions",
            &["get", "list", "watch", "create", "update", "patch", "delete"],
        ),
    ];
    let granted: BTreeSet<(String, &str)> = upstream
        .iter()
        .flat_map(|(resource, verbs)| verbs.iter().map(|verb| ((*resource).to_owned(), *verb)))
        .collect();
    let beyond: Vec<_> = used.difference(&granted).collect();
    assert_eq!(beyond, [&("daemonsets/status".to_owned(), "patch")]);
    let unused: Vec<_> = granted
        .difference(&used)
        .map(|(resource, verb)| format!("{verb} {resource}"))
        .collect();
    assert_eq!(
        unused,
        [
            "update controllerrevisions",
            "update daemonsets/finalizers",
            "update daemonsets/status",
            "create pods/binding"
        ]
    );
}
