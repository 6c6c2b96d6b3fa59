//! Admission of requests by policies: gathers what [`crate::admission`] judges by, and remembers policies as they were compiled.

use std::sync::{Arc, PoisonError};

use bailiff_cel::{Check, Decision};
use serde_json::{Value, json};

use super::authz;
use super::kinds::Kind;
use super::{Call, options};
use crate::admission::policy::ParamKind;
use crate::admission::{self, Attributes, Form, Policies, World};
use crate::store::{Key, Object, Store, Table};
use crate::{Authorization, Status, User};

const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

/// Policies as they were compiled, and the revisions of both tables that they are from.
#[derive(Debug, Default)]
pub struct Compiled {
    from: (u64, u64),
    policies: Arc<Policies>,
}

/// Policies and bindings as they are stored, and the revisions of both tables.
#[derive(Debug)]
struct Stored {
    at: (u64, u64),
    policies: Vec<Arc<Object>>,
    bindings: Vec<Arc<Object>>,
}

/// An object of a request, in what takes it.
#[derive(Debug, Default)]
pub struct Subject {
    /// API version and kind, if not those of the resource.
    pub kind: Option<(String, String)>,
    /// The object, null if there will be none.
    pub object: Value,
    /// The object before, null if there was none.
    pub old: Value,
    /// Its name, if the path does not say it.
    pub name: String,
}

impl Call<'_> {
    /// Lets policies judge the creation of an object.
    ///
    /// # Errors
    /// The refusal.
    pub fn admit_create(&self, store: &Store, object: &Value) -> Result<(), Status> {
        self.admit(store, "CREATE", || Subject {
            object: object.clone(),
            name: crate::rules::text(object, "/metadata/name").to_owned(),
            ..Subject::default()
        })
    }

    /// Lets policies judge the change of an object.
    ///
    /// # Errors
    /// The refusal.
    pub fn admit_update(&self, store: &Store, object: &Value, old: &Value) -> Result<(), Status> {
        self.admit(store, "UPDATE", || Subject {
            object: object.clone(),
            old: old.clone(),
            ..Subject::default()
        })
    }

    /// Lets policies judge the deletion of an object.
    ///
    /// # Errors
    /// The refusal.
    pub fn admit_delete(&self, store: &Store, old: &Value) -> Result<(), Status> {
        self.admit(store, "DELETE", || Subject {
            old: old.clone(),
            ..Subject::default()
        })
    }

    /// Lets policies judge what is sent to a subresource that is no view of the object.
    ///
    /// # Errors
    /// The refusal.
    pub fn admit_other(&self, store: &Store, operation: &'static str, object: &Value, old: &Value) -> Result<(), Status> {
        self.admit(store, operation, || {
            let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            Subject {
                kind: Some((text("apiVersion"), text("kind"))),
                object: object.clone(),
                old: old.clone(),
                name: crate::rules::text(object, "/metadata/name").to_owned(),
            }
        })
    }

    /// Compiles the policies that are to judge the request, as far as they are not yet, while others are served.
    pub fn prepare_policies(&self) {
        let (before, stored) = {
            let store = self.sandbox.store();
            if !self.is_judged(&store) {
                return;
            }
            self.compiled(&store)
        };
        if let Some(stored) = stored {
            self.compile(&stored, &before);
        }
    }

    /// Whether the policies that are to judge the request are compiled.
    pub fn is_prepared(&self, store: &Store) -> bool {
        !self.is_judged(store) || self.compiled(store).1.is_none()
    }

    /// Whether there are policies to judge the request. None judges what makes policies: one could lock everybody out.
    fn is_judged(&self, store: &Store) -> bool {
        store.table(BINDINGS).is_some_and(|table| !table.is_empty()) && !matches!(self.kind.storage.as_str(), POLICIES | BINDINGS)
    }

    fn admit(&self, store: &Store, operation: &'static str, subject: impl FnOnce() -> Subject) -> Result<(), Status> {
        if !self.is_judged(store) {
            return Ok(());
        }
        let policies = self.policies(store);
        if policies.list.is_empty() {
            return Ok(());
        }
        let attributes = self.attributes(operation, subject());
        let world = Present { call: self, store };
        let verdict = admission::judge(&policies, &attributes, &world);
        self.warnings.borrow_mut().extend(verdict.warnings);
        match verdict.denial {
            Some(denial) => Err(attributes.refuse(denial)),
            None => Ok(()),
        }
    }

    /// The policies that hold at present.
    fn policies(&self, store: &Store) -> Arc<Policies> {
        match self.compiled(store) {
            (policies, None) => policies,
            // They changed again and again while the request was served.
            (before, Some(stored)) => self.compile(&stored, &before),
        }
    }

    /// The policies as they were compiled, and those that are stored if these are others.
    fn compiled(&self, store: &Store) -> (Arc<Policies>, Option<Stored>) {
        let last = |table: &str| store.table(table).map_or(0, Table::last);
        let at = (last(POLICIES), last(BINDINGS));
        let compiled = self.sandbox.compiled().lock().unwrap_or_else(PoisonError::into_inner);
        let all = |table: &str| store.table(table).into_iter().flat_map(Table::iter).cloned().collect();
        let stored = (compiled.from != at).then(|| Stored {
            at,
            policies: all(POLICIES),
            bindings: all(BINDINGS),
        });
        (compiled.policies.clone(), stored)
    }

    /// Compiles what is stored, as far as it is not what was there before, and remembers it unless somebody was faster with newer ones.
    fn compile(&self, stored: &Stored, before: &Policies) -> Arc<Policies> {
        // In no test do policies change for longer than a request waits for them.
        #[cfg(test)]
        assert!(self.sandbox.shared.store.try_lock().is_some(), "the store is held");
        let policies = Arc::new(Policies::of(&stored.policies, &stored.bindings, before));
        let mut compiled = self.sandbox.compiled().lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.from < stored.at {
            *compiled = Compiled {
                from: stored.at,
                policies: policies.clone(),
            };
        }
        policies
    }

    fn attributes(&self, operation: &'static str, subject: Subject) -> Attributes<'_> {
        let name = if self.target.name.is_empty() {
            subject.name.clone()
        } else {
            self.target.name.clone()
        };
        let is_namespace = self.kind.group.is_empty() && self.kind.resource == "namespaces";
        let namespace = if is_namespace {
            name.clone()
        } else {
            self.target.namespace.clone()
        };
        let mut forms = vec![form(self.kind, &subject)];
        if subject.kind.is_none() {
            let kinds = self.sandbox.kinds();
            let others = kinds.iter().filter(|other| other.storage == self.kind.storage);
            let others = others.filter(|other| other.api_version() != self.kind.api_version());
            forms.extend(others.map(|other| form(other, &subject)));
        }
        Attributes {
            operation,
            forms,
            subresource: self.target.subresource.clone(),
            namespace,
            name,
            user: self.user,
            dry_run: self.dry_run(),
            options: self.options(operation),
        }
    }

    /// The options of the request, as far as it states any.
    fn options(&self, operation: &str) -> Value {
        let kind = match operation {
            "CREATE" => "CreateOptions",
            "UPDATE" => "UpdateOptions",
            "DELETE" => return options::delete_object(self.request),
            _ => return Value::Null,
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        let dry: Vec<&str> = self.request.query.all("dryRun").collect();
        if !dry.is_empty() {
            options["dryRun"] = json!(dry);
        }
        for field in ["fieldManager", "fieldValidation"] {
            if let Some(value) = self.request.query.find(field).filter(|value| !value.is_empty()) {
                options[field] = value.into();
            }
        }
        options
    }
}

/// The objects of a request as one of the versions of their resource has them.
fn form(kind: &Kind, subject: &Subject) -> Form {
    let (group, version, name) = match &subject.kind {
        Some((version, kind)) => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            (group.to_owned(), version.to_owned(), kind.clone())
        }
        None => (kind.group.clone(), kind.version.clone(), kind.kind.clone()),
    };
    let served = |object: &Value| {
        if subject.kind.is_some() || object.is_null() {
            return object.clone();
        }
        shown(kind, object.clone())
    };
    Form {
        group: kind.group.clone(),
        version: kind.version.clone(),
        resource: kind.resource.clone(),
        kind: (group, version, name),
        object: served(&subject.object),
        old: served(&subject.old),
    }
}

/// An object as it is answered.
fn shown(kind: &Kind, object: Value) -> Value {
    let mut served = kind.rules.to_served(object);
    served["apiVersion"] = kind.api_version().into();
    served["kind"] = kind.kind.as_str().into();
    served
}

/// What a judgement may look at: the store as the request found it.
struct Present<'a> {
    call: &'a Call<'a>,
    store: &'a Store,
}

impl World for Present<'_> {
    fn scope(&self, kind: &ParamKind) -> Option<bool> {
        let kinds = self.call.sandbox.kinds();
        kinds.of_kind(&kind.api_version, &kind.kind).map(|kind| kind.namespaced)
    }

    fn object(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let kinds = self.call.sandbox.kinds();
        let kind = kinds.of_kind(&kind.api_version, &kind.kind)?;
        self.store.get(&kind.storage, &Key::new(namespace, name)).cloned()
    }

    fn objects(&self, kind: &ParamKind, namespace: &str) -> Vec<Arc<Object>> {
        let kinds = self.call.sandbox.kinds();
        let kind = kinds.of_kind(&kind.api_version, &kind.kind);
        let table = kind.and_then(|kind| self.store.table(&kind.storage));
        table
            .into_iter()
            .flat_map(|table| table.in_namespace(namespace))
            .cloned()
            .collect()
    }

    fn read(&self, kind: &ParamKind, object: &Object) -> Value {
        let kinds = self.call.sandbox.kinds();
        let kind = kinds.of_kind(&kind.api_version, &kind.kind);
        kind.map_or(Value::Null, |kind| shown(kind, object.value()))
    }

    fn namespace(&self, name: &str) -> Option<Value> {
        self.store.get("namespaces", &Key::new("", name)).map(|object| object.value())
    }

    fn decide(&self, check: &Check) -> Decision {
        let account = check.account.as_ref().map(|(namespace, name)| {
            let groups = format!("system:serviceaccounts:{namespace}");
            let groups = ["system:serviceaccounts", groups.as_str(), "system:authenticated"];
            User::new(&format!("system:serviceaccount:{namespace}:{name}"), &groups)
        });
        let user = account.as_ref().unwrap_or(self.call.user);
        let attributes = authz::Attributes {
            verb: check.verb.clone(),
            group: check.group.clone(),
            resource: check.resource.clone(),
            subresource: check.subresource.clone(),
            name: check.name.clone(),
            namespace: check.namespace.clone(),
            path: check.path.clone(),
        };
        let always = self.call.sandbox.config().authorization == Authorization::AlwaysAllow;
        Decision {
            allowed: always || authz::allowed_in(self.store, user, &attributes),
            reason: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::{Clock, Seed};

    use super::super::handle;
    use super::super::request::{Body, Request};
    use super::*;
    use crate::{Config, Sandbox, Verb};

    const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    fn make(sandbox: &Sandbox, path: &str, object: &Value) {
        sandbox
            .request(&User::admin(), Verb::Create, path, object)
            .expect("it is created");
    }

    /// A server with a policy that is bound.
    fn mk_sandbox(name: &str) -> Sandbox {
        let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
        let sandbox = Sandbox::new(Config::default(), Clock::virtual_from(wall), &Seed::new(1));
        add_policy(&sandbox, name);
        sandbox
    }

    fn add_policy(sandbox: &Sandbox, name: &str) {
        let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]});
        let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]});
        let path = format!("{GROUP}/validatingadmissionpolicies");
        make(sandbox, &path, &json!({"metadata": {"name": name}, "spec": spec}));
        let spec = json!({"policyName": name, "validationActions": ["Deny"]});
        let path = format!("{GROUP}/validatingadmissionpolicybindings");
        make(sandbox, &path, &json!({"metadata": {"name": name}, "spec": spec}));
    }

    /// The policies as they were compiled last.
    fn compiled(sandbox: &Sandbox) -> Arc<Policies> {
        sandbox.compiled().lock().expect("nobody panicked").policies.clone()
    }

    /// What compiles fails where the store is held.
    #[test]
    fn policies_are_compiled_before_the_store_is_taken() {
        let sandbox = mk_sandbox("a");
        make(&sandbox, MAPS, &json!({"metadata": {"name": "m"}}));
        let before = compiled(&sandbox);
        assert_eq!(before.list.len(), 1);
        make(&sandbox, MAPS, &json!({"metadata": {"name": "n"}}));
        assert!(Arc::ptr_eq(&before, &compiled(&sandbox)), "they are as they were");
    }

    /// The same if one changes after that, and before the store is had.
    #[test]
    fn policies_that_change_meanwhile_are_compiled_before_the_store_is_taken() {
        let sandbox = mk_sandbox("a");
        let target = super::super::path::parse(MAPS).expect("a path");
        let kind = sandbox.kinds().find("", "v1", "configmaps").expect("it is served").clone();
        let call = Call {
            sandbox: &sandbox,
            request: &Request::default(),
            user: &User::admin(),
            target: &target,
            kind: &kind,
            accepted: super::super::negotiate::Accepted::default(),
            now: sandbox.clock().now(),
            warnings: std::cell::RefCell::default(),
        };
        for changes in [0, 1, 3] {
            let mut prepared = 0;
            let store = call.store_after(|| {
                call.prepare_policies();
                if prepared < changes {
                    add_policy(&sandbox, &format!("b{changes}{prepared}"));
                }
                prepared += 1;
            });
            assert_eq!((prepared, call.is_prepared(&store)), (changes + 1, true));
        }
    }

    #[test]
    fn policies_are_compiled_for_what_they_judge_alone() {
        let pods = "/api/v1/namespaces/default/pods";
        let pod = format!("{pods}/p");
        let scale = "/apis/apps/v1/namespaces/default/deployments/p/scale";
        for (method, path, judged) in [
            ("GET", pod.clone(), false),
            ("GET", format!("{pod}/status"), false),
            ("GET", format!("{pod}/log"), false),
            ("GET", scale.to_owned(), false),
            ("POST", pod.clone(), false),
            ("POST", format!("{pod}/unknown"), false),
            ("GET", format!("{pod}/exec"), true),
            ("POST", format!("{pod}/attach"), true),
            ("POST", format!("{pod}/eviction"), true),
            ("POST", format!("{pod}/binding"), true),
            ("POST", "/api/v1/namespaces/default/bindings".to_owned(), true),
            ("POST", "/api/v1/namespaces/default/serviceaccounts/p/token".to_owned(), true),
            ("POST", pods.to_owned(), true),
            ("PUT", pod.clone(), true),
            ("PUT", format!("{pod}/status"), true),
            ("PUT", scale.to_owned(), true),
            ("PUT", "/api/v1/namespaces/p/finalize".to_owned(), true),
            ("PATCH", pod.clone(), true),
            ("PATCH", scale.to_owned(), true),
            ("DELETE", pod, true),
        ] {
            let sandbox = mk_sandbox("a");
            let body = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
            let request = Request {
                method: method.to_owned(),
                path: path.clone(),
                content_type: (method == "PATCH").then(|| "application/merge-patch+json".to_owned()),
                body: if method == "DELETE" {
                    Body::default()
                } else {
                    Body::Value(body)
                },
                ..Request::default()
            };
            let answer = handle(&sandbox, &request, Some(&User::admin()));
            assert_eq!(
                compiled(&sandbox).list.len(),
                usize::from(judged),
                "{method} {path}: {answer:?}"
            );
        }
    }

    #[test]
    fn a_policy_is_compiled_once_whatever_happens_to_others() {
        let sandbox = mk_sandbox("a");
        make(&sandbox, MAPS, &json!({"metadata": {"name": "m"}}));
        let before = compiled(&sandbox);
        add_policy(&sandbox, "b");
        make(&sandbox, MAPS, &json!({"metadata": {"name": "n"}}));
        let after = compiled(&sandbox);
        assert_eq!((before.list.len(), after.list.len()), (1, 2));
        assert!(Arc::ptr_eq(&before.list[0].policy, &after.list[0].policy));
    }
}
