//! Events, summed up by their text.

use std::collections::BTreeMap;

use serde_json::Value;

use super::names::Names;
use super::{What, Write, at, meta};
use crate::oracle::lines::{EventLine, Span};

/// What the API server's Event clients put before the message of several Events in one.
const COMBINED: &str = "(combined from similar events): ";

/// A namespace whose Events are not recorded: others report there, about themselves.
const UNRECORDED: &str = "kube-system";

/// The Event objects of the controllers.
#[derive(Debug, Default)]
pub struct Events {
    /// By namespace and name: when it appeared, and its newest state.
    objects: BTreeMap<(String, String), (f64, Value)>,
    /// In the order in which they appeared.
    order: Vec<(String, String)>,
}

impl Events {
    /// Takes a write of an Event object.
    pub fn take(&mut self, write: &Write) {
        if meta(&write.object, "namespace") == UNRECORDED {
            return;
        }
        let key = (
            meta(&write.object, "namespace").to_owned(),
            meta(&write.object, "name").to_owned(),
        );
        match write.what {
            What::Created if write.by_controllers => {
                self.order.push(key.clone());
                self.objects.insert(key, (write.t, write.object.clone()));
            }
            What::Changed => {
                if let Some((_, object)) = self.objects.get_mut(&key) {
                    object.clone_from(&write.object);
                }
            }
            What::Created | What::Gone => {}
        }
    }

    /// One line per text, in the order in which they appeared.
    pub fn finish(self, names: &Names) -> Vec<EventLine> {
        let mut lines: Vec<EventLine> = Vec::new();
        for key in &self.order {
            let Some((t, object)) = self.objects.get(key) else { continue };
            let line = line(*t, object, names);
            match lines.iter_mut().find(|other| other.is_same(&line)) {
                Some(known) => known.count = sum(known.count, line.count),
                None => lines.push(line),
            }
        }
        lines
    }
}

fn sum(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
    Some((one.0 + other.0, one.1 + other.1))
}

fn line(t: f64, object: &Value, names: &Names) -> EventLine {
    let involved = |field: &str| at(object, &format!("/involvedObject/{field}"));
    let kind = involved("kind").to_lowercase();
    let obj = match involved("namespace") {
        "" => format!("{kind}/{}", involved("name")),
        namespace => format!("{kind}/{namespace}/{}", involved("name")),
    };
    let message = at(object, "/message");
    let message = message.strip_prefix(COMBINED).unwrap_or(message);
    let component = match at(object, "/source/component") {
        "" => at(object, "/reportingComponent"),
        component => component,
    };
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
    let count = number("/series/count").or_else(|| number("/count")).unwrap_or(1).max(1);
    EventLine {
        obj: names.public(&obj),
        namespace: meta(object, "namespace").to_owned(),
        severity: at(object, "/type").to_owned(),
        reason: at(object, "/reason").to_owned(),
        message: names.refused(&names.public(message)),
        t: Some(Span::at(t)),
        uid: Some(if involved("uid").is_empty() { "absent" } else { "set" }.to_owned()),
        component: Some(component.to_owned()),
        count: Some((count, count)),
    }
}
