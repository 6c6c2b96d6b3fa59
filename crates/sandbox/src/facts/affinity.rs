//! Required node affinity: which nodes a pod may be placed on.

use std::collections::BTreeMap;

use bailiff_model::NodeName;

use super::view;

/// Terms of which one must match. No terms match nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeAffinity {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Term {
    labels: Vec<view::Expression>,
    fields: Vec<view::Expression>,
}

impl From<&view::NodeSelector> for NodeAffinity {
    fn from(selector: &view::NodeSelector) -> Self {
        let terms = selector.node_selector_terms.iter().map(|term| Term {
            labels: term.match_expressions.clone(),
            fields: term.match_fields.clone(),
        });
        Self { terms: terms.collect() }
    }
}

// === impl NodeAffinity ===

impl NodeAffinity {
    /// The node that a term names, by its field `metadata.name` being in a list of one.
    pub fn target(&self) -> Option<NodeName> {
        let fields = self.terms.iter().flat_map(|term| &term.fields);
        let mut names = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
        match names.next()?.values.as_slice() {
            [name] => Some(NodeName::from(name.as_str())),
            _ => None,
        }
    }

    /// True if the node may be chosen.
    pub fn matches(&self, name: &NodeName, labels: &BTreeMap<String, String>) -> bool {
        self.terms.iter().any(|term| term.matches(name, labels))
    }
}

impl Term {
    /// A term without any requirement matches nothing.
    fn matches(&self, name: &NodeName, labels: &BTreeMap<String, String>) -> bool {
        let is_empty = self.labels.is_empty() && self.fields.is_empty();
        let field = |key: &str| (key == "metadata.name").then(|| name.as_str());
        let label = |key: &str| labels.get(key).map(String::as_str);
        !is_empty
            && self.labels.iter().all(|expression| holds(expression, label(&expression.key)))
            && self.fields.iter().all(|expression| holds(expression, field(&expression.key)))
    }
}

/// True if `found` is what the expression wants; an operator that is none never holds.
fn holds(expression: &view::Expression, found: Option<&str>) -> bool {
    let is_listed = |value: &str| expression.values.iter().any(|wanted| wanted == value);
    match expression.operator.as_str() {
        "In" => found.is_some_and(is_listed),
        "NotIn" => !found.is_some_and(is_listed),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compare(expression, found).is_some_and(|(found, wanted)| found > wanted),
        "Lt" => compare(expression, found).is_some_and(|(found, wanted)| found < wanted),
        _ => false,
    }
}

fn compare(expression: &view::Expression, found: Option<&str>) -> Option<(i64, i64)> {
    let [wanted] = expression.values.as_slice() else { return None };
    Some((found?.parse().ok()?, wanted.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_affinity(terms: serde_json::Value) -> NodeAffinity {
        let selector: view::NodeSelector = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
        NodeAffinity::from(&selector)
    }

    #[test]
    fn one_term_must_match_with_all_its_requirements() {
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned()), ("cores".to_owned(), "8".to_owned())]);
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let cases = [
            (json!([]), false),
            (json!([{}]), false),
            (json!([{"matchExpressions": [expression("zone", "In", &["a", "b"])]}]), true),
            (json!([{"matchExpressions": [expression("zone", "NotIn", &["a"])]}]), false),
            (json!([{"matchExpressions": [expression("rack", "NotIn", &["a"])]}]), true),
            (
                json!([{"matchExpressions": [expression("zone", "Exists", &[]), expression("rack", "DoesNotExist", &[])]}]),
                true,
            ),
            (
                json!([{"matchExpressions": [expression("cores", "Gt", &["4"]), expression("cores", "Lt", &["8"])]}]),
                false,
            ),
            (json!([{"matchExpressions": [expression("cores", "Near", &["8"])]}]), false),
            (json!([{"matchFields": [expression("metadata.name", "In", &["n1"])]}]), true),
            (json!([{"matchFields": [expression("metadata.uid", "In", &["n1"])]}]), false),
            (
                json!([{}, {"matchFields": [expression("metadata.name", "In", &["n1"])]}]),
                true,
            ),
        ];
        for (terms, wanted) in cases {
            assert_eq!(
                mk_affinity(terms.clone()).matches(&NodeName::from("n1"), &labels),
                wanted,
                "{terms}"
            );
        }
    }

    #[test]
    fn a_pod_names_its_node_by_a_list_of_one() {
        let by = |operator: &str, values: &[&str]| {
            mk_affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]}])).target()
        };
        assert_eq!(by("In", &["n1"]), Some(NodeName::from("n1")));
        assert_eq!(by("In", &["n1", "n2"]), None);
        assert_eq!(by("NotIn", &["n1"]), None);
    }
}
