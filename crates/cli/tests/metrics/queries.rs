//! What alerts and dashboard ask for, held to what there is: metrics, labels, values, and the labels that are left for their texts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use promql_parser::label::MatchOp;
use promql_parser::parser::value::ValueType;
use promql_parser::parser::{self, AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, VectorSelector};
use serde_json::Value;

use super::openmetrics::{Family, Labels};

const FILES: &str = "../../deploy/chart/bailiff/files";
/// Labels that Prometheus adds to what it scrapes, by the chart's ServiceMonitors.
const OF_TARGETS: [&str; 7] = ["job", "instance", "namespace", "pod", "container", "service", "endpoint"];

/// An expression, and what is said about its result.
#[derive(Debug)]
pub struct Query {
    /// Whose it is.
    pub place: String,
    pub expression: String,
    /// Labels of the result that texts name.
    pub says: BTreeSet<String>,
}

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILES).join(name)).unwrap()
}

/// The alerts, as they are.
pub fn alerts() -> Vec<Value> {
    let file: Value = serde_saphyr::from_str(&read("alerts.yaml")).unwrap();
    let groups = file["groups"].as_array().unwrap().iter();
    groups.flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// The panels of the dashboard, as they are.
pub fn panels() -> Vec<Value> {
    let file: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    file["panels"].as_array().unwrap().clone()
}

/// All that is asked.
pub fn all() -> Vec<Query> {
    let mut queries = Vec::new();
    for alert in alerts() {
        let texts = alert["annotations"]
            .as_object()
            .unwrap()
            .values()
            .map(|text| text.as_str().unwrap());
        queries.push(Query {
            place: format!("alert {}", alert["alert"].as_str().unwrap()),
            expression: alert["expr"].as_str().unwrap().to_owned(),
            says: texts.flat_map(|text| labels_in(text, "$labels.")).collect(),
        });
    }
    for panel in panels() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries.push(Query {
                place: format!("panel {}", panel["title"].as_str().unwrap()),
                expression: target["expr"].as_str().unwrap().to_owned(),
                says: labels_in(target["legendFormat"].as_str().unwrap(), "{{").collect(),
            });
        }
    }
    queries
}

/// The names that follow a mark.
fn labels_in<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = String> {
    text.split(mark).skip(1).map(|after| {
        let is_other = |char: char| !char.is_ascii_alphanumeric() && char != '_';
        after.trim_start().split(is_other).next().unwrap_or_default().to_owned()
    })
}

/// The series that there are, by name.
pub struct Series<'a>(BTreeMap<&'a str, Vec<&'a Labels>>);

impl<'a> Series<'a> {
    pub fn of(families: impl IntoIterator<Item = &'a Family>) -> Self {
        let mut series: BTreeMap<&str, Vec<&Labels>> = BTreeMap::new();
        for sample in families.into_iter().flat_map(|family| &family.samples) {
            series.entry(&sample.name).or_default().push(&sample.labels);
        }
        Self(series)
    }

    /// Whether these could answer it.
    pub fn check(&self, query: &Query) -> Result<(), String> {
        let refuse = |problem: String| format!("{}: {problem} in {}", query.place, query.expression);
        let expression = parser::parse(&query.expression).map_err(refuse)?;
        let labels = self.labels(&expression).map_err(refuse)?;
        match query.says.iter().find(|label| !labels.contains(*label)) {
            Some(lost) => Err(refuse(format!("the text names label {lost}, which the result has not"))),
            None => Ok(()),
        }
    }

    /// The labels of the result, in each of its series.
    fn labels(&self, expression: &Expr) -> Result<BTreeSet<String>, String> {
        match expression {
            Expr::VectorSelector(selector) => self.selected(selector),
            Expr::MatrixSelector(selector) => self.selected(&selector.vs),
            Expr::Paren(inner) => self.labels(&inner.expr),
            Expr::Unary(inner) => self.labels(&inner.expr),
            Expr::Subquery(inner) => self.labels(&inner.expr),
            Expr::Aggregate(aggregate) => self.aggregated(aggregate),
            Expr::Binary(binary) => self.combined(binary),
            Expr::Call(call) => self.called(call),
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => Ok(BTreeSet::new()),
            Expr::Extension(_) => Err("something that is not PromQL".to_owned()),
        }
    }

    fn selected(&self, selector: &VectorSelector) -> Result<BTreeSet<String>, String> {
        let name = selector.name.as_deref().ok_or("no name")?;
        let series = self.0.get(name).ok_or_else(|| format!("no metric {name}"))?;
        let is_own = |label: &str| !OF_TARGETS.contains(&label);
        let matchers = selector.matchers.matchers.iter().filter(|matcher| is_own(&matcher.name));
        let mut left = series.clone();
        for matcher in matchers {
            let label = &matcher.name;
            let values: BTreeSet<&str> = series
                .iter()
                .filter_map(|labels| labels.get(label))
                .map(String::as_str)
                .collect();
            // Of several values in an expression each has to be one that there is.
            let asked: Vec<&str> = match matcher.op {
                MatchOp::Equal | MatchOp::NotEqual => vec![&matcher.value],
                MatchOp::Re(_) | MatchOp::NotRe(_) => matcher.value.split('|').collect(),
            };
            let is_word = |value: &str| value.chars().all(|char| char.is_alphanumeric() || "_-".contains(char));
            if let Some(value) = asked.iter().find(|value| is_word(value) && !values.contains(**value)) {
                return Err(format!("{name} has no {label}=\"{value}\", only {values:?}"));
            }
            left.retain(|labels| labels.get(label).is_some_and(|value| matcher.is_match(value)));
        }
        let first = left.first().ok_or_else(|| format!("no series of {name} is as asked"))?;
        Ok(first.keys().cloned().chain(OF_TARGETS.map(str::to_owned)).collect())
    }

    fn aggregated(&self, aggregate: &AggregateExpr) -> Result<BTreeSet<String>, String> {
        let inner = self.labels(&aggregate.expr)?;
        match &aggregate.modifier {
            None => Ok(BTreeSet::new()),
            Some(LabelModifier::Exclude(without)) => {
                Ok(inner.into_iter().filter(|label| !without.labels.contains(label)).collect())
            }
            Some(LabelModifier::Include(by)) => match by.labels.iter().find(|label| !inner.contains(*label)) {
                Some(unknown) => Err(format!("by {unknown}, which is no label")),
                None => Ok(by.labels.iter().cloned().collect()),
            },
        }
    }

    fn combined(&self, binary: &BinaryExpr) -> Result<BTreeSet<String>, String> {
        let [left, right] = [self.labels(&binary.lhs)?, self.labels(&binary.rhs)?];
        let is_scalar = |side: &Expr| side.value_type() == ValueType::Scalar;
        match binary.op.to_string().as_str() {
            "or" => Ok(left.intersection(&right).cloned().collect()),
            _ if is_scalar(&binary.rhs) => Ok(left),
            _ if is_scalar(&binary.lhs) => Ok(right),
            _ if left != right && binary.modifier.as_ref().is_none_or(|modifier| modifier.matching.is_none()) => {
                Err(format!("{left:?} never match {right:?}"))
            }
            _ => Ok(left),
        }
    }

    fn called(&self, call: &Call) -> Result<BTreeSet<String>, String> {
        let arguments = &call.args.args;
        let mut inner = arguments
            .iter()
            .map(|argument| self.labels(argument))
            .collect::<Result<Vec<_>, _>>()?;
        match (call.func.name, arguments.first().map(|argument| &**argument)) {
            // What is not there has the labels that were asked for.
            ("absent", Some(Expr::VectorSelector(selector))) => {
                let equal = selector
                    .matchers
                    .matchers
                    .iter()
                    .filter(|matcher| matcher.op == MatchOp::Equal);
                Ok(equal.map(|matcher| matcher.name.clone()).collect())
            }
            ("absent" | "scalar" | "vector" | "time", _) => Ok(BTreeSet::new()),
            ("histogram_quantile", _) => match inner.remove(1) {
                labels if labels.contains("le") => Ok(labels.into_iter().filter(|label| label != "le").collect()),
                _ => Err("a quantile of what has no buckets".to_owned()),
            },
            ("rate" | "increase" | "clamp_min" | "max_over_time", _) => Ok(inner.remove(0)),
            (name, _) => Err(format!("what labels {name}() leaves is not said here")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::openmetrics::parse;
    use super::*;

    fn check(expression: &str, says: &[&str]) -> Result<(), String> {
        let families = parse(
            "# HELP a A.\n# TYPE a counter\na_total{kind=\"x\"} 0\na_total{kind=\"y\"} 0\n\
             # HELP b B.\n# TYPE b histogram\nb_sum 0\nb_count 0\nb_bucket{le=\"+Inf\"} 0\n# EOF\n",
        );
        Series::of(&families).check(&Query {
            place: "here".to_owned(),
            expression: expression.to_owned(),
            says: says.iter().map(|label| (*label).to_owned()).collect(),
        })
    }

    #[test]
    fn what_can_be_answered_is_let_through() {
        for (expression, says) in [
            ("increase(a_total{kind=\"x\"}[5m]) > 0", &["kind", "instance"][..]),
            (
                "sum by (kind) (rate(a_total{kind=~\"x|y\"}[5m])) or sum by (kind) (a_total)",
                &["kind"],
            ),
            ("histogram_quantile(0.9, sum by (le) (rate(b_bucket[5m]))) > 5", &[]),
            ("absent(a_total{kind=\"x\"})", &["kind"]),
            ("time() - a_total > 1", &["kind"]),
        ] {
            assert_eq!(check(expression, says), Ok(()));
        }
    }

    #[test]
    fn what_nobody_could_answer_is_refused() {
        for (expression, says, problem) in [
            ("a > 0", &[][..], "no metric a "),
            ("a_total{kind=\"z\"}", &[], "no kind=\"z\""),
            ("a_total{kind=~\"x|z\"}", &[], "no kind=\"z\""),
            ("a_total{sort=\"x\"}", &[], "no sort="),
            ("sum by (sort) (a_total)", &[], "by sort"),
            ("sum(a_total)", &["kind"], "names label kind"),
            ("absent(a_total{kind=\"x\"} == 1)", &["kind"], "names label kind"),
            ("a_total and sum(a_total)", &[], "never match"),
            ("histogram_quantile(0.9, rate(b_sum[5m]))", &[], "no buckets"),
            ("rate(a_total)", &[], "here: "),
        ] {
            let refused = check(expression, says).expect_err(expression);
            assert!(refused.contains(problem), "{refused}");
        }
    }

    #[test]
    fn labels_are_found_in_texts() {
        let found = |text, mark| labels_in(text, mark).collect::<Vec<_>>();
        assert_eq!(
            found("{{ $labels.a }} and {{ $value }} of {{ $labels.b_c}}", "$labels."),
            ["a", "b_c"]
        );
        assert_eq!(found("{{by}} {{ result }}", "{{"), ["by", "result"]);
    }
}
