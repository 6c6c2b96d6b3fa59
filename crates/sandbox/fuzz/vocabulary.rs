//! Words that requests are made of: valid objects, and values that have broken servers before.

/// Methods; the ones that do something more often.
pub const METHODS: [&str; 10] = [
    "POST", "PATCH", "PUT", "GET", "DELETE", "PATCH", "PUT", "POST", "HEAD", "OPTIONS",
];

/// Collection, name, and an object that is valid there.
pub const OBJECTS: [(&str, &str, &str); 25] = [
    (
        "/api/v1/nodes",
        "n1",
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","labels":{"kubernetes.io/hostname":"n1"},"annotations":{"sandbox.bailiff.dev/pods":"ready"}},"spec":{"taints":[{"key":"k","value":"v","effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":"2026-11-21T01:00:00Z"}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/pods",
        "a",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"app":"a"},"finalizers":["example.com/f"],"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u","controller":true}]},"spec":{"nodeName":"n1","terminationGracePeriodSeconds":5,"containers":[{"name":"m","image":"i:1","ports":[{"containerPort":80,"name":"http"}],"resources":{"requests":{"cpu":"100m","memory":"1Mi"}},"env":[{"name":"A","value":"b"}],"readinessProbe":{"httpGet":{"path":"/","port":"http"}}}],"tolerations":[{"key":"k","operator":"Equal","value":"v","effect":"NoExecute","tolerationSeconds":3}],"volumes":[{"name":"v","emptyDir":{}}]}}"#,
    ),
    (
        "/api/v1/namespaces/default/pods",
        "b",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b","generateName":"b-"},"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}],"matchExpressions":[{"key":"l","operator":"Gt","values":["3"]}]}]}}},"nodeSelector":{"a":"b"},"containers":[{"name":"m","image":"i:1"}],"initContainers":[{"name":"n","image":"i:1"}]}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/daemonsets",
        "d",
        r#"{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"app":"d"}},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"10%"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"m","image":"i:1"}]}}}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/replicasets",
        "r",
        r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"r"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"r"}},"template":{"metadata":{"labels":{"app":"r"}},"spec":{"containers":[{"name":"m","image":"i:1"}]}}}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/deployments",
        "w",
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"w"},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"w"}},"template":{"metadata":{"labels":{"app":"w"}},"spec":{"containers":[{"name":"m","image":"i:1"}]}}}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/statefulsets",
        "s",
        r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"s"},"spec":{"serviceName":"s","selector":{"matchLabels":{"app":"s"}},"template":{"metadata":{"labels":{"app":"s"}},"spec":{"containers":[{"name":"m","image":"i:1"}]}}}}"#,
    ),
    (
        "/apis/apps/v1/namespaces/default/controllerrevisions",
        "c",
        r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"c"},"revision":1,"data":{"spec":{"template":{"$patch":"replace"}}}}"#,
    ),
    (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        "p",
        r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"p"},"spec":{"minAvailable":"50%","selector":{"matchLabels":{"app":"a"}}}}"#,
    ),
    (
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        "n1",
        r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n1"},"spec":{"holderIdentity":"n1","leaseDurationSeconds":40,"renewTime":"2026-11-21T01:00:00.000000Z"}}"#,
    ),
    (
        "/apis/events.k8s.io/v1/namespaces/default/events",
        "e",
        r#"{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e"},"eventTime":"2026-11-21T01:00:00.000000Z","action":"A","reason":"R","type":"Normal","reportingController":"c.example.com","reportingInstance":"i","regarding":{"kind":"Pod","namespace":"default","name":"a"}}"#,
    ),
    (
        "/api/v1/namespaces/default/events",
        "f",
        r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"f"},"involvedObject":{"kind":"Pod","namespace":"default","name":"a"},"reason":"R","type":"Normal","count":1,"firstTimestamp":"2026-11-21T01:00:00Z"}"#,
    ),
    (
        "/api/v1/namespaces",
        "ns",
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns"},"spec":{"finalizers":["kubernetes"]}}"#,
    ),
    (
        "/api/v1/namespaces/default/serviceaccounts",
        "s",
        r#"{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"s"}}"#,
    ),
    (
        "/api/v1/namespaces/default/configmaps",
        "m",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"k":"v"},"binaryData":{"b":"AAA="}}"#,
    ),
    (
        "/api/v1/namespaces/default/secrets",
        "s",
        r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"k":"dg=="},"stringData":{"l":"w"}}"#,
    ),
    (
        "/api/v1/namespaces/default/services",
        "s",
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"selector":{"app":"a"},"ports":[{"port":80,"targetPort":"http"}]}}"#,
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "r",
        r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}"#,
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        "b",
        r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"b"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"u"}]}"#,
    ),
    (
        "/api/v1/namespaces/default/bindings",
        "a",
        r#"{"apiVersion":"v1","kind":"Binding","metadata":{"name":"b"},"target":{"kind":"Node","name":"n1"}}"#,
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "things.example.com",
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","shortNames":["th"]},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}},{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#,
    ),
    (
        "/apis/example.com/v1/namespaces/default/things",
        "t",
        r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t","finalizers":["example.com/f"]},"spec":{"size":3,"list":[{"a":1},{"a":2}]},"status":{"phase":"x"}}"#,
    ),
    (
        "/apis/example.com/v1beta1/namespaces/default/things",
        "u",
        r#"{"apiVersion":"example.com/v1beta1","kind":"Thing","metadata":{"name":"u"},"spec":"x"}"#,
    ),
    (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "high",
        r#"{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":1000,"globalDefault":false}"#,
    ),
    (
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "x",
        r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"u","groups":["g"],"resourceAttributes":{"verb":"get","resource":"pods"}}}"#,
    ),
];

/// Names behind an object's.
pub const SUBRESOURCES: [&str; 10] = [
    "status", "status", "scale", "binding", "eviction", "token", "finalize", "log", "resize", "%2e%2e",
];

/// Query parameters and values.
pub const QUERIES: [(&str, &[&str]); 16] = [
    ("watch", &["true", "1", "false", ""]),
    ("timeoutSeconds", &["1", "0", "-1", "9223372036854775807", "x"]),
    (
        "resourceVersion",
        &["", "0", "1", "7", "18446744073709551615", "99999999999999999999", "-1"],
    ),
    ("resourceVersionMatch", &["Exact", "NotOlderThan", "Odd"]),
    ("sendInitialEvents", &["true", "false"]),
    ("allowWatchBookmarks", &["true"]),
    ("limit", &["1", "2", "0", "-1", "9223372036854775807", "9223372036854775808"]),
    (
        "continue",
        &[
            "eyJ2Ijoic2FuZGJveC92MSIsInJ2IjoxLCJucyI6ImRlZmF1bHQiLCJuYW1lIjoiYSJ9",
            "eyJ2Ijoic2FuZGJveC92MSIsInJ2IjoxODQ0Njc0NDA3MzcwOTU1MTYxNSwibnMiOiJ6IiwibmFtZSI6ImEifQ",
            "e30",
            "x",
        ],
    ),
    (
        "labelSelector",
        &[
            "app=a",
            "app in (a,b)",
            "!app",
            "a>7",
            "a>99999999999999999999",
            "app in (",
            "=",
            "é",
        ],
    ),
    (
        "fieldSelector",
        &[
            "spec.nodeName=n1",
            "metadata.name=a",
            "status.phase!=Running",
            "x=y",
            "a\\,b=c\\",
            "==",
        ],
    ),
    ("dryRun", &["All", "None"]),
    (
        "fieldManager",
        &[
            "m",
            "",
            "a very long name a very long name a very long name a very long name a very long name a very long name a very long name a very long name",
        ],
    ),
    ("force", &["true", "false"]),
    ("fieldValidation", &["Strict", "Warn", "Ignore", "Odd"]),
    (
        "gracePeriodSeconds",
        &[
            "0",
            "1",
            "-1",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
        ],
    ),
    ("propagationPolicy", &["Orphan", "Foreground", "Background", "Odd"]),
];

/// Content types; those of patches first.
pub const TYPES: [&str; 8] = [
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
];

/// What clients accept.
pub const ACCEPTS: [&str; 7] = [
    "application/json",
    "*/*",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
];

/// Patches.
pub const PATCHES: [&str; 17] = [
    r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"test","path":"/metadata/name","value":"a"}]"#,
    r#"[{"op":"remove","path":"/spec"},{"op":"copy","from":"/metadata","path":"/spec"}]"#,
    r#"[{"op":"move","from":"/metadata/name","path":"/metadata/labels/x"},{"op":"add","path":"/spec/containers/-","value":{}}]"#,
    r#"[{"op":"replace","path":"/spec/containers/0/image","value":"j"},{"op":"add","path":"/spec/tolerations/99","value":{}}]"#,
    r#"{"metadata":{"labels":{"a":null},"annotations":{"sandbox.bailiff.dev/pods":"crash-loop"},"finalizers":[],"$deleteFromPrimitiveList/finalizers":["f"]}}"#,
    r#"{"spec":{"containers":[{"name":"m","$patch":"delete"},{"name":"o","image":"x"}],"$setElementOrder/containers":[{"name":"o"},{"name":"m"}]}}"#,
    r#"{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-21T01:00:00Z"}],"phase":"Running","$retainKeys":["phase"]}}"#,
    r#"{"spec":{"taints":[{"$patch":"replace"},{"key":"k","effect":"NoExecute"}],"unschedulable":true,"replicas":3,"template":{"spec":{"$patch":"replace","containers":[]}}}}"#,
    r#"[{"op":"add","path":"/metadata/labels/a~1b","value":"c"},{"op":"add","path":"/metadata/annotations/~2","value":"c"}]"#,
    r#"[{"op":"add","path":"/spec/containers/-1","value":{}},{"op":"remove","path":"/spec/containers/-2"}]"#,
    r#"[{"op":"add","path":"/spec/containers/18446744073709551616","value":{}}]"#,
    r#"[{"op":"add","path":"//","value":{}},{"op":"add","path":"/","value":1},{"op":"add","path":"x/metadata/~","value":1}]"#,
    r#"[{"op":"copy","from":"","path":"/a"},{"op":"copy","from":"","path":"/b"},{"op":"copy","from":"","path":"/c"},{"op":"copy","from":"/a","path":"/a/a"}]"#,
    r#"[{"op":"replace","path":"/metadata/resourceVersion","value":"x"},{"op":"replace","path":"","value":null}]"#,
    r#"{"spec":{"$retainKeys":["x"],"hostname":"x"},"metadata":{"$retainKeys":{}}}"#,
    r#"{"metadata":{"$setElementOrder/finalizers":["b","a"],"finalizers":["a","b"],"$deleteFromPrimitiveList/finalizers":"x"}}"#,
    r#"{"spec":{"template":{"spec":{"containers":[{"name":"m","ports":[{"containerPort":1},{}],"$retainKeys":["name"]}],"$setElementOrder/volumes":[{"name":"x"},7]}}}}"#,
];

/// Headers that are no part of what requests usually say.
pub const HEADERS: [(&str, &str); 8] = [
    ("authorization", "Bearer x"),
    ("authorization", "Basic eA=="),
    ("impersonate-user", "somebody"),
    ("x-http-method-override", "DELETE"),
    ("content-encoding", "gzip"),
    ("if-none-match", "\"x\""),
    ("range", "bytes=0-1"),
    ("user-agent", "\u{e9}/\u{e9} (x"),
];

/// Values that are deep, as brackets, or long, as a character or digits; and how much so.
pub const EXTREMES: [(char, usize); 12] = [
    ('[', 99),
    ('[', 100),
    ('[', 101),
    ('[', 127),
    ('[', 128),
    ('{', 90),
    ('{', 126),
    ('[', 20_000),
    ('{', 20_000),
    ('9', 400),
    ('a', 300),
    ('a', 300_000),
];

/// Field names to add.
pub const FIELDS: [&str; 28] = [
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "creationTimestamp",
    "generateName",
    "kind",
    "apiVersion",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "replicas",
    "selector",
    "matchExpressions",
    "fieldsV1",
    "",
    "é",
];

/// Values that are unusual where they are put.
pub const ODD: [&str; 30] = [
    "null",
    "true",
    "0",
    "-1",
    "1e400",
    "1.5",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "[]",
    "{}",
    "\"\"",
    "\"x\"",
    "\"é\"",
    "\"a/b\"",
    "\"..\"",
    "\"\\u0000\"",
    "[null]",
    "[{}]",
    "[[]]",
    "{\"\":null}",
    "{\"name\":\"m\"}",
    "\"9e99\"",
    "\"100%\"",
    "\"-5%\"",
    "\"9999-12-31T23:59:59Z\"",
    "\"+999999-01-01T00:00:00Z\"",
    "\"99999999999999999999Gi\"",
    "{\"f:a\":{\".\":{}},\"k:{}\":{}}",
    "[{\"manager\":\"m\",\"operation\":\"Apply\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:spec\":{\"k:\":{},\"v:\":1}}}]",
];
