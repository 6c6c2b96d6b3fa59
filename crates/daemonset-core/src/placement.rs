//! Should this node run a daemon pod (DS-080 to DS-083)?
//!
//! A template is compiled once into a predicate; judging a node allocates nothing. Resources, ports, conditions,
//! `spec.unschedulable`, pod affinity and preferred affinity play no part.

use std::sync::Arc;

use bailiff_model::{Effect, Operator, Taint, Toleration, taint};
use serde::Deserialize;
use serde_json::Value;

use crate::facts::Node;
use crate::selector::{Expression, Requirement};
use bailiff_model::decode::or_default;

/// Whether a node should get, and may keep, a daemon pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// It should run one.
    pub run: bool,
    /// It may keep one that is there.
    pub keep: bool,
}

impl Verdict {
    const NEITHER: Self = Self { run: false, keep: false };
    const KEEP: Self = Self { run: false, keep: true };
    const RUN: Self = Self { run: true, keep: true };
}

/// The compiled predicate of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    node_name: Option<Arc<str>>,
    node_selector: Vec<(Arc<str>, Arc<str>)>,
    /// Terms of required node affinity, of which one must match; `None` if there is no such affinity.
    terms: Option<Vec<Term>>,
    tolerations: Vec<Toleration>,
}

/// One node selector term: all of it must match.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    labels: Vec<Requirement>,
    names: Vec<NameRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NameRequirement {
    Is(Arc<str>),
    IsNot(Arc<str>),
}

impl Placement {
    /// The predicate of a pod spec whose tolerations already hold the automatic ones (DS-091).
    pub(crate) fn compile(spec: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(Arc::from);
        let node_selector = spec["nodeSelector"].as_object().into_iter().flatten();
        let tolerations = spec["tolerations"].as_array().into_iter().flatten();
        let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let terms = required["nodeSelectorTerms"].as_array();
        Self {
            node_name: text(&spec["nodeName"]).filter(|name: &Arc<str>| !name.is_empty()),
            node_selector: node_selector
                .map(|(key, value)| (Arc::from(key.as_str()), text(value).unwrap_or_default()))
                .collect(),
            terms: (!required.is_null()).then(|| terms.into_iter().flatten().filter_map(Term::compile).collect()),
            tolerations: tolerations.map(toleration).collect(),
        }
    }

    /// Judges a node: the first matching row of DS-080's table.
    pub fn judge(&self, node: &Node) -> Verdict {
        if !self.selects(node) || self.untolerated(node, Effect::NoExecute).is_some() {
            Verdict::NEITHER
        } else if self.untolerated(node, Effect::NoSchedule).is_some() {
            Verdict::KEEP
        } else {
            Verdict::RUN
        }
    }

    /// The taint because of which a node may not keep a daemon pod, if it is a taint: the first of several.
    pub(crate) fn driven_away_by<'a>(&self, node: &'a Node) -> Option<&'a Taint> {
        self.untolerated(node, Effect::NoExecute).filter(|_| self.selects(node))
    }

    fn untolerated<'a>(&self, node: &'a Node, effect: Effect) -> Option<&'a Taint> {
        let mut taints = node.taints.iter().filter(|taint| taint.effect == effect);
        taints.find(|taint| taint::used(taint, &self.tolerations).is_none())
    }

    /// True if the template wants nodes like this one, taints aside.
    fn selects(&self, node: &Node) -> bool {
        let is_named = self.node_name.as_ref().is_none_or(|name| **name == *node.name.as_str());
        is_named && self.matches(node)
    }

    /// DS-081
    fn matches(&self, node: &Node) -> bool {
        let is_equal = |(key, value): &(Arc<str>, Arc<str>)| node.labels.get(key) == Some(value);
        self.node_selector.iter().all(is_equal)
            && self
                .terms
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }
}

impl Term {
    /// `None` for a term that matches nothing: an empty one, or one that cannot be read.
    fn compile(value: &Value) -> Option<Self> {
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Object {
            #[serde(deserialize_with = "or_default")]
            match_expressions: Vec<Expression>,
            #[serde(deserialize_with = "or_default")]
            match_fields: Vec<Expression>,
        }
        let object = Object::deserialize(value).ok()?;
        if object.match_expressions.is_empty() && object.match_fields.is_empty() {
            return None;
        }
        let labels = object.match_expressions.iter();
        let labels: Option<Vec<_>> = labels
            .map(|one| Requirement::new(&one.key, &one.operator, &one.values))
            .collect();
        let names: Option<Vec<_>> = object.match_fields.iter().map(NameRequirement::compile).collect();
        Some(Self {
            labels: labels?,
            names: names?,
        })
    }

    fn matches(&self, node: &Node) -> bool {
        let is_name = |requirement: &NameRequirement| match requirement {
            NameRequirement::Is(name) => **name == *node.name.as_str(),
            NameRequirement::IsNot(name) => **name != *node.name.as_str(),
        };
        self.names.iter().all(is_name)
            && self
                .labels
                .iter()
                .all(|requirement| requirement.matches_by(|key| node.labels.get(key)))
    }
}

impl NameRequirement {
    fn compile(expression: &Expression) -> Option<Self> {
        let ("metadata.name", [name]) = (expression.key.as_str(), expression.values.as_slice()) else {
            return None;
        };
        match expression.operator.as_str() {
            "In" => Some(Self::Is(name.clone())),
            "NotIn" => Some(Self::IsNot(name.clone())),
            _ => None,
        }
    }
}

/// A toleration of a template. One with an unknown effect matches nothing.
fn toleration(value: &Value) -> Toleration {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let effect = Effect::parse(text("effect"));
    let operator = if effect.is_none() && !text("effect").is_empty() {
        Operator::Never
    } else {
        Operator::parse(text("operator"))
    };
    Toleration {
        key: Arc::from(text("key")),
        operator,
        value: Arc::from(text("value")),
        effect,
        seconds: None,
    }
}

#[cfg(test)]
mod tests;
