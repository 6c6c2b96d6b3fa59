//! Services, as plain objects with defaults; nothing is routed.

use serde_json::{Value, json};

use super::{Rules, default, section, text};
use crate::store::Fields;

/// Rules for services.
#[derive(Debug)]
pub struct Services;

impl Rules for Services {
    fn defaults(&self, object: &mut Value) {
        let spec = section(object, "spec");
        default(spec, "sessionAffinity", "None");
        default(spec, "type", "ClusterIP");
        default(spec, "internalTrafficPolicy", "Cluster");
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            let target = port.get("port").cloned().unwrap_or(json!(0));
            if let Value::Object(port) = port {
                default(port, "protocol", "TCP");
                if port.get("targetPort").is_none_or(|value| value == 0 || value == "") {
                    port.insert("targetPort".to_owned(), target);
                }
            }
        }
    }

    fn returns_deleted(&self) -> bool {
        true
    }
}

/// Selectable fields.
pub fn fields(object: &Value) -> Fields {
    vec![
        ("spec.clusterIP", text(object, "/spec/clusterIP").into()),
        ("spec.type", text(object, "/spec/type").into()),
    ]
}
