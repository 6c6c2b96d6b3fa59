//! Acting as somebody else: the `Impersonate-*` headers.
//!
//! There are two ways to be allowed to. The older one is the verb `impersonate` on each part of the identity, and then everything is
//! as if the other asked. The newer one limits what may be done as the other: `impersonate-on:<mode>:<verb>` on what the request is
//! about, and `impersonate:<mode>` on the parts.

use super::authz::{self, Attributes};
use super::path::Target;
use super::request::Request;
use crate::{Sandbox, Status, User};

/// Parts of the identity that the newer way checks.
const AUTHENTICATION: &str = "authentication.k8s.io";
const ACCOUNT: &str = "system:serviceaccount:";
const NODE: &str = "system:node:";

/// The identity that headers ask for, as they give it.
#[derive(Debug, Default)]
struct Wanted {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: Vec<(String, String)>,
}

/// Whom the request is made as: the user, or somebody whom the user may act as.
///
/// # Errors
/// 400 without a name, 403 when it is not allowed.
pub fn apply(sandbox: &Sandbox, request: &Request, target: Option<&Target>, user: User) -> Result<User, Status> {
    if request.impersonate.is_empty() {
        return Ok(user);
    }
    let wanted = Wanted::of(&request.impersonate);
    if wanted.name.is_empty() {
        if wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty() {
            return Ok(user);
        }
        return Err(Status::bad_request(
            "requested groups, a uid or extra fields without impersonating a user name",
        ));
    }
    let asked = Attributes::of_request(target, request);
    let newer = || wanted.limited(sandbox, &user, &asked);
    let older = || wanted.unlimited(sandbox, &user);
    // The refusal that is told is that of the way which this user goes otherwise.
    if authz::may_anything(sandbox, &user, "impersonate") {
        return older().or_else(|status| newer().map_err(|_| status));
    }
    newer().or_else(|status| older().map_err(|other| status.unwrap_or(other)))
}

// === impl Wanted ===

impl Wanted {
    fn of(headers: &[(String, String)]) -> Self {
        let mut wanted = Self::default();
        for (name, value) in headers {
            match name.as_str() {
                "user" if wanted.name.is_empty() => wanted.name.clone_from(value),
                "uid" if wanted.uid.is_empty() => wanted.uid.clone_from(value),
                "group" => wanted.groups.push(value.clone()),
                other => {
                    if let Some(key) = other.strip_prefix("extra-") {
                        let key = super::request::decode(&key.to_lowercase(), false);
                        wanted.extra.push((key, value.clone()));
                    }
                }
            }
        }
        wanted
    }

    fn account(&self) -> Option<(&str, &str)> {
        let (namespace, name) = self.name.strip_prefix(ACCOUNT)?.split_once(':')?;
        (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
    }

    /// The verb `impersonate` on every part.
    fn unlimited(&self, sandbox: &Sandbox, user: &User) -> Result<User, Status> {
        self.check_parts(sandbox, user, "impersonate", "")?;
        Ok(self.user())
    }

    /// The newer way, in the mode that fits; nothing if none does.
    fn limited(&self, sandbox: &Sandbox, user: &User, asked: &Attributes) -> Result<User, Option<Status>> {
        let only_name = self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty();
        let node = self.name.strip_prefix(NODE);
        let mode = match (node, self.account()) {
            (Some(_), _) if only_name => "arbitrary-node",
            (None, Some(_)) if only_name => "serviceaccount",
            (None, None) => "user-info",
            _ => return Err(None),
        };
        let on = Attributes {
            verb: format!("impersonate-on:{mode}:{}", asked.verb),
            ..asked.clone()
        };
        on.check(sandbox, user)?;
        let privileged = self.groups.iter().any(|group| group.is_empty() || group == "system:masters");
        if privileged {
            let why = "impersonating the system:masters group is not allowed";
            return Err(Some(Status::forbidden(AUTHENTICATION, "groups", "", why)));
        }
        self.check_parts(sandbox, user, &format!("impersonate:{mode}"), AUTHENTICATION)?;
        let mut as_user = self.user();
        if mode == "arbitrary-node" {
            as_user.groups.insert(0, "system:nodes".into());
        }
        Ok(as_user)
    }

    fn check_parts(&self, sandbox: &Sandbox, user: &User, verb: &str, group: &str) -> Result<(), Status> {
        let part = |group: &str, resource: &str, name: &str| Attributes {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        let named = match (self.account(), self.name.strip_prefix(NODE)) {
            (Some((namespace, name)), _) => Attributes {
                namespace: namespace.to_owned(),
                ..part(group, "serviceaccounts", name)
            },
            (None, Some(node)) if !group.is_empty() => part(group, "nodes", node),
            _ => part(group, "users", &self.name),
        };
        named.check(sandbox, user)?;
        if !self.uid.is_empty() {
            part(AUTHENTICATION, "uids", &self.uid).check(sandbox, user)?;
        }
        for one in &self.groups {
            part(group, "groups", one).check(sandbox, user)?;
        }
        for (key, value) in &self.extra {
            let extra = Attributes {
                subresource: key.clone(),
                ..part(AUTHENTICATION, "userextras", value)
            };
            extra.check(sandbox, user)?;
        }
        Ok(())
    }

    fn user(&self) -> User {
        let groups: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let mut user = User::new(&self.name, &groups);
        if let (Some((namespace, _)), true) = (self.account(), groups.is_empty()) {
            user.join("system:serviceaccounts");
            user.join(&format!("system:serviceaccounts:{namespace}"));
        }
        if self.name == "system:anonymous" {
            user.join("system:unauthenticated");
        } else if !user.is_in("system:unauthenticated") {
            user.join("system:authenticated");
        }
        user.uid = self.uid.as_str().into();
        let mut extra: Vec<_> = self
            .extra
            .iter()
            .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
            .collect();
        extra.sort();
        user.extra = extra;
        user
    }
}
