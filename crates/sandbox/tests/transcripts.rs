//! Plays what a real kube-apiserver answered against the sandbox and compares as the recordings' README says.
//!
//! The set of topics that pass is checked in (`transcripts.passing`): it can only grow. So are the refusals that are told in other words
//! than recorded, which is no fault, but no help either, to whoever searches for them (`transcripts.reworded`): they can only become fewer.

use std::path::{Path, PathBuf};

use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::service::Service;
use bailiff_sandbox::{Authorization, Config, Sandbox, Token, User, server};
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tower::ServiceExt;

#[path = "transcripts/bindings.rs"]
mod bindings;
#[path = "transcripts/compare.rs"]
mod compare;
#[path = "transcripts/player.rs"]
mod player;

fn recordings() -> PathBuf {
    let shared = std::env::var_os("BAILIFF_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let directory = shared.join("apiserver-transcripts");
    assert!(
        directory.is_dir(),
        "the recordings are not at {}: set BAILIFF_SHARED to the directory that holds apiserver-transcripts",
        directory.display()
    );
    directory
}

fn topics() -> Vec<(String, Value)> {
    let mut topics = Vec::new();
    for entry in std::fs::read_dir(recordings()).expect("the recordings can be listed") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read(&path).expect("a recording can be read");
            let topic: Value = serde_json::from_slice(&text).expect("a recording is JSON");
            let name = topic["topic"].as_str().unwrap_or_default().to_owned();
            if topic.get("steps").is_some() {
                topics.push((name, topic));
            }
        }
    }
    topics.sort_by(|(one, _), (other, _)| one.cmp(other));
    topics
}

fn sandbox() -> Sandbox {
    let token = |token: &str, name: &str, groups: &[&str]| {
        let mut user = User::new(name, groups);
        user.uid = name.into();
        Token {
            token: token.to_owned(),
            user,
        }
    };
    let config = Config {
        authorization: Authorization::Rbac,
        tokens: vec![
            token("admintoken", "admin", &["system:masters"]),
            token("bobtoken", "bob", &[]),
        ],
        ..Config::default()
    };
    let wall = "2026-11-21T01:00:00Z".parse().expect("a time");
    Sandbox::new(config, Clock::virtual_from(wall), &Seed::new(1))
}

/// Over a socket the same things are said. Time is real there, so these are topics that never wait.
#[tokio::test]
async fn recorded_answers_come_over_a_socket() {
    let unhurried = [
        "kubelet-flow",
        "node-crud",
        "kubectl-drain",
        "smp-pod",
        "auth-rbac",
        "compression",
        "content-types",
        "watch-live",
    ];
    let all = std::env::var("TRANSCRIPT_OVER_HTTP").is_ok();
    let mut differences = Vec::new();
    for (name, topic) in topics().iter().filter(|(name, _)| all || unhurried.contains(&name.as_str())) {
        let sandbox = sandbox();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port on loopback");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let served = tokio::spawn(server::serve(listener, sandbox.clone(), async move {
            let _ = stopped.await;
        }));
        let client = Client::builder(TokioExecutor::new()).build_http();
        let service = ServiceExt::map_request(client, move |mut request: http::Request<Full<Bytes>>| {
            let absolute = format!("http://{address}{}", request.uri());
            *request.uri_mut() = absolute.parse().expect("a path behind an authority is a URI");
            request
        });
        if let Err(difference) = player::play(topic, service, || sandbox.compact()).await {
            differences.push(format!("{name}: {difference}"));
        }
        let _ = stop.send(());
        served.await.expect("the server ends").expect("the server ends well");
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[tokio::test(start_paused = true)]
async fn recorded_answers_are_given() {
    let passing: Vec<&str> = include_str!("transcripts.passing")
        .lines()
        .filter(|line| !line.is_empty())
        .collect();
    let only = std::env::var("TRANSCRIPT").ok();
    let topics = topics();
    let mut passed = Vec::new();
    let mut reworded = Vec::new();
    for (name, topic) in &topics {
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let sandbox = sandbox();
        let service = Service::new(sandbox.clone());
        match player::play(topic, service, || sandbox.compact()).await {
            Ok(steps) => {
                passed.push(name.as_str());
                reworded.extend(steps.into_iter().map(|step| format!("{name} {step}")));
            }
            Err(difference) => println!("{name}: {difference}"),
        }
    }
    println!("{} of {} topics pass", passed.len(), topics.len());
    if only.is_none() {
        let missing: Vec<&&str> = passing.iter().filter(|name| !passed.contains(name)).collect();
        let new: Vec<&&str> = passed.iter().filter(|name| !passing.contains(name)).collect();
        assert!(missing.is_empty(), "topics that passed before: {missing:?}");
        assert!(new.is_empty(), "topics to add to transcripts.passing: {new:?}");
        let known: Vec<&str> = include_str!("transcripts.reworded").lines().collect();
        assert_eq!(
            reworded, known,
            "what is told in other words, to be changed in transcripts.reworded if they are fewer"
        );
    }
}
