//! Who the server is to TLS clients: a certificate made at start for one process, and the authority that vouches for it.
//!
//! kubectl and everything built on client-go send no token over plain HTTP, so without TLS they cannot say who they are. The key
//! lives and dies with the process; whoever is given the authority's certificate, in the kubeconfig, trusts this process alone.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{self, ServerConfig, crypto};

/// Names that the API server has inside any cluster, and on the machine it runs on.
const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// It cannot be used.
    #[error("cannot use the certificate made for TLS")]
    Use(#[from] rustls::Error),
}

/// A certificate with its key, and the authority's certificate.
#[derive(Clone)]
pub struct Identity {
    acceptor: TlsAcceptor,
    authority: String,
}

// === impl Identity ===

impl Identity {
    /// Makes one for a server that is reached at these addresses, besides loopback.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn generate(addresses: &[IpAddr]) -> Result<Self, Error> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "bailiff-sandbox-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let mut server = CertificateParams::new(NAMES.map(str::to_owned))?;
        server.distinguished_name.push(DnType::CommonName, "bailiff-sandbox");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let loopback = [
            std::net::Ipv4Addr::LOCALHOST.into(),
            IpAddr::from(std::net::Ipv6Addr::LOCALHOST),
        ];
        let others = addresses
            .iter()
            .filter(|address| !address.is_loopback() && !address.is_unspecified());
        let reached = loopback.iter().chain(others).map(|address| SanType::IpAddress(*address));
        server.subject_alt_names.extend(reached);
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &authority)?;

        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        // Named because a process may hold several providers, and then none is the default.
        let mut config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            authority: authority.pem(),
        })
    }

    /// The authority's certificate in PEM, for clients to trust.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Identity").finish_non_exhaustive()
    }
}
