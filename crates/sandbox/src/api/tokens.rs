//! Tokens of service accounts.

use serde_json::{Value, json};

use super::pods::body;
use super::reply::Reply;
use super::{Call, authn};
use crate::Status;
use crate::rules::{items, text};
use crate::schema::time;
use crate::status::Cause;
use crate::store::{Key, Store};

/// Shortest life of a token, in seconds.
const SHORTEST_TOKEN: i64 = 600;
/// Longest life of a token, in seconds, and one more.
const LONGEST_TOKEN: i64 = (1 << 32) + 1;
/// Life of a token that says nothing.
const DEFAULT_TOKEN: i64 = 3600;

/// Answers a request for a token.
///
/// # Errors
/// The refusal.
pub fn request(call: &Call<'_>) -> Result<Reply, Status> {
    let mut request = body(call, "TokenRequest")?;
    let (version, kind) = (text(&request, "/apiVersion"), text(&request, "/kind"));
    if !matches!(version, "" | "authentication.k8s.io/v1") || !matches!(kind, "" | "TokenRequest") {
        let why = format!("converting (v1.{kind}) to (authentication.TokenRequest): unknown conversion");
        return Err(Status::bad_request(format!(
            "{kind} in version \"v1\" cannot be handled as a TokenRequest: {why}"
        )));
    }
    let store = call.judged_store();
    let account = call.current(&store)?;
    check_bound(&store, account.namespace(), &request)?;
    let sent = super::pods::named(&request, "authentication.k8s.io/v1", "TokenRequest");
    call.admit_other(&store, "CREATE", &sent, &Value::Null)?;
    drop(store);
    let named = text(&request, "/metadata/name");
    if !named.is_empty() && named != account.name() {
        let complaint = "must match the service account name if specified";
        let cause = Cause::invalid("metadata.name", &json!(named), complaint);
        return Err(Status::invalid(
            "authentication.k8s.io",
            "TokenRequest",
            account.name(),
            vec![cause],
        ));
    }
    let seconds = request
        .pointer("/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(DEFAULT_TOKEN);
    let complaint = match seconds {
        ..SHORTEST_TOKEN => Some("may not specify a duration less than 10 minutes"),
        LONGEST_TOKEN.. => Some("may not specify a duration larger than 2^32 seconds"),
        _ => None,
    };
    if let Some(complaint) = complaint {
        let cause = Cause::invalid("spec.expirationSeconds", &json!(seconds), complaint);
        return Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", vec![cause]));
    }
    let mut audiences: Vec<&str> = items(&request, "/spec/audiences").iter().filter_map(Value::as_str).collect();
    if audiences.is_empty() {
        audiences.push(authn::AUDIENCE);
    }
    let expires = call
        .now
        .wall
        .checked_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap_or(call.now.wall);
    let token = authn::issue(
        call.sandbox,
        account.namespace(),
        account.name(),
        account.uid(),
        &audiences,
        expires.as_second(),
    );
    let audiences = json!(audiences);
    let bound = request.pointer("/spec/boundObjectRef").cloned().unwrap_or_default();
    request = json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": account.name(), "namespace": account.namespace(), "uid": account.uid(),
            "creationTimestamp": time::seconds(call.now.wall),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
        "status": {"token": token, "expirationTimestamp": time::seconds(expires)},
    });
    Ok(Reply::object(201, request))
}

/// What a token is bound to must exist.
fn check_bound(store: &Store, namespace: &str, request: &Value) -> Result<(), Status> {
    let Some(bound) = request.pointer("/spec/boundObjectRef").filter(|bound| !bound.is_null()) else {
        return Ok(());
    };
    let (version, kind, name) = (text(bound, "/apiVersion"), text(bound, "/kind"), text(bound, "/name"));
    let (resource, key) = match (version, kind) {
        ("v1", "Pod") => ("pods", Key::new(namespace, name)),
        ("v1", "Secret") => ("secrets", Key::new(namespace, name)),
        ("v1", "Node") => ("nodes", Key::new("", name)),
        _ => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(why));
        }
    };
    let found = store
        .get(resource, &key)
        .ok_or_else(|| Status::not_found("", resource, name))?;
    let uid = text(bound, "/uid");
    if !uid.is_empty() && uid != found.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict("", kind, name, &why));
    }
    Ok(())
}
