//! Certificates to test with: CAs, and what they sign, in files of a directory of its own. Several crates' tests share this file.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose, SanType, date_time_ymd};

/// A CA.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What to sign. Its default is a valid certificate of nobody.
#[derive(Clone, Copy, Default)]
pub struct Wish<'a> {
    /// URI names.
    pub uris: &'a [&'a str],
    /// DNS names and IP addresses.
    pub names: &'a [&'a str],
    /// It was valid, years ago.
    pub is_expired: bool,
}

/// A certificate and its key, in PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// The three files of one process.
pub struct Files {
    dir: PathBuf,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn sign(&self, wish: Wish<'_>) -> Pair {
        let names: Vec<String> = wish.names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        for uri in wish.uris {
            params.subject_alt_names.push(SanType::URI((*uri).try_into().unwrap()));
        }
        if wish.is_expired {
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        }
        let key = KeyPair::generate().unwrap();
        Pair {
            certificate: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Files {
    /// The files of `name`, below `dir`.
    pub fn new(dir: &Path, name: &str, pair: &Pair, ca: &str) -> Self {
        let files = Self { dir: dir.join(name) };
        std::fs::create_dir(&files.dir).unwrap();
        files.write_pair(pair);
        files.write_ca(ca);
        files
    }

    pub fn write_pair(&self, pair: &Pair) {
        std::fs::write(self.dir.join("tls.crt"), &pair.certificate).unwrap();
        std::fs::write(self.dir.join("tls.key"), &pair.key).unwrap();
    }

    pub fn write_ca(&self, ca: &str) {
        std::fs::write(self.dir.join("ca.crt"), ca).unwrap();
    }

    /// Certificate, key, CA.
    pub fn paths(&self) -> [PathBuf; 3] {
        ["tls.crt", "tls.key", "ca.crt"].map(|name| self.dir.join(name))
    }
}
