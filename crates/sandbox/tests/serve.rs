//! `bailiff sandbox` as a process would run it: flags in, HTTP out.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "nothing here runs outside of tests; what helpers fail at fails the test"
)]

use bailiff_runtime::args::parse_from;
use bailiff_runtime::{Clock, Seed, Shutdown};
use bailiff_sandbox::args::{self, SandboxArgs};
use clap::Parser;
use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Clone, Debug, Parser)]
struct Cli {
    #[command(flatten)]
    sandbox: SandboxArgs,
}

fn parse(flags: &[&str]) -> SandboxArgs {
    parse_from::<Cli>(["sandbox"].iter().chain(flags)).unwrap().sandbox
}

/// Answers of a server that closes the connection after one.
async fn get(address: &str, path: &str, token: Option<&str>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let authorization = token
        .map(|token| format!("Authorization: Bearer {token}\r\n"))
        .unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A server that speaks TLS alone answers with an alert, or not at all.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn the_kubeconfig_leads_to_a_sandbox_with_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let flag = format!("--write-kubeconfig={}", file.display());
    let args = parse(&["--listen=127.0.0.1:0", "--nodes=4", "--zones=2", "--pods-per-node=1", &flag]);
    let shutdown = Shutdown::new();
    let running = args::start(&args, Clock::system(), &Seed::new(1), &shutdown).await.unwrap();
    let config: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
    // kubectl sends no token over plain HTTP, so that is what the kubeconfig says; plain requests are answered on the same port.
    let address = server.strip_prefix("https://").unwrap();
    let token = config["users"][0]["user"]["token"].as_str().unwrap();
    let nodes = get(address, "/api/v1/nodes", Some(token)).await;
    assert!(nodes.starts_with("HTTP/1.1 200"), "{nodes}");
    for name in ["node-a-000", "node-a-001", "node-b-000", "node-b-001"] {
        assert!(nodes.contains(name), "{name}");
    }
    // As kube-apiserver: where everything is allowed, nobody is anonymous.
    assert!(get(address, "/api/v1/nodes", None).await.starts_with("HTTP/1.1 401"));
    shutdown.trigger();
    running.join().await.unwrap();
}

/// It holds a token, and may replace a file that anybody could read, and has open.
#[tokio::test]
async fn the_kubeconfig_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let [file, link] = ["kubeconfig", "link"].map(|name| directory.path().join(name));
    std::fs::write(&file, "before").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let reader = std::fs::File::open(&file).unwrap();
    let flag = format!("--write-kubeconfig={}", link.display());
    let args = parse(&["--bare", "--listen=127.0.0.1:0", &flag]);
    let shutdown = Shutdown::new();
    let running = args::start(&args, Clock::system(), &Seed::new(1), &shutdown).await.unwrap();
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::io::read_to_string(reader).unwrap(), "before");
    let token = running.token.clone().unwrap();
    assert!(std::fs::read_to_string(&link).unwrap().contains(&token));
    let left = std::fs::read_dir(directory.path()).unwrap();
    assert_eq!(left.count(), 2, "nothing else is left there");
    shutdown.trigger();
    running.join().await.unwrap();
}

#[tokio::test]
async fn tokens_and_roles_mean_what_they_mean_for_kube_apiserver() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens.csv");
    std::fs::write(&file, "admintoken,admin,1,\"system:masters\"\nbobtoken,bob,2\n").unwrap();
    let flag = format!("--token-auth-file={}", file.display());
    let args = parse(&["--bare", "--listen=127.0.0.1:0", "--authorization-mode=RBAC", &flag]);
    let shutdown = Shutdown::new();
    let running = args::start(&args, Clock::system(), &Seed::new(1), &shutdown).await.unwrap();
    assert_eq!(running.token.as_deref(), Some("admintoken"));
    let address = running.address.to_string();
    let cases = [
        (Some("admintoken"), "HTTP/1.1 200"),
        (Some("bobtoken"), "HTTP/1.1 403"),
        (Some("bad"), "HTTP/1.1 401"),
        (None, "HTTP/1.1 403"),
    ];
    for (token, wanted) in cases {
        let answer = get(&address, "/api/v1/nodes", token).await;
        assert!(answer.starts_with(wanted), "{token:?}: {answer}");
        assert!(!answer.contains("node-a-000"));
    }
    shutdown.trigger();
    running.join().await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let shutdown = Shutdown::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tokens.csv");
    let flag = format!("--token-auth-file={}", file.display());
    let args = parse(&["--bare", "--listen=127.0.0.1:0", &flag]);
    let missing = args::start(&args, Clock::system(), &Seed::new(1), &shutdown)
        .await
        .unwrap_err();
    assert!(missing.to_string().starts_with("cannot read --token-auth-file"), "{missing}");
    std::fs::write(&file, "lonely\n").unwrap();
    let malformed = args::start(&args, Clock::system(), &Seed::new(1), &shutdown)
        .await
        .unwrap_err();
    let source = std::error::Error::source(&malformed).unwrap().to_string();
    assert!(source.starts_with("line 1: too few fields"), "{source}");
}

/// What a client with this kubeconfig reads.
async fn namespaces(file: &std::path::Path) -> Vec<String> {
    let config = Kubeconfig::read_from(file).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let list = kube::Api::<Namespace>::all(client)
        .list(&kube::api::ListParams::default())
        .await;
    list.unwrap()
        .items
        .into_iter()
        .filter_map(|namespace| namespace.metadata.name)
        .collect()
}

#[tokio::test]
async fn the_kubeconfig_is_trusted_over_tls_and_plain_requests_end_at_this_machine() {
    let directory = tempfile::tempdir().unwrap();
    let (tokens, file) = (directory.path().join("tokens.csv"), directory.path().join("kubeconfig"));
    std::fs::write(&tokens, "admintoken,admin,1,\"system:masters\"\n").unwrap();
    let tokens = format!("--token-auth-file={}", tokens.display());
    let kubeconfig = format!("--write-kubeconfig={}", file.display());
    for (listen, plain) in [("127.0.0.1:0", true), ("0.0.0.0:0", false)] {
        let args = parse(&["--bare", &format!("--listen={listen}"), &tokens, &kubeconfig]);
        let shutdown = Shutdown::new();
        let running = args::start(&args, Clock::system(), &Seed::new(1), &shutdown).await.unwrap();
        assert_eq!(
            namespaces(&file).await,
            ["default", "kube-node-lease", "kube-public", "kube-system"]
        );
        let address = format!("127.0.0.1:{}", running.address.port());
        let answer = get(&address, "/version", Some("admintoken")).await;
        assert_eq!(answer.starts_with("HTTP/1.1 200"), plain, "{listen}: {answer}");
        shutdown.trigger();
        running.join().await.unwrap();
    }
}
