//! What is made can be used, by whom it is for only.

use std::os::unix::fs::PermissionsExt as _;

use bailiff_runtime::Tls;
use bailiff_runtime::args::parse_from;
use bailiff_runtime::tls::Paths;

use super::*;
use crate::{Cli, Command};

fn mk_args(dir: &Path, more: &[&str]) -> Args {
    let dir = dir.to_str().expect("a path of a test");
    let cli: Cli = parse_from(["bailiff", "certs", dir].iter().chain(more)).expect("allowed");
    match cli.command {
        Command::Certs(args) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_role_gets_a_certificate_that_can_be_used_and_keys_are_its_owners_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let certs = dir.path().join("certs");
    let members = ["--etcd-host=etcd.bailiff-system.svc", "--etcd-host=*.etcd.bailiff-system.svc"];
    assert!(
        main(mk_args(
            &certs,
            &["--host=bus.example.com", "--host=10.0.0.7", members[0], members[1]]
        ))
        .is_ok()
    );
    let hosts = Hosts {
        etcd: &["etcd.bailiff-system.svc".to_owned()],
        ..Hosts::default()
    };
    let made = make::all(Clock::system().wall(), 30, hosts).expect("made");
    assert_eq!(made.len(), 9, "a CA, the bus, four stages, viewer, operator, etcd");
    for made in &made {
        let [certificate, key] = made.paths(&certs);
        let mode = std::fs::metadata(&key).expect("a key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", key.display());
        let ca = certs.join("ca.crt");
        let tls = Tls::load(Paths { certificate, key, ca }, &Clock::system()).expect(made.name);
        let domain = made.identity.is_some().then_some("bailiff");
        assert_eq!(tls.trust_domain().as_deref(), domain, "{}", made.name);
        assert_eq!(tls.concern(), None, "{}", made.name);
    }
}

#[test]
fn what_is_there_is_written_over_only_when_told_and_stays_private() {
    let dir = tempfile::tempdir().expect("a directory");
    let key = dir.path().join("viewer.key");
    std::fs::write(&key, "mine").expect("written");
    assert!(main(mk_args(dir.path(), &["--force"])).is_ok());
    let written = std::fs::read_to_string(&key).expect("a key");
    assert!(written.starts_with("-----BEGIN PRIVATE KEY-----"), "it was replaced");
    let mode = std::fs::metadata(&key).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "whatever it was before");
}

#[test]
fn what_was_done_is_said_without_any_key() {
    let made = make::all(Wall::UNIX_EPOCH, 1, Hosts::default()).expect("made");
    assert_eq!(made.len(), 8, "none for etcd, of which nothing was said");
    for output in [Output::Text, Output::Json] {
        let said = say(Path::new("certs"), &made, output);
        assert!(!said.contains("PRIVATE"), "{said}");
        for made in &made {
            assert!(said.contains(&format!("certs/{}.crt", made.name)), "{said}");
        }
    }
    let json: serde_json::Value = serde_json::from_str(&say(Path::new("certs"), &made, Output::Json)).expect("JSON");
    assert_eq!(json["certificates"][1]["identity"], "spiffe://bailiff/event-bus");
    assert_eq!(json["certificates"][0]["expires"], "1970-01-02T00:00:00Z");
}

#[test]
fn what_is_wrong_is_answered_with_flag_value_and_what_is_allowed() {
    for (flag, part) in [
        ("--days=0", "from 1 to 3650"),
        ("--host=a b", "DNS name"),
        ("--output=yaml", "json"),
    ] {
        let refusal = parse_from::<Cli>(["bailiff", "certs", "dir", flag]).expect_err(flag);
        assert!(refusal.to_string().contains(part), "{flag}: {refusal}");
    }
}
