use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use http::{Request, StatusCode};
use kube::Config;
use kube::config::KubeconfigError;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
    SignatureAlgorithm,
};
use tokio::runtime::Builder;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::*;
use crate::Clock;
use crate::args::KubeArgs;
use crate::client::plugin::Patience;
use crate::client::transport::tests::server::{BOTH, Server, mk_server, until};
use crate::client::transport::{Attention, Content, Room};
use crate::client::{self, connect_paced};
use crate::tls::tests::pki::Files;

async fn send(transport: &Transport, room: Room) -> StatusCode {
    let request = Request::get("/api").body(Content::default()).unwrap();
    transport.send(room, request).await.unwrap().status()
}

async fn ask(transport: &Transport) -> StatusCode {
    send(transport, transport.room(false).await.unwrap()).await
}

/// What is answered, and after what came of it.
async fn ask_twice(transport: &Transport) -> [u16; 2] {
    let first = ask(transport).await;
    until(|| !transport.renewal.as_ref().unwrap().state().is_reading).await;
    [first, ask(transport).await].map(|status| status.as_u16())
}

/// Until they may be read again, unless they end sooner.
async fn pass() {
    pass_for(EVERY).await;
}

async fn pass_for(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

fn mk_transport(config: &Config, token: &str) -> Result<Transport, Error> {
    let mut config = config.clone();
    config.auth_info.token = Some(token.to_owned().into());
    client::transport(&config, None, Wall::UNIX_EPOCH, Patience::START)
}

fn want(server: &Server, shown: &[u8]) {
    *server.seen.wanted.lock().unwrap() = shown.to_vec();
}

#[test]
fn they_are_read_once_a_minute_at_most_and_once_at_a_time() {
    let (begin, mut state) = (Instant::now(), State::default());
    let millis = Duration::from_millis;
    for (after, has_ended, next) in [
        (0, false, Next::Read),
        (1, true, Next::Nothing),
        (59_999, true, Next::Nothing),
        (60_000, true, Next::Read),
        (119_999, false, Next::Nothing),
        (120_000, false, Next::Overdue),
        (120_001, false, Next::Nothing),
        (500_000, false, Next::Overdue),
        (559_999, true, Next::Nothing),
        (560_000, true, Next::Read),
    ] {
        state.is_reading &= !has_ended;
        assert_eq!(state.want(begin + millis(after)), next, "after {after} ms");
    }
}

/// Whoever has ended is not overdue, however soon they are wanted again.
#[test]
fn who_has_ended_is_not_overdue() {
    let (begin, mut state) = (Instant::now(), State::default());
    assert_eq!(state.want(begin), Next::Read);
    state.end(Some(begin + AT_LEAST));
    assert_eq!(state.want(begin), Next::Nothing);
    assert_eq!(state.want(begin + AT_LEAST), Next::Read);
    state.end(None);
    assert_eq!(state.want(begin + EVERY), Next::Nothing);
    assert_eq!(state.want(begin + AT_LEAST + EVERY), Next::Read);
}

/// Whatever becomes of a reading, there is a next one.
#[tokio::test]
async fn requests_are_refused_until_credentials_were_read_that_are_not() {
    for protocols in [None, Some(BOTH)] {
        let server = mk_server(protocols).await;
        want(&server, b"Bearer third");
        let (config, reads) = (server.config.clone(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&reads);
        let transport = mk_transport(&config, "first")
            .unwrap()
            .renewed_by("test", &Clock::system(), move |_| {
                match count.fetch_add(1, Ordering::SeqCst) {
                    0 => mk_transport(&config, "second"),
                    1 => Err(Error::Build(KubeconfigError::FindPath.into())),
                    2 => panic!("nobody thought of this"),
                    _ => mk_transport(&config, "third"),
                }
            });
        let early = transport.room(false).await.unwrap();
        for times in 1..=3 {
            assert_eq!(ask_twice(&transport).await, [401, 401]);
            assert_eq!(ask_twice(&transport).await, [401, 401], "it is not read again at once");
            assert_eq!(reads.load(Ordering::SeqCst), times);
            pass().await;
        }
        assert_eq!(ask_twice(&transport).await, [401, 200], "{protocols:?}");
        pass().await;
        assert_eq!(ask_twice(&transport).await, [200, 200]);
        assert_eq!(reads.load(Ordering::SeqCst), 4);
        assert_eq!(
            send(&transport, early).await,
            StatusCode::UNAUTHORIZED,
            "it has room on the first ways"
        );
    }
}

/// Not even the end of the process waits for it.
#[test]
fn who_reads_without_an_end_holds_up_nothing() {
    let (release, never) = mpsc::channel::<()>();
    let (is_over, over) = mpsc::channel();
    let (never, reads) = (Mutex::new(never), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&reads);
    let read = move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        let _ = never.lock().unwrap().recv();
        Err(Error::Build(KubeconfigError::FindPath.into()))
    };
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = mk_server(None).await;
            want(&server, b"Bearer nobody");
            let transport = server.transport().renewed_by("test", &Clock::system(), read);
            for _ in 0..3 {
                assert_eq!(ask(&transport).await, StatusCode::UNAUTHORIZED);
                until(|| reads.load(Ordering::SeqCst) > 0).await;
                pass().await;
            }
        });
        drop(runtime);
        is_over.send(reads.load(Ordering::SeqCst)).unwrap();
    });
    // For as long as a test may hang.
    assert_eq!(over.recv_timeout(Duration::from_secs(60)), Ok(1));
    drop(release);
}

/// The kubeconfig of a server, with more about the cluster and the user.
fn write_kubeconfig(file: &Path, server: &Server, cluster: &str, user: &str) {
    let url = &server.config.cluster_url;
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{{"name":"c","context":{{"cluster":"k","user":"u"}}}}],
        "clusters":[{{"name":"k","cluster":{{"server":"{url}"{cluster}}}}}],"users":[{{"name":"u","user":{{{user}}}}}]}}"#
    );
    std::fs::write(file, text).unwrap();
}

async fn connect(kubeconfig: &Path) -> Transport {
    connect_by(kubeconfig, &Clock::system()).await
}

async fn connect_by(kubeconfig: &Path, clock: &Clock) -> Transport {
    let args = KubeArgs {
        kubeconfig: Some(kubeconfig.to_owned()),
        ..KubeArgs::default()
    };
    connect_paced(&args, "test", clock).await.unwrap()
}

#[tokio::test]
async fn certificates_in_files_are_read_again() {
    let server = mk_server(Some(BOTH)).await;
    let directory = tempfile::tempdir().unwrap();
    let [old, new] = [server.sign(), server.sign()];
    want(&server, &CertificateDer::from_pem_slice(new.certificate.as_bytes()).unwrap());
    let files = Files::new(directory.path(), "files", &old, &server.root());
    let kubeconfig = directory.path().join("kubeconfig");
    let [cluster, user] = [
        r#","certificate-authority":"files/ca.crt""#,
        r#""client-certificate":"files/tls.crt","client-key":"files/tls.key""#,
    ];
    write_kubeconfig(&kubeconfig, &server, cluster, user);
    let transport = connect(&kubeconfig).await;
    assert_eq!(ask_twice(&transport).await, [401, 401]);
    files.write_pair(&new);
    pass().await;
    assert_eq!(ask_twice(&transport).await, [401, 200]);
}

/// A CA with a key of this kind, of the name that those of servers have.
fn mk_root(kind: &'static SignatureAlgorithm) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "cluster");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate_for(kind).unwrap()).unwrap().pem()
}

/// Over connections that requests share, and over those of streams; whatever kind of key the CA had before.
#[tokio::test]
async fn a_ca_in_a_file_is_read_again_if_it_does_not_vouch_for_the_server() {
    let server = mk_server(Some(BOTH)).await;
    let directory = tempfile::tempdir().unwrap();
    let [kubeconfig, ca] = ["kubeconfig", "ca.crt"].map(|name| directory.path().join(name));
    write_kubeconfig(&kubeconfig, &server, r#","certificate-authority":"ca.crt""#, "");
    let kinds = [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519];
    for (kind, is_stream) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        std::fs::write(&ca, mk_root(kind)).unwrap();
        let transport = connect(&kubeconfig).await;
        let fails = || async {
            let failed = if is_stream {
                let request = Request::get("/api").body(Content::default()).unwrap();
                transport.open(request, Attention::Usual).await.is_err()
            } else {
                transport.room(false).await.is_err()
            };
            until(|| !transport.renewal.as_ref().unwrap().state().is_reading).await;
            failed
        };
        assert!(fails().await);
        std::fs::write(&ca, server.root()).unwrap();
        assert!(fails().await, "it is not read again at once");
        pass().await;
        assert!(fails().await);
        assert!(!fails().await, "{kind:?}, is_stream: {is_stream}");
    }
}

/// Whoever holds a Lease on one server must not write to another.
#[tokio::test]
async fn another_server_is_not_gone_to() {
    let (here, there) = (mk_server(None).await, mk_server(None).await);
    want(&here, b"Bearer new");
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let write = |server, cluster, token| write_kubeconfig(&kubeconfig, server, cluster, &format!(r#""token":"{token}""#));
    write(&here, "", "old");
    let transport = connect(&kubeconfig).await;
    for (server, cluster) in [
        (&there, ""),
        (&here, r#","tls-server-name":"there""#),
        (&here, r#","proxy-url":"http://192.0.2.8:3128""#),
    ] {
        write(server, cluster, "new");
        assert_eq!(ask_twice(&transport).await, [401, 401], "{cluster}");
        pass().await;
    }
    assert_eq!(there.connections(), 0);
    write(&here, "", "new");
    assert_eq!(ask_twice(&transport).await, [401, 200]);
}

#[test]
fn what_ends_is_read_again_before_that_and_not_at_once() {
    let now = Wall::from_second(1_000_000).unwrap();
    let at = |seconds: i64| Wall::from_second(1_000_000 + seconds).unwrap();
    for (ends, from) in [
        (3_600, 3_480),
        (240, 120),
        (180, 90),
        (60, 30),
        (12, 6),
        (8, 5),
        (0, 5),
        (-1_000_000, 5),
    ] {
        assert_eq!(Term::new(now, at(ends)).renew_from, at(from), "it ends after {ends} s");
    }
    assert_eq!(Term::new(Wall::MAX, Wall::MAX).renew_from, Wall::MAX);
    assert!(Term::new(Wall::MIN, Wall::MAX).renew_from < Wall::MAX);
}

/// A plugin that answers what is in a file, and how often it was run.
struct Plugin {
    answer: PathBuf,
    runs: PathBuf,
    /// The user of a kubeconfig who is asked for by it.
    user: String,
}

impl Plugin {
    fn new(directory: &Path) -> Self {
        let [answer, runs] = ["answer", "runs"].map(|name| directory.join(name));
        let script = r#"echo >> "$1"; cat "$0""#;
        let args = serde_json::json!(["-c", script, answer, runs]);
        let plugin = r#""apiVersion":"client.authentication.k8s.io/v1","interactiveMode":"Never","command":"sh""#;
        let user = format!(r#""exec":{{{plugin},"args":{args}}}"#);
        Self { answer, runs, user }
    }

    fn answers(&self, status: &serde_json::Value) {
        let answer =
            serde_json::json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status});
        std::fs::write(&self.answer, answer.to_string()).unwrap();
    }

    /// From here on it waits until somebody opens the file to write an answer.
    fn hang(&self) {
        std::fs::remove_file(&self.answer).unwrap();
        assert!(Command::new("mkfifo").arg(&self.answer).status().unwrap().success());
    }

    fn runs(&self) -> usize {
        std::fs::read(&self.runs).unwrap().len()
    }
}

/// A server, and a client that asks a plugin, which answers this at first; its clock begins in 1970. The directory is the plugin's.
async fn mk_asking(answer: &serde_json::Value) -> (Server, Plugin, Transport, tempfile::TempDir) {
    let server = mk_server(None).await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let plugin = Plugin::new(directory.path());
    write_kubeconfig(&kubeconfig, &server, "", &plugin.user);
    plugin.answers(answer);
    let transport = connect_by(&kubeconfig, &Clock::virtual_from(Wall::UNIX_EPOCH)).await;
    (server, plugin, transport, directory)
}

/// A token, and when it ends on that clock.
fn token(token: &str, ends: u64) -> serde_json::Value {
    serde_json::json!({"token": token, "expirationTimestamp": Wall::UNIX_EPOCH + Duration::from_secs(ends)})
}

#[tokio::test]
async fn a_plugin_is_run_once_for_each_reading() {
    let server = mk_server(Some(BOTH)).await;
    let directory = tempfile::tempdir().unwrap();
    let [kubeconfig, ca] = ["kubeconfig", "ca.crt"].map(|name| directory.path().join(name));
    std::fs::write(&ca, server.root()).unwrap();
    let plugin = Plugin::new(directory.path());
    write_kubeconfig(&kubeconfig, &server, r#","certificate-authority":"ca.crt""#, &plugin.user);
    let [old, new] = [server.sign(), server.sign()];
    want(&server, &CertificateDer::from_pem_slice(new.certificate.as_bytes()).unwrap());
    plugin.answers(&serde_json::json!({"clientCertificateData": old.certificate, "clientKeyData": old.key}));
    let transport = connect(&kubeconfig).await;
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([401, 401], 2));
    plugin.answers(&serde_json::json!({"clientCertificateData": new.certificate, "clientKeyData": new.key, "token": "t"}));
    pass().await;
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([401, 200], 3));
    want(&server, b"Bearer t");
    assert_eq!(ask_twice(&transport).await, [200, 200]);
}

/// What it answered is used meanwhile, for as long as the server takes it.
#[tokio::test]
async fn a_plugin_is_asked_before_what_it_answered_ends_and_holds_up_nothing() {
    let server = mk_server(None).await;
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let plugin = Plugin::new(directory.path());
    write_kubeconfig(&kubeconfig, &server, "", &plugin.user);
    let begin = Wall::from_second(1_000_000).unwrap();
    let token =
        |token: &str, seconds| serde_json::json!({"token": token, "expirationTimestamp": begin + Duration::from_secs(seconds)});
    plugin.answers(&token("old", 100));
    want(&server, b"Bearer old");
    let transport = connect_by(&kubeconfig, &Clock::virtual_from(begin)).await;
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([200, 200], 1));

    plugin.hang();
    pass().await;
    for _ in 0..3 {
        // For as long as a test may hang.
        let asked = tokio::time::timeout(Duration::from_secs(60), ask(&transport)).await;
        assert_eq!(asked, Ok(StatusCode::OK));
    }
    until(|| plugin.runs() == 2).await;
    want(&server, b"Bearer new");
    assert_eq!(ask(&transport).await, StatusCode::UNAUTHORIZED, "it is not there yet");
    plugin.answers(&token("new", 130));
    until(|| !transport.renewal.as_ref().unwrap().state().is_reading).await;
    assert_eq!(ask(&transport).await, StatusCode::OK);

    // It fails, and the kubeconfig says another way by now.
    std::fs::remove_file(&plugin.answer).unwrap();
    pass().await;
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([200, 200], 3));
    write_kubeconfig(&kubeconfig, &server, "", r#""token":"new""#);
    pass().await;
    want(&server, b"Bearer new");
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([200, 200], 3));
    assert_eq!(transport.ways.get().term, None);
}

/// As one may that does not last for long: half of it is over, and the last reading is not a minute ago.
#[tokio::test]
async fn what_ends_soon_is_read_again_as_soon() {
    let (_server, plugin, transport, _directory) = mk_asking(&token("t", 0)).await;
    for runs in 2..5 {
        pass_for(AT_LEAST).await;
        assert_eq!((ask_twice(&transport).await, plugin.runs()), ([200, 200], runs));
    }
}

#[test]
fn attempts_that_fail_follow_each_other_sooner_before_the_end() {
    let begin = Wall::from_second(1_000_000).unwrap();
    let at = |seconds: u64| begin + Duration::from_secs(seconds);
    let term = Term::new(begin, at(60));
    for (now, rest) in [
        (30, 15_000),
        (45, 7_500),
        (53, 5_000),
        (59, 5_000),
        (60, 60_000),
        (1_000, 60_000),
    ] {
        assert_eq!(term.rest_after_failure(at(now)), Duration::from_millis(rest), "{now}");
    }
    assert_eq!(Term::new(begin, at(3_600)).rest_after_failure(at(3_480)), EVERY);
}

/// One attempt that fails does not cost what lasts for a minute.
#[tokio::test]
async fn what_ends_soon_and_could_not_be_read_is_read_before_it_ends() {
    let (_server, plugin, transport, _directory) = mk_asking(&token("t", 60)).await;
    std::fs::remove_file(&plugin.answer).unwrap();
    pass_for(Duration::from_secs(30)).await;
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([200, 200], 2));
    plugin.answers(&token("t", 60));
    pass_for(Duration::from_secs(15)).await;
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([200, 200], 3));
}

/// Whatever it was to be read for.
#[tokio::test]
async fn what_ends_soon_and_could_not_be_read_after_a_refusal_is_read_before_it_ends() {
    let (server, plugin, transport, _directory) = mk_asking(&token("old", 60)).await;
    want(&server, b"Bearer new");
    std::fs::remove_file(&plugin.answer).unwrap();
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([401, 401], 2));
    plugin.answers(&token("new", 60));
    pass_for(Duration::from_secs(30)).await;
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([401, 200], 3));
}

/// The same of what was read.
#[tokio::test]
async fn what_was_read_after_a_refusal_is_read_again_before_it_ends() {
    let (server, plugin, transport, _directory) = mk_asking(&serde_json::json!({"token": "old"})).await;
    want(&server, b"Bearer new");
    plugin.answers(&token("new", 40));
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([401, 200], 2));
    pass_for(Duration::from_secs(20)).await;
    assert_eq!((ask_twice(&transport).await, plugin.runs()), ([200, 200], 3));
}

/// kube asks the program of an `auth-provider` itself, when a request is sent, which fails with it: no server says so.
#[tokio::test]
async fn a_request_that_gets_no_credentials_of_a_provider_is_as_good_as_refused() {
    let server = mk_server(None).await;
    want(&server, b"Bearer new");
    let directory = tempfile::tempdir().unwrap();
    let [kubeconfig, answer] = ["kubeconfig", "answer"].map(|name| directory.path().join(name));
    std::fs::write(&answer, r#"{"token":"new","ends":"2000-01-01T00:00:00Z"}"#).unwrap();
    let by = serde_json::json!({"cmd-path": "cat", "cmd-args": answer, "token-key": "{.token}", "expiry-key": "{.ends}"});
    let provider = serde_json::json!({"name": "gcp", "config": by});
    write_kubeconfig(&kubeconfig, &server, "", &format!(r#""auth-provider":{provider}"#));
    let transport = connect(&kubeconfig).await;
    assert_eq!(ask_twice(&transport).await, [200, 200]);
    std::fs::remove_file(&answer).unwrap();
    write_kubeconfig(&kubeconfig, &server, "", r#""token":"new""#);
    let request = Request::get("/api").body(Content::default()).unwrap();
    let failed = transport.open(request, Attention::Usual).await.unwrap_err();
    assert_eq!(
        failed.to_string(),
        "the program of the auth-provider 'gcp' failed: exit status: 1"
    );
    until(|| !transport.renewal.as_ref().unwrap().state().is_reading).await;
    assert_eq!(ask(&transport).await, StatusCode::OK);
}
