//! The resources that are built in.

use super::{Kind, Particular, Sub};
use crate::rules::{self, Rules};

/// A resource, as this file states it.
struct Row {
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    singular: &'static str,
    kind: &'static str,
    schema: &'static str,
    storage: &'static str,
    namespaced: bool,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    subresources: &'static [Sub],
    status: bool,
    virtual_: bool,
    delete_collection: bool,
    rules: &'static dyn Rules,
}

/// All of them, in the order of discovery.
pub fn kinds() -> impl Iterator<Item = Kind> {
    core().into_iter().chain(named()).map(Row::into_kind)
}

impl Row {
    fn into_kind(self) -> Kind {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let storage = if self.storage.is_empty() {
            crate::status::qualified(self.group, self.resource)
        } else {
            self.storage.to_owned()
        };
        Kind {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            resource: self.resource.to_owned(),
            singular: self.singular.to_owned(),
            kind: self.kind.to_owned(),
            schema: self.schema,
            storage,
            namespaced: self.namespaced,
            short: owned(self.short),
            categories: owned(self.categories),
            subresources: self.subresources,
            status: self.status,
            virtual_: self.virtual_,
            delete_collection: self.delete_collection,
            rules: Particular::BuiltIn(self.rules),
            custom: None,
        }
    }
}

const PLAIN: Row = Row {
    group: "",
    version: "v1",
    resource: "",
    singular: "",
    kind: "",
    schema: "",
    storage: "",
    namespaced: true,
    short: &[],
    categories: &[],
    subresources: &[],
    status: false,
    virtual_: false,
    delete_collection: true,
    rules: &rules::Plain,
};

const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];
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
        name: "proxy",
        takes: ("", "", "PodProxyOptions"),
        verbs: PROXY_VERBS,
    },
    Sub {
        name: "resize",
        takes: ("", "", "Pod"),
        verbs: &["get", "patch", "update"],
    },
];
/// What a kind has whose number of replicas can be set.
pub const SCALE: &[Sub] = &[Sub {
    name: "scale",
    takes: ("autoscaling", "v1", "Scale"),
    verbs: &["get", "patch", "update"],
}];

fn core() -> Vec<Row> {
    let kind = |resource, singular, kind| Row {
        resource,
        singular,
        kind,
        schema: kind,
        ..PLAIN
    };
    vec![
        Row {
            virtual_: true,
            ..kind("bindings", "binding", "Binding")
        },
        Row {
            short: &["cm"],
            rules: &rules::config::ConfigMaps,
            ..kind("configmaps", "configmap", "ConfigMap")
        },
        Row {
            short: &["ep"],
            rules: &rules::endpoints::Endpoints,
            ..kind("endpoints", "endpoints", "Endpoints")
        },
        Row {
            short: &["ev"],
            rules: &rules::event::CoreEvents,
            ..kind("events", "event", "Event")
        },
        Row {
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
        Row {
            short: &["no"],
            namespaced: false,
            status: true,
            subresources: &[Sub {
                name: "proxy",
                takes: ("", "", "NodeProxyOptions"),
                verbs: PROXY_VERBS,
            }],
            rules: &rules::node::Nodes,
            ..kind("nodes", "node", "Node")
        },
        Row {
            short: &["po"],
            categories: &["all"],
            status: true,
            subresources: POD_SUBRESOURCES,
            rules: &rules::pod::Pods,
            ..kind("pods", "pod", "Pod")
        },
        Row {
            rules: &rules::endpoints::Templates,
            ..kind("podtemplates", "podtemplate", "PodTemplate")
        },
        Row {
            rules: &rules::config::Secrets,
            ..kind("secrets", "secret", "Secret")
        },
        Row {
            short: &["sa"],
            rules: &rules::Returned,
            subresources: &[Sub {
                name: "token",
                takes: ("authentication.k8s.io", "v1", "TokenRequest"),
                verbs: &["create"],
            }],
            ..kind("serviceaccounts", "serviceaccount", "ServiceAccount")
        },
        Row {
            short: &["svc"],
            categories: &["all"],
            status: true,
            subresources: &[Sub {
                name: "proxy",
                takes: ("", "", "ServiceProxyOptions"),
                verbs: PROXY_VERBS,
            }],
            rules: &rules::service::Services,
            ..kind("services", "service", "Service")
        },
    ]
}

fn named() -> Vec<Row> {
    let of = |group, resource, singular, kind| Row {
        group,
        resource,
        singular,
        kind,
        schema: kind,
        ..PLAIN
    };
    let review = |group, resource, singular, kind| Row {
        namespaced: false,
        virtual_: true,
        ..of(group, resource, singular, kind)
    };
    let authn = "authentication.k8s.io";
    let authz = "authorization.k8s.io";
    let rbac = "rbac.authorization.k8s.io";
    let admission = "admissionregistration.k8s.io";
    vec![
        Row {
            rules: &rules::workload::Revisions,
            ..of("apps", "controllerrevisions", "controllerrevision", "ControllerRevision")
        },
        Row {
            short: &["ds"],
            categories: &["all"],
            status: true,
            rules: &rules::workload::DaemonSets,
            ..of("apps", "daemonsets", "daemonset", "DaemonSet")
        },
        Row {
            short: &["deploy"],
            categories: &["all"],
            status: true,
            subresources: SCALE,
            rules: &rules::workload::Workloads,
            ..of("apps", "deployments", "deployment", "Deployment")
        },
        Row {
            short: &["rs"],
            categories: &["all"],
            status: true,
            subresources: SCALE,
            rules: &rules::workload::Workloads,
            ..of("apps", "replicasets", "replicaset", "ReplicaSet")
        },
        Row {
            short: &["sts"],
            categories: &["all"],
            status: true,
            subresources: SCALE,
            rules: &rules::workload::Workloads,
            ..of("apps", "statefulsets", "statefulset", "StatefulSet")
        },
        Row {
            schema: "events.Event",
            short: &["ev"],
            rules: &rules::event::Events,
            storage: "events",
            ..of("events.k8s.io", "events", "event", "Event")
        },
        review(authn, "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview"),
        review(authn, "tokenreviews", "tokenreview", "TokenReview"),
        Row {
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
        Row {
            short: &["pdb"],
            status: true,
            rules: &rules::budget::Budgets,
            ..of("policy", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget")
        },
        Row {
            namespaced: false,
            rules: &rules::access::Bindings { namespaced: false },
            ..of(rbac, "clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding")
        },
        Row {
            namespaced: false,
            rules: &rules::access::Roles { namespaced: false },
            ..of(rbac, "clusterroles", "clusterrole", "ClusterRole")
        },
        Row {
            rules: &rules::access::Bindings { namespaced: true },
            ..of(rbac, "rolebindings", "rolebinding", "RoleBinding")
        },
        Row {
            rules: &rules::access::Roles { namespaced: true },
            ..of(rbac, "roles", "role", "Role")
        },
        Row {
            namespaced: false,
            status: true,
            rules: &rules::admission::Policies,
            ..of(
                admission,
                "validatingadmissionpolicies",
                "validatingadmissionpolicy",
                "ValidatingAdmissionPolicy",
            )
        },
        Row {
            namespaced: false,
            rules: &rules::admission::PolicyBindings,
            ..of(
                admission,
                "validatingadmissionpolicybindings",
                "validatingadmissionpolicybinding",
                "ValidatingAdmissionPolicyBinding",
            )
        },
        Row {
            namespaced: false,
            status: true,
            schema: "",
            short: &["crd", "crds"],
            categories: &["api-extensions"],
            rules: &rules::definition::Definitions,
            ..of(
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                "customresourcedefinition",
                "CustomResourceDefinition",
            )
        },
        Row {
            namespaced: false,
            short: &["pc"],
            rules: &rules::priority::Classes,
            ..of("scheduling.k8s.io", "priorityclasses", "priorityclass", "PriorityClass")
        },
        Row {
            rules: &rules::lease::Leases,
            ..of("coordination.k8s.io", "leases", "lease", "Lease")
        },
        Row {
            rules: &rules::endpoints::Slices,
            ..of("discovery.k8s.io", "endpointslices", "endpointslice", "EndpointSlice")
        },
    ]
}
