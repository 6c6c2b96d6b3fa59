//! Certificates for everybody, of a CA of their own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use jiff::SignedDuration;

use crate::faketime::WallClock;
use crate::support::command;

/// A clock that is an hour slow must not take them for those of the future.
const BACKDATED: SignedDuration = SignedDuration::from_hours(-2);

/// A CA and certificates of it for everybody, in the place of any that were there.
pub fn make(directory: &Path) {
    let clock = WallClock::new(&directory.join("clock-certs"));
    let environment = clock.iter().flat_map(|clock| {
        clock.step(BACKDATED);
        clock.environment()
    });
    let status = command(&["certs", "--force"])
        .envs(environment)
        .arg(directory.join("certs"))
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
}

/// The flags with which a process of this role uses its certificate.
pub fn flags(directory: &Path, role: &str) -> [String; 3] {
    let [certificate, key, ca] = files(directory, role);
    [("cert-file", certificate), ("private-key-file", key), ("ca-file", ca)]
        .map(|(flag, file)| format!("--tls-{flag}={}", file.display()))
}

/// The certificate of this role, its key, and the CA.
pub fn files(directory: &Path, role: &str) -> [PathBuf; 3] {
    let path = directory.join("certs");
    [format!("{role}.crt"), format!("{role}.key"), "ca.crt".to_owned()].map(|file| path.join(file))
}
