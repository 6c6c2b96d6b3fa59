//! The API server: from a request to an answer.
//!
//! [`handle`] is all of it. A request is authenticated, its path understood, authorised, and then served by one of the modules below.
//! Everything is synchronous; only watches outlive their request, as cursors into the store's logs.

use std::cell::RefCell;

use bailiff_model::Now;
use parking_lot::MutexGuard;

use crate::rules::Context;
use crate::store::Store;
use crate::{Sandbox, Status, User};

pub mod admit;
pub mod authn;
pub mod authz;
pub mod create;
pub mod custom;
pub mod delete;
pub mod discovery;
pub mod encode;
pub mod escalation;
pub mod impersonate;
pub mod input;
pub mod kinds;
pub mod names;
pub mod negotiate;
pub mod openapi;
pub mod options;
pub mod paging;
pub mod patching;
pub mod path;
pub mod pods;
pub mod raw;
pub mod read;
pub mod remote;
pub mod reply;
pub mod request;
pub mod reviews;
pub mod scale;
pub mod selector;
pub mod stream;
pub mod table;
pub mod tokens;
pub mod update;
pub mod write;

use authz::Attributes;
use kinds::Kind;
use negotiate::Accepted;
use path::Target;
use reply::Reply;
use request::Request;

/// A request whose meaning is known.
#[derive(Debug)]
pub struct Call<'a> {
    /// Where it is served.
    pub sandbox: &'a Sandbox,
    /// What was sent.
    pub request: &'a Request,
    /// Who asks.
    pub user: &'a User,
    /// What its path names.
    pub target: &'a Target,
    /// The resource that its path names.
    pub kind: &'a std::sync::Arc<Kind>,
    /// The form of answer that the client accepts.
    pub accepted: Accepted,
    /// The present.
    pub now: Now,
    /// What policies warn about; the answer carries it, whatever it is.
    pub warnings: RefCell<Vec<String>>,
}

/// Serves a request. `user` is given by callers in the process; others say who they are by a token.
pub fn handle(sandbox: &Sandbox, request: &Request, user: Option<&User>) -> Reply {
    let accepted = negotiate::choose(&request.accept, true);
    let reply = match serve(sandbox, request, user) {
        Ok(reply) => reply,
        Err(status) => Reply::refusal(&status),
    };
    encode::finish(reply, request, accepted.unwrap_or_default(), &sandbox.kinds())
}

fn serve(sandbox: &Sandbox, request: &Request, user: Option<&User>) -> Result<Reply, Status> {
    let user = match user {
        Some(user) => user.clone(),
        None => authn::authenticate(sandbox, request.authorization.as_deref())?,
    };
    let target = path::parse(&request.path);
    let user = impersonate::apply(sandbox, request, target.as_ref(), user)?;
    let Some(target) = target else {
        return discovery::serve(sandbox, request, &user);
    };
    Attributes::of_request(Some(&target), request).check(sandbox, &user)?;
    let kind = sandbox
        .kinds()
        .find(&target.group, &target.version, &target.resource)
        .cloned();
    let Some(kind) = kind else {
        // Within a group that exists, what is missing is a resource; elsewhere, a page.
        let is_built_in = |kind: &std::sync::Arc<Kind>| kind.group == target.group && kind.custom.is_none();
        let group_exists = sandbox.kinds().iter().any(is_built_in);
        if group_exists {
            return Err(Status::no_such_path());
        }
        return Ok(Reply::text(404, "404 page not found\n"));
    };
    if !kind.namespaced && !target.namespace.is_empty() && target.resource != "namespaces" {
        if kind.custom.is_some() {
            return Ok(Reply::text(404, "404 page not found\n"));
        }
        return Err(Status::no_such_path());
    }
    let is_nowhere = kind.namespaced && target.namespace.is_empty() && (kind.virtual_ || !target.name.is_empty());
    if is_nowhere && !target.watch {
        return Err(Status::no_such_path());
    }
    if !matches!(request.method.as_str(), "GET" | "POST" | "PUT" | "PATCH" | "DELETE") {
        return Err(Status::method_not_allowed());
    }
    let call = Call {
        sandbox,
        request,
        user: &user,
        target: &target,
        kind: &kind,
        accepted: negotiate::choose(&request.accept, !kind.schema.is_empty())?,
        now: sandbox.clock().now(),
        warnings: RefCell::default(),
    };
    let mut reply = match table::check(&call) {
        Ok(()) => call.dispatch(),
        Err(status) => Err(status),
    };
    // What no handler ever sees is not warned of.
    let is_unserved = |status: &Status| {
        let nameless = status.details.as_ref().is_none_or(|details| details.name.is_empty());
        status.code == 405 || (status.code == 415 && request.method == "PATCH") || (status.code == 404 && nameless)
    };
    if let Some(warning) = kind.deprecation()
        && !reply.as_ref().is_err_and(is_unserved)
    {
        let mut warned = reply.unwrap_or_else(|status| Reply::refusal(&status));
        let others = std::mem::take(&mut warned.headers);
        warned = warned.warn(&[warning.to_owned()]);
        warned.headers.extend(others);
        reply = Ok(warned);
    }
    let warnings = call.warnings.take();
    if !warnings.is_empty() {
        reply = Ok(reply.unwrap_or_else(|status| Reply::refusal(&status)).warn(&warnings));
    }
    reply
}

// === impl Call ===

impl Call<'_> {
    fn dispatch(&self) -> Result<Reply, Status> {
        let (method, target) = (self.request.method.as_str(), self.target);
        if self.kind.virtual_ {
            return reviews::serve(self);
        }
        if self.kind.namespaced && target.namespace.is_empty() && !(method == "GET" && target.name.is_empty()) {
            return Err(Status::method_not_allowed());
        }
        match (method, target.name.is_empty(), target.subresource.as_str()) {
            ("GET", true, _) if self.wants_watch() => read::watch(self),
            ("GET", true, _) => read::list(self),
            ("POST", true, _) => create::create(self),
            ("DELETE", true, _) if self.kind.delete_collection => delete::collection(self),
            ("GET", false, "") if self.target.watch => read::watch(self),
            ("GET", false, "") => read::get(self),
            ("GET", false, "status") if self.kind.status => read::get(self),
            ("PUT", false, "") => update::put(self),
            ("PUT", false, "status") if self.kind.status => update::put(self),
            ("PATCH", false, "") => patching::patch(self),
            ("PATCH", false, "status") if self.kind.status => patching::patch(self),
            ("DELETE", false, "") => delete::delete(self),
            (_, false, "status") if self.kind.status => Err(Status::method_not_allowed()),
            (_, false, sub) if self.kind.custom.is_some() && !sub.is_empty() && !self.has_sub(sub) => Err(self.not_found()),
            (_, false, "") | (_, true, _) => Err(Status::method_not_allowed()),
            _ => pods::subresource(self),
        }
    }

    fn has_sub(&self, name: &str) -> bool {
        self.kind.subresources.iter().any(|sub| sub.name == name)
    }

    /// Whether the answer is to be a stream.
    pub fn wants_watch(&self) -> bool {
        self.target.watch || self.request.query.flag("watch")
    }

    /// The store, locked. What is written is attributed to the user.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        let mut store = self.sandbox.store();
        store.attribute(&self.user.name);
        store
    }

    /// The same for a write or a connection, which policies are to judge. Compiling these takes as long as they are, and others wait for
    /// the store, so it is done before.
    pub fn judged_store(&self) -> MutexGuard<'_, Store> {
        self.store_after(|| self.prepare_policies())
    }

    /// The store, prepared for; anew if policies changed before it was had.
    fn store_after(&self, mut prepare: impl FnMut()) -> MutexGuard<'_, Store> {
        /// Whoever changes policies faster than they are compiled has others wait all the same: this ends in any case.
        const ROUNDS: usize = 4;
        for _ in 1..ROUNDS {
            prepare();
            let store = self.store();
            if self.is_prepared(&store) {
                return store;
            }
        }
        prepare();
        self.store()
    }

    /// What rules may look at.
    pub fn context<'s>(&'s self, store: &'s Store) -> Context<'s> {
        Context {
            store,
            now: self.now,
            seed: self.sandbox.seed(),
        }
    }

    /// 404 for the object that the path names.
    pub fn not_found(&self) -> Status {
        Status::not_found(&self.kind.group, &self.kind.resource, &self.target.name)
    }

    /// 409 for the object of this name.
    pub fn conflict(&self, name: &str, why: &str) -> Status {
        Status::conflict(&self.kind.group, &self.kind.resource, name, why)
    }

    /// Whether nothing is to be stored.
    pub fn dry_run(&self) -> bool {
        self.request.query.all("dryRun").any(|value| value == "All")
    }
}
