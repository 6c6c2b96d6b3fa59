//! Who is at the other end of a connection, as its certificate says it.

use std::fmt;
use std::net::SocketAddr;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;
use webpki::EndEntityCert;

/// Longest name: SPIFFE's own bound for a whole ID.
const ID_MAX: usize = 2048;

/// Who a certificate is of: its one URI name, `spiffe://<trust domain>/<role>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Whose word it is.
    pub trust_domain: String,
    /// What follows the trust domain: `taint-manager`, or `ns/kube-system/sa/taint-manager` in a service mesh.
    pub role: String,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// How far it is known.
    pub standing: Standing,
    /// Where it is connected from, if that is known.
    pub address: Option<SocketAddr>,
    /// Cancelled when the connection has to end soon: what never ends by itself should end now, and be asked for again.
    pub ending: CancellationToken,
}

/// How far a peer is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Not at all: the connection is plain text.
    Plain,
    /// Not at all: it showed no certificate.
    Stranger,
    /// A trusted CA vouches for it, but its certificate carries no identity; with the reason.
    Nameless(String),
    /// A trusted CA vouches for this.
    Known(Identity),
}

// === impl Identity ===

impl Identity {
    /// Who `certificate` is of.
    ///
    /// # Errors
    /// Why it is of nobody in particular.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let parsed = EndEntityCert::try_from(certificate).map_err(|error| format!("its certificate cannot be read: {error}"))?;
        let mut names = parsed.valid_uri_names();
        match (names.next(), names.next()) {
            (Some(name), None) => name.parse(),
            (None, _) => Err("its certificate has no URI name; wanted is spiffe://<trust domain>/<role>".to_owned()),
            // As SPIFFE says; of two nobody can tell which is meant.
            (Some(_), Some(_)) => Err("its certificate has more than one URI name".to_owned()),
        }
    }
}

impl std::str::FromStr for Identity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("its name {text:?} is not of the form spiffe://<trust domain>/<role>");
        let is_word = |text: &str| {
            let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !text.is_empty() && text != "." && text != ".." && text.bytes().all(is_inner)
        };
        if text.len() > ID_MAX {
            return Err("its name is too long".to_owned());
        }
        let rest = text.strip_prefix("spiffe://").ok_or_else(refuse)?;
        let (trust_domain, role) = rest.split_once('/').ok_or_else(refuse)?;
        if !is_word(trust_domain) || !role.split('/').all(is_word) {
            return Err(refuse());
        }
        Ok(Self {
            trust_domain: trust_domain.to_owned(),
            role: role.to_owned(),
        })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}/{}", self.trust_domain, self.role)
    }
}

// === impl Standing ===

impl Standing {
    /// Who showed these certificates, which a trusted CA vouches for, to a server of `trust_domain`.
    pub(crate) fn of(certificates: Option<&[CertificateDer<'_>]>, trust_domain: Option<&str>) -> Self {
        let Some(leaf) = certificates.and_then(<[_]>::first) else {
            return Self::Stranger;
        };
        match Identity::of(leaf) {
            Ok(identity) => match trust_domain {
                Some(ours) if ours != identity.trust_domain => {
                    Self::Nameless(format!("{identity} is of another trust domain than this process, {ours}"))
                }
                _ => Self::Known(identity),
            },
            Err(reason) => Self::Nameless(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_spiffe_says() {
        for (text, wanted) in [
            ("spiffe://bailiff/operator", Some(("bailiff", "operator"))),
            ("spiffe://a.b/ns/x/sa/y", Some(("a.b", "ns/x/sa/y"))),
            ("spiffe://a.b", None),
            ("spiffe://a.b/", None),
            ("spiffe:///x", None),
            ("spiffe://a/x/", None),
            ("spiffe://a/../x", None),
            ("spiffe://a:1/x", None),
            ("spiffe://a@b/x", None),
            ("spiffe://a/x?y", None),
            ("https://a/x", None),
            ("", None),
        ] {
            let parsed = text.parse::<Identity>().ok();
            let found = parsed
                .as_ref()
                .map(|identity| (identity.trust_domain.as_str(), identity.role.as_str()));
            assert_eq!(found, wanted, "{text}");
            if let Some(identity) = parsed {
                assert_eq!(identity.to_string(), text);
            }
        }
    }
}
