//! Flags that say what keeps the bus: this process's memory, or etcd.

use std::path::PathBuf;

use bailiff_runtime::Clock;
use bailiff_runtime::args::{Address, Error};
use bailiff_runtime::shutdown::chain;
use bailiff_runtime::tls::{self, Paths, Tls};
use clap::{Args, ValueEnum};

use crate::engine::etcd::{Config, Member};

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

    /// Certificates of the CAs that signed etcd's, in PEM; read again when it changes
    #[arg(long, env = "BAILIFF_ETCD_CA_FILE", value_name = "FILE")]
    pub etcd_ca_file: Option<PathBuf>,

    /// Certificate to show to etcd, in PEM; read again when it changes
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
    /// etcd, and the files that are to be looked at again.
    Etcd(Box<Config>, Option<Tls>),
}

impl EngineFlags {
    /// Checks the flags, and reads the files they name.
    ///
    /// # Errors
    /// The first flag whose value is not allowed.
    pub(super) fn read(&self, insecure: bool, clock: &Clock) -> Result<Engine, Error> {
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
        let tls = self.read_tls(clock)?;
        let members = self
            .etcd_endpoints
            .iter()
            .map(|text| read_member(text, tls.as_ref(), insecure));
        let config = Config {
            prefix: self.etcd_prefix.clone(),
            ..Config::new(members.collect::<Result<_, _>>()?)
        };
        Ok(Engine::Etcd(Box::new(config), tls))
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

    /// All three files or none.
    fn read_tls(&self, clock: &Clock) -> Result<Option<Tls>, Error> {
        let files = [
            ("etcd-ca-file", &self.etcd_ca_file),
            ("etcd-cert-file", &self.etcd_cert_file),
            ("etcd-key-file", &self.etcd_key_file),
        ];
        let [(_, Some(ca)), (_, Some(certificate)), (_, Some(key))] = files else {
            let given = files.iter().find_map(|(flag, path)| Some((*flag, path.as_ref()?)));
            let Some((flag, path)) = given else { return Ok(None) };
            let missing = files.iter().filter(|(_, path)| path.is_none());
            let missing: Vec<String> = missing.map(|(flag, _)| format!("--{flag}")).collect();
            let allowed = format!("needs {} beside it", missing.join(" and "));
            return Err(Error::new(flag, path.display(), allowed));
        };
        let paths = Paths {
            certificate: certificate.clone(),
            key: key.clone(),
            ca: ca.clone(),
        };
        Tls::load(paths, clock).map(Some).map_err(|error| refuse_file(&error, key))
    }
}

/// What is wrong with a file, by the flag that names it here.
fn refuse_file(error: &tls::Error, key: &std::path::Path) -> Error {
    let to_flag = |flag: &str| match flag {
        "tls-cert-file" => "etcd-cert-file",
        "tls-private-key-file" => "etcd-key-file",
        _ => "etcd-ca-file",
    };
    match error {
        tls::Error::Read { flag, path, source } => {
            let allowed = format!("allowed is a file that can be read: {}", chain(source));
            Error::new(to_flag(flag), path.display(), allowed)
        }
        tls::Error::Content { flag, path, wanted } => {
            Error::new(to_flag(flag), path.display(), format!("allowed is a PEM file of {wanted}"))
        }
        tls::Error::Pair { .. } => Error::new("etcd-key-file", key.display(), "allowed is the key of --etcd-cert-file"),
        tls::Error::Ca { path, .. } => Error::new("etcd-ca-file", path.display(), "allowed are certificates of CAs"),
    }
}

fn read_member(text: &str, tls: Option<&Tls>, insecure: bool) -> Result<Member, Error> {
    const ALLOWED: &str = "allowed is <scheme>://<host>:<port> such as https://etcd-0.etcd:2379 or http://127.0.0.1:2379";
    let refuse = |allowed: &str| Error::new("etcd-endpoints", text, allowed);
    let (scheme, rest) = text.split_once("://").ok_or_else(|| refuse(ALLOWED))?;
    let address: Address = rest.parse().map_err(|_| refuse(ALLOWED))?;
    match (scheme, tls) {
        ("http", _) if insecure || address.is_loopback() => Member::plain(&address).map_err(|_| refuse(ALLOWED)),
        ("http", _) => Err(refuse("plain text stays on this machine: allowed is https, or --insecure")),
        ("https", Some(tls)) => Member::secured(&address, tls).ok_or_else(|| refuse(ALLOWED)),
        ("https", None) => Err(refuse("https needs --etcd-ca-file, --etcd-cert-file and --etcd-key-file")),
        _ => Err(refuse(ALLOWED)),
    }
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::args::parse_from;

    use super::super::Args;
    use super::*;

    fn read(flags: &[&str]) -> Result<Engine, String> {
        let args: Args = parse_from(std::iter::once(&"event-bus").chain(flags)).expect("well-formed");
        args.engine
            .read(args.insecure, &Clock::system())
            .map_err(|error| error.to_string())
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
        let Ok(Engine::Etcd(config, None)) = found else {
            unreachable!("{found:?}")
        };
        assert_eq!((config.members.len(), config.prefix.as_str()), (2, "/a/"));
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
            (vec!["--etcd-endpoints=https://etcd:2379"], "--etcd-ca-file"),
            (
                vec![here, "--etcd-ca-file=/nowhere"],
                "needs --etcd-cert-file and --etcd-key-file",
            ),
            (
                vec![here, "--etcd-cert-file=/nowhere", "--etcd-key-file=/nowhere"],
                "needs --etcd-ca-file",
            ),
            (
                vec![
                    here,
                    "--etcd-ca-file=/dev/null",
                    "--etcd-cert-file=/nowhere",
                    "--etcd-key-file=/dev/null",
                ],
                "'/nowhere' for '--etcd-cert-file'",
            ),
            (
                vec![
                    here,
                    "--etcd-ca-file=/dev/null",
                    "--etcd-cert-file=/dev/null",
                    "--etcd-key-file=/dev/null",
                ],
                "'/dev/null' for '--etcd-",
            ),
        ] {
            let flags = [vec!["--engine=etcd"], flags].concat();
            let refused = read(&flags).expect_err(wanted);
            assert!(refused.contains(wanted), "{flags:?}: {refused}");
        }
    }
}
