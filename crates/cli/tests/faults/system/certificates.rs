//! Certificates for everybody, of a CA of their own.

use std::path::Path;

use crate::support::bailiff;

/// A CA and certificates of it for everybody, in the place of any that were there.
pub fn make(directory: &Path) {
    let path = directory.join("certs");
    let made = bailiff(&["certs", &path.display().to_string(), "--force"]);
    assert_eq!(made.code, Some(0), "{made:?}");
}

/// The flags with which a process of this role uses its certificate.
pub fn flags(directory: &Path, role: &str) -> [String; 3] {
    let path = directory.join("certs");
    [
        ("cert-file", format!("{role}.crt")),
        ("private-key-file", format!("{role}.key")),
        ("ca-file", "ca.crt".to_owned()),
    ]
    .map(|(flag, file)| format!("--tls-{flag}={}", path.join(file).display()))
}
