//! Creates the cluster, and then does what kubelets and a scheduler do.

use std::collections::VecDeque;
use std::time::Duration;

use bailiff_cluster::watch::{Event, Source, Watch};
use bailiff_cluster::{Api, Error, Kind, Patch};
use bailiff_runtime::Seed;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Stdin};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::fleet::{Fleet, Job, Kubelet, POST, Pod, RENEW, Turns};
use super::{Command, HANDS, LoadFlags, Server, objects, version_of};
use crate::views::PodView;

/// How often it is looked whose turn it is: a small part of the pause between two renewals of a node.
const TICK: Duration = Duration::from_millis(20);
/// Requests for pods, and of nodes that are back, under way at once: what a server is asked at the same time must not grow with what came
/// back at the same time, or the load is all that is measured. Whatever is beyond waits, and no more changes of pods are taken.
const JOBS: usize = 4 * HANDS;
/// After so long something is tried again that came to nothing: whoever waits for it looks five times a second.
const AGAIN: Duration = Duration::from_secs(1);
/// An API server makes its namespaces itself, seconds after it says that it is ready; whoever starts one need not wait for them.
const NAMESPACES: Duration = Duration::from_secs(60);
/// After so many objects it is said how far it is.
const TOLD: usize = 5_000;

/// Pods of ours.
const PODS: Source = Source::all("/api/v1/pods").with_labels("app.kubernetes.io/managed-by=bailiff-bench");

/// What waits for its turn.
enum Chore {
    Pod(Job),
    /// The status of a node that is back.
    Post(usize),
}

/// What was asked for and is answered.
enum Answer {
    /// The renewal of a node's Lease, with its new version if it succeeded.
    Renewed(usize, Option<String>),
    /// What was to be done with the pod of this uid.
    Done(String),
    /// This came to nothing.
    Failed(Chore),
    /// A status was posted.
    Posted,
}

/// Creates nodes, Leases and pods.
///
/// # Errors
/// The first object that cannot be created.
pub(super) async fn fill(api: &Api, flags: &LoadFlags) -> Result<Fleet, String> {
    for namespace in objects::NAMESPACES {
        create_service_account(api, namespace).await?;
    }
    let nodes = stream::iter(0..flags.nodes).map(|index| join(api, flags, index));
    let joined: Vec<(Kubelet, String)> = nodes.buffered(HANDS).try_collect().await?;
    let (kubelets, uids): (Vec<Kubelet>, Vec<String>) = joined.into_iter().unzip();
    let pods = (0..flags.nodes).flat_map(|index| (0..flags.pods_per_node).map(move |nth| (index, nth)));
    let pods = stream::iter(pods).map(|(index, nth)| create(api, objects::pod(index, nth, &uids[index], flags)));
    let mut created = pods.buffer_unordered(HANDS).enumerate();
    while let Some((count, pod)) = created.next().await {
        pod?;
        if (count + 1) % TOLD == 0 {
            eprintln!("{} pods were created", count + 1);
        }
    }
    Ok(Fleet::new(kubelets))
}

/// The account that pods are of, which is the first object in their namespace.
async fn create_service_account(api: &Api, namespace: &str) -> Result<(), String> {
    let (path, account) = objects::service_account(namespace);
    let until = tokio::time::Instant::now() + NAMESPACES;
    loop {
        match api.create::<IgnoredAny>(&path, &account).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind == Kind::AlreadyExists => return Ok(()),
            Err(error) if error.kind == Kind::NotFound && tokio::time::Instant::now() < until => tokio::time::sleep(AGAIN).await,
            Err(error) => return Err(format!("the service account of the pods cannot be created: {error}")),
        }
    }
}

/// A node joins, with its Lease. Its uid is told besides.
async fn join(api: &Api, flags: &LoadFlags, index: usize) -> Result<(Kubelet, String), String> {
    let node = create(api, objects::node(index, flags, api.clock().wall())).await?;
    let name = objects::node_name(index, flags.zones);
    let lease = create(api, objects::lease(&name, "", api.clock().wall())).await?;
    let kubelet = Kubelet {
        version: version_of(&lease),
        name,
        ..Kubelet::default()
    };
    Ok((kubelet, node["metadata"]["uid"].as_str().unwrap_or_default().to_owned()))
}

async fn create(api: &Api, (path, object): (String, Value)) -> Result<Value, String> {
    let name = || object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let created = api.create(&path, &object).await;
    created.map_err(|error| format!("{path}/{} cannot be created: {error}", name()))
}

/// Lives until standard input ends.
pub(super) async fn run(server: &Server, mut fleet: Fleet, seed: &Seed) -> Result<(), String> {
    let (api, began) = (&server.api, tokio::time::Instant::now());
    let nodes = fleet.kubelets.len();
    let (mut renewals, mut posts) = (Turns::every(RENEW, nodes), Turns::every(POST, nodes));
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut pods: Watch<PodView> = Watch::start(api, PODS, seed);
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    // Renewals and posts have turns of their own, evenly spread; the rest comes when it comes.
    let (mut turns, mut others): (JoinSet<Answer>, JoinSet<Answer>) = (JoinSet::new(), JoinSet::new());
    let mut chores: VecDeque<Chore> = VecDeque::new();
    loop {
        while others.len() < JOBS {
            match chores.pop_front() {
                Some(Chore::Pod(job)) => drop(others.spawn(perform(server.clone(), job))),
                // It fell silent again while this waited.
                Some(Chore::Post(index)) if fleet.kubelets[index].is_silent => {}
                Some(Chore::Post(index)) => drop(others.spawn(post_back(api.clone(), index, fleet.kubelets[index].name.clone()))),
                None => break,
            }
        }
        tokio::select! {
            biased;
            line = next_line(&mut input) => {
                let Some(line) = line? else { return Ok(()) };
                let command: Command = serde_json::from_str(&line).map_err(|error| format!("not a command: {error}: {line}"))?;
                let (back, jobs) = fleet.silence(&command.nodes, command.is_silent);
                for index in back {
                    renew(api, &mut fleet, index, &mut turns);
                    chores.push_back(Chore::Post(index));
                }
                chores.extend(jobs.into_iter().map(Chore::Pod));
            }
            _ = tick.tick() => {
                let elapsed = began.elapsed();
                for index in renewals.until(elapsed) {
                    renew(api, &mut fleet, index, &mut turns);
                }
                for index in posts.until(elapsed) {
                    let kubelet = &fleet.kubelets[index];
                    if !kubelet.is_silent {
                        turns.spawn(post(api.clone(), kubelet.name.clone()));
                    }
                }
            }
            Some(answer) = turns.join_next() => chores.extend(answered(&mut fleet, answer)),
            Some(answer) = others.join_next() => chores.extend(answered(&mut fleet, answer)),
            event = pods.next(), if chores.is_empty() => chores.extend(changed(&mut fleet, event).into_iter().map(Chore::Pod)),
        }
    }
}

async fn next_line(input: &mut tokio::io::Lines<BufReader<Stdin>>) -> Result<Option<String>, String> {
    input.next_line().await.map_err(|error| format!("standard input: {error}"))
}

fn answered(fleet: &mut Fleet, answer: Result<Answer, tokio::task::JoinError>) -> Option<Chore> {
    match answer {
        Ok(Answer::Renewed(index, version)) => {
            let kubelet = &mut fleet.kubelets[index];
            kubelet.is_renewing = false;
            // Without one the next renewal reads it first.
            kubelet.version = version.unwrap_or_default();
        }
        Ok(Answer::Done(uid)) => return fleet.done(&uid).map(Chore::Pod),
        Ok(Answer::Failed(Chore::Pod(job))) => return fleet.failed(job).map(Chore::Pod),
        Ok(Answer::Failed(chore)) => return Some(chore),
        Ok(Answer::Posted) => {}
        Err(error) => eprintln!("a request came to nothing: {error}"),
    }
    None
}

fn changed(fleet: &mut Fleet, event: Event<PodView>) -> Vec<Job> {
    match event {
        Event::Snapshot(snapshot) => snapshot
            .objects
            .into_iter()
            .filter_map(|pod| fleet.pod(of_view(pod)))
            .collect(),
        Event::Applied(pod) => fleet.pod(of_view(pod)).into_iter().collect(),
        Event::Deleted(meta) => {
            fleet.gone(&meta.uid);
            Vec::new()
        }
        Event::Stale { reason, .. } => {
            eprintln!("the watch of pods is stale: {reason}");
            Vec::new()
        }
        Event::Fresh => Vec::new(),
    }
}

fn of_view(view: PodView) -> Pod {
    Pod {
        namespace: view.meta.namespace.into(),
        name: view.meta.name.into(),
        uid: view.meta.uid,
        node: view.node,
        wanted_node: view.wanted_node,
        is_pending: view.phase.is_empty() || view.phase == "Pending",
        is_leaving: view.is_leaving,
    }
}

fn renew(api: &Api, fleet: &mut Fleet, index: usize, answers: &mut JoinSet<Answer>) {
    let kubelet = &mut fleet.kubelets[index];
    if kubelet.is_silent || std::mem::replace(&mut kubelet.is_renewing, true) {
        return;
    }
    let (api, name, version) = (api.clone(), kubelet.name.clone(), kubelet.version.clone());
    answers.spawn(async move {
        let renewed = replace_lease(&api, &name, version).await;
        if let Err(error) = &renewed {
            eprintln!("the Lease of {name} was not renewed: {error}");
        }
        Answer::Renewed(index, renewed.ok())
    });
}

/// As a kubelet: by the version it knows, and if it knows none, by the one that it reads.
async fn replace_lease(api: &Api, name: &str, mut version: String) -> Result<String, Error> {
    let (collection, _) = objects::lease(name, "", api.clock().wall());
    let path = format!("{collection}/{name}");
    if version.is_empty() {
        version = version_of(&api.get::<Value>(&path).await?);
    }
    let (_, object) = objects::lease(name, &version, api.clock().wall());
    Ok(version_of(&api.replace::<Value>(&path, &object).await?))
}

/// The post whose turn it is: the next makes good for one that fails.
async fn post(api: Api, name: String) -> Answer {
    heartbeat(&api, &name, false).await;
    Answer::Posted
}

/// The post of a node that is back, without which it stays Unknown.
async fn post_back(api: Api, index: usize, name: String) -> Answer {
    if heartbeat(&api, &name, true).await {
        return Answer::Posted;
    }
    tokio::time::sleep(AGAIN).await;
    Answer::Failed(Chore::Post(index))
}

async fn heartbeat(api: &Api, name: &str, is_back: bool) -> bool {
    let patch = Patch::Strategic(objects::heartbeat(api.clock().wall(), is_back));
    let posted = api.patch::<IgnoredAny>(&format!("/api/v1/nodes/{name}/status"), &patch).await;
    posted
        .inspect_err(|error| eprintln!("the status of {name} was not posted: {error}"))
        .is_ok()
}

async fn perform(server: Server, job: Job) -> Answer {
    let api = &server.api;
    let performed = match &job {
        Job::Bind(pod, node) => {
            let path = format!("{}/binding", path_of(pod));
            let bound = api.create::<IgnoredAny>(&path, &objects::binding(pod, node)).await;
            unless_gone(bound)
        }
        Job::Start(pod) => {
            let patch = Patch::Strategic(objects::running(api.clock().wall()));
            let started = api.patch::<IgnoredAny>(&format!("{}/status", path_of(pod)), &patch).await;
            unless_gone(started)
        }
        Job::Finish(pod) => server.delete_at_once(&path_of(pod), Some(&pod.uid)).await,
    };
    let Err(error) = performed else {
        return Answer::Done(job.uid().to_owned());
    };
    eprintln!("{} was not served: {error}", path_of(job.pod()));
    tokio::time::sleep(AGAIN).await;
    Answer::Failed(Chore::Pod(job))
}

/// It went meanwhile, or a scheduler of the cluster was faster.
fn unless_gone(answer: Result<IgnoredAny, Error>) -> Result<(), String> {
    match answer {
        Err(error) if !matches!(error.kind, Kind::NotFound | Kind::Conflict) => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn path_of(pod: &Pod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use bailiff_cluster::Metrics;
    use bailiff_runtime::Clock;
    use http::{Response, StatusCode};
    use http_body_util::Full;
    use hyper::body::Bytes;
    use serde_json::json;

    use super::*;

    /// An API server without namespaces for so many requests; their number besides.
    fn young(without: u32) -> (Api, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&asked);
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let is_there = counter.fetch_add(1, Ordering::Relaxed) >= without;
            let (status, answer) = if is_there {
                (StatusCode::CREATED, objects::service_account("default").1)
            } else {
                let reason = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
                (StatusCode::NOT_FOUND, reason)
            };
            let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
            *response.status_mut() = status;
            async move { Ok::<_, Infallible>(response) }
        });
        let api = Api::new(kube::Client::new(service, "default"), Clock::system(), Metrics::default());
        (api, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_that_are_late_are_waited_for_with_a_bound() {
        let (api, asked) = young(3);
        assert_eq!(create_service_account(&api, "default").await, Ok(()));
        assert_eq!(asked.load(Ordering::Relaxed), 4);

        let (api, asked) = young(u32::MAX);
        let refused = create_service_account(&api, "default")
            .await
            .expect_err("there is no namespace");
        assert!(refused.contains("service account"), "{refused}");
        assert_eq!(
            u64::from(asked.load(Ordering::Relaxed)),
            NAMESPACES.as_secs() / AGAIN.as_secs() + 1
        );
    }
}
