//! What expressions see of a request, whichever policy they belong to.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use bailiff_cel::{Check, EvalError, Value as Cel};
use serde_json::{Map, Value, json};

use super::{Attributes, Form, World};

/// A request, and what else there is, as values of expressions. Each is made once, however many policies and bindings look at it: that
/// takes as long as the object is large, and no budget of theirs pays for it.
pub struct Sight<'a> {
    /// The request.
    pub attributes: &'a Attributes<'a>,
    /// What else may be looked at.
    pub world: &'a dyn World,
    /// What they may still cost.
    left: Cell<u64>,
    /// By the version of the object, and the name.
    seen: RefCell<BTreeMap<String, Result<Cel, EvalError>>>,
}

impl<'a> Sight<'a> {
    /// What is to be seen of a request, by policies that may cost so many steps together.
    pub fn new(attributes: &'a Attributes<'a>, world: &'a dyn World, budget: u64) -> Self {
        Self {
            attributes,
            world,
            left: Cell::new(budget),
            seen: RefCell::default(),
        }
    }

    /// What policies may still cost.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// Takes of it, down to nothing; whether something is left.
    pub fn spend(&self, steps: u64) -> bool {
        self.left.set(self.left.get().saturating_sub(steps));
        self.left.get() > 0
    }

    /// The value of a name, where the object is in this form.
    ///
    /// # Errors
    /// When there is no such name, or its value is nested too deeply.
    pub fn value(&self, form: &Form, name: &str) -> Result<Cel, EvalError> {
        let key = format!("{}/{} {name}", form.group, form.version);
        let seen = self.seen.borrow().get(&key).cloned();
        seen.unwrap_or_else(|| {
            let value = self.found(form, name);
            self.seen.borrow_mut().insert(key, value.clone());
            value
        })
    }

    fn found(&self, form: &Form, name: &str) -> Result<Cel, EvalError> {
        #[cfg(test)]
        super::tests::count_made();
        match name {
            "object" => Cel::from_json(&form.object),
            "oldObject" => Cel::from_json(&form.old),
            "request" => Cel::from_json(&self.request(form)),
            "namespaceObject" => Cel::from_json(&self.namespace()),
            _ => Err(EvalError::value(format!("no such attribute: {name}"))),
        }
    }

    /// The question whether the request itself is allowed, but for what is to be done.
    pub fn own_check(&self) -> Check {
        let form = self.attributes.own();
        Check {
            group: form.group.clone(),
            resource: form.resource.clone(),
            subresource: self.attributes.subresource.clone(),
            namespace: self.attributes.namespace.clone(),
            name: self.attributes.name.clone(),
            ..Check::default()
        }
    }

    /// The request as JSON would have it: what is empty is left out, except where it never is.
    fn request(&self, form: &Form) -> Value {
        let attributes = self.attributes;
        let own = attributes.own();
        let kind = |(group, version, kind): &(String, String, String)| json!({"group": group, "version": version, "kind": kind});
        let resource = |form: &Form| json!({"group": form.group, "version": form.version, "resource": form.resource});
        let mut request = json!({
            "uid": "",
            "kind": kind(&form.kind), "resource": resource(form),
            "requestKind": kind(&own.kind), "requestResource": resource(own),
            "operation": attributes.operation, "userInfo": self.user(), "dryRun": attributes.dry_run,
        });
        for (field, text) in [
            ("subResource", &attributes.subresource),
            ("requestSubResource", &attributes.subresource),
            ("name", &attributes.name),
            ("namespace", &attributes.namespace),
        ] {
            if !text.is_empty() {
                request[field] = text.as_str().into();
            }
        }
        if !attributes.options.is_null() {
            request["options"] = attributes.options.clone();
        }
        request
    }

    fn user(&self) -> Value {
        let user = self.attributes.user;
        let mut info = json!({"username": &*user.name});
        if !user.uid.is_empty() {
            info["uid"] = (&*user.uid).into();
        }
        if !user.groups.is_empty() {
            info["groups"] = user.groups.iter().map(|group| &**group).collect();
        }
        let mut extra: Map<String, Value> = Map::new();
        for (key, value) in &user.extra {
            let values = extra.entry(&**key).or_insert_with(|| json!([]));
            if let Value::Array(values) = values {
                values.push((&**value).into());
            }
        }
        if !extra.is_empty() {
            info["extra"] = Value::Object(extra);
        }
        info
    }

    /// The Namespace of the object, as far as policies see it; null for what is in none, and for a Namespace itself.
    fn namespace(&self) -> Value {
        const SEEN: [&str; 12] = [
            "name",
            "generateName",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "labels",
            "annotations",
            "finalizers",
        ];
        let attributes = self.attributes;
        if attributes.namespace.is_empty() || attributes.about_namespace() {
            return Value::Null;
        }
        let Some(namespace) = self.world.namespace(&attributes.namespace) else {
            return Value::Null;
        };
        let given = |field: &str| namespace.get(field).cloned().unwrap_or_else(|| json!({}));
        let mut metadata = given("metadata");
        if let Value::Object(fields) = &mut metadata {
            fields.retain(|field, _| SEEN.contains(&field.as_str()));
        }
        json!({"metadata": metadata, "spec": given("spec"), "status": given("status")})
    }
}
