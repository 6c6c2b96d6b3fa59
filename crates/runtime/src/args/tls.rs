//! Flags about TLS, and the rule that plain text stays on the machine.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{Error, Valid, Validate, defaults};
use crate::Clock;
use crate::tls::{self, Paths, Tls};

/// Valid flags about TLS.
pub type TlsArgs = Valid<TlsFlags>;

/// Flags about TLS: all three or none. With them every port and every connection between services is mutual TLS.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "TLS", about = None, long_about = None)]
pub struct TlsFlags {
    /// Certificate of this process and what leads to its CA, in PEM; read again when it changes
    #[arg(long, env = "BAILIFF_TLS_CERT_FILE", value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key of the certificate, in PEM
    #[arg(long, env = "BAILIFF_TLS_PRIVATE_KEY_FILE", value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,

    /// Certificates of the CAs that peers are trusted by, in PEM
    #[arg(long, env = "BAILIFF_TLS_CA_FILE", value_name = "FILE")]
    pub tls_ca_file: Option<PathBuf>,
}

/// Refuses to serve plain text to other machines, unless `insecure`. `flag` is the one `listen` came from.
///
/// # Errors
/// `listen` is reachable from elsewhere.
pub fn require_private_listener(flag: &'static str, listen: SocketAddr, insecure: bool) -> Result<(), Error> {
    if insecure || listen.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let allowed = "without TLS allowed is a loopback address such as 127.0.0.1, or --insecure to serve plain text to the network";
    Err(Error::new(flag, listen, allowed))
}

// === impl TlsFlags ===

impl TlsFlags {
    /// Where the files are, if they are given.
    pub fn paths(&self) -> Option<Paths> {
        Some(Paths {
            certificate: self.tls_cert_file.clone()?,
            key: self.tls_private_key_file.clone()?,
            ca: self.tls_ca_file.clone()?,
        })
    }

    /// What the files hold, if they are given.
    ///
    /// # Errors
    /// They cannot be used: a matter of configuration (exit code 64).
    pub fn load(&self, clock: &Clock) -> Result<Option<Tls>, tls::Error> {
        self.paths().map(|paths| Tls::load(paths, clock)).transpose()
    }

    /// Refuses ports that would serve plain text to other machines, and `--insecure` beside TLS files, which cannot both be meant.
    ///
    /// # Errors
    /// The first flag that is not allowed.
    pub fn check(&self, insecure: bool, ports: &[(&'static str, SocketAddr)]) -> Result<(), Error> {
        if self.paths().is_some() {
            return self.check_insecure(insecure);
        }
        ports
            .iter()
            .try_for_each(|(flag, listen)| require_private_listener(flag, *listen, insecure))
    }

    pub(super) fn check_insecure(&self, insecure: bool) -> Result<(), Error> {
        if insecure && self.paths().is_some() {
            let allowed = "with --tls-cert-file allowed is false: TLS and plain text cannot both be meant";
            return Err(Error::new("insecure", true, allowed));
        }
        Ok(())
    }
}

impl Validate for TlsFlags {
    fn validate(&self) -> Result<(), Error> {
        let files = [
            ("tls-cert-file", &self.tls_cert_file),
            ("tls-private-key-file", &self.tls_private_key_file),
            ("tls-ca-file", &self.tls_ca_file),
        ];
        let Some((flag, given)) = files.iter().find_map(|(flag, file)| Some((*flag, file.as_ref()?))) else {
            return Ok(());
        };
        let missing = files.iter().filter(|(_, file)| file.is_none());
        let missing: Vec<String> = missing.map(|(flag, _)| format!("--{flag}")).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let allowed = format!(
            "allowed are all three TLS files or none; missing is {}",
            missing.join(" and ")
        );
        Err(Error::new(flag, given.display(), allowed))
    }
}

impl Default for TlsArgs {
    fn default() -> Self {
        Self(defaults())
    }
}

impl Default for TlsFlags {
    fn default() -> Self {
        defaults()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_flags(given: [bool; 3]) -> TlsFlags {
        let file = |index: usize, name: &str| given[index].then(|| PathBuf::from(name));
        TlsFlags {
            tls_cert_file: file(0, "tls.crt"),
            tls_private_key_file: file(1, "tls.key"),
            tls_ca_file: file(2, "ca.crt"),
        }
    }

    #[test]
    fn all_three_files_or_none_and_what_is_missing_is_named() {
        for bits in 0..8_u8 {
            let given = [bits & 1 != 0, bits & 2 != 0, bits & 4 != 0];
            let flags = mk_flags(given);
            let validated = flags.validate();
            if bits == 0 || bits == 7 {
                assert_eq!(validated, Ok(()), "{given:?}");
                assert_eq!(flags.paths().is_some(), bits == 7);
                continue;
            }
            let said = validated.expect_err("a file is missing").to_string();
            let names = ["--tls-cert-file", "--tls-private-key-file", "--tls-ca-file"];
            let (_, missing) = said.split_once("missing is ").expect("says what is missing");
            for (name, given) in names.into_iter().zip(given) {
                assert_eq!(missing.contains(name), !given, "{said}");
            }
        }
    }

    #[test]
    fn plain_text_stays_on_the_machine_unless_told_otherwise() {
        let listen = |text: &str, insecure| require_private_listener("listen", text.parse().expect(text), insecure);
        assert_eq!(listen("127.0.0.1:1", false), Ok(()));
        assert_eq!(listen("[::1]:1", false), Ok(()));
        assert_eq!(listen("0.0.0.0:1", true), Ok(()));
        let refused = listen("0.0.0.0:1", false).expect_err("reachable from elsewhere").to_string();
        assert!(
            refused.contains("'0.0.0.0:1' for '--listen'") && refused.contains("--insecure"),
            "{refused}"
        );
    }

    #[test]
    fn with_tls_every_address_is_allowed_and_insecure_is_not() {
        let far = [("listen", SocketAddr::from(([0, 0, 0, 0], 1)))];
        let (plain, tls) = (mk_flags([false; 3]), mk_flags([true; 3]));
        assert!(plain.check(false, &far).is_err());
        assert_eq!(plain.check(true, &far), Ok(()));
        assert_eq!(tls.check(false, &far), Ok(()));
        let refused = tls.check(true, &far).expect_err("a contradiction").to_string();
        assert!(refused.contains("'true' for '--insecure'"), "{refused}");
    }
}
