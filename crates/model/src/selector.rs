//! Label selectors and the requirements they are made of.

use std::collections::BTreeMap;
use std::sync::Arc;

/// `metadata.labels`.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label has one of these values.
    In(Arc<str>, Vec<Arc<str>>),
    /// The label is absent or has none of these values.
    NotIn(Arc<str>, Vec<Arc<str>>),
    /// The label is there.
    Exists(Arc<str>),
    /// The label is absent.
    DoesNotExist(Arc<str>),
    /// The label is an integer above this. Of nodes only.
    Gt(Arc<str>, i64),
    /// The label is an integer below this. Of nodes only.
    Lt(Arc<str>, i64),
}

/// `spec.selector` of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// Absent, or not valid: matches nothing, and nothing is done for it.
    #[default]
    Nothing,
    /// These requirements, all of them. None at all selects everything (DS-040).
    All(Vec<Requirement>),
}

// === impl Requirement ===

impl Requirement {
    /// The requirement, or `None` if it is none that labels can be judged by.
    pub fn new(key: &str, operator: &str, values: &[Arc<str>]) -> Option<Self> {
        let key = Arc::from(key);
        let bound = || match values {
            [value] => value.parse().ok(),
            _ => None,
        };
        match operator {
            "In" if !values.is_empty() => Some(Self::In(key, values.to_vec())),
            "NotIn" if !values.is_empty() => Some(Self::NotIn(key, values.to_vec())),
            "Exists" if values.is_empty() => Some(Self::Exists(key)),
            "DoesNotExist" if values.is_empty() => Some(Self::DoesNotExist(key)),
            "Gt" => Some(Self::Gt(key, bound()?)),
            "Lt" => Some(Self::Lt(key, bound()?)),
            _ => None,
        }
    }

    /// True if an object with `labels` meets it.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_by(|key| labels.get(key))
    }

    /// True if an object whose labels `label` looks up meets it.
    pub fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a Arc<str>>) -> bool {
        let number = |key: &Arc<str>| label(key).and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(key, values) => label(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => label(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => label(key).is_some(),
            Self::DoesNotExist(key) => label(key).is_none(),
            Self::Gt(key, bound) => number(key).is_some_and(|value| value > *bound),
            Self::Lt(key, bound) => number(key).is_some_and(|value| value < *bound),
        }
    }
}

// === impl Selector ===

impl Selector {
    /// The selector of `matchLabels` and `matchExpressions` (key, operator, values); one that is not valid selects nothing.
    pub fn new<'a, L, E>(match_labels: L, match_expressions: E) -> Self
    where
        L: IntoIterator<Item = (&'a str, &'a str)>,
        E: IntoIterator<Item = (&'a str, &'a str, &'a [Arc<str>])>,
    {
        let equal = match_labels
            .into_iter()
            .map(|(key, value)| Some(Requirement::In(Arc::from(key), vec![Arc::from(value)])));
        let expressions = match_expressions.into_iter().map(|(key, operator, values)| match operator {
            // Bounds exist for nodes only.
            "Gt" | "Lt" => None,
            operator => Requirement::new(key, operator, values),
        });
        equal
            .chain(expressions)
            .collect::<Option<_>>()
            .map_or(Self::Nothing, Self::All)
    }

    /// True if it selects every pod: it is there, and empty.
    pub const fn is_everything(&self) -> bool {
        matches!(self, Self::All(requirements) if requirements.is_empty())
    }

    /// True if nothing is done for it: it is not there or not valid, or selects every pod (DS-040).
    pub const fn is_idle(&self) -> bool {
        matches!(self, Self::Nothing) || self.is_everything()
    }

    /// True if an object with `labels` is selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => requirements.iter().all(|requirement| requirement.matches(labels)),
        }
    }
}
