//! Who may do what: everything, or what RBAC says.

use serde_json::{Value, json};

use super::path::Target;
use super::request::Request;
use crate::rules::{items, text};
use crate::status::Status;
use crate::store::{Key, Store};
use crate::{Authorization, Sandbox, User};

/// What somebody wants to do.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    /// Verb, such as `list`.
    pub verb: String,
    /// API group.
    pub group: String,
    /// Resource.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Object name.
    pub name: String,
    /// Namespace, `""` for all.
    pub namespace: String,
    /// A path that is no resource.
    pub path: Option<String>,
}

impl Attributes {
    /// What a request is about.
    pub fn of_request(target: Option<&Target>, request: &Request) -> Self {
        match target {
            Some(target) => Self::of(target, request),
            None => Self {
                verb: request.method.to_lowercase(),
                path: Some(request.path.clone()),
                ..Self::default()
            },
        }
    }

    /// Whether a user may do it.
    ///
    /// # Errors
    /// 403 when not.
    pub fn check(&self, sandbox: &Sandbox, user: &User) -> Result<(), Status> {
        if allowed(sandbox, user, self) {
            return Ok(());
        }
        Err(self.refusal(user))
    }

    fn of(target: &Target, request: &Request) -> Self {
        let watch = target.watch || request.query.flag("watch");
        let verb = match (request.method.as_str(), target.name.is_empty()) {
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "deletecollection",
            ("DELETE", false) => "delete",
            (_, true) if watch => "watch",
            (_, true) => "list",
            (_, false) => "get",
        };
        Self {
            verb: verb.to_owned(),
            group: target.group.clone(),
            resource: target.resource.clone(),
            subresource: target.subresource.clone(),
            name: selected_name(target, request, verb),
            namespace: target.namespace.clone(),
            path: None,
        }
    }

    fn refusal(&self, user: &User) -> Status {
        if let Some(path) = &self.path {
            let message = format!("forbidden: User \"{}\" cannot {} path \"{path}\"", user.name, self.verb);
            return Status::new(403, "Forbidden", message).about("", "", "");
        }
        let resource = if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        };
        let scope = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", self.namespace)
        };
        let why = format!(
            "User \"{}\" cannot {} resource \"{resource}\" in API group \"{}\" {scope}",
            user.name, self.verb, self.group
        );
        Status::forbidden(&self.group, &self.resource, &self.name, &why)
    }
}

/// A collection of which a field selector names one object is asked for like that object.
fn selected_name(target: &Target, request: &Request, verb: &str) -> String {
    if !target.name.is_empty() || !matches!(verb, "list" | "watch" | "deletecollection") {
        return target.name.clone();
    }
    let mut terms = request.query.get("fieldSelector").split(',');
    let named = terms.find_map(|term| term.strip_prefix("metadata.name="));
    named.map(|name| name.trim_start_matches('=').to_owned()).unwrap_or_default()
}

/// Whether somebody may do something.
pub fn allowed(sandbox: &Sandbox, user: &User, attributes: &Attributes) -> bool {
    let always = sandbox.config().authorization == Authorization::AlwaysAllow || user.is_in("system:masters");
    always || allowed_in(&sandbox.store(), user, attributes)
}

/// Whether roles, or what everybody may do, allow somebody something.
pub(super) fn allowed_in(store: &Store, user: &User, attributes: &Attributes) -> bool {
    if user.is_in("system:masters") {
        return true;
    }
    granted(store, user, attributes)
}

pub(super) fn granted(store: &Store, user: &User, attributes: &Attributes) -> bool {
    granting(store, user, attributes).is_some()
}

/// Why somebody may do something, in the words of the real server; nothing for those who need no reason.
pub fn reason(sandbox: &Sandbox, user: &User, attributes: &Attributes) -> Option<String> {
    if sandbox.config().authorization == Authorization::AlwaysAllow || user.is_in("system:masters") {
        return None;
    }
    let store = sandbox.store();
    let binding = granting(&store, user, attributes)?;
    let subject = items(&binding, "/subjects")
        .iter()
        .find(|subject| is_subject(subject, user))?;
    let place = |object: &Value| match text(object, "/metadata/namespace").to_owned() {
        none if none.is_empty() => format!("{:?}", text(object, "/metadata/name")),
        namespace => format!("{:?}", format!("{}/{namespace}", text(object, "/metadata/name"))),
    };
    let whom = match text(subject, "/namespace") {
        "" => format!("{:?}", text(subject, "/name")),
        namespace => format!("{:?}", format!("{}/{namespace}", text(subject, "/name"))),
    };
    let (kind, role, name) = (
        text(&binding, "/kind"),
        text(&binding, "/roleRef/kind"),
        text(&binding, "/roleRef/name"),
    );
    let to = text(subject, "/kind");
    Some(format!(
        "RBAC: allowed by {kind} {} of {role} {name:?} to {to} {whom}",
        place(&binding)
    ))
}

/// The binding that allows it.
fn granting(store: &Store, user: &User, attributes: &Attributes) -> Option<Value> {
    let mut cluster = bindings(store, "clusterrolebindings.rbac.authorization.k8s.io", None, user).into_iter();
    if let Some(binding) = cluster.find(|binding| role_grants(store, binding, "", attributes)) {
        return Some(binding);
    }
    if attributes.namespace.is_empty() {
        return None;
    }
    let local = bindings(
        store,
        "rolebindings.rbac.authorization.k8s.io",
        Some(&attributes.namespace),
        user,
    );
    let mut local = local.into_iter();
    local.find(|binding| role_grants(store, binding, &attributes.namespace, attributes))
}

/// Whether there is anything that somebody may do with this verb.
pub fn may_anything(sandbox: &Sandbox, user: &User, verb: &str) -> bool {
    let has = |rule: &Value| items(rule, "/verbs").iter().any(|one| one == verb);
    sandbox.config().authorization == Authorization::AlwaysAllow
        || user.is_in("system:masters")
        || rules(sandbox, user, "").iter().any(has)
}

/// The role references of bindings that name the user.
pub(super) fn bindings(store: &Store, resource: &str, namespace: Option<&str>, user: &User) -> Vec<Value> {
    let Some(table) = store.table(resource) else {
        return Vec::new();
    };
    let named = |binding: &Value| items(binding, "/subjects").iter().any(|subject| is_subject(subject, user));
    table
        .iter()
        .filter(|object| namespace.is_none_or(|namespace| object.namespace() == namespace))
        .map(|object| object.value())
        .filter(named)
        .collect()
}

fn is_subject(subject: &Value, user: &User) -> bool {
    match text(subject, "/kind") {
        "User" => text(subject, "/name") == &*user.name,
        "Group" => user.is_in(text(subject, "/name")),
        "ServiceAccount" => {
            let (namespace, name) = (text(subject, "/namespace"), text(subject, "/name"));
            format!("system:serviceaccount:{namespace}:{name}") == *user.name
        }
        _ => false,
    }
}

fn role_grants(store: &Store, binding: &Value, namespace: &str, attributes: &Attributes) -> bool {
    role_of(store, binding, namespace).is_some_and(|role| items(&role, "/rules").iter().any(|rule| rule_grants(rule, attributes)))
}

/// Everything that roles allow somebody in a namespace.
pub fn rules(sandbox: &Sandbox, user: &User, namespace: &str) -> Vec<Value> {
    if sandbox.config().authorization == Authorization::AlwaysAllow {
        return vec![
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
            json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
        ];
    }
    let store = sandbox.store();
    let mut all = Vec::new();
    let cluster = bindings(&store, "clusterrolebindings.rbac.authorization.k8s.io", None, user);
    let local = bindings(&store, "rolebindings.rbac.authorization.k8s.io", Some(namespace), user);
    for binding in cluster.iter().chain(&local) {
        if let Some(role) = role_of(&store, binding, namespace) {
            all.extend(items(&role, "/rules").to_vec());
        }
    }
    all
}

fn role_of(store: &Store, binding: &Value, namespace: &str) -> Option<Value> {
    let name = text(binding, "/roleRef/name");
    let role = match text(binding, "/roleRef/kind") {
        "Role" => store.get("roles.rbac.authorization.k8s.io", &Key::new(namespace, name)),
        _ => store.get("clusterroles.rbac.authorization.k8s.io", &Key::new("", name)),
    };
    role.map(|role| role.value())
}

fn rule_grants(rule: &Value, attributes: &Attributes) -> bool {
    let has = |field: &str, wanted: &str| {
        let list = items(rule, field).iter().filter_map(Value::as_str);
        list.into_iter().any(|one| one == "*" || one == wanted)
    };
    if !has("/verbs", &attributes.verb) {
        return false;
    }
    if let Some(path) = &attributes.path {
        let urls = items(rule, "/nonResourceURLs").iter().filter_map(Value::as_str);
        return urls.into_iter().any(|url| match url.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == url,
        });
    }
    let resource_fits = if attributes.subresource.is_empty() {
        has("/resources", &attributes.resource)
    } else {
        has("/resources", &format!("{}/{}", attributes.resource, attributes.subresource))
            || has("/resources", &format!("*/{}", attributes.subresource))
    };
    let names = items(rule, "/resourceNames");
    let name_fits = names.is_empty() || names.iter().any(|one| one.as_str() == Some(&attributes.name));
    has("/apiGroups", &attributes.group) && resource_fits && name_fits
}
