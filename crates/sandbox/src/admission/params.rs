//! The objects that parametrise a policy, as a binding refers to them.

use std::sync::Arc;

use serde_json::Value;

use super::evaluate::SPENT;
use super::policy::{Binding, Policy};
use super::sight::Sight;
use crate::Object;
use crate::api::selector::Selector;
use crate::rules::text;

/// What it costs to see whether an object is selected, or a request meant: some comparisons of texts.
pub const LOOK: u64 = 10;

/// The parameters to evaluate a policy with, each in turn, if there are to be any. None is read: expressions do that, and pay for it.
///
/// # Errors
/// Why there are none, if that is a fault.
pub fn collect(policy: &Policy, binding: &Binding, sight: &Sight<'_>) -> Result<Vec<Option<Arc<Object>>>, String> {
    let (world, namespace) = (sight.world, sight.attributes.namespace.as_str());
    let (Some(kind), Some(reference)) = (&policy.param_kind, &binding.param_ref) else {
        return Ok(vec![None]);
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
    let found: Vec<Arc<Object>> = if name.is_empty() {
        let selector = Selector::of_object(reference.get("selector").unwrap_or(&Value::Null));
        let mut all = world.objects(kind, namespace);
        if !sight.spend(LOOK.saturating_mul(all.len() as u64)) {
            return Err(SPENT.to_owned());
        }
        all.retain(|object| selector.matches(object));
        all
    } else {
        world.object(kind, namespace, name).into_iter().collect()
    };
    if found.is_empty() && text(reference, "/parameterNotFoundAction") == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found.into_iter().map(Some).collect())
}
