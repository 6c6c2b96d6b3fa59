//! The client's way over mutual TLS, as a tower service: what a gRPC channel connects with.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{Secured, Tls};
use crate::args::{Address, BusFlags, Error};
use crate::port::{AGE, GRACE};

/// Connects to one address, as the certificate's owner, to whoever a trusted CA calls by one name.
#[derive(Clone, Debug)]
pub struct Connector {
    address: Address,
    name: ServerName<'static>,
    tls: Tls,
}

type Answer = TokioIo<Secured<TlsStream<TcpStream>>>;

// === impl Connector ===

impl Connector {
    /// To the bus that `flags` name, at one of its addresses.
    ///
    /// # Errors
    /// The bus's host is no name that a certificate can carry.
    pub fn new(tls: &Tls, flags: &BusFlags, address: &Address) -> Result<Self, Error> {
        let name = flags.tls_server_name.as_deref().unwrap_or_else(|| address.host());
        let allowed = "with TLS allowed is a DNS name or an IP address, or set --tls-server-name";
        let name = ServerName::try_from(name.to_owned()).map_err(|_| Error::new("bus", address, allowed))?;
        Ok(Self {
            address: address.clone(),
            name,
            tls: tls.clone(),
        })
    }

    /// To the host of `url`, if that is https.
    pub fn of_url(tls: &Tls, url: &str) -> Option<Self> {
        let url: Uri = url.parse().ok()?;
        let host = url.host().filter(|_| url.scheme_str() == Some("https"))?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        Some(Self {
            address: format!("{host}:{}", url.port_u16().unwrap_or(443)).parse().ok()?,
            name: ServerName::try_from(bare.to_owned()).ok()?,
            tls: tls.clone(),
        })
    }

    async fn connect(self) -> io::Result<Answer> {
        // Before the handshake: CAs that change meanwhile end this connection, too.
        let trust = self.tls.trust();
        let stream = TcpStream::connect((self.address.host(), self.address.port())).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(self.tls.client());
        let stream = connector.connect(self.name, stream).await?;
        // The server ends it well before; this is for one that does not.
        let end = async move {
            tokio::select! {
                biased;
                () = trust.cancelled() => {
                    tokio::time::sleep(2 * GRACE).await;
                    "the CAs it was made under were changed"
                }
                () = tokio::time::sleep(AGE + 2 * GRACE) => "the connection has reached its greatest age",
            }
        };
        Ok(TokioIo::new(Secured::new(stream, end)))
    }
}

impl tower::Service<Uri> for Connector {
    type Response = Answer;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Answer>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().connect())
    }
}
