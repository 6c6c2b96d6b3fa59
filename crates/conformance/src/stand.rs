//! Where a program is put to the test: an API server with kubelets, a bus, stand-ins for the stages before it, and the program.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bailiff_event_bus::{Bus, Draft, Roles, Server, ServerOptions, SubscribeOptions, Subscription, subscribe};
use bailiff_model::{Mono, Origin, Topic};
use bailiff_runtime::port::{self, Bounds, Port};
use bailiff_runtime::shutdown::chain;
use bailiff_runtime::{Clock, Seed, Shutdown};
use bailiff_sandbox::cluster::{self, ClusterSpec};
use bailiff_sandbox::driver::{Driver, Options as DriverOptions};
use bailiff_sandbox::server::tls::{self, Identity};
use bailiff_sandbox::server::{self, Transport};
use bailiff_sandbox::{Config, Sandbox, Token, User, Verb};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::candidate::{self, Candidate};
use crate::gate::Gate;
use crate::item::Item;
use crate::report::Findings;
use crate::timeline::{CANDIDATE, Timeline};
use crate::upstream::Upstream;
use crate::writes::{Right, overstepped};

/// How often it is looked whether what is waited for is there.
const LOOK: Duration = Duration::from_millis(20);
/// Observations kept of one situation: more than any of them makes.
const HISTORY: usize = 1_000_000;

/// What a situation begins with.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Nodes, spread over the zones `a`, `b`, …
    pub nodes: usize,
    /// Zones.
    pub zones: usize,
    /// Pods on each node: `default/pod-<node>-<nth>`.
    pub pods_per_node: usize,
    /// What the program is told beside where to find API and bus: environment variables.
    pub environment: &'static [(&'static str, &'static str)],
}

/// What is the same for all situations.
#[derive(Clone, Debug)]
pub struct Premises {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// How long it may take to do what is required.
    pub patience: Duration,
    /// Where its logs are kept.
    pub logs: PathBuf,
}

/// The situation ends here, and why: what comes next needs what was just missed.
#[derive(Clone, Debug)]
pub struct Stop(pub String);

/// Why there is no stand.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No address or file could be had.
    #[error("cannot set up the cluster and the bus")]
    SetUp(#[from] io::Error),
    /// The cluster could not be built.
    #[error("cannot set up the cluster")]
    Cluster(#[from] cluster::Error),
    /// The API server has no certificate.
    #[error("cannot set up TLS for the API server")]
    Secure(#[from] tls::Error),
    /// The program could not be started.
    #[error(transparent)]
    Candidate(#[from] candidate::Error),
}

/// The stand.
#[derive(Debug)]
pub struct Stand {
    /// The API server.
    pub sandbox: Sandbox,
    /// The way on which the program reaches the API server.
    pub api: Gate,
    /// The way on which the program reaches the bus.
    pub bus_gate: Gate,
    /// The program.
    pub candidate: Candidate,
    /// What was found so far.
    pub findings: Findings,
    clock: Clock,
    timeline: Arc<Mutex<Timeline>>,
    upstream: BTreeMap<Topic, Upstream>,
    patience: Duration,
    shutdown: Shutdown,
    // Holds the kubeconfig.
    _files: tempfile::TempDir,
}

// === impl Stand: setting up ===

impl Stand {
    /// Sets up cluster and bus; the program does not run yet. `topics` are those that it reads and that have a stand-in.
    ///
    /// # Errors
    /// When this machine has no address or file for it.
    pub async fn set_up(name: &str, setting: &Setting, topics: &[Topic], premises: &Premises, seed: &Seed) -> Result<Self, Error> {
        let (clock, shutdown, seed) = (Clock::system(), Shutdown::new(), seed.fork(name));
        let token = seed.fork("token").uuid();
        let sandbox = Sandbox::new(
            Config {
                history: HISTORY,
                tokens: vec![Token {
                    token: token.clone(),
                    user: User::new(CANDIDATE, &["system:serviceaccounts", "system:masters"]),
                }],
                ..Config::default()
            },
            clock.clone(),
            &seed,
        );
        let _running = Driver::start(&sandbox, &DriverOptions::cluster(), &shutdown);
        cluster::build(
            &sandbox,
            &ClusterSpec {
                nodes: setting.nodes,
                zones: setting.zones,
                region: "region".to_owned(),
                pods_per_node: setting.pods_per_node,
                replace_evicted: false,
                node_owned: false,
                // What a NoExecute taint of a failed node does to them it does at once.
                toleration_seconds: Some(0),
            },
        )?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let api = Gate::before(listener.local_addr()?).await?;
        let end = shutdown.clone();
        // Ends with the stand, whose end triggers the shutdown.
        let identity = Identity::generate(&[api.address().ip()])?;
        let authority = identity.authority().to_owned();
        let serving = server::serve_over(listener, sandbox.clone(), Transport::Either(identity), async move {
            end.triggered().await
        });
        tokio::spawn(serving);

        let bus_server = Server::new(ServerOptions::default(), &clock, &seed);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let bus_gate = Gate::before(listener.local_addr()?).await?;
        let port = Port::grpc("bus", listener, None, Bounds::BUS, &port::Metrics::default());
        // Ends with the stand, as above.
        tokio::spawn(
            bus_server
                .clone()
                .serve_port(port, Roles::default(), shutdown.token().clone()),
        );

        let bus = Bus::in_process(&bus_server);
        let timeline = Arc::new(Mutex::new(Timeline::new(sandbox.clone(), clock.clone())));
        let subscription = subscribe(
            &bus,
            SubscribeOptions {
                topics: Topic::ALL.to_vec(),
                filters: Vec::new(),
                subscriber: "conformance".to_owned(),
            },
            &clock,
            &seed,
        );
        // Ends with the stand, as above.
        tokio::spawn(listen(subscription, Arc::clone(&timeline), shutdown.clone()));
        let upstream = topics
            .iter()
            .map(|topic| (*topic, Upstream::begin(&bus, *topic, &clock, &seed)))
            .collect();

        let files = tempfile::tempdir()?;
        let kubeconfig = files.path().join("kubeconfig");
        tokio::fs::write(&kubeconfig, server::kubeconfig(api.address(), Some(&authority), &token)).await?;
        let log = premises.logs.join(format!("{name}.log"));
        let environment = environment(&kubeconfig, &bus_gate, setting);
        Ok(Self {
            candidate: Candidate::new(&premises.command, environment, &log),
            sandbox,
            api,
            bus_gate,
            findings: Findings::default(),
            clock,
            timeline,
            upstream,
            patience: premises.patience,
            shutdown,
            _files: files,
        })
    }

    /// Ends the program, and everything around it.
    pub async fn take_down(mut self) -> Findings {
        self.candidate.kill().await;
        std::mem::take(&mut self.findings)
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

/// What the program is told (`docs/contract.md`).
fn environment(kubeconfig: &Path, bus: &Gate, setting: &Setting) -> Vec<(String, OsString)> {
    let told = [
        ("KUBECONFIG", kubeconfig.as_os_str().to_owned()),
        ("BAILIFF_KUBECONFIG", kubeconfig.as_os_str().to_owned()),
        ("BAILIFF_BUS", bus.address().to_string().into()),
        ("BAILIFF_LEADER_ELECT", "false".into()),
        ("BAILIFF_ADMIN_LISTEN", "127.0.0.1:0".into()),
        // Nothing here waits for a turn at the API server unless the situation is about that.
        ("BAILIFF_KUBE_API_QPS", "1000".into()),
        ("BAILIFF_KUBE_API_BURST", "1000".into()),
    ];
    let special = setting
        .environment
        .iter()
        .map(|(name, value)| (*name, OsString::from(*value)));
    told.into_iter()
        .chain(special)
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

async fn listen(mut subscription: Subscription, timeline: Arc<Mutex<Timeline>>, shutdown: Shutdown) {
    loop {
        tokio::select! {
            biased;
            () = shutdown.triggered() => return,
            update = subscription.next() => lock(&timeline).take(update),
        }
    }
}

fn lock(timeline: &Mutex<Timeline>) -> MutexGuard<'_, Timeline> {
    // Whoever panicked while holding it was a bug; what was put down is true.
    timeline.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Stand: what is said and done ===

impl Stand {
    /// The stage before it that publishes this topic.
    ///
    /// # Errors
    /// There is none in this situation.
    fn upstream(&self, topic: Topic) -> Result<&Upstream, Stop> {
        let missing = || Stop(format!("no stage before publishes {topic}"));
        self.upstream.get(&topic).ok_or_else(missing)
    }

    /// The stage before says this at the beginning: it shows once everything is said ([`Stand::complete`]).
    ///
    /// # Errors
    /// No stage before says such things.
    pub fn prepare(&self, draft: Draft) -> Result<(), Stop> {
        self.upstream(draft.body.topic())?.say(draft);
        Ok(())
    }

    /// The stage before says this, and it is on the bus.
    ///
    /// # Errors
    /// The bus does not take it.
    pub async fn say(&mut self, draft: Draft) -> Result<(), Stop> {
        let (topic, key, body) = (draft.body.topic(), draft.key.clone(), draft.body.clone());
        self.upstream(topic)?.say(draft);
        let is_said = |seen: &Timeline| {
            seen.latest(topic, &key)
                .is_some_and(|record| record.body.as_ref() == Some(&body))
        };
        self.reach(&format!("the bus told {key}"), is_said).await
    }

    /// The stage before withdraws what it said of a key, and the bus shows that.
    ///
    /// # Errors
    /// The bus does not take it.
    pub async fn withdraw(&mut self, topic: Topic, key: &str) -> Result<(), Stop> {
        self.upstream(topic)?.withdraw(key);
        self.reach(&format!("the bus forgot {key}"), |seen| seen.latest(topic, key).is_none())
            .await
    }

    /// The stages before have said everything there is to be said at the beginning, and are live.
    ///
    /// # Errors
    /// The bus does not take it.
    pub async fn complete(&mut self) -> Result<(), Stop> {
        let topics: Vec<Topic> = self.upstream.keys().copied().collect();
        for topic in &topics {
            self.upstream(*topic)?.complete();
        }
        let is_said = |seen: &Timeline| topics.iter().all(|topic| seen.is_complete(*topic) && seen.is_live(*topic));
        self.reach("the topics of the stages before are complete", is_said).await
    }

    /// The stage before does not count itself live any more, or does again with an empty reason, and the bus shows that.
    ///
    /// # Errors
    /// The bus does not take it.
    pub async fn trouble(&mut self, topic: Topic, reason: &str) -> Result<(), Stop> {
        self.upstream(topic)?.trouble(reason);
        let is_live = reason.is_empty();
        self.reach(&format!("the bus tells whether {topic} is live"), |seen| {
            seen.is_live(topic) == is_live
        })
        .await
    }

    /// Where a record that is derived from what is true of this key comes from.
    pub fn origin(&self, topic: Topic, key: &str) -> Origin {
        let timeline = self.look();
        timeline.latest(topic, key).map(Origin::from).unwrap_or_default()
    }

    /// Changes an object, as somebody else than the program.
    pub fn change(&self, resource: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        self.sandbox.modify(resource, (namespace, name, ""), |object| {
            change(object);
            true
        });
    }

    /// Makes a request as an administrator.
    ///
    /// # Errors
    /// The API server refuses it.
    pub fn request(&self, verb: Verb, path: &str, body: &Value) -> Result<Value, Stop> {
        let refused = |status| Stop(format!("{verb:?} {path} was refused: {status}"));
        self.sandbox.request(&User::admin(), verb, path, body).map_err(refused)
    }

    /// The clock that everything here goes by.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }
}

// === impl Stand: what is seen ===

impl Stand {
    /// What happened until now.
    pub fn look(&self) -> MutexGuard<'_, Timeline> {
        let mut timeline = lock(&self.timeline);
        timeline.catch_up();
        timeline
    }

    /// How much happened until now.
    pub fn place(&self) -> usize {
        self.look().place()
    }

    /// Waits until something holds.
    ///
    /// # Errors
    /// What happened instead, for people.
    pub async fn until(&mut self, holds: impl FnMut(&Timeline) -> bool) -> Result<(), String> {
        self.until_after(Duration::ZERO, holds).await
    }

    /// The same of something that has to wait so long, which takes nothing of the patience.
    async fn until_after(&mut self, wait: Duration, mut holds: impl FnMut(&Timeline) -> bool) -> Result<(), String> {
        let within = wait + self.patience;
        let deadline = self.clock.now().mono + within;
        loop {
            // Read before it is looked: what is there in time is seen, however long this here does not run in between.
            let is_over = self.clock.now().mono > deadline;
            if holds(&self.look()) {
                return Ok(());
            }
            if let Some(status) = self.candidate.ended() {
                let said = match self.candidate.tail() {
                    tail if tail.is_empty() => "it said nothing".to_owned(),
                    tail => format!("the end of what it said:\n{tail}"),
                };
                return Err(format!("the program ended: {status}; {said}"));
            }
            if is_over {
                return Err(format!("nothing of the kind within {} s", within.as_secs()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until something holds that no item is about, but what comes next needs.
    ///
    /// # Errors
    /// It does not hold in time.
    pub async fn reach(&mut self, what: &str, holds: impl FnMut(&Timeline) -> bool) -> Result<(), Stop> {
        self.until(holds).await.map_err(|seen| Stop(format!("{what}: {seen}")))
    }

    /// Waits for a moment while the program runs.
    ///
    /// # Errors
    /// The program ends before.
    pub async fn pass(&mut self, until: Mono) -> Result<(), Stop> {
        let (clock, wait) = (self.clock.clone(), until.saturating_since(self.clock.now().mono));
        let is_over = |_: &Timeline| clock.now().mono > until;
        self.until_after(wait, is_over).await.map_err(Stop)
    }

    /// An item that is kept once something holds; what comes next does not need it.
    pub async fn expect(&mut self, item: &'static Item, holds: impl FnMut(&Timeline) -> bool) {
        // A broken item is told; nothing depends on it.
        let _ = self.demand(item, holds).await;
    }

    /// An item that is kept once something holds.
    ///
    /// # Errors
    /// It does not hold in time.
    pub async fn demand(&mut self, item: &'static Item, holds: impl FnMut(&Timeline) -> bool) -> Result<(), Stop> {
        self.demand_after(Duration::ZERO, item, holds).await
    }

    /// The same of something that has to wait so long: for the end of a grace, or for its turn.
    ///
    /// # Errors
    /// It does not hold in time.
    pub async fn demand_after(
        &mut self,
        wait: Duration,
        item: &'static Item,
        holds: impl FnMut(&Timeline) -> bool,
    ) -> Result<(), Stop> {
        match self.until_after(wait, holds).await {
            Ok(()) => {
                self.findings.keep(item);
                Ok(())
            }
            Err(seen) => {
                self.findings.fail(item, seen);
                Err(Stop(format!("{} was not kept", item.id)))
            }
        }
    }

    /// An item that is broken if this finds something.
    pub fn check(&mut self, item: &'static Item, offence: impl FnOnce(&Timeline) -> Option<String>) {
        let found = offence(&self.look());
        match found {
            Some(seen) => self.findings.fail(item, seen),
            None => self.findings.keep(item),
        }
    }

    /// An item that is broken by any write beyond these rights.
    pub fn check_writes(&mut self, item: &'static Item, rights: &[Right]) {
        self.check(item, |seen| seen.writes(0).find_map(|(_, write)| overstepped(write, rights)));
    }

    /// Kills the program and starts it again.
    ///
    /// # Errors
    /// It cannot be started again.
    pub async fn restart(&mut self) -> Result<(), Stop> {
        self.candidate.kill().await;
        self.start()
    }

    /// Starts the program.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&mut self) -> Result<(), Stop> {
        self.candidate.start().map_err(|error| Stop(chain(&error)))
    }
}

#[cfg(test)]
mod tests;
