//! Who asks: static tokens, service account tokens, nobody in particular.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::status::Status;
use crate::store::Key;
use crate::{Sandbox, User};

/// The audience of tokens, unless one is asked for.
pub const AUDIENCE: &str = "https://kubernetes.default.svc";
const HEADER: &str = r#"{"alg":"none","typ":"JWT"}"#;

/// Finds the user behind an `Authorization` header.
///
/// # Errors
/// 401 for a token that is nobody's, or for none where nobody may ask anonymously.
pub fn authenticate(sandbox: &Sandbox, header: Option<&str>) -> Result<User, Status> {
    let unauthorized = || Status::new(401, "Unauthorized", "Unauthorized");
    let token = header.and_then(|header| {
        let (scheme, token) = header.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    match token {
        Some(token) if !token.is_empty() => of_token(sandbox, token, &[]).ok_or_else(unauthorized),
        _ if sandbox.config().anonymous => Ok(User::anonymous()),
        _ => Err(unauthorized()),
    }
}

/// The user of a token, if it is valid for one of the audiences.
pub fn of_token(sandbox: &Sandbox, token: &str, audiences: &[&str]) -> Option<User> {
    let own = audiences.is_empty() || audiences.contains(&AUDIENCE);
    let known = sandbox.config().tokens.iter().find(|one| one.token == token);
    if let Some(known) = known {
        return own.then(|| {
            let mut user = known.user.clone();
            user.join("system:authenticated");
            user
        });
    }
    of_service_account(sandbox, token, audiences)
}

/// A token of a service account. It is no secret: it carries its claims and the sandbox's mark, which only this process knows.
pub fn issue(sandbox: &Sandbox, namespace: &str, name: &str, uid: &str, audiences: &[&str], expires: i64) -> String {
    let claims = json!({
        "iss": AUDIENCE, "sub": format!("system:serviceaccount:{namespace}:{name}"), "aud": audiences, "exp": expires, "uid": uid,
        "jti": sandbox.seed().uuid(),
    });
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.{}",
        encode(HEADER),
        encode(&claims.to_string()),
        encode(sandbox.mark())
    )
}

fn of_service_account(sandbox: &Sandbox, token: &str, audiences: &[&str]) -> Option<User> {
    let mut parts = token.split('.');
    let (header, claims, mark) = (parts.next()?, parts.next()?, parts.next()?);
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
    if decode(header)? != HEADER.as_bytes() || decode(mark)? != sandbox.mark().as_bytes() {
        return None;
    }
    let claims: Value = serde_json::from_slice(&decode(claims)?).ok()?;
    let wanted = if audiences.is_empty() { &[AUDIENCE][..] } else { audiences };
    let valid_for = claims.get("aud")?.as_array()?;
    if !valid_for
        .iter()
        .any(|one| one.as_str().is_some_and(|one| wanted.contains(&one)))
    {
        return None;
    }
    if claims.get("exp")?.as_i64()? <= sandbox.clock().wall().as_second() {
        return None;
    }
    let subject = claims.get("sub")?.as_str()?;
    let (namespace, name) = subject.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let uid = claims.get("uid")?.as_str()?;
    let account = sandbox.store().get("serviceaccounts", &Key::new(namespace, name))?.clone();
    if account.uid() != uid {
        return None;
    }
    let mut user = User::new(
        subject,
        &[
            "system:serviceaccounts",
            &format!("system:serviceaccounts:{namespace}"),
            "system:authenticated",
        ],
    );
    user.uid = uid.into();
    if let Some(id) = claims.get("jti").and_then(Value::as_str) {
        user.extra.push((
            "authentication.kubernetes.io/credential-id".into(),
            format!("JTI={id}").into(),
        ));
    }
    Some(user)
}
