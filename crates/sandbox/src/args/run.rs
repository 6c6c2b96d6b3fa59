//! Runs a sandbox as its flags say.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bailiff_runtime::{Clock, Seed, Shutdown};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{AuthorizationMode, Malformed, SandboxArgs, SandboxFlags, StaticToken, parse_tokens};
use crate::cluster::{self, Cluster};
use crate::driver::{Driver, Options};
use crate::server::tls::{self, Identity};
use crate::server::{self, Transport};
use crate::{Authorization, Config, Sandbox, Token, User};

/// Why a sandbox did not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of tokens cannot be read.
    #[error("cannot read --token-auth-file {}", path.display())]
    ReadTokens {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file of tokens is none.
    #[error("invalid --token-auth-file {}", path.display())]
    ParseTokens {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Malformed,
    },
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// There is no certificate to serve TLS with.
    #[error("cannot serve TLS")]
    Secure {
        /// Why.
        #[from]
        source: tls::Error,
    },
    /// The kubeconfig cannot be written.
    #[error("cannot write --write-kubeconfig {}", path.display())]
    WriteKubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The cluster cannot be built.
    #[error("cannot build the cluster")]
    Build {
        /// Why.
        source: cluster::Error,
    },
    /// The listener broke.
    #[error("cannot serve any more")]
    Serve {
        /// Why.
        source: io::Error,
    },
}

impl Error {
    /// What a flag names is not as it has to be: nothing but other flags, or another file, will help.
    pub const fn is_configuration(&self) -> bool {
        matches!(self, Self::ReadTokens { .. } | Self::ParseTokens { .. })
    }
}

/// A sandbox that serves.
#[derive(Debug)]
pub struct Running {
    /// Where it listens: the port that was taken, if any would do.
    pub address: SocketAddr,
    /// A token of an administrator, if there is one.
    pub token: Option<String>,
    /// The API server.
    pub sandbox: Sandbox,
    /// The simulated parts, unless it is bare.
    pub driver: Option<Driver>,
    /// What was built, unless it is bare.
    pub cluster: Option<Cluster>,
    server: JoinHandle<io::Result<()>>,
}

/// Runs a sandbox until the shutdown.
///
/// # Errors
/// When it cannot start, or cannot serve any more.
pub async fn run(args: &SandboxArgs, clock: Clock, seed: &Seed, shutdown: &Shutdown) -> Result<(), Error> {
    let running = start(args, clock, seed, shutdown).await?;
    tracing::info!(address = %running.address, bare = args.bare, nodes = args.nodes, zones = args.zones, "Served the sandbox");
    running.join().await
}

/// Starts a sandbox. It ends with the shutdown, which also ends its tasks.
///
/// # Errors
/// When a file, the address or the cluster is not as it has to be.
pub async fn start(args: &SandboxArgs, clock: Clock, seed: &Seed, shutdown: &Shutdown) -> Result<Running, Error> {
    let tokens = tokens(args, seed)?;
    let listener = bind(args.listen).await?;
    let address = listener.local_addr().map_err(|source| Error::Bind {
        address: args.listen,
        source,
    })?;
    let transport = transport(args, address)?;
    let sandbox = Sandbox::new(config(args, &tokens), clock, seed);
    let (driver, cluster) = match args.cluster() {
        Some(spec) => {
            let (driver, _) = Driver::start(&sandbox, &Options::cluster(), shutdown);
            let cluster = cluster::build(&sandbox, &spec).map_err(|source| Error::Build { source })?;
            (Some(driver), Some(cluster))
        }
        None => (None, None),
    };
    let token = administrator(&tokens).map(|token| token.token.clone());
    if let Some(path) = &args.write_kubeconfig {
        let authority = match &transport {
            Transport::Plain => None,
            Transport::Either(identity) | Transport::Tls(identity) => Some(identity.authority()),
        };
        let text = server::kubeconfig(reachable(address), authority, token.as_deref().unwrap_or_default());
        write_kubeconfig(path, &text)?;
    }
    let end = shutdown.clone();
    let serve = server::serve_over(listener, sandbox.clone(), transport, async move { end.triggered().await });
    Ok(Running {
        address,
        token,
        sandbox,
        driver,
        cluster,
        server: tokio::spawn(serve),
    })
}

// === impl Running ===

impl Running {
    /// Waits for the end, which the shutdown brings.
    ///
    /// # Errors
    /// When it cannot serve any more.
    pub async fn join(self) -> Result<(), Error> {
        let ended = self.server.await.map_err(io::Error::other);
        ended.and_then(|served| served).map_err(|source| Error::Serve { source })
    }
}

fn tokens(args: &SandboxFlags, seed: &Seed) -> Result<Vec<StaticToken>, Error> {
    let Some(path) = args.token_auth_file.clone() else {
        return Ok(vec![StaticToken {
            token: seed.fork("administrator").uuid(),
            user: User::admin(),
        }]);
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => parse_tokens(&text).map_err(|source| Error::ParseTokens { path, source }),
        Err(source) => Err(Error::ReadTokens { path, source }),
    }
}

/// The token to hand out: one that may do everything, else the first.
fn administrator(tokens: &[StaticToken]) -> Option<&StaticToken> {
    let is_master = |token: &&StaticToken| token.user.groups.iter().any(|group| &**group == "system:masters");
    tokens.iter().find(is_master).or(tokens.first())
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address)
        .await
        .map_err(|source| Error::Bind { address, source })
}

fn config(args: &SandboxFlags, tokens: &[StaticToken]) -> Config {
    let token = |token: &StaticToken| Token {
        token: token.token.clone(),
        user: token.user.clone(),
    };
    Config {
        anonymous: args.is_anonymous(),
        tokens: tokens.iter().map(token).collect(),
        authorization: match args.authorization_mode {
            AuthorizationMode::AlwaysAllow => Authorization::AlwaysAllow,
            AuthorizationMode::Rbac => Authorization::Rbac,
        },
        ..Config::default()
    }
}

/// Both on this machine, so that curl and recorded requests need no certificate; beyond it TLS only, unless asked for otherwise.
fn transport(args: &SandboxFlags, address: SocketAddr) -> Result<Transport, tls::Error> {
    let identity = Identity::generate(&[address.ip().to_canonical()])?;
    let either = args.insecure || args.is_private();
    Ok(if either {
        Transport::Either(identity)
    } else {
        Transport::Tls(identity)
    })
}

/// Writes a kubeconfig that only its owner can read: it holds a token.
fn write_kubeconfig(path: &Path, text: &str) -> Result<(), Error> {
    // What is no file, such as a terminal, can only be written to.
    let written = match path.metadata() {
        Ok(found) if !found.is_file() => std::fs::write(path, text),
        _ => replace(path, text),
    };
    written.map_err(|source| Error::WriteKubeconfig {
        path: path.to_owned(),
        source,
    })
}

/// Puts a file of its own in the place of whatever is there, which stays as it is until then: others may read that, or own it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A link leads on to the new one.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    // Nobody else can read one that is made so.
    let mut file = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// An address that can be connected to: "any" is the machine itself.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        std::net::IpAddr::V4(ip) if ip.is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
        std::net::IpAddr::V6(ip) if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
