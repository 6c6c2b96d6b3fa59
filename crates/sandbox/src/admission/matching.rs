//! Which requests a policy or a binding is about.

use serde_json::Value;

use super::{Attributes, Form, World};
use crate::api::selector::Selector;
use crate::rules::{items, text};

/// What requests are meant.
#[derive(Clone, Debug)]
pub struct Matches {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Whether other versions of the same resource count.
    equivalent: bool,
    namespaces: Selector,
    objects: Selector,
}

/// Requests by what they do to what.
#[derive(Clone, Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
    scope: String,
}

impl Matches {
    /// Reads MatchResources.
    pub fn of(value: &Value) -> Self {
        let selector = |field: &str| Selector::of_object(value.get(field).unwrap_or(&Value::Null));
        Self {
            rules: items(value, "/resourceRules").iter().map(Rule::of).collect(),
            excluded: items(value, "/excludeResourceRules").iter().map(Rule::of).collect(),
            equivalent: text(value, "/matchPolicy") != "Exact",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }
}

impl Rule {
    fn of(value: &Value) -> Self {
        let texts = |field: &str| {
            let list = items(value, field).iter().filter_map(Value::as_str);
            list.map(str::to_owned).collect()
        };
        Self {
            operations: texts("/operations"),
            groups: texts("/apiGroups"),
            versions: texts("/apiVersions"),
            resources: texts("/resources"),
            names: texts("/resourceNames"),
            scope: text(value, "/scope").to_owned(),
        }
    }

    fn means(&self, attributes: &Attributes<'_>, form: &Form) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let in_namespace = !attributes.about_namespace() && !attributes.namespace.is_empty();
        let scope = match self.scope.as_str() {
            "Namespaced" => in_namespace,
            "Cluster" => !in_namespace,
            _ => true,
        };
        let resource = self.resources.iter().any(|one| {
            let (resource, subresource) = one.split_once('/').unwrap_or((one, ""));
            (resource == "*" || resource == form.resource) && (subresource == "*" || subresource == attributes.subresource)
        });
        let named = self.names.is_empty() || self.names.contains(&attributes.name);
        scope
            && has(&self.operations, attributes.operation)
            && has(&self.groups, &form.group)
            && has(&self.versions, &form.version)
            && resource
            && named
    }
}

/// The form of the object in which a request is meant, if it is.
pub fn form<'a>(matches: &Matches, attributes: &'a Attributes<'_>, world: &dyn World) -> Option<&'a Form> {
    if !in_namespaces(&matches.namespaces, attributes, world) || !has_labels(&matches.objects, attributes.own()) {
        return None;
    }
    let by = |rules: &[Rule]| {
        let forms = if matches.equivalent { attributes.forms.len() } else { 1 };
        let mut forms = attributes.forms.iter().take(forms);
        forms.find(|form| rules.iter().any(|rule| rule.means(attributes, form)))
    };
    if by(&matches.excluded).is_some() {
        return None;
    }
    if matches.rules.is_empty() {
        return attributes.forms.first();
    }
    by(&matches.rules)
}

fn labelled(selector: &Selector, object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels");
    selector.matches_labels(&|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
}

/// What is in no namespace is never left out; a Namespace counts by its own labels.
fn in_namespaces(selector: &Selector, attributes: &Attributes<'_>, world: &dyn World) -> bool {
    if selector.is_empty() || (attributes.namespace.is_empty() && !attributes.about_namespace()) {
        return true;
    }
    let own = attributes.own();
    if attributes.about_namespace() && attributes.subresource.is_empty() && matches!(attributes.operation, "CREATE" | "UPDATE") {
        return labelled(selector, &own.object);
    }
    world
        .namespace(&attributes.namespace)
        .is_some_and(|namespace| labelled(selector, &namespace))
}

/// The labels before or after will do.
fn has_labels(selector: &Selector, form: &Form) -> bool {
    if selector.is_empty() {
        return true;
    }
    [&form.object, &form.old]
        .into_iter()
        .any(|object| !object.is_null() && labelled(selector, object))
}
