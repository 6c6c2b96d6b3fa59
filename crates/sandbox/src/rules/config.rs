//! ConfigMaps and Secrets: keys, sizes, types, and what is never changed again.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{Context, Rules, default, meta, section, text};
use crate::Status;
use crate::status::Cause;
use crate::store::Fields;

/// Bytes that all values together may take.
const MOST_BYTES: usize = 1024 * 1024;
const KEY_COMPLAINT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
    'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Rules for ConfigMaps.
#[derive(Debug)]
pub struct ConfigMaps;

/// Rules for Secrets.
#[derive(Debug)]
pub struct Secrets;

impl Rules for ConfigMaps {
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        let (texts, bytes) = (map(object, "data"), map(object, "binaryData"));
        for (field, values, other) in [("data", texts, bytes), ("binaryData", bytes, texts)] {
            for key in values.into_iter().flatten().map(|(key, _)| key) {
                let at = format!("{field}[{key}]");
                if let Some(complaint) = key_complaint(key) {
                    causes.push(Cause::invalid(&at, &json!(key), complaint));
                }
                if field == "data" && other.is_some_and(|other| other.contains_key(key)) {
                    let complaint = "duplicate of key present in binaryData";
                    causes.push(Cause::invalid(&at, &json!(key), complaint));
                }
            }
        }
        if size(texts) + size(bytes) / 4 * 3 > MOST_BYTES {
            causes.push(too_long("[]"));
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        frozen(object, old, &["data", "binaryData"], causes);
        self.validate(object, causes);
    }
}

impl Rules for Secrets {
    fn defaults(&self, object: &mut Value) {
        let Value::Object(fields) = object else { return };
        default(fields, "type", "Opaque");
        // Written in plain, kept encoded.
        if let Some(Value::Object(plain)) = fields.shift_remove("stringData") {
            let data = section(object, "data");
            for (key, value) in plain {
                let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
                data.insert(key, encoded.into());
            }
            data.sort_keys();
        }
    }

    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, object: &Value, causes: &mut Vec<Cause>) {
        let data = map(object, "data");
        for key in data.into_iter().flatten().map(|(key, _)| key) {
            if let Some(complaint) = key_complaint(key) {
                causes.push(Cause::invalid(format!("data[{key}]"), &json!(key), complaint));
            }
        }
        if size(data) / 4 * 3 > MOST_BYTES {
            causes.push(too_long("data"));
        }
        needed(object, data, causes);
    }

    fn validate_update(&self, object: &Value, old: &Value, causes: &mut Vec<Cause>) {
        meta::immutable(object, old, "/type", causes);
        frozen(object, old, &["data"], causes);
        self.validate(object, causes);
    }
}

/// What secrets of a type must hold.
fn needed(object: &Value, data: Option<&Map<String, Value>>, causes: &mut Vec<Cause>) {
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    let account = "metadata.annotations[kubernetes.io/service-account.name]";
    match text(object, "/type") {
        "kubernetes.io/service-account-token" => {
            let annotations = object.pointer("/metadata/annotations");
            let name = annotations.and_then(|annotations| annotations.get("kubernetes.io/service-account.name"));
            if name.is_none_or(|name| name == "") {
                causes.push(Cause::required(account, ""));
            }
        }
        "kubernetes.io/dockerconfigjson" => json_in(data, ".dockerconfigjson", causes),
        "kubernetes.io/dockercfg" => json_in(data, ".dockercfg", causes),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            causes.push(Cause::required("data[username]", ""));
            causes.push(Cause::required("data[password]", ""));
        }
        "kubernetes.io/ssh-auth" if !has("ssh-privatekey") => causes.push(Cause::required("data[ssh-privatekey]", "")),
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)) {
                causes.push(Cause::required(format!("data[{key}]"), ""));
            }
        }
        _ => {}
    }
}

fn json_in(data: Option<&Map<String, Value>>, key: &str, causes: &mut Vec<Cause>) {
    let at = format!("data[{key}]");
    let Some(value) = data.and_then(|data| data.get(key)) else {
        causes.push(Cause::required(at, ""));
        return;
    };
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    if serde_json::from_slice::<Map<String, Value>>(&bytes).is_err() {
        causes.push(Cause::invalid(
            at,
            &json!("<secret contents redacted>"),
            "it is no JSON object",
        ));
    }
}

fn map<'a>(object: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    object.get(field).and_then(Value::as_object)
}

fn size(values: Option<&Map<String, Value>>) -> usize {
    values
        .into_iter()
        .flatten()
        .map(|(_, value)| value.as_str().map_or(0, str::len))
        .sum()
}

fn too_long(at: &str) -> Cause {
    Cause::new(
        "FieldValueTooLong",
        at,
        format!("Too long: may not be more than {MOST_BYTES} bytes"),
    )
}

/// What is not changed any more once `immutable` is set.
fn frozen(object: &Value, old: &Value, fields: &[&str], causes: &mut Vec<Cause>) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if object.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(Cause::forbidden("immutable", why));
    }
    for field in fields.iter().filter(|field| object.get(**field) != old.get(**field)) {
        causes.push(Cause::forbidden(*field, why));
    }
}

/// What is wrong with a key.
pub fn key_complaint(key: &str) -> Option<&'static str> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match key {
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        _ if key.starts_with("..") => Some("must not start with '..'"),
        _ if key.len() > 253 => Some("must be no more than 253 bytes"),
        _ if key.is_empty() || !key.bytes().all(known) => Some(KEY_COMPLAINT),
        _ => None,
    }
}

/// Selectable fields.
pub fn secret_fields(object: &Value) -> Fields {
    vec![("type", text(object, "/type").into())]
}
