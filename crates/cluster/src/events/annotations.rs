//! The causes of an Event, as annotations: the text stays upstream's.

use bailiff_model::About;
use serde_json::{Map, Value};

/// The trace that the Event belongs to: 32 hexadecimal digits, as a tracing system is asked for it.
pub const ANNOTATION_TRACE_ID: &str = "bailiff.dev/trace-id";

/// Name of the node because of which, or for which, it was done.
pub const ANNOTATION_NODE: &str = "bailiff.dev/node";

/// The taint because of which it was done, as kubectl writes taints: `key=value:Effect`, or `key:Effect` without a value.
pub const ANNOTATION_TAINT: &str = "bailiff.dev/taint";

/// Each annotation with its value, if it has one.
fn pairs(about: &About) -> [(&'static str, Option<String>); 3] {
    let About { trace, node, taint } = about;
    [
        (ANNOTATION_TRACE_ID, trace.map(|trace| format!("{:032x}", trace.trace_id()))),
        (ANNOTATION_NODE, node.as_ref().map(ToString::to_string)),
        (ANNOTATION_TAINT, taint.as_ref().map(ToString::to_string)),
    ]
}

/// Those of a new Event; `None` if there is nothing to name.
pub(super) fn of_new(about: &About) -> Option<Value> {
    let known = pairs(about).into_iter().filter_map(|(key, value)| Some((key, value?)));
    let known: Map<String, Value> = known.map(|(key, value)| (key.to_owned(), value.into())).collect();
    (!known.is_empty()).then_some(Value::Object(known))
}

/// As a merge patch of an Event that is said again. All of them are in it, so that what is named is the causes of the newest alone: what
/// an earlier one had and the newest has not is taken away.
pub(super) fn of_repeated(about: &About) -> Value {
    let all = pairs(about).map(|(key, value)| (key.to_owned(), Value::from(value)));
    Value::Object(all.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use bailiff_model::{Effect, Taint, TraceContext};
    use serde_json::json;

    use super::*;

    #[test]
    fn causes_are_named_as_far_as_they_are_known() {
        let trace = TraceContext::new(0xab, 1).expect("ids are not zero");
        let taint = |value: &str| Taint {
            value: value.into(),
            ..Taint::new("example.com/m", Effect::NoExecute)
        };
        let node = About::node(&"n1".into());
        let cases = [
            (About::default(), None),
            (node.clone(), Some(json!({"bailiff.dev/node": "n1"}))),
            (
                About::default().traced(Some(trace)),
                Some(json!({"bailiff.dev/trace-id": "000000000000000000000000000000ab"})),
            ),
            (
                node.clone().because_of(Some(&taint(""))),
                Some(json!({"bailiff.dev/node": "n1", "bailiff.dev/taint": "example.com/m:NoExecute"})),
            ),
            (
                node.traced(Some(trace)).because_of(Some(&taint("v"))),
                Some(json!({
                    "bailiff.dev/trace-id": "000000000000000000000000000000ab",
                    "bailiff.dev/node": "n1",
                    "bailiff.dev/taint": "example.com/m=v:NoExecute",
                })),
            ),
        ];
        for (about, wanted) in cases {
            assert_eq!(of_new(&about), wanted, "{about:?}");
        }
    }

    #[test]
    fn what_is_said_again_names_its_own_causes_and_no_others() {
        let wanted = json!({"bailiff.dev/trace-id": null, "bailiff.dev/node": "n1", "bailiff.dev/taint": null});
        assert_eq!(of_repeated(&About::node(&"n1".into())), wanted);
    }
}
