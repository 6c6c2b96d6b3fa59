//! Server-side apply to a scale: of all that the object has, its replicas alone are stated and owned, under the name that a Scale has
//! for them. Whoever owns them of the object owns them of its scale.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::managers::{Entry, Managers};
use super::{Sort, conflict, entry, read_as, root, unnamed};
use crate::Status;
use crate::api::Call;
use crate::rules::section;

const VERSION: &str = "autoscaling/v1";
/// Where a Scale has the replicas.
const REPLICAS: &str = ".spec.replicas";

/// What an apply comes to.
#[derive(Debug)]
pub struct Outcome {
    /// The scale that there is to be.
    pub scale: Value,
    /// Who owns what of the object then.
    pub managers: Managers,
}

/// Reads the Scale that is applied.
///
/// # Errors
/// The refusal.
pub fn read(call: &Call<'_>) -> Result<Value, Status> {
    let sort = Sort {
        api_version: VERSION.to_owned(),
        kind: "Scale",
        schema: "Scale",
    };
    read_as(call, &sort)
}

/// Applies a Scale to an object, as it is served, that has its replicas at `pointer`.
///
/// # Errors
/// 409 if they are others', and not what is stated.
pub fn merged(call: &Call<'_>, object: &Value, pointer: &str, mut scale: Value) -> Result<Outcome, Status> {
    let live = object.pointer(pointer).cloned().unwrap_or_default();
    let replicas = Fields::of(&nested(pointer, live.clone()), root(call).as_ref());
    let own = entry(call);
    let mut managers = Managers::of(object);
    if managers.owners(&replicas).is_empty() {
        let known = managers.get(&unnamed(call)).cloned().unwrap_or_default();
        managers.set(unnamed(call), known.union(&replicas), call.now.wall);
    }
    let mut others = managers.owners(&replicas);
    others.retain(|owner| *owner != own);
    // Go does not tell null from what is left out.
    if let Some(Value::Object(spec)) = scale.get_mut("spec") {
        spec.retain(|_, value| !value.is_null());
    }
    match scale.pointer("/spec/replicas") {
        Some(stated) if *stated == live => managers.restate(own, replicas),
        Some(_) => {
            if !others.is_empty() && !call.request.query.flag("force") {
                return Err(disputed(others));
            }
            managers.lose(&own, &replicas);
            managers.set(own, replicas, call.now.wall);
        }
        None => {
            managers.set(own, Fields::default(), call.now.wall);
            // What was its own alone is gone, and there are none.
            if !others.is_empty() {
                section(&mut scale, "spec").insert("replicas".to_owned(), live);
            }
        }
    }
    Ok(Outcome { scale, managers })
}

fn disputed(owners: Vec<Entry>) -> Status {
    let of_scale = |owner| Entry {
        api_version: VERSION.to_owned(),
        ..owner
    };
    let owners = owners.into_iter().map(of_scale);
    let conflicts: Vec<_> = owners.map(|owner| (owner.shown(), REPLICAS.to_owned())).collect();
    conflict(&conflicts)
}

/// An object that has nothing but this value.
fn nested(pointer: &str, value: Value) -> Value {
    pointer
        .rsplit('/')
        .filter(|field| !field.is_empty())
        .fold(value, |inner, field| {
            let mut object = Map::new();
            object.insert(field.to_owned(), inner);
            Value::Object(object)
        })
}
