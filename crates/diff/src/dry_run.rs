//! The way to an API server on which nothing is written: every write is made a dry run (API conventions, "Dry-run").
//!
//! What is tried beside the controllers that do the work reads what they read, and has its writes judged by the server, with admission
//! and preconditions, without any of them being kept. Requests that have effects a dry run does not keep away are refused.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Largest body of a request: as large as an API server's own limit.
const BODY_MAX: usize = 3 * 1024 * 1024;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What every Kubernetes document in protobuf starts with.
const MAGIC: &[u8] = b"k8s\0";

/// Parts of objects that run something or hand something out when they are asked: by any method, a dry run or not.
const LIVE: [&str; 5] = ["exec", "attach", "portforward", "proxy", "token"];

/// Parts of objects that may be written: a dry run of these is known to have no effect.
const WRITABLE: [&str; 5] = ["", "status", "eviction", "scale", "binding"];

/// The way.
#[derive(Clone)]
struct Way {
    client: kube::Client,
    /// What every path begins with: another user of this machine must not read with our rights, and Go's clients send tokens over TLS
    /// only.
    prefix: String,
}

/// Why a request is not passed on.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

/// Leads clients that come to `listener` to the API server of `client`, until `stop`. Their paths begin with `/` and `secret`, as the
/// server's URL in their kubeconfig does.
pub async fn serve(listener: TcpListener, client: kube::Client, secret: &str, stop: CancellationToken) {
    let prefix = format!("/{secret}");
    let router = Router::new().fallback(pass).with_state(Way { client, prefix });
    // It ends when it is told to; that it cannot accept for a moment is waited out by itself.
    let _ = axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await;
}

async fn pass(State(way): State<Way>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let path = path.strip_prefix(&way.prefix).filter(|path| path.starts_with('/'));
    let Some(Ok(uri)) = path.map(Uri::try_from) else {
        let message = "wanted is the URL of the kubeconfig that was given".to_owned();
        return refuse(StatusCode::UNAUTHORIZED, "Unauthorized", message).into_response();
    };
    let Ok(body) = to_bytes(body, BODY_MAX).await else {
        let message = format!("allowed are bodies of at most {BODY_MAX} bytes");
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message).into_response();
    };
    let kind = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or("");
    let (uri, kind, body) = match harmless(&parts.method, &uri, kind, body.to_vec()) {
        Ok(harmless) => harmless,
        Err(refusal) => return refusal.into_response(),
    };
    let mut passed = http::Request::builder().method(parts.method).uri(uri);
    if let Some(accept) = parts.headers.get(header::ACCEPT) {
        passed = passed.header(header::ACCEPT, accept);
    }
    if !kind.is_empty() {
        passed = passed.header(header::CONTENT_TYPE, kind);
    }
    let answer = match passed.body(kube::client::Body::from(body)) {
        Ok(request) => way.client.send(request).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match answer {
        Ok(answer) => answer.map(Body::new),
        Err(error) => refuse(
            StatusCode::BAD_GATEWAY,
            "ServiceUnavailable",
            format!("the API server was not reached: {error}"),
        )
        .into_response(),
    }
}

fn refuse(code: StatusCode, reason: &'static str, message: String) -> Refusal {
    Refusal { code, reason, message }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "reason": self.reason, "code": self.code.as_u16(),
        });
        (self.code, [(header::CONTENT_TYPE, JSON)], status.to_string()).into_response()
    }
}

/// The same request, without an effect.
fn harmless(method: &Method, uri: &Uri, kind: &str, body: Vec<u8>) -> Result<(String, String, Vec<u8>), Refusal> {
    let part = part_of(uri.path())?;
    let part = part.as_str();
    if LIVE.contains(&part) {
        let message = format!("{part} cannot be tried: it has effects that a dry run does not keep away");
        return Err(refuse(StatusCode::FORBIDDEN, "Forbidden", message));
    }
    if *method == Method::GET || *method == Method::HEAD {
        return Ok((uri.to_string(), kind.to_owned(), body));
    }
    if !WRITABLE.contains(&part) {
        let message = format!("{part} cannot be tried: allowed are writes of whole objects, status, scale, binding and eviction");
        return Err(refuse(StatusCode::FORBIDDEN, "Forbidden", message));
    }
    let query = uri.query().unwrap_or("");
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("dryRun="))
        .collect();
    let query: Vec<&str> = kept.into_iter().chain(["dryRun=All"]).collect();
    let uri = format!("{}?{}", uri.path(), query.join("&"));
    if *method != Method::DELETE {
        return Ok((uri, kind.to_owned(), body));
    }
    // Options in the body of a deletion are the only ones that count: the server does not read those of the query then.
    let (kind, body) = dry_options(kind, body)?;
    Ok((uri, kind, body))
}

/// The options of a deletion that is a dry run.
fn dry_options(kind: &str, body: Vec<u8>) -> Result<(String, Vec<u8>), Refusal> {
    let unread = |message: String| refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message);
    if body.is_empty() {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]});
        return Ok((JSON.to_owned(), options.to_string().into_bytes()));
    }
    if body.starts_with(MAGIC) {
        let body = dry_document(&body).ok_or_else(|| unread("the DeleteOptions are no protobuf document".to_owned()))?;
        return Ok((PROTOBUF.to_owned(), body));
    }
    let mut options: Value = serde_json::from_slice(&body)
        .map_err(|error| unread(format!("the DeleteOptions are neither JSON nor protobuf ({kind}): {error}")))?;
    let Some(fields) = options.as_object_mut() else {
        return Err(unread("the DeleteOptions are no JSON object".to_owned()));
    };
    fields.insert("dryRun".to_owned(), json!(["All"]));
    Ok((JSON.to_owned(), options.to_string().into_bytes()))
}

/// `DeleteOptions` in protobuf, with `dryRun` (field 5) put before the rest. A document is its magic and a `runtime.Unknown`, whose field 2
/// is the message; fields that come twice are joined, the repeated ones by appending.
fn dry_document(document: &[u8]) -> Option<Vec<u8>> {
    const DRY_RUN: &[u8] = b"\x2a\x03All";
    let (mut rest, mut out, mut is_found) = (document.strip_prefix(MAGIC)?, MAGIC.to_vec(), false);
    while !rest.is_empty() {
        let (tag, after) = varint(rest)?;
        // All fields of the envelope are of the kind that says its length.
        if tag & 7 != 2 {
            return None;
        }
        let (length, after) = varint(after)?;
        let (value, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
        let value = if tag >> 3 == 2 {
            is_found = true;
            // First, so that no field before it can claim its bytes.
            [DRY_RUN, value].concat()
        } else {
            value.to_vec()
        };
        put_varint(&mut out, tag);
        put_varint(&mut out, value.len() as u64);
        out.extend(value);
        rest = after;
    }
    if !is_found {
        put_varint(&mut out, 2 << 3 | 2);
        put_varint(&mut out, DRY_RUN.len() as u64);
        out.extend(DRY_RUN);
    }
    Some(out)
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
    let (number, rest) = bytes.split_at(length);
    let value = number
        .iter()
        .rev()
        .fold(0_u64, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((value, rest))
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// The part of an object that a path names: `status` of `…/pods/web-1/status`; empty for the whole, and for collections. The server goes
/// by the decoded path; one that means something else decoded than it says is refused.
fn part_of(path: &str) -> Result<String, Refusal> {
    let unclear = || {
        let message = format!("allowed are paths without escapes, empty segments, and dots: {path:?}");
        refuse(StatusCode::BAD_REQUEST, "BadRequest", message)
    };
    let segments: Vec<&str> = path.strip_prefix('/').ok_or_else(unclear)?.split('/').collect();
    let is_unclear = |segment: &&str| segment.contains(['%', '\\']) || [".", "..", ""].contains(segment);
    let (last, inner) = segments.split_last().ok_or_else(unclear)?;
    // A path may end with a slash.
    if inner.iter().any(is_unclear) || (!last.is_empty() && is_unclear(last)) {
        return Err(unclear());
    }
    let mut parts = segments.into_iter().filter(|part| !part.is_empty());
    let rest: Vec<&str> = match parts.next() {
        Some("api") => parts.skip(1).collect(),
        Some("apis") => parts.skip(2).collect(),
        // Not an object's: only read.
        Some(_) => return Ok("what is no object".to_owned()),
        None => return Ok(String::new()),
    };
    // Of a namespace itself there are two parts, and they are in the same place as kinds of objects in it.
    let of_object = match rest.as_slice() {
        ["namespaces", _, part @ ("status" | "finalize")] => return Ok((*part).to_owned()),
        ["namespaces", _, of_object @ ..] if !of_object.is_empty() => of_object,
        of_object => of_object,
    };
    Ok(of_object.get(2).copied().unwrap_or("").to_owned())
}

#[cfg(test)]
mod tests;
