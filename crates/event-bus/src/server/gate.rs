//! Where callers are let in or refused, and who is told about it.

use std::net::SocketAddr;
use std::sync::Arc;

use bailiff_model::Topic;
use bailiff_runtime::tls::{Peer, Standing};
use tonic::{Extensions, Request, Status};

use super::metrics::Metrics;
use super::status::{self, DENIED};
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
    address: Option<SocketAddr>,
}

// === impl Caller ===

impl Caller {
    pub(super) fn of<T>(gate: &Gate, request: &Request<T>) -> Self {
        Self {
            gate: gate.clone(),
            ..Self::ungated(request.extensions())
        }
    }

    /// Who it is, where no gate stands before it.
    pub(super) fn ungated(extensions: &Extensions) -> Self {
        let peer = extensions.get::<Peer>();
        Self {
            gate: Gate::Open,
            standing: peer.map(|peer| peer.standing.clone()),
            address: peer.and_then(|peer| peer.address),
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
            address = self.address(),
            action = denied.action.as_str(),
            topic = denied.topic.as_str(),
            allowed = denied.allowed,
            "Caller was refused"
        );
        status::with_kind(Status::permission_denied(denied.to_string()), DENIED)
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

    /// Whose share of what is bounded it takes: its role's, for all replicas of a stage are one; over plain text its machine's.
    pub(super) fn party(&self) -> String {
        match (&self.standing, self.address) {
            (Some(Standing::Plain), Some(address)) => address.ip().to_canonical().to_string(),
            _ => self.identity(),
        }
    }

    /// Where it is connected from; empty if that is not known.
    pub(super) fn address(&self) -> String {
        self.address.map(|address| address.to_string()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::tls::Identity;
    use prometheus_client::registry::Registry;
    use tokio_util::sync::CancellationToken;
    use tonic::Code;

    use super::*;

    fn mk_request(standing: Option<Standing>) -> Request<()> {
        mk_request_from(standing, None)
    }

    fn mk_request_from(standing: Option<Standing>, address: Option<&str>) -> Request<()> {
        let mut request = Request::new(());
        if let Some(standing) = standing {
            request.extensions_mut().insert(Peer {
                standing,
                address: address.map(|address| address.parse().expect("an address")),
                ending: CancellationToken::new(),
            });
        }
        request
    }

    fn mk_known(trust_domain: &str, role: &str) -> Option<Standing> {
        Some(Standing::Known(Identity {
            trust_domain: trust_domain.to_owned(),
            role: role.to_owned(),
        }))
    }

    #[test]
    fn behind_a_gate_only_a_known_role_gets_through_and_refusals_are_counted() {
        let gate = Gate::Roles(Arc::new(Roles::default()));
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let role = |name: &str| mk_known("bailiff", name);
        for (standing, is_allowed) in [
            (role("node-health-monitor"), true),
            (role("viewer"), false),
            (Some(Standing::Nameless("no name".to_owned())), false),
            (Some(Standing::Stranger), false),
            (Some(Standing::Plain), false),
            // Nothing says who it is: that is nobody, not this process.
            (None, false),
        ] {
            let caller = Caller::of(&gate, &mk_request(standing.clone()));
            let checked = caller.check(&metrics, Action::Publish, Topic::NodeHealth);
            match checked {
                Ok(()) => assert!(is_allowed, "{standing:?}"),
                Err(status) => {
                    assert!(!is_allowed, "{standing:?}");
                    assert_eq!(status.code(), Code::PermissionDenied);
                    assert!(status.message().contains("may not publish node-health"), "{status}");
                }
            }
            let open = Caller::of(&Gate::Open, &mk_request(standing));
            assert!(open.check(&metrics, Action::Reset, Topic::NodeHealth).is_ok());
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a String takes every write");
        assert!(
            text.contains("denied_calls_total{action=\"publish\",topic=\"node-health\"} 5"),
            "{text}"
        );
    }

    /// Connections, ports and replicas do not make several of one.
    #[test]
    fn a_party_is_a_role_and_over_plain_text_a_machine() {
        let plain = Some(Standing::Plain);
        for (standing, address, wanted) in [
            (mk_known("a", "viewer"), Some("10.0.0.1:1"), "spiffe://a/viewer"),
            (mk_known("a", "viewer"), Some("10.0.0.2:1"), "spiffe://a/viewer"),
            (mk_known("b", "viewer"), None, "spiffe://b/viewer"),
            (plain.clone(), Some("10.0.0.1:1"), "10.0.0.1"),
            (plain.clone(), Some("[::ffff:10.0.0.1]:2"), "10.0.0.1"),
            (plain.clone(), Some("[fd00::1]:1"), "fd00::1"),
            (plain, None, "anybody, over plain text"),
            (Some(Standing::Stranger), Some("10.0.0.1:1"), "nobody"),
            (None, None, "this process"),
        ] {
            let caller = Caller::of(&Gate::Open, &mk_request_from(standing, address));
            assert_eq!(caller.party(), wanted, "{address:?}");
        }
    }
}
