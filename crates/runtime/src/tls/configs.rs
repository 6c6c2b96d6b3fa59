//! From files to how hands are shaken: rustls with ring, TLS 1.3 or 1.2, nothing resumed.

use std::sync::Arc;

use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::files::{Error, Material, Paths};

/// One generation of configurations.
pub(super) struct Configs {
    /// gRPC ports: every client has a certificate.
    pub(super) known: Arc<ServerConfig>,
    /// The admin port: probes have none.
    pub(super) any: Arc<ServerConfig>,
    pub(super) client: Arc<ClientConfig>,
}

// === impl Configs ===

impl Configs {
    pub(super) fn new(paths: &Paths, material: &Material) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in &material.authorities {
            roots.add(authority.clone()).map_err(|error| Error::ca(paths, error))?;
        }
        let roots = Arc::new(roots);
        let verifier = || WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let known = verifier().build().map_err(|error| Error::verifier(paths, error))?;
        let any = verifier().allow_unauthenticated().build();
        let any = any.map_err(|error| Error::verifier(paths, error))?;
        Ok(Self {
            known: server(paths, material, &provider, known, b"h2")?,
            any: server(paths, material, &provider, any, b"http/1.1")?,
            client: client(paths, material, &provider, roots)?,
        })
    }
}

fn server(
    paths: &Paths,
    material: &Material,
    provider: &Arc<CryptoProvider>,
    verifier: Arc<dyn ClientCertVerifier>,
    protocol: &[u8],
) -> Result<Arc<ServerConfig>, Error> {
    // Named because a process may hold several providers, and then none is the default.
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_client_cert_verifier(verifier))
        .and_then(|builder| builder.with_single_cert(material.chain.clone(), material.key.clone_key()));
    let mut config = config.map_err(|error| Error::pair(paths, error))?;
    config.alpn_protocols = vec![protocol.to_vec()];
    // A resumed session would not ask whether its certificate is still valid and its CA still trusted.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn client(
    paths: &Paths,
    material: &Material,
    provider: &Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
) -> Result<Arc<ClientConfig>, Error> {
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_root_certificates(roots))
        .and_then(|builder| builder.with_client_auth_cert(material.chain.clone(), material.key.clone_key()));
    let mut config = config.map_err(|error| Error::pair(paths, error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}
