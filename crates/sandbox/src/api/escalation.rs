//! Nobody grants what they do not hold.

use serde_json::Value;

use super::Call;
use super::authz::{self, Attributes};
use crate::rules::{items, text};
use crate::store::{Key, Store};
use crate::{Authorization, Status};

/// Checks that a role, or the role of a binding, says nothing that the user may not do already.
///
/// # Errors
/// 403 when it does.
pub fn check(call: &Call<'_>, store: &Store, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    let rbac = call.kind.group == "rbac.authorization.k8s.io";
    let unchecked = call.sandbox.config().authorization == Authorization::AlwaysAllow || call.user.is_in("system:masters");
    if !rbac || unchecked {
        return Ok(());
    }
    let binding = call.kind.resource.ends_with("bindings");
    let field = if binding { "subjects" } else { "rules" };
    if old.is_some_and(|old| old.get(field) == object.get(field)) {
        return Ok(());
    }
    let (verb, resource, name) = if binding {
        let kind = text(object, "/roleRef/kind").to_lowercase();
        ("bind", format!("{kind}s"), text(object, "/roleRef/name"))
    } else {
        ("escalate", call.kind.resource.to_owned(), text(object, "/metadata/name"))
    };
    let exempt = Attributes {
        verb: verb.to_owned(),
        group: call.kind.group.to_owned(),
        resource,
        name: name.to_owned(),
        namespace: call.target.namespace.clone(),
        ..Attributes::default()
    };
    if authz::granted(store, call.user, &exempt) {
        return Ok(());
    }
    let role = if binding {
        role_of(call, store, object)?
    } else {
        object.clone()
    };
    if items(&role, "/rules").iter().all(|rule| holds(call, store, rule)) {
        return Ok(());
    }
    let why = format!(
        "user \"{}\" is attempting to grant RBAC permissions not currently held",
        call.user.name
    );
    let name = text(object, "/metadata/name");
    Err(Status::forbidden(&call.kind.group, &call.kind.resource, name, &why))
}

fn role_of(call: &Call<'_>, store: &Store, binding: &Value) -> Result<Value, Status> {
    let name = text(binding, "/roleRef/name");
    let (resource, namespace) = match text(binding, "/roleRef/kind") {
        "Role" => ("roles", call.target.namespace.as_str()),
        _ => ("clusterroles", ""),
    };
    let table = crate::status::qualified(&call.kind.group, resource);
    let found = store.get(&table, &Key::new(namespace, name));
    let role = found.map(|role| role.value());
    role.ok_or_else(|| Status::not_found(&call.kind.group, resource, name))
}

/// Whether everything that a rule allows is allowed to the user.
fn holds(call: &Call<'_>, store: &Store, rule: &Value) -> bool {
    let texts = |field: &str| -> Vec<String> {
        let list = items(rule, field).iter().filter_map(Value::as_str);
        list.map(str::to_owned).collect()
    };
    let names = match texts("/resourceNames") {
        names if names.is_empty() => vec![String::new()],
        names => names,
    };
    let may = |attributes: &Attributes| authz::granted(store, call.user, attributes);
    texts("/verbs").iter().all(|verb| {
        let paths = texts("/nonResourceURLs").into_iter().all(|path| {
            may(&Attributes {
                verb: verb.clone(),
                path: Some(path),
                ..Attributes::default()
            })
        });
        paths
            && texts("/apiGroups").iter().all(|group| {
                texts("/resources").iter().all(|resource| {
                    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                    names.iter().all(|name| {
                        may(&Attributes {
                            verb: verb.clone(),
                            group: group.clone(),
                            resource: resource.to_owned(),
                            subresource: subresource.to_owned(),
                            name: name.clone(),
                            namespace: call.target.namespace.clone(),
                            path: None,
                        })
                    })
                })
            })
    })
}
