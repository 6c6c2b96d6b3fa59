//! Flags about the event bus, for those who use it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use clap::{ArgAction, Args};
use tokio_rustls::rustls::pki_types::ServerName;

use super::{Error, TlsFlags, Valid, Validate, defaults, go_bool};

/// The port an event bus listens on unless told otherwise: unassigned by IANA, and outside of the ephemeral ranges.
pub const DEFAULT_BUS_PORT: u16 = 7460;

/// Valid flags about the event bus.
pub type BusArgs = Valid<BusFlags>;

/// Flags about the event bus.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Event bus", about = None, long_about = None)]
pub struct BusFlags {
    /// Where the event bus is; of several replicas all addresses, with commas between them
    #[arg(long, env = "BAILIFF_BUS", default_value = "127.0.0.1:7460", value_name = "HOST:PORT,...")]
    pub bus: Addresses,

    /// Talk to the event bus in plain text also beyond this machine
    #[arg(
        long, env = "BAILIFF_INSECURE", default_value = "false", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    pub insecure: bool,

    /// Name that the bus's certificate must carry, if it is not the host of --bus: for a bus that is reached by address
    #[arg(long, env = "BAILIFF_TLS_SERVER_NAME", value_parser = server_name, value_name = "NAME")]
    pub tls_server_name: Option<String>,

    /// TLS.
    #[command(flatten)]
    pub tls: TlsFlags,
}

/// Host and port of every replica of a service; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(Vec<Address>);

/// Host and port of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

// === impl BusFlags ===

impl Validate for BusFlags {
    fn validate(&self) -> Result<(), Error> {
        self.tls.validate()?;
        self.tls.check_insecure(self.insecure)?;
        if self.tls.paths().is_some() || self.insecure || self.bus.is_loopback() {
            return Ok(());
        }
        let allowed = "without TLS allowed is a loopback address such as 127.0.0.1 or localhost, or --insecure for plain text";
        Err(Error::new("bus", &self.bus, allowed))
    }
}

impl Default for BusArgs {
    fn default() -> Self {
        defaults()
    }
}

fn server_name(text: &str) -> Result<String, String> {
    match ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("allowed is a DNS name or an IP address".to_owned()),
    }
}

// === impl Addresses ===

impl Addresses {
    /// Most replicas of a service: a limit against mistakes.
    const MOST: usize = 16;

    /// Each of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Address> {
        self.0.iter()
    }

    /// Are they all this machine?
    pub fn is_loopback(&self) -> bool {
        self.0.iter().all(Address::is_loopback)
    }
}

impl From<Address> for Addresses {
    fn from(address: Address) -> Self {
        Self(vec![address])
    }
}

impl FromStr for Addresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut addresses: Vec<Address> = Vec::new();
        for part in text.split(',') {
            let address: Address = part.trim().parse().map_err(|allowed| match text.contains(',') {
                true => format!("{part:?}: {allowed}"),
                false => allowed,
            })?;
            if addresses.contains(&address) {
                return Err(format!("{address} is there twice; allowed is each address once"));
            }
            addresses.push(address);
        }
        if addresses.len() > Self::MOST {
            return Err(format!("allowed are at most {} addresses", Self::MOST));
        }
        Ok(Self(addresses))
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.0.iter().map(Address::to_string).collect();
        f.write_str(&addresses.join(","))
    }
}

// === impl Address ===

impl Address {
    /// A name, or an IP address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address as a URL of plain HTTP.
    pub fn http_url(&self) -> String {
        format!("http://{self}")
    }

    /// Is it this machine, whatever its resolver says?
    pub fn is_loopback(&self) -> bool {
        // RFC 6761 lets `localhost` and names below it mean nothing else.
        let name = self.host.to_ascii_lowercase();
        let is_local = |ip: IpAddr| ip.to_canonical().is_loopback();
        name.parse()
            .map_or_else(|_| name == "localhost" || name.ends_with(".localhost"), is_local)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const ALLOWED: &str = "allowed is <host>:<port> such as 127.0.0.1:7460, localhost:7460 or [::1]:7460";
        let bare = text.strip_prefix("http://").unwrap_or(text);
        if let Ok(address) = bare.parse::<SocketAddr>()
            && address.port() != 0
        {
            return Ok(address.into());
        }
        let is_host = |host: &str| {
            let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !host.is_empty() && host.len() <= 253 && host.bytes().all(is_inner)
        };
        match bare.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            Some((host, Ok(port))) if is_host(host) && port != 0 => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(ALLOWED.to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown, loopback) in [
            ("127.0.0.1:7460", "127.0.0.1:7460", true),
            ("127.9.9.9:1", "127.9.9.9:1", true),
            ("http://localhost:1", "localhost:1", true),
            ("LOCALHOST:1", "LOCALHOST:1", true),
            ("[::1]:1", "[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:1", true),
            ("localhost.example.com:1", "localhost.example.com:1", false),
            ("127.0.0.1.example.com:1", "127.0.0.1.example.com:1", false),
            ("bus.kube-system.svc:7460", "bus.kube-system.svc:7460", false),
            ("0.0.0.0:1", "0.0.0.0:1", false),
            ("10.0.0.1:1", "10.0.0.1:1", false),
        ] {
            let address: Address = text.parse().expect(text);
            assert_eq!(
                (address.to_string().as_str(), address.is_loopback()),
                (shown, loopback),
                "{text}"
            );
        }
        for text in [
            "",
            ":1",
            "host",
            "host:",
            "host:0",
            "host:65536",
            "a b:1",
            "https://a:1",
            "a:1/x",
            "::1:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_bus_may_have_several_addresses() {
        let addresses: Addresses = "127.0.0.1:1, bus-1:7460,[::1]:2".parse().expect("three addresses");
        assert_eq!(addresses.to_string(), "127.0.0.1:1,bus-1:7460,[::1]:2");
        assert_eq!(addresses.iter().map(Address::port).collect::<Vec<_>>(), [1, 7460, 2]);
        assert!(!addresses.is_loopback(), "one is not");
        for (text, wanted) in [
            ("", "allowed is <host>:<port>"),
            ("a:1,", "\"\": allowed is <host>:<port>"),
            ("a:1,b", "\"b\": allowed"),
            ("a:1,b:2,a:1", "a:1 is there twice"),
        ] {
            let refused = text.parse::<Addresses>().expect_err(text);
            assert!(refused.starts_with(wanted), "{text:?}: {refused}");
        }
    }

    #[test]
    fn plain_text_stays_on_the_machine_unless_told_otherwise() {
        let far = BusFlags {
            bus: "bus:1".parse().expect("an address"),
            ..BusArgs::default().into_inner()
        };
        assert!(BusArgs::new(far.clone()).is_err());
        assert!(
            BusArgs::new(BusFlags {
                insecure: true,
                ..far.clone()
            })
            .is_ok()
        );
        let file = |name: &str| Some(std::path::PathBuf::from(name));
        let tls = TlsFlags {
            tls_cert_file: file("tls.crt"),
            tls_private_key_file: file("tls.key"),
            tls_ca_file: None,
        };
        assert!(
            BusArgs::new(BusFlags {
                tls: tls.clone(),
                ..far.clone()
            })
            .is_err(),
            "a file is missing"
        );
        let tls = TlsFlags {
            tls_ca_file: file("ca.crt"),
            ..tls
        };
        assert!(
            BusArgs::new(BusFlags {
                tls: tls.clone(),
                ..far.clone()
            })
            .is_ok()
        );
        assert!(
            BusArgs::new(BusFlags {
                tls,
                insecure: true,
                ..far
            })
            .is_err(),
            "a contradiction"
        );
    }
}
