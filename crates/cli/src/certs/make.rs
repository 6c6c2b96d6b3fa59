//! Makes the certificates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bailiff_model::Wall;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
    date_time_ymd,
};

/// Who says who is who. Certificates to try with are told from others by it.
const TRUST_DOMAIN: &str = "bailiff";

/// The bus, the stages, and people.
const ROLES: [&str; 7] = [
    BUS,
    "node-health-monitor",
    "taint-manager",
    "zone-evictor",
    "daemonset-syncer",
    "viewer",
    "operator",
];

const BUS: &str = "event-bus";

/// The bus's own store, where there is one: no caller of ours.
const ETCD: &str = "etcd";

/// Clocks of two machines differ a little.
const BACKDATED: Duration = Duration::from_secs(300);

/// A certificate and its key.
pub(super) struct Made {
    pub(super) name: &'static str,
    pub(super) certificate: String,
    pub(super) key: String,
    /// None of the CA.
    pub(super) identity: Option<String>,
    pub(super) expires: Wall,
}

/// A CA.
type Authority = CertifiedIssuer<'static, KeyPair>;

impl Made {
    /// Where its certificate and its key go, below `dir`.
    pub(super) fn paths(&self, dir: &Path) -> [PathBuf; 2] {
        ["crt", "key"].map(|kind| dir.join(format!("{}.{kind}", self.name)))
    }
}

/// Names and addresses besides those that every certificate carries.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hosts<'a> {
    /// The bus is reached by.
    pub(super) bus: &'a [String],
    /// Members of etcd are reached by. Without any there is no certificate for them.
    pub(super) etcd: &'a [String],
}

/// A CA and a certificate for each role, the CA first.
pub(super) fn all(now: Wall, days: u16, hosts: Hosts<'_>) -> Result<Vec<Made>, rcgen::Error> {
    let from = now.checked_sub(BACKDATED).unwrap_or(now);
    let until = now
        .checked_add(Duration::from_secs(u64::from(days) * 86_400))
        .unwrap_or(Wall::MAX);
    let key = KeyPair::generate()?;
    let key_pem = key.serialize_pem();
    let authority = authority(key, from, until)?;
    let mut made = vec![Made {
        name: "ca",
        certificate: authority.pem(),
        key: key_pem,
        identity: None,
        expires: until,
    }];
    let etcd = (!hosts.etcd.is_empty()).then_some(ETCD);
    for role in ROLES.into_iter().chain(etcd) {
        made.push(leaf(&authority, role, hosts, from, until)?);
    }
    Ok(made)
}

fn authority(key: KeyPair, from: Wall, until: Wall) -> Result<Authority, rcgen::Error> {
    let mut params = dated(CertificateParams::default(), from, until);
    params.distinguished_name.push(DnType::CommonName, "bailiff certs");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, key)
}

/// A role's certificate carries the role's name as a host, for whoever wants to check it on the admin port. Only the bus's carries
/// names that the bus is reached by: nobody else must be able to stand in for it.
fn leaf(authority: &Authority, role: &'static str, hosts: Hosts<'_>, from: Wall, until: Wall) -> Result<Made, rcgen::Error> {
    let mut names = vec![role.to_owned()];
    if role == BUS {
        names.push("localhost".to_owned());
        names.extend_from_slice(hosts.bus);
    }
    if role == ETCD {
        names.extend_from_slice(hosts.etcd);
    }
    let mut params = dated(CertificateParams::new(names)?, from, until);
    if role == BUS {
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
        params.subject_alt_names.extend(loopback.map(SanType::IpAddress));
    }
    let identity = format!("spiffe://{TRUST_DOMAIN}/{role}");
    params.subject_alt_names.push(SanType::URI(identity.as_str().try_into()?));
    params.distinguished_name.push(DnType::CommonName, role);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok(Made {
        name: role,
        certificate: params.signed_by(&key, authority)?.pem(),
        key: key.serialize_pem(),
        identity: Some(identity),
        expires: until,
    })
}

fn dated(mut params: CertificateParams, from: Wall, until: Wall) -> CertificateParams {
    let date = |wall: Wall| {
        let since = Duration::from_secs(u64::try_from(wall.as_second()).unwrap_or(0));
        date_time_ymd(1970, 1, 1) + since
    };
    (params.not_before, params.not_after) = (date(from), date(until));
    params
}

/// Whether a certificate can carry this name.
pub(super) fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte);
    text.parse::<IpAddr>().is_ok() || (!text.is_empty() && text.len() <= 253 && text.bytes().all(is_inner))
}
