//! Lists that come in parts, and the tokens by which clients ask for the next one.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::Call;
use super::selector::Selector;
use crate::Status;
use crate::go_json::syntax;
use crate::store::{Key, Object};

/// The version of continue tokens, which is theirs alone.
const TOKENS: &str = "meta.k8s.io/v1";

/// Where a list goes on, and as of which revision. Clients pass it back unread.
#[derive(Debug)]
pub struct Token {
    /// The revision; none for the newest.
    pub revision: Option<u64>,
    /// The last key that was answered.
    pub after: Key,
    /// How many objects are left, where that was counted.
    pub left: Option<usize>,
}

/// The first objects of a collection, and how to go on.
#[derive(Debug)]
pub struct Paged {
    /// What comes now.
    pub chosen: Vec<Arc<Object>>,
    /// Where the rest starts.
    pub token: Option<String>,
    /// How many there are left, where that is told.
    pub remaining: Option<usize>,
}

// === impl Token ===

impl Token {
    /// The token as clients get it.
    pub fn encode(&self, call: &Call<'_>) -> String {
        let Self { revision, after, left } = self;
        let start = if call.kind.namespaced && call.target.namespace.is_empty() {
            format!("/{}/{}\0", after.namespace, after.name)
        } else {
            format!("/{}\0", after.name)
        };
        let revision = revision.map_or(json!(-1), Value::from);
        let value = json!({"v": TOKENS, "rv": revision, "start": start, "left": left});
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    /// Reads a token that a client passed back.
    ///
    /// # Errors
    /// 400 for what is none.
    pub fn decode(text: &str, call: &Call<'_>) -> Result<Self, Status> {
        let invalid = |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
        let bytes = bytes.map_err(|_| invalid("illegal base64 data"))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
            let fault = syntax::fault(&bytes);
            invalid(&fault.unwrap_or_else(|| error.to_string()))
        })?;
        if value.get("v").and_then(Value::as_str) != Some(TOKENS) {
            return Err(invalid("server does not recognize this encoded version"));
        }
        let start = value.get("start").and_then(Value::as_str).unwrap_or_default();
        let key = start.strip_prefix('/').unwrap_or(start).trim_end_matches('\0');
        if key.is_empty() || key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(invalid("encoded start key empty or malformed"));
        }
        let after = match key.split_once('/') {
            Some((namespace, name)) if call.kind.namespaced && call.target.namespace.is_empty() => Key::new(namespace, name),
            _ if call.kind.namespaced => Key::new(&call.target.namespace, key),
            _ => Key::new("", key),
        };
        let revision = match value.get("rv").and_then(Value::as_i64).unwrap_or(0) {
            0 => return Err(invalid("incorrect encoded start resourceVersion")),
            revision => u64::try_from(revision).ok(),
        };
        Ok(Self {
            revision,
            after,
            left: value
                .get("left")
                .and_then(Value::as_u64)
                .and_then(|left| usize::try_from(left).ok()),
        })
    }
}

// === impl Paged ===

impl Paged {
    /// A page of a state, after which some objects are left. How many is told if all of them are meant.
    pub fn new(call: &Call<'_>, chosen: Vec<Arc<Object>>, left: usize, is_told: bool, revision: u64) -> Self {
        let remaining = Some(left).filter(|left| is_told && *left > 0);
        let token = chosen.last().filter(|_| left > 0).map(|last| {
            let token = Token {
                revision: Some(revision),
                after: last.key().clone(),
                left: remaining,
            };
            token.encode(call)
        });
        Self {
            chosen,
            token,
            remaining,
        }
    }

    /// Cuts a collection after `limit` objects.
    pub fn cut(call: &Call<'_>, rest: impl Iterator<Item = Arc<Object>>, limit: usize, selector: &Selector, revision: u64) -> Self {
        let mut rest = rest.filter(|object| selector.matches(object));
        let chosen: Vec<Arc<Object>> = rest.by_ref().take(limit).collect();
        let left = rest.count();
        Self::new(call, chosen, left, selector.is_empty(), revision)
    }
}
