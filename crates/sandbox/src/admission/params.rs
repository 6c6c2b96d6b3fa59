//! The objects that parametrise a policy, as a binding refers to them.

use serde_json::Value;

use super::World;
use super::policy::{Binding, Policy};
use crate::api::selector::Selector;
use crate::rules::text;

/// The parameters to evaluate a policy with, each in turn. Null stands for none.
///
/// Nothing bounds what this takes: all objects that are meant are read, whatever reads them, and are there at a time, for each binding
/// anew. Budgets begin where an expression looks at one.
///
/// # Errors
/// Why there are none, if that is a fault.
pub fn collect(policy: &Policy, binding: &Binding, namespace: &str, world: &dyn World) -> Result<Vec<Value>, String> {
    let (Some(kind), Some(reference)) = (&policy.param_kind, &binding.param_ref) else {
        return Ok(vec![Value::Null]);
    };
    let named = text(reference, "/namespace");
    let namespaced = world.scope(kind).unwrap_or(false);
    if !namespaced && !named.is_empty() {
        return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
    }
    let namespace = match (namespaced, named, namespace) {
        (false, ..) => "",
        (true, "", "") => {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned());
        }
        (true, "", own) => own,
        (true, named, _) => named,
    };
    let name = text(reference, "/name");
    let found = if name.is_empty() {
        let selector = Selector::of_object(reference.get("selector").unwrap_or(&Value::Null));
        world.objects(kind, namespace, &selector)
    } else {
        world.object(kind, namespace, name).into_iter().collect()
    };
    if found.is_empty() && text(reference, "/parameterNotFoundAction") == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}
