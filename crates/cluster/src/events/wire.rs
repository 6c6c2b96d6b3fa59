//! Events as the API has them (events.k8s.io/v1).

use bailiff_model::Wall;
use serde_json::{Value, json};

use super::correlator::Saying;
use super::{Draft, annotations};

/// Longest `note` that the API server accepts, in bytes.
const MAX_NOTE: usize = 1024;

/// Who reports.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) controller: &'static str,
    pub(super) instance: String,
}

/// Path of the Events of the object's namespace. Those of cluster-scoped objects live in namespace `default` (NL-130).
pub(super) fn collection(draft: &Draft) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{}/events", namespace(draft))
}

/// A new Event. Its time, as that of a repetition, is when it was said, however late it is written.
pub(super) fn event(saying: &Saying, reporter: &Reporter) -> Value {
    let (draft, name) = (&saying.draft, &saying.name);
    let regarding = &draft.regarding;
    let mut reference = json!({"apiVersion": regarding.api_version, "kind": regarding.kind, "name": regarding.name});
    let optional = [
        ("namespace", &regarding.namespace),
        ("uid", &regarding.uid),
        ("resourceVersion", &regarding.resource_version),
    ];
    for (field, value) in optional {
        if !value.is_empty() {
            reference[field] = json!(value);
        }
    }
    let mut metadata = json!({"name": name, "namespace": namespace(draft)});
    if let Some(annotations) = annotations::of_new(&draft.about) {
        metadata["annotations"] = annotations;
    }
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": metadata,
        "eventTime": micro_time(saying.at),
        "reportingController": reporter.controller,
        "reportingInstance": reporter.instance,
        "action": draft.action,
        "reason": draft.reason,
        "regarding": reference,
        "note": shorten(&draft.note),
        "type": draft.severity.as_str(),
    })
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
    patch["message"] = json!(shorten(&draft.note));
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

fn shorten(note: &str) -> &str {
    let mut end = note.len().min(MAX_NOTE);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    &note[..end]
}
