//! The files as they are: read within a bound, parsed, and never shown.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::VerifierBuilderError;

/// A certificate is 1 to 2 KiB in PEM, a bundle of every public CA below 256 KiB.
const FILE_MAX: u64 = 1024 * 1024;

/// Where the files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Certificate and what leads to its CA.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The CAs that are trusted.
    pub ca: PathBuf,
}

/// Why the files cannot be used. No text quotes their contents.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read '{}' for '--{flag}'", path.display())]
    Read {
        /// Its flag.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("invalid value '{}' for '--{flag}': allowed is a PEM file of {wanted}", path.display())]
    Content {
        /// Its flag.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What it should hold.
        wanted: &'static str,
    },
    /// Key and certificate cannot be used together.
    #[error("invalid value '{}' for '--tls-private-key-file': allowed is the key of the certificate in '{}'", key.display(), certificate.display())]
    Pair {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The CAs cannot be used.
    #[error("invalid value '{}' for '--tls-ca-file': allowed are certificates of CAs", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What was read.
pub(super) struct Bytes {
    certificate: Vec<u8>,
    key: Vec<u8>,
    ca: Vec<u8>,
}

/// What it means.
pub(super) struct Material {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) authorities: Vec<CertificateDer<'static>>,
}

// === impl Error ===

impl Error {
    pub(super) fn ca(paths: &Paths, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Ca {
            path: paths.ca.clone(),
            source: source.into(),
        }
    }

    pub(super) fn verifier(paths: &Paths, source: VerifierBuilderError) -> Self {
        Self::ca(paths, source)
    }

    pub(super) fn pair(paths: &Paths, source: rustls::Error) -> Self {
        Self::Pair {
            key: paths.key.clone(),
            certificate: paths.certificate.clone(),
            source,
        }
    }
}

// === impl Bytes ===

impl Bytes {
    pub(super) fn read(paths: &Paths) -> Result<Self, Error> {
        Ok(Self {
            certificate: read("tls-cert-file", &paths.certificate)?,
            key: read("tls-private-key-file", &paths.key)?,
            ca: read("tls-ca-file", &paths.ca)?,
        })
    }

    /// Tells one set of files from another. Nobody can gain anything from two sets that look the same: whoever writes the files
    /// already decides.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.certificate, &self.key, &self.ca).hash(&mut hasher);
        // 0 is of files that could not be read.
        hasher.finish().max(1)
    }

    pub(super) fn fingerprint_of_ca(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.ca.hash(&mut hasher);
        hasher.finish()
    }
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
    let refuse = |source| Error::Read {
        flag,
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(refuse)?;
    file.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(refuse)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(refuse(io::Error::other("it is larger than 1 MiB")));
    }
    Ok(bytes)
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bytes").finish_non_exhaustive()
    }
}

// === impl Material ===

impl Material {
    pub(super) fn parse(paths: &Paths, bytes: &Bytes) -> Result<Self, Error> {
        let content = |flag, path: &PathBuf, wanted| Error::Content {
            flag,
            path: path.clone(),
            wanted,
        };
        let chain = certificates(&bytes.certificate);
        let chain = chain.ok_or_else(|| {
            content(
                "tls-cert-file",
                &paths.certificate,
                "the certificate and what leads to its CA",
            )
        })?;
        // What is wrong with a key is not told: it would have to be quoted.
        let key = PrivateKeyDer::from_pem_slice(&bytes.key);
        let key = key.map_err(|_| content("tls-private-key-file", &paths.key, "one private key, not encrypted"))?;
        let authorities = certificates(&bytes.ca);
        let authorities = authorities.ok_or_else(|| content("tls-ca-file", &paths.ca, "one or more certificates"))?;
        Ok(Self { chain, key, authorities })
    }
}

/// All certificates of a PEM file that is whole; none is not allowed.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty())
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material")
            .field("chain", &self.chain.len())
            .field("authorities", &self.authorities.len())
            .finish_non_exhaustive()
    }
}
