//! Requests of a scenario to the API, sent as anybody's would be: over its HTTP service, byte for byte as the file says.

use std::convert::Infallible;

use bailiff_sandbox::User;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Serializer, Value};
use tower::ServiceExt;

use super::Error;
use super::rig::Rig;

/// Writes a blank after each colon and comma.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

/// The JSON of a value with a blank after each colon and comma.
pub fn spaced(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, Spaced);
    value.serialize(&mut serializer).expect("a value can be written to memory");
    bytes
}

// === impl Rig: requests ===

impl Rig {
    /// Path of the collection that objects of a kind are created in.
    pub fn collection_of(&self, api_version: &str, kind: &str, namespace: &str) -> Result<String, Error> {
        let is_it = |one: &&std::sync::Arc<bailiff_sandbox::api::kinds::Kind>| one.kind == kind && one.api_version() == api_version;
        let kinds = self.sandbox.kinds();
        let found = kinds.iter().find(is_it);
        let found = found.ok_or_else(|| Error::Unserved(format!("{api_version} {kind}")))?;
        Ok(path(found, namespace))
    }

    /// Path of the collection of a resource.
    pub fn collection(&self, resource: &str, namespace: &str) -> Result<String, Error> {
        let kinds = self.sandbox.kinds();
        let found = kinds.iter().find(|one| one.resource == resource && !one.virtual_);
        let found = found.ok_or_else(|| Error::Unserved(resource.to_owned()))?;
        Ok(path(found, namespace))
    }

    /// Patches an object; `form` is `merge-patch` or `strategic-merge-patch`.
    pub async fn patch(&self, path: &str, form: &str, body: &Value) -> Result<(), Error> {
        let content_type = format!("application/{form}+json");
        self.send("PATCH", path, Some(&content_type), Some(body), None)
            .await
            .map(drop)
    }

    /// Sends a request with a body of compact JSON.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: Option<&Value>,
        expect: Option<u16>,
    ) -> Result<Value, Error> {
        let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let content_type = content_type.or(body.map(|_| "application/json"));
        self.send_bytes(method, path, content_type, bytes, expect).await
    }

    /// Sends a request. An answer other than `expect`, or than success, is an error.
    pub async fn send_bytes(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: Vec<u8>,
        expect: Option<u16>,
    ) -> Result<Value, Error> {
        let what = format!("{method} {path}");
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| Error::Refused {
            what: what.clone(),
            code: 400,
            message: error.to_string(),
        })?;
        let service = self.sandbox.service(User::admin());
        let response: Result<Response<_>, Infallible> = service.oneshot(request).await;
        let response = response.unwrap_or_else(|never| match never {});
        let code = response.status().as_u16();
        let body: Result<_, Infallible> = response.into_body().collect().await;
        let bytes = body.unwrap_or_else(|never| match never {}).to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let is_wanted = expect.map_or((200..300).contains(&code), |wanted| wanted == code);
        if is_wanted {
            return Ok(answer);
        }
        let message = match answer["message"].as_str() {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(&bytes).into_owned(),
        };
        Err(Error::Refused { what, code, message })
    }
}

fn path(kind: &bailiff_sandbox::api::kinds::Kind, namespace: &str) -> String {
    let root = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    if kind.namespaced {
        format!("{root}/namespaces/{namespace}/{}", kind.resource)
    } else {
        format!("{root}/{}", kind.resource)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spaced_json_has_a_blank_after_each_colon_and_comma() {
        let value = json!({"a": [1, {"b": "x,y:z"}], "c": {}, "d": []});
        assert_eq!(
            String::from_utf8(spaced(&value)).expect("text"),
            r#"{"a": [1, {"b": "x,y:z"}], "c": {}, "d": []}"#
        );
    }
}
