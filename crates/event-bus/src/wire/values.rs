//! Values that several payloads share: who is meant, where it is, why.

use std::sync::Arc;

use bailiff_model::{
    Effect, Hold, HoldReason, Namespace, NodeName, NodeRef, NodeUid, Operator, PodName, PodRef, PodUid, ResourceVersion, Taint,
    Toleration, Zone,
};
use bailiff_proto::v1 as pb;

use super::{Error, Twin, Wire, scalar, twins};

twins!(pb::TaintEffect, Effect, [NoSchedule, PreferNoSchedule, NoExecute]);
twins!(
    pb::HoldReason,
    HoldReason,
    [
        Incomplete,
        Stale,
        ApiStale,
        AllZonesDisrupted,
        RateZero,
        Paused,
        Rival,
        CorrelatedLoss,
        OutdatedIntent,
        Observing,
        TaintOrder,
        RateLimited,
        Budget
    ]
);

impl TryFrom<Wire<pb::NodeRef>> for NodeRef {
    type Error = Error;

    fn try_from(Wire(node): Wire<pb::NodeRef>) -> Result<Self, Error> {
        Ok(Self {
            name: NodeName::from(scalar::name("name", node.name)?),
            uid: NodeUid::from(scalar::uid("uid", node.uid)?),
            resource_version: version(node.resource_version)?,
        })
    }
}

impl TryFrom<Wire<pb::PodRef>> for PodRef {
    type Error = Error;

    fn try_from(Wire(pod): Wire<pb::PodRef>) -> Result<Self, Error> {
        if pod.generation < 0 {
            return Err(Error::new("generation", pod.generation, "zero or more"));
        }
        Ok(Self {
            namespace: Namespace::from(scalar::name("namespace", pod.namespace)?),
            name: PodName::from(scalar::name("name", pod.name)?),
            uid: PodUid::from(scalar::uid("uid", pod.uid)?),
            resource_version: version(pod.resource_version)?,
            disruption_target: pod.disruption_target,
            generation: pod.generation,
        })
    }
}

impl TryFrom<Wire<pb::Zone>> for Zone {
    type Error = Error;

    fn try_from(Wire(zone): Wire<pb::Zone>) -> Result<Self, Error> {
        Ok(Self {
            region: Arc::from(scalar::label("region", zone.region)?),
            zone: Arc::from(scalar::label("zone", zone.zone)?),
        })
    }
}

impl TryFrom<Wire<pb::Taint>> for Taint {
    type Error = Error;

    fn try_from(Wire(taint): Wire<pb::Taint>) -> Result<Self, Error> {
        Ok(Self {
            key: Arc::from(scalar::token("key", taint.key, 1, scalar::QUALIFIED_MAX)?),
            value: Arc::from(scalar::label("value", taint.value)?),
            effect: Effect::from_wire("effect", taint.effect)?,
            time_added: scalar::time_if_any("since", taint.since)?,
        })
    }
}

impl TryFrom<Wire<pb::Toleration>> for Toleration {
    type Error = Error;

    fn try_from(Wire(toleration): Wire<pb::Toleration>) -> Result<Self, Error> {
        let effect = match pb::TaintEffect::try_from(toleration.effect) {
            Ok(pb::TaintEffect::Unspecified) => None,
            _ => Some(Effect::from_wire("effect", toleration.effect)?),
        };
        Ok(Self {
            key: Arc::from(scalar::token("key", toleration.key, 0, scalar::QUALIFIED_MAX)?),
            operator: Operator::parse(&scalar::token("operator", toleration.operator, 0, scalar::LABEL_MAX)?),
            // Not a label value: under Lt and Gt it is a number, and the API does not check it under Exists of old objects.
            value: Arc::from(scalar::token("value", toleration.value, 0, scalar::NAME_MAX)?),
            effect,
            seconds: toleration.toleration_seconds,
        })
    }
}

impl TryFrom<Wire<pb::Hold>> for Hold {
    type Error = Error;

    fn try_from(Wire(hold): Wire<pb::Hold>) -> Result<Self, Error> {
        Ok(Self {
            reason: HoldReason::from_wire("reason", hold.reason)?,
            detail: scalar::sentence("detail", hold.detail)?,
            since: scalar::time("since", hold.since)?,
            until: scalar::time_if_any("until", hold.until)?,
        })
    }
}

fn version(text: String) -> Result<ResourceVersion, Error> {
    scalar::token("resource_version", text, 0, scalar::VERSION_MAX).map(ResourceVersion::from)
}

/// The wire form of a node reference.
pub fn to_node_ref(node: &NodeRef) -> pb::NodeRef {
    pb::NodeRef {
        name: node.name.to_string(),
        uid: node.uid.to_string(),
        resource_version: node.resource_version.to_string(),
    }
}

/// The wire form of a pod reference.
pub fn to_pod_ref(pod: &PodRef) -> pb::PodRef {
    pb::PodRef {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        resource_version: pod.resource_version.to_string(),
        disruption_target: pod.disruption_target,
        generation: pod.generation,
    }
}

/// The wire form of a zone.
pub fn to_zone(zone: &Zone) -> pb::Zone {
    pb::Zone {
        region: zone.region.to_string(),
        zone: zone.zone.to_string(),
    }
}

/// The wire form of a taint.
pub fn to_taint(taint: &Taint) -> pb::Taint {
    pb::Taint {
        key: taint.key.to_string(),
        value: taint.value.to_string(),
        effect: taint.effect.to_wire(),
        since: taint.time_added.map(scalar::to_time),
    }
}

/// The wire form of a toleration.
pub fn to_toleration(toleration: &Toleration) -> pb::Toleration {
    pb::Toleration {
        key: toleration.key.to_string(),
        operator: toleration.operator.as_str().to_owned(),
        value: toleration.value.to_string(),
        effect: toleration.effect.map_or(pb::TaintEffect::Unspecified.into(), Twin::to_wire),
        toleration_seconds: toleration.seconds,
    }
}

/// The wire form of a hold.
pub fn to_hold(hold: &Hold) -> pb::Hold {
    pb::Hold {
        reason: hold.reason.to_wire(),
        detail: scalar::to_sentence(&hold.detail),
        since: Some(scalar::to_time(hold.since)),
        until: hold.until.map(scalar::to_time),
    }
}
