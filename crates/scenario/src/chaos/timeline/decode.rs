//! Objects of the API, as a timeline has them.

use bailiff_cluster::views::{self, Condition, TaintView};
use bailiff_model::{Zone, wellknown};
use bailiff_sandbox::{Change as Kind, Observation};
use bailiff_stage::brake::{self, pauses::Pause};

use super::{DaemonSet, Node, Object, Pauses, Pod};
use crate::views::{BudgetView, ConfigMapView, Container, DaemonSetView, EventView, NodeView, PodView};

/// Where a daemon pod's affinity says which node it is for.
const TARGET: &str = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";

// === impl Object ===

impl Object {
    pub(super) fn of(seen: &Observation) -> Self {
        let object = &seen.event.object;
        match &*seen.resource {
            "nodes" => object
                .decode::<NodeView>()
                .map_or_else(|error| Self::Other(error.to_string()), |view| Self::Node(view.into())),
            "pods" => object
                .decode::<PodView>()
                .map_or_else(|error| Self::Other(error.to_string()), |view| Self::Pod(view.into())),
            "daemonsets.apps" => object.decode::<DaemonSetView>().map_or_else(
                |error| Self::Other(error.to_string()),
                |view| Self::daemon_set(object.uid(), view),
            ),
            "poddisruptionbudgets.policy" => object.decode::<BudgetView>().map_or_else(
                |error| Self::Other(error.to_string()),
                |view| Self::Budget(view.spec.min_available),
            ),
            "configmaps" if object.name() == brake::NAME => Self::Pauses(if seen.event.change == Kind::Deleted {
                Pauses::new()
            } else {
                let view = object.decode::<ConfigMapView>().ok();
                let entries = view.into_iter().flat_map(|view| view.data);
                entries.map(|(key, text)| (key, Pause::parse(&text).ok())).collect()
            }),
            other if other.starts_with("events") => object.decode::<EventView>().map_or(Self::Aside, |view| Self::Said {
                by: view.reporting_controller,
                reason: view.reason,
                note: view.note,
                name: object.name().to_owned(),
                count: view.series.as_ref().map_or(1, |series| series.count),
                said: view.series.and_then(|series| series.last_observed_time).or(view.event_time),
            }),
            other if other.starts_with("leases") => Self::Aside,
            other => Self::Other(format!("{other} {}/{}", object.namespace(), object.name())),
        }
    }
}

impl Object {
    fn daemon_set(uid: &str, view: DaemonSetView) -> Self {
        let rolling = view.spec.update_strategy.rolling_update;
        Self::DaemonSet(DaemonSet {
            uid: uid.to_owned(),
            image: image(&view.spec.template.spec.containers),
            max_unavailable: rolling.max_unavailable,
            max_surge: rolling.max_surge,
        })
    }
}

fn image(containers: &[Container]) -> String {
    containers
        .first()
        .map(|container| container.image.clone())
        .unwrap_or_default()
}

impl From<NodeView> for Node {
    fn from(view: NodeView) -> Self {
        let ready = views::condition(&view.status.conditions, wellknown::CONDITION_READY);
        Self {
            zone: Zone::from_labels(|key| view.metadata.labels.get(key).map(String::as_str)),
            name: view.metadata.name,
            uid: view.metadata.uid,
            labels: view.metadata.labels,
            ready: ready.map(Condition::ready_status).unwrap_or_default(),
            taints: view.spec.taints.iter().filter_map(TaintView::to_model).collect(),
        }
    }
}

impl From<PodView> for Pod {
    fn from(view: PodView) -> Self {
        let condition = |kind| views::condition(&view.status.conditions, kind).map_or("", |one| one.status.as_str());
        let owners = view.metadata.owner_references.iter();
        let target = view
            .spec
            .affinity
            .pointer(TARGET)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default();
        Self {
            daemon_of: owners
                .filter(|owner| owner.controller && owner.kind == "DaemonSet")
                .map(|owner| owner.uid.clone())
                .next(),
            tolerations: view.spec.tolerations,
            ready: condition(wellknown::CONDITION_READY).to_owned(),
            is_target: condition(wellknown::CONDITION_DISRUPTION_TARGET) == "True",
            is_terminating: view.metadata.meta.deletion_timestamp.is_some(),
            is_finished: matches!(view.status.phase.as_str(), "Failed" | "Succeeded"),
            is_running: view.status.phase == "Running",
            is_bound: !view.spec.node_name.is_empty(),
            image: image(&view.spec.containers),
            labels: view.metadata.labels,
            node: if view.spec.node_name.is_empty() {
                target.to_owned()
            } else {
                view.spec.node_name.clone()
            },
            uid: view.metadata.meta.uid,
            name: view.metadata.meta.name.into(),
        }
    }
}
