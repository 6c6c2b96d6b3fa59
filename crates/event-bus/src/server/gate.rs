//! Where callers are let in or refused, and who is told about it.

use std::sync::Arc;

use bailiff_model::Topic;
use bailiff_runtime::tls::{Peer, Standing};
use tonic::{Request, Status};

use super::metrics::Metrics;
use super::status;
use crate::access::{Action, Denied, Roles};

/// What a way to the bus asks of callers. It belongs to the way, not to the bus: the same bus may be reached in several.
#[derive(Clone, Debug)]
pub(super) enum Gate {
    /// Nothing: callers are of this process, or come over plain text.
    Open,
    /// A certificate whose role the table knows.
    Roles(Arc<Roles>),
}

/// One caller before the gate.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    gate: Gate,
    standing: Option<Standing>,
    address: String,
}

// === impl Caller ===

impl Caller {
    pub(super) fn of<T>(gate: &Gate, request: &Request<T>) -> Self {
        let peer = request.extensions().get::<Peer>();
        Self {
            gate: gate.clone(),
            standing: peer.map(|peer| peer.standing.clone()),
            address: peer
                .and_then(|peer| peer.address)
                .map(|address| address.to_string())
                .unwrap_or_default(),
        }
    }

    /// Whether it may do `action` to `topic`. Nobody is told: for what is shown in part.
    pub(super) fn may(&self, action: Action, topic: Topic) -> Result<(), Denied> {
        let Gate::Roles(roles) = &self.gate else {
            return Ok(());
        };
        match &self.standing {
            Some(Standing::Known(identity)) => roles.decide(&identity.role, action, topic),
            other => Err(Denied {
                who: "a caller without a role".to_owned(),
                action,
                topic,
                allowed: match other {
                    Some(Standing::Nameless(reason)) => reason.clone(),
                    // A gate stands only where certificates are required; what comes without one is nobody.
                    _ => "it showed no certificate".to_owned(),
                },
            }),
        }
    }

    /// The same; a refusal is counted and audited, and told the caller.
    pub(super) fn check(&self, metrics: &Metrics, action: Action, topic: Topic) -> Result<(), Status> {
        self.may(action, topic).map_err(|denied| self.refuse(metrics, &denied))
    }

    pub(super) fn refuse(&self, metrics: &Metrics, denied: &Denied) -> Status {
        metrics.denied(denied.action, denied.topic);
        tracing::warn!(
            target: "audit",
            identity = self.identity(),
            address = self.address,
            action = denied.action.as_str(),
            topic = denied.topic.as_str(),
            allowed = denied.allowed,
            "Caller was refused"
        );
        status::with_kind(Status::permission_denied(denied.to_string()), "denied")
    }

    /// Who did something that somebody may want to know later.
    pub(super) fn identity(&self) -> String {
        match &self.standing {
            Some(Standing::Known(identity)) => identity.to_string(),
            Some(Standing::Plain) => "anybody, over plain text".to_owned(),
            Some(Standing::Stranger | Standing::Nameless(_)) => "nobody".to_owned(),
            None => "this process".to_owned(),
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}
