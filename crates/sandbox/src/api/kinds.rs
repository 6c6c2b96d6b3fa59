//! The resources that are served, and what is particular to each.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::rules::{self, Rules};
use crate::store::Fields;

/// One resource in one API version.
#[derive(Debug)]
pub struct Kind {
    /// API group, `""` for the core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural name.
    pub resource: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Kind of its objects.
    pub kind: &'static str,
    /// Its type in the schema, `""` for objects without one.
    pub schema: &'static str,
    /// Name of the table that holds its objects.
    pub storage: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Short names.
    pub short: &'static [&'static str],
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
    /// Subresources beside `status`, each with group/version/kind of what it takes.
    pub subresources: &'static [Sub],
    /// Whether it has the subresource `status`.
    pub status: bool,
    /// Whether objects are stored at all, or only answered.
    pub virtual_: bool,
    /// Whether collections can be deleted.
    pub delete_collection: bool,
    /// What is particular to it.
    pub rules: &'static dyn Rules,
}

/// A subresource.
#[derive(Debug)]
pub struct Sub {
    /// Its name.
    pub name: &'static str,
    /// Group, version and kind of what it takes, if not the resource's own.
    pub takes: (&'static str, &'static str, &'static str),
    /// Verbs, as discovery lists them.
    pub verbs: &'static [&'static str],
}

/// All resources, by group, version and plural name.
#[derive(Debug, Default)]
pub struct Kinds {
    table: BTreeMap<(&'static str, &'static str, &'static str), Arc<Kind>>,
    order: Vec<Arc<Kind>>,
}

/// Groups in the order that discovery lists them, which is the order kubectl prefers them in.
pub const GROUPS: [&str; 12] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
];

impl Kind {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The verbs that discovery lists.
    pub fn verbs(&self) -> &'static [&'static str] {
        if self.virtual_ {
            &["create"]
        } else if self.delete_collection {
            &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ]
        } else {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        }
    }

    /// What field selectors of its objects can ask for.
    pub fn fields(&self) -> fn(&Value) -> Fields {
        rules::fields_of(&self.storage)
    }
}

impl Kinds {
    /// The built-in resources.
    pub fn built_in() -> Self {
        let mut kinds = Self::default();
        for mut kind in core().into_iter().chain(named()) {
            if kind.storage.is_empty() {
                kind.storage = crate::status::qualified(kind.group, kind.resource);
            }
            let kind = Arc::new(kind);
            kinds.table.insert((kind.group, kind.version, kind.resource), kind.clone());
            kinds.order.push(kind);
        }
        kinds
    }

    /// The resource of this name.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Kind>> {
        let found = self
            .order
            .iter()
            .find(|kind| kind.resource == resource && kind.group == group && kind.version == version)?;
        Some(found)
    }

    /// The kind of this name.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.order
            .iter()
            .find(|one| one.kind == kind && one.api_version() == api_version)
    }

    /// All of them, in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.order.iter()
    }

    /// Whether the group and version exist.
    pub fn has(&self, group: &str, version: &str) -> bool {
        self.order.iter().any(|kind| kind.group == group && kind.version == version)
    }
}

const PLAIN: Kind = Kind {
    group: "",
    version: "v1",
    resource: "",
    singular: "",
    kind: "",
    schema: "",
    storage: String::new(),
    namespaced: true,
    short: &[],
    categories: &[],
    subresources: &[],
    status: false,
    virtual_: false,
    delete_collection: true,
    rules: &rules::Plain,
};

const POD_SUBRESOURCES: &[Sub] = &[
    Sub {
        name: "attach",
        takes: ("", "", "PodAttachOptions"),
        verbs: &["create", "get"],
    },
    Sub {
        name: "binding",
        takes: ("", "", "Binding"),
        verbs: &["create"],
    },
    Sub {
        name: "ephemeralcontainers",
        takes: ("", "", "Pod"),
        verbs: &["get", "patch", "update"],
    },
    Sub {
        name: "eviction",
        takes: ("policy", "v1", "Eviction"),
        verbs: &["create"],
    },
    Sub {
        name: "exec",
        takes: ("", "", "PodExecOptions"),
        verbs: &["create", "get"],
    },
    Sub {
        name: "log",
        takes: ("", "", "Pod"),
        verbs: &["get"],
    },
    Sub {
        name: "portforward",
        takes: ("", "", "PodPortForwardOptions"),
        verbs: &["create", "get"],
    },
    Sub {
        name: "resize",
        takes: ("", "", "Pod"),
        verbs: &["get", "patch", "update"],
    },
];
const SCALE: &[Sub] = &[Sub {
    name: "scale",
    takes: ("autoscaling", "v1", "Scale"),
    verbs: &["get", "patch", "update"],
}];

fn core() -> Vec<Kind> {
    let kind = |resource, singular, kind| Kind {
        resource,
        singular,
        kind,
        schema: kind,
        ..PLAIN
    };
    vec![
        Kind {
            virtual_: true,
            ..kind("bindings", "binding", "Binding")
        },
        Kind {
            short: &["cm"],
            rules: &rules::config::ConfigMaps,
            ..kind("configmaps", "configmap", "ConfigMap")
        },
        Kind {
            short: &["ep"],
            rules: &rules::endpoints::Endpoints,
            ..kind("endpoints", "endpoints", "Endpoints")
        },
        Kind {
            short: &["ev"],
            rules: &rules::event::CoreEvents,
            ..kind("events", "event", "Event")
        },
        Kind {
            short: &["ns"],
            namespaced: false,
            status: true,
            delete_collection: false,
            subresources: &[Sub {
                name: "finalize",
                takes: ("", "", "Namespace"),
                verbs: &["update"],
            }],
            rules: &rules::namespace::Namespaces,
            ..kind("namespaces", "namespace", "Namespace")
        },
        Kind {
            short: &["no"],
            namespaced: false,
            status: true,
            rules: &rules::node::Nodes,
            ..kind("nodes", "node", "Node")
        },
        Kind {
            short: &["po"],
            categories: &["all"],
            status: true,
            subresources: POD_SUBRESOURCES,
            rules: &rules::pod::Pods,
            ..kind("pods", "pod", "Pod")
        },
        Kind {
            rules: &rules::endpoints::Templates,
            ..kind("podtemplates", "podtemplate", "PodTemplate")
        },
        Kind {
            rules: &rules::config::Secrets,
            ..kind("secrets", "secret", "Secret")
        },
        Kind {
            short: &["sa"],
            rules: &rules::Returned,
            subresources: &[Sub {
                name: "token",
                takes: ("authentication.k8s.io", "v1", "TokenRequest"),
                verbs: &["create"],
            }],
            ..kind("serviceaccounts", "serviceaccount", "ServiceAccount")
        },
        Kind {
            short: &["svc"],
            categories: &["all"],
            status: true,
            rules: &rules::service::Services,
            ..kind("services", "service", "Service")
        },
    ]
}

fn named() -> Vec<Kind> {
    let of = |group, resource, singular, kind| Kind {
        group,
        resource,
        singular,
        kind,
        schema: kind,
        ..PLAIN
    };
    let review = |group, resource, singular, kind| Kind {
        namespaced: false,
        virtual_: true,
        ..of(group, resource, singular, kind)
    };
    let authn = "authentication.k8s.io";
    let authz = "authorization.k8s.io";
    let rbac = "rbac.authorization.k8s.io";
    let admission = "admissionregistration.k8s.io";
    vec![
        Kind {
            rules: &rules::workload::Revisions,
            ..of("apps", "controllerrevisions", "controllerrevision", "ControllerRevision")
        },
        Kind {
            short: &["ds"],
            categories: &["all"],
            status: true,
            rules: &rules::workload::DaemonSets,
            ..of("apps", "daemonsets", "daemonset", "DaemonSet")
        },
        Kind {
            short: &["deploy"],
            categories: &["all"],
            status: true,
            subresources: SCALE,
            rules: &rules::workload::Workloads,
            ..of("apps", "deployments", "deployment", "Deployment")
        },
        Kind {
            short: &["rs"],
            categories: &["all"],
            status: true,
            subresources: SCALE,
            rules: &rules::workload::Workloads,
            ..of("apps", "replicasets", "replicaset", "ReplicaSet")
        },
        Kind {
            short: &["sts"],
            categories: &["all"],
            status: true,
            subresources: SCALE,
            rules: &rules::workload::Workloads,
            ..of("apps", "statefulsets", "statefulset", "StatefulSet")
        },
        Kind {
            schema: "events.Event",
            short: &["ev"],
            rules: &rules::event::Events,
            storage: "events".to_owned(),
            ..of("events.k8s.io", "events", "event", "Event")
        },
        review(authn, "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview"),
        review(authn, "tokenreviews", "tokenreview", "TokenReview"),
        Kind {
            namespaced: true,
            ..review(
                authz,
                "localsubjectaccessreviews",
                "localsubjectaccessreview",
                "LocalSubjectAccessReview",
            )
        },
        review(
            authz,
            "selfsubjectaccessreviews",
            "selfsubjectaccessreview",
            "SelfSubjectAccessReview",
        ),
        review(
            authz,
            "selfsubjectrulesreviews",
            "selfsubjectrulesreview",
            "SelfSubjectRulesReview",
        ),
        review(authz, "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview"),
        Kind {
            short: &["pdb"],
            status: true,
            rules: &rules::budget::Budgets,
            ..of("policy", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget")
        },
        Kind {
            namespaced: false,
            rules: &rules::access::Bindings { namespaced: false },
            ..of(rbac, "clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding")
        },
        Kind {
            namespaced: false,
            rules: &rules::access::Roles { namespaced: false },
            ..of(rbac, "clusterroles", "clusterrole", "ClusterRole")
        },
        Kind {
            rules: &rules::access::Bindings { namespaced: true },
            ..of(rbac, "rolebindings", "rolebinding", "RoleBinding")
        },
        Kind {
            rules: &rules::access::Roles { namespaced: true },
            ..of(rbac, "roles", "role", "Role")
        },
        Kind {
            namespaced: false,
            status: true,
            rules: &rules::Generations,
            ..of(
                admission,
                "validatingadmissionpolicies",
                "validatingadmissionpolicy",
                "ValidatingAdmissionPolicy",
            )
        },
        Kind {
            namespaced: false,
            rules: &rules::Generations,
            ..of(
                admission,
                "validatingadmissionpolicybindings",
                "validatingadmissionpolicybinding",
                "ValidatingAdmissionPolicyBinding",
            )
        },
        Kind {
            namespaced: false,
            short: &["pc"],
            rules: &rules::priority::Classes,
            ..of("scheduling.k8s.io", "priorityclasses", "priorityclass", "PriorityClass")
        },
        Kind {
            rules: &rules::lease::Leases,
            ..of("coordination.k8s.io", "leases", "lease", "Lease")
        },
        Kind {
            rules: &rules::endpoints::Slices,
            ..of("discovery.k8s.io", "endpointslices", "endpointslice", "EndpointSlice")
        },
    ]
}
