//! Resources that are answered but not stored: reviews of tokens and access, and the older form of bindings.

use serde_json::{Map, Value, json};

use super::authz::{self, Attributes};
use super::reply::Reply;
use super::{Call, authn, create, input, pods};
use crate::rules::{items, text};
use crate::schema::time;
use crate::status::Cause;
use crate::{Status, User};

/// Serves the request.
///
/// # Errors
/// The refusal.
pub fn serve(call: &Call<'_>) -> Result<Reply, Status> {
    if call.request.method != "POST" || !call.target.name.is_empty() {
        return Err(Status::method_not_allowed());
    }
    let mut review = input::object(call)?.object;
    if call.kind.resource.ends_with("accessreviews") {
        validate_access(call, &review)?;
        if call.kind.namespaced {
            crate::rules::section(&mut review, "metadata").insert("namespace".to_owned(), call.target.namespace.as_str().into());
        }
    }
    let status = match call.kind.resource.as_str() {
        "bindings" => {
            let name = text(&review, "/metadata/name");
            create::check_namespace(call, &call.store(), name)?;
            return pods::bind(call, name, &review);
        }
        "tokenreviews" => token(call, &review)?,
        "selfsubjectreviews" => return Ok(Reply::object(201, self_review(call, review))),
        "selfsubjectrulesreviews" => return rules(call, review),
        "selfsubjectaccessreviews" => access(call, call.user, &review),
        _ => {
            let mut user = User::new(text(&review, "/spec/user"), &[]);
            for group in items(&review, "/spec/groups").iter().filter_map(Value::as_str) {
                user.join(group);
            }
            access(call, &user, &review)
        }
    };
    let mut answer = review;
    answer["status"] = status;
    Ok(Reply::object(201, answer))
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".to_owned(), (*user.name).into());
    if !user.uid.is_empty() {
        info.insert("uid".to_owned(), (*user.uid).into());
    }
    if !user.groups.is_empty() {
        let groups = user.groups.iter().map(|group| Value::from(&**group)).collect();
        info.insert("groups".to_owned(), Value::Array(groups));
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(key, value)| (key.to_string(), json!([**value])));
        info.insert("extra".to_owned(), Value::Object(extra.collect()));
    }
    Value::Object(info)
}

fn self_review(call: &Call<'_>, mut review: Value) -> Value {
    review["metadata"]["creationTimestamp"] = time::seconds(call.now.wall).into();
    review["status"] = json!({"userInfo": user_info(call.user)});
    review
}

fn token(call: &Call<'_>, review: &Value) -> Result<Value, Status> {
    let given = text(review, "/spec/token");
    if given.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences: Vec<&str> = items(review, "/spec/audiences").iter().filter_map(Value::as_str).collect();
    Ok(match authn::of_token(call.sandbox, given, &audiences) {
        Some(user) => {
            let audiences = if audiences.is_empty() {
                vec![authn::AUDIENCE]
            } else {
                audiences
            };
            json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    })
}

fn validate_access(call: &Call<'_>, review: &Value) -> Result<(), Status> {
    let spec = review.get("spec").cloned().unwrap_or_default();
    let mut causes = Vec::new();
    let invalid = |at: &str, value: &Value, why: &str| Cause::invalid(at, value, why);
    match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes")) {
        (None, None) => causes.push(invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        (Some(_), Some(path)) => causes.push(invalid(
            "spec.nonResourceAttributes",
            path,
            "cannot be specified in combination with resourceAttributes",
        )),
        _ => {}
    }
    let own = call.kind.resource == "selfsubjectaccessreviews";
    if !own && text(&spec, "/user").is_empty() && items(&spec, "/groups").is_empty() {
        let why = "at least one of user or group must be specified";
        causes.push(invalid("spec.user", &json!(""), why));
    }
    if call.kind.namespaced {
        let asked = text(&spec, "/resourceAttributes/namespace");
        if spec.get("resourceAttributes").is_some() && asked != call.target.namespace {
            let at = "spec.resourceAttributes.namespace";
            causes.push(invalid(at, &json!(asked), "must match metadata.namespace"));
        }
        if let Some(path) = spec.get("nonResourceAttributes") {
            causes.push(invalid(
                "spec.nonResourceAttributes",
                path,
                "disallowed on this kind of request",
            ));
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid("authorization.k8s.io", "", "", causes))
}

/// What the user may do in a namespace.
fn rules(call: &Call<'_>, review: Value) -> Result<Reply, Status> {
    let namespace = text(&review, "/spec/namespace").to_owned();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for rule in authz::rules(call.sandbox, call.user, &namespace) {
        let list = |field: &str| rule.get(field).cloned().unwrap_or(json!([]));
        if items(&rule, "/nonResourceURLs").is_empty() {
            let mut one = json!({"verbs": list("verbs"), "apiGroups": list("apiGroups"), "resources": list("resources")});
            if let Some(names) = rule.get("resourceNames") {
                one["resourceNames"] = names.clone();
            }
            resources.push(one);
        } else {
            paths.push(json!({"verbs": list("verbs"), "nonResourceURLs": list("nonResourceURLs")}));
        }
    }
    let mut answer = review;
    answer["metadata"] = json!({});
    answer["spec"] = json!({});
    answer["status"] = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    Ok(Reply::object(201, answer))
}

fn access(call: &Call<'_>, user: &User, review: &Value) -> Value {
    let resource = |field: &str| text(review, &format!("/spec/resourceAttributes/{field}")).to_owned();
    let attributes = if review.pointer("/spec/nonResourceAttributes").is_some() {
        Attributes {
            verb: text(review, "/spec/nonResourceAttributes/verb").to_owned(),
            path: Some(text(review, "/spec/nonResourceAttributes/path").to_owned()),
            ..Attributes::default()
        }
    } else {
        Attributes {
            verb: resource("verb"),
            group: resource("group"),
            resource: resource("resource"),
            subresource: resource("subresource"),
            name: resource("name"),
            namespace: resource("namespace"),
            path: None,
        }
    };
    let mut status = json!({"allowed": authz::allowed(call.sandbox, user, &attributes)});
    if let Some(reason) = authz::reason(call.sandbox, user, &attributes) {
        status["reason"] = reason.into();
    }
    status
}
