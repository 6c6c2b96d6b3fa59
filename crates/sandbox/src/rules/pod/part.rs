//! Subresources that change one part of a pod's spec, which an ordinary update may not.

use serde_json::{Value, json};

use crate::Status;
use crate::rules::{Context, items, meta, podspec, section, text};
use crate::status::Cause;
use crate::store::Key;

/// Which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `ephemeralcontainers`: containers for debugging are added.
    EphemeralContainers,
    /// `resize`: containers get other resources.
    Resources,
}

impl Part {
    /// Makes `object` the old one but for this part.
    pub fn prepare(self, object: &mut Value, old: &Value) {
        let wanted = std::mem::replace(object, old.clone());
        match self {
            Self::EphemeralContainers => {
                let list = items(&wanted, "/spec/ephemeralContainers").to_vec();
                let spec = section(object, "spec");
                if list.is_empty() {
                    spec.shift_remove("ephemeralContainers");
                } else {
                    spec.insert("ephemeralContainers".to_owned(), list.into());
                }
            }
            Self::Resources => {
                for list in ["containers", "initContainers"] {
                    let wanted = items(&wanted, &format!("/spec/{list}")).to_vec();
                    let current = object.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
                    for one in current.into_iter().flatten() {
                        let same = wanted.iter().find(|other| other.get("name") == one.get("name"));
                        for field in ["resources", "resizePolicy"] {
                            if let Some(value) = same.and_then(|same| same.get(field)) {
                                one[field] = value.clone();
                            }
                        }
                    }
                }
            }
        }
        // Who owns what is recorded of the request, whatever became of it.
        if let Some(managers) = wanted.pointer("/metadata/managedFields") {
            section(object, "metadata").insert("managedFields".to_owned(), managers.clone());
        }
        if object.get("spec") != old.get("spec") {
            meta::grow_generation(object, old);
        }
    }

    /// Resources are looked at where the pod runs.
    ///
    /// # Errors
    /// 403 when that node does not exist.
    pub fn admit(self, object: &Value, old: &Value, context: &Context<'_>) -> Result<(), Status> {
        let node = text(object, "/spec/nodeName");
        let resized = self == Self::Resources && object.get("spec") != old.get("spec");
        if resized && !node.is_empty() && context.store.get("nodes", &Key::new("", node)).is_none() {
            let why = format!("node \"{node}\" not found");
            return Err(Status::forbidden("", "pods", text(object, "/metadata/name"), &why));
        }
        Ok(())
    }

    /// Rules for the change.
    pub fn validate(self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        if self == Self::Resources {
            podspec::validate(spec, "spec", causes);
            let class = text(old, "/status/qosClass");
            if podspec::qos(spec) != class {
                let complaint = "Pod QOS Class may not change as a result of resizing";
                causes.push(Cause::invalid("spec", &json!(class), complaint));
            }
            return;
        }
        podspec::ephemeral(spec, causes);
        let now = items(object, "/spec/ephemeralContainers");
        for before in items(old, "/spec/ephemeralContainers") {
            let name = text(before, "/name");
            let what = match now.iter().find(|one| text(one, "/name") == name) {
                Some(one) if one == before => continue,
                Some(_) => "changed",
                None => "removed",
            };
            let why = format!("existing ephemeral containers \"{name}\" may not be {what}");
            causes.push(Cause::forbidden("spec.ephemeralContainers", &why));
        }
    }
}
