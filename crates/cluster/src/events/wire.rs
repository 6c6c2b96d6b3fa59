//! Events as the API has them (events.k8s.io/v1).

use bailiff_model::Wall;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::correlator::Saying;
use super::{Draft, annotations};

/// Longest `note` that the API server accepts, in bytes.
const MAX_NOTE: usize = 1024;

/// Longest name that the API server accepts, in bytes.
const MAX_NAME: usize = 253;

/// Who reports.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) controller: &'static str,
    pub(super) instance: String,
}

/// Name of an Event about the object of this name: that, and a number, as client-go's. Objects may have names as long as an Event may.
pub(super) fn name_of(regarding: &str, number: u64) -> String {
    let number = format!(".{number:016x}");
    // What stands before a dot ends with a letter or a digit.
    let most = cut(regarding, MAX_NAME - number.len()).trim_end_matches(['.', '-']);
    format!("{most}{number}")
}

/// Path of the Events of the object's namespace. Those of cluster-scoped objects live in namespace `default` (NL-130).
pub(super) fn collection(draft: &Draft) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{}/events", namespace(draft))
}

/// `events.k8s.io/v1` `Event`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    event_time: String,
    reporting_controller: &'a str,
    reporting_instance: &'a str,
    action: &'a str,
    reason: &'a str,
    regarding: Reference<'a>,
    note: &'a str,
    #[serde(rename = "type")]
    severity: &'static str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Value>,
}

/// `core/v1` `ObjectReference`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
}

/// A new Event. Its time, as that of a repetition, is when it was said, however late it is written.
pub(super) fn event(saying: &Saying, reporter: &Reporter) -> Box<RawValue> {
    let (draft, name) = (&saying.draft, &saying.name);
    let regarding = &draft.regarding;
    let event = Event {
        api_version: "events.k8s.io/v1",
        kind: "Event",
        metadata: Metadata {
            name,
            namespace: namespace(draft),
            annotations: annotations::of_new(&draft.about),
        },
        event_time: micro_time(saying.at),
        reporting_controller: reporter.controller,
        reporting_instance: &reporter.instance,
        action: draft.action,
        reason: draft.reason,
        regarding: Reference {
            api_version: regarding.api_version,
            kind: regarding.kind,
            name: &regarding.name,
            namespace: &regarding.namespace,
            uid: &regarding.uid,
            resource_version: &regarding.resource_version,
        },
        note: cut(&draft.note, MAX_NOTE),
        severity: draft.severity.as_str(),
    };
    serde_json::value::to_raw_value(&event).expect("texts are JSON")
}

/// Path and merge patch of the repetition of an Event.
///
/// In events.k8s.io/v1 everything but its series and its annotations is immutable. What stands for several, and so says something
/// else each time, is changed as the core/v1 Event that it is too: there a message may change.
pub(super) fn repetition(saying: &Saying, count: u32) -> (String, Value) {
    let (draft, name) = (&saying.draft, &saying.name);
    let mut patch = json!({
        "metadata": {"annotations": annotations::of_repeated(&draft.about)},
        "series": {"count": count, "lastObservedTime": micro_time(saying.at)},
    });
    if !saying.is_merged {
        return (format!("{}/{name}", collection(draft)), patch);
    }
    patch["message"] = json!(cut(&draft.note, MAX_NOTE));
    (format!("/api/v1/namespaces/{}/events/{name}", namespace(draft)), patch)
}

/// A MicroTime: exactly six digits of fraction.
fn micro_time(wall: Wall) -> String {
    format!("{wall:.6}")
}

fn namespace(draft: &Draft) -> &str {
    match draft.regarding.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

/// As much of it as fits into so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_name_that_is_accepted_however_long_that_of_its_object_is() {
        let long = "a".repeat(235);
        for (object, begins) in [
            ("p".to_owned(), "p"),
            ("b".repeat(253), &*"b".repeat(236)),
            (format!("{long}.c{long}"), &*long),
            (format!("{long}-.c"), &*long),
        ] {
            let name = name_of(&object, 0x2a);
            assert_eq!(name, format!("{begins}.000000000000002a"));
            assert!(name.len() <= 253);
        }
    }
}
