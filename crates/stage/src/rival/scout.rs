//! Looking out for a rival: what the stage's own watches bring, Events of the duty's component, and the leader Lease.

use bailiff_cluster::scan::{Message, schema};
use bailiff_cluster::views::{Meta, or_default, time};
use bailiff_cluster::watch::{Event, Source};
use bailiff_cluster::{Decode, Encoded, View, Watch, Witness};
use bailiff_model::{Duties, Hold, Mono, Wall};
use bailiff_runtime::Clock;
use prometheus_client::metrics::counter::Counter;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::{MANAGER, Past, Rival, Traces, What};
use crate::env::Env;

/// The one Lease that tells who leads.
const LEASE: Source =
    Source::all("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases").with_fields("metadata.name=kube-controller-manager");

/// Events of one component each, as they are served by the core API, which can select them.
const fn events_of(selector: &'static str) -> Source {
    Source::all("/api/v1/events").with_fields(selector)
}

/// Signs waiting to be looked at. One is enough for a hold; what does not fit is one more of the same.
const SIGNS: usize = 16;

/// The Lease.
#[derive(Debug, Deserialize)]
struct LeaseView {
    metadata: Meta,
    #[serde(default, deserialize_with = "or_default")]
    spec: LeaseSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    #[serde(deserialize_with = "or_default")]
    holder_identity: String,
    #[serde(deserialize_with = "time")]
    acquire_time: Option<Wall>,
    #[serde(deserialize_with = "time")]
    renew_time: Option<Wall>,
}

/// An Event; what it says was seen by the spy.
#[derive(Debug, Deserialize)]
struct EventView {
    metadata: Meta,
}

/// Sees what a watch brings, in its task.
#[derive(Debug)]
pub struct Spy {
    traces: Option<Traces>,
    signs: mpsc::Sender<Sign>,
}

/// What a spy tells.
#[derive(Debug)]
enum Sign {
    /// It was seen to happen.
    Seen(String),
    /// It was there before.
    Found(Past),
}

/// What a stage knows of a rival.
#[derive(Debug)]
pub struct Scout {
    rival: Rival,
    duties: Duties,
    clock: Clock,
    lease: Watch<LeaseView>,
    /// Of each duty that the stage has a part in.
    events: [Option<Watch<EventView>>; 3],
    signs: mpsc::Receiver<Sign>,
    /// Kept, so that the channel never ends.
    sender: mpsc::Sender<Sign>,
    seen: Counter,
}

// === impl views ===

impl Decode for LeaseView {
    const MESSAGE: Option<&'static Message> = Some(&schema::LEASE);
}

impl View for LeaseView {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Decode for EventView {
    const MESSAGE: Option<&'static Message> = Some(&schema::EVENT);
}

impl View for EventView {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

// === impl Spy ===

impl Witness for Spy {
    fn saw(&mut self, object: &Encoded<'_>) {
        if let Some(what) = self.traces.as_mut().and_then(|traces| traces.saw(object)) {
            // A full queue says it already.
            let _ = self.signs.try_send(Sign::Seen(what));
        }
    }

    fn saw_all(&mut self) {
        if let Some(past) = self.traces.as_mut().and_then(Traces::saw_all) {
            let _ = self.signs.try_send(Sign::Found(past));
        }
    }

    fn gone(&mut self, meta: &Meta) {
        if let Some(traces) = &mut self.traces {
            traces.gone(meta);
        }
    }
}

// === impl Scout ===

impl Scout {
    /// Looks out for a rival in `duties`, of which there may be none.
    pub fn start(env: &Env, duties: Duties, seen: Counter) -> Self {
        let (sender, signs) = mpsc::channel(SIGNS);
        let seed = env.host.seed.fork("rival");
        let sources = [
            (duties.node_lifecycle, "source=node-controller"),
            (duties.taint_eviction, "source=taint-eviction-controller"),
            (duties.daemonset, "source=daemonset-controller"),
        ];
        let events = sources.map(|(ours, selector)| {
            let spy = Spy {
                traces: Some(Traces::of(What::Events)),
                signs: sender.clone(),
            };
            ours.then(|| Watch::start_with(&env.api, events_of(selector), &seed.fork(selector), spy))
        });
        Self {
            rival: Rival::default(),
            duties,
            clock: env.host.clock.clone(),
            lease: Watch::start(&env.api, LEASE, &seed),
            events,
            signs,
            seen,
            sender,
        }
    }

    /// Sees what a watch of the stage brings.
    pub fn spy(&self, what: What) -> Spy {
        let wanted = match what {
            What::Nodes => self.duties.node_lifecycle,
            What::Pods => self.duties.node_lifecycle && self.duties.taint_eviction,
            What::DaemonSets => self.duties.daemonset,
            What::Events => true,
        };
        Spy {
            traces: wanted.then(|| Traces::of(what)),
            signs: self.sender.clone(),
        }
    }

    /// Takes the next news. Cancel-safe.
    pub async fn turn(&mut self) {
        let [first, second, third] = &mut self.events;
        tokio::select! {
            biased;
            Some(sign) = self.signs.recv() => self.take_sign(sign),
            event = self.lease.next() => self.take_lease(event),
            // Read so that they go on; their spies have seen what they bring.
            () = next_of(first) => {}
            () = next_of(second) => {}
            () = next_of(third) => {}
        }
    }

    fn take_sign(&mut self, sign: Sign) {
        let now = self.clock.now();
        match sign {
            Sign::Seen(what) => {
                tracing::debug!(what, "{MANAGER} does one of our duties");
                self.seen.inc();
                self.rival.sign(&what, now);
            }
            Sign::Found(past) => {
                if self.rival.found(past, now) {
                    self.seen.inc();
                }
            }
        }
    }

    fn take_lease(&mut self, event: Event<LeaseView>) {
        let now = self.clock.now();
        let lease = match event {
            Event::Snapshot(snapshot) => snapshot.objects.into_iter().next(),
            Event::Applied(lease) => Some(lease),
            Event::Deleted(_) => None,
            // One that is not heard of counts as gone after a while, which ends a hold sooner and begins none.
            Event::Stale { .. } | Event::Fresh => return,
        };
        match lease.map(|lease| lease.spec) {
            Some(spec) => {
                if self
                    .rival
                    .lease(&spec.holder_identity, spec.acquire_time, spec.renew_time, now)
                {
                    self.seen.inc();
                }
            }
            None => self.rival.no_lease(),
        }
    }

    /// What holds, now.
    pub fn hold(&mut self) -> Option<Hold> {
        self.rival.expire(self.clock.now());
        self.rival.hold()
    }

    /// When that ends if nothing more is seen.
    pub fn ends_at(&self) -> Option<Mono> {
        self.rival.ends_at()
    }
}

async fn next_of(watch: &mut Option<Watch<EventView>>) {
    match watch {
        Some(watch) => drop(watch.next().await),
        None => std::future::pending().await,
    }
}
