//! Flags that say what keeps the bus: this process's memory, or etcd.

use std::fmt;
use std::path::{Path, PathBuf};

use bailiff_runtime::args::{Address, Error};
use clap::{Args, ValueEnum};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::engine::etcd::Config;

/// What keeps the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineKind {
    /// This process's memory: one replica, which forgets when it ends
    Memory,
    /// etcd: any number of replicas
    Etcd,
}

/// Flags about the engine.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Engine")]
pub struct EngineFlags {
    /// What keeps the bus
    #[arg(long, env = "BAILIFF_ENGINE", value_enum, default_value = "memory", value_name = "ENGINE")]
    pub engine: EngineKind,

    /// All members of etcd, as URLs with commas between them
    #[arg(long, env = "BAILIFF_ETCD_ENDPOINTS", value_delimiter = ',', value_name = "URL,...")]
    pub etcd_endpoints: Vec<String>,

    /// What all keys in etcd begin with: one bus has one prefix
    #[arg(
        long,
        env = "BAILIFF_ETCD_PREFIX",
        default_value = "/bailiff/event-bus/",
        value_name = "PREFIX"
    )]
    pub etcd_prefix: String,

    /// Certificates of who signed etcd's, in PEM
    #[arg(long, env = "BAILIFF_ETCD_CA_FILE", value_name = "FILE")]
    pub etcd_ca_file: Option<PathBuf>,

    /// Certificate to show to etcd, in PEM
    #[arg(long, env = "BAILIFF_ETCD_CERT_FILE", value_name = "FILE")]
    pub etcd_cert_file: Option<PathBuf>,

    /// Its key, in PEM
    #[arg(long, env = "BAILIFF_ETCD_KEY_FILE", value_name = "FILE")]
    pub etcd_key_file: Option<PathBuf>,
}

/// What keeps the bus, with what was read for it.
#[derive(Debug)]
pub(super) enum Engine {
    Memory,
    Etcd(Box<Config>),
}

impl EngineFlags {
    /// Checks the flags, and reads the files they name.
    ///
    /// # Errors
    /// The first flag whose value is not allowed.
    pub(super) fn read(&self, insecure: bool) -> Result<Engine, Error> {
        if self.engine == EngineKind::Memory {
            self.require_no_etcd()?;
            return Ok(Engine::Memory);
        }
        if self.etcd_endpoints.is_empty() {
            return Err(Error::new(
                "etcd-endpoints",
                "",
                "--engine=etcd needs the URL of every member",
            ));
        }
        let is_prefix = self.etcd_prefix.len() <= 256
            && self.etcd_prefix.ends_with('/')
            && self.etcd_prefix.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_prefix {
            let allowed = "allowed are at most 256 printable characters without blanks, the last one '/'";
            return Err(Error::new("etcd-prefix", &self.etcd_prefix, allowed));
        }
        let tls = self.read_tls()?;
        let endpoints = self.etcd_endpoints.iter().map(|text| read_endpoint(text, &tls, insecure));
        Ok(Engine::Etcd(Box::new(Config {
            prefix: self.etcd_prefix.clone(),
            ..Config::new(endpoints.collect::<Result<_, _>>()?)
        })))
    }

    fn require_no_etcd(&self) -> Result<(), Error> {
        let files = [
            ("etcd-ca-file", &self.etcd_ca_file),
            ("etcd-cert-file", &self.etcd_cert_file),
            ("etcd-key-file", &self.etcd_key_file),
        ];
        let file = files
            .iter()
            .find_map(|(flag, path)| Some((*flag, path.as_ref()?.display().to_string())));
        let endpoints = (!self.etcd_endpoints.is_empty()).then(|| ("etcd-endpoints", self.etcd_endpoints.join(",")));
        match endpoints.or(file) {
            Some((flag, value)) => Err(Error::new(flag, value, "allowed with --engine=etcd only")),
            None => Ok(()),
        }
    }

    fn read_tls(&self) -> Result<ClientTlsConfig, Error> {
        let mut tls = ClientTlsConfig::new();
        if let Some(path) = &self.etcd_ca_file {
            tls = tls.ca_certificate(Certificate::from_pem(read_pem("etcd-ca-file", path)?));
        }
        match (&self.etcd_cert_file, &self.etcd_key_file) {
            (Some(cert), Some(key)) => {
                let (cert, key) = (read_pem("etcd-cert-file", cert)?, read_pem("etcd-key-file", key)?);
                Ok(tls.identity(Identity::from_pem(cert, key)))
            }
            (None, None) => Ok(tls),
            (Some(path), None) => Err(Error::new(
                "etcd-cert-file",
                path.display(),
                "needs --etcd-key-file beside it",
            )),
            (None, Some(path)) => Err(Error::new(
                "etcd-key-file",
                path.display(),
                "needs --etcd-cert-file beside it",
            )),
        }
    }
}

fn read_endpoint(text: &str, tls: &ClientTlsConfig, insecure: bool) -> Result<Endpoint, Error> {
    const ALLOWED: &str = "allowed is <scheme>://<host>:<port> such as https://etcd-0.etcd:2379 or http://127.0.0.1:2379";
    let refuse = |allowed: &str| Error::new("etcd-endpoints", text, allowed);
    let (scheme, rest) = text.split_once("://").ok_or_else(|| refuse(ALLOWED))?;
    let address: Address = rest.parse().map_err(|_| refuse(ALLOWED))?;
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(|_| refuse(ALLOWED))?;
    match scheme {
        "http" if insecure || address.is_loopback() => Ok(endpoint),
        "http" => Err(refuse("plain text stays on this machine: allowed is https, or --insecure")),
        "https" => endpoint.tls_config(tls.clone()).map_err(|error| {
            let reason = bailiff_runtime::shutdown::chain(&error);
            refuse(&format!("the certificates given for it cannot be used: {reason}"))
        }),
        _ => Err(refuse(ALLOWED)),
    }
}

fn read_pem(flag: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    let refuse = |reason: &dyn fmt::Display| Error::new(flag, path.display(), format!("allowed is a file of PEM: {reason}"));
    let bytes = std::fs::read(path).map_err(|error| refuse(&error))?;
    if !bytes.windows(11).any(|window| window == b"-----BEGIN ") {
        return Err(refuse(&"there is none in it"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::args::parse_from;

    use super::super::Args;
    use super::*;

    fn read(flags: &[&str]) -> Result<Engine, String> {
        let args: Args = parse_from(std::iter::once(&"event-bus").chain(flags)).expect("well-formed");
        args.engine.read(args.insecure).map_err(|error| error.to_string())
    }

    #[test]
    fn memory_is_the_default_and_wants_nothing_of_etcd() {
        assert!(matches!(read(&[]), Ok(Engine::Memory)));
        for flags in [["--etcd-endpoints", "http://127.0.0.1:1"], ["--etcd-ca-file", "/nowhere"]] {
            let refused = read(&flags).expect_err("of etcd");
            assert!(refused.contains(flags[0]) && refused.contains("--engine=etcd"), "{refused}");
        }
    }

    #[test]
    fn members_are_read() {
        let found = read(&[
            "--engine=etcd",
            "--etcd-endpoints=http://127.0.0.1:1,http://localhost:2",
            "--etcd-prefix=/a/",
        ]);
        let Ok(Engine::Etcd(config)) = found else {
            unreachable!("{found:?}")
        };
        assert_eq!((config.endpoints.len(), config.prefix.as_str()), (2, "/a/"));
        assert!(read(&["--engine=etcd", "--insecure", "--etcd-endpoints=http://etcd:1"]).is_ok());
    }

    #[test]
    fn what_is_not_allowed_names_the_flag() {
        let here = "--etcd-endpoints=http://127.0.0.1:1";
        for (flags, wanted) in [
            (vec![], "--etcd-endpoints"),
            (vec!["--etcd-endpoints=127.0.0.1:1"], "<scheme>://"),
            (vec!["--etcd-endpoints=ftp://127.0.0.1:1"], "<scheme>://"),
            (vec!["--etcd-endpoints=http://127.0.0.1"], "<scheme>://"),
            (vec!["--etcd-endpoints=http://etcd:2379"], "--insecure"),
            (vec![here, "--etcd-prefix=bus"], "--etcd-prefix"),
            (vec![here, "--etcd-prefix=/a b/"], "--etcd-prefix"),
            (vec![here, "--etcd-ca-file=/nowhere/ca.pem"], "--etcd-ca-file"),
            (vec![here, "--etcd-ca-file=/dev/null"], "there is none in it"),
            (vec![here, "--etcd-cert-file=/dev/null"], "--etcd-key-file"),
            (vec![here, "--etcd-key-file=/dev/null"], "--etcd-cert-file"),
        ] {
            let flags = [vec!["--engine=etcd"], flags].concat();
            let refused = read(&flags).expect_err(wanted);
            assert!(refused.contains(wanted), "{flags:?}: {refused}");
        }
    }
}
