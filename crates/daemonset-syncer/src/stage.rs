//! The decision loop: watches and answers in, requests, Events and records out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_cluster::events::{Draft as EventDraft, Regarding, Severity as EventSeverity};
use bailiff_cluster::watch::{Event, EventInParts, ListPart, Source, WatchInParts};
use bailiff_cluster::{Api, Recorder, Watch};
use bailiff_daemonset_core::effect::Owner;
use bailiff_daemonset_core::rollouts::{Publication, Rollouts};
use bailiff_daemonset_core::{Answer, DaemonSet, Effect, Input, Node, Pod, Request, RequestId, Scope, Severity, Syncer, Watched};
use bailiff_event_bus::{Body, Draft, Published, Publisher, Record, Subscription, Update, publish, subscribe};
use bailiff_model::rollout::DaemonSetSync;
use bailiff_model::{About, Duties, Namespace, NodeName, PodUid, Topic, TraceContext};
use bailiff_runtime::client::Limiter;
use bailiff_stage::rival::What;
use bailiff_stage::{Alarm, Beacon, Brake, Env, Error, Recalls, Stage, settle};
use futures::FutureExt as _;

use crate::dispatch::Dispatch;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::perform::perform;
use crate::pods;
use crate::telling::tell;
use crate::views::{Kept, Viewed};

/// The stage.
#[derive(Debug)]
pub struct DaemonsetSyncer;

impl Stage for DaemonsetSyncer {
    const NAME: &'static str = "daemonset-syncer";
    const ABOUT: &'static str = "The daemonset-syncer: keeps the pods of DaemonSets where they belong, and rolls them out";

    type Options = Options;

    async fn run(options: Options, env: Env) -> Result<(), Error> {
        run(options, env).await
    }
}

/// Runs the stage until the shutdown begins.
///
/// # Errors
/// Another process took our shard of `daemon-rollouts` over.
pub async fn run(options: Options, env: Env) -> Result<(), Error> {
    if !options.shared.controllers.daemonset {
        return bailiff_stage::idle(&env, DaemonsetSyncer::NAME, "daemonset-controller").await;
    }
    Box::pin(Loop::new(&options, env).run()).await
}

/// A request with its answer.
type Answered = (RequestId, &'static str, Answer);

struct Loop {
    env: Env,
    core: Syncer,
    watches: Watches,
    dispatch: Dispatch<Answered>,
    /// Does not wait for the rate limit: [`Dispatch`] does.
    api: Api,
    recalls: Recalls<RequestId>,
    /// What the present decision calls off.
    called_off: BTreeSet<RequestId>,
    recorder: Recorder,
    publisher: Publisher,
    rollouts: Rollouts,
    /// Our own topic, until what former processes published is known.
    memory: Option<Subscription>,
    /// What is published then.
    unsaid: BTreeMap<String, Box<DaemonSetSync>>,
    alarm: Alarm,
    beacon: Beacon,
    brake: Brake,
    metrics: Metrics,
    /// What is published is all there is.
    complete: bool,
}

/// Lists are read from the store, never from the server's cache (DS-201): [`Watch`] guarantees it.
struct Watches {
    daemonsets: Watch<Viewed<DaemonSet>>,
    revisions: Watch<Kept>,
    nodes: WatchInParts<Viewed<Node>>,
    pods: pods::Watches<Viewed<Pod>>,
}

const DAEMONSETS: Source = Source::all("/apis/apps/v1/daemonsets");
const REVISIONS: Source = Source::all("/apis/apps/v1/controllerrevisions");
const NODES: Source = Source::all("/api/v1/nodes");

/// How long a bus may be away before nothing is remembered of former processes: then it says that it counts as stale. What is
/// published waits so long, which is for people; and what is told twice then is the same span.
const FORGET_AFTER: Duration = Duration::from_secs(10);

/// What a turn of the loop began with.
enum Turn {
    Input(Input),
    Answers(Answered),
    Pods(Scope, EventInParts<Viewed<Pod>>),
    Remembered(Update),
    Nothing,
    End(Result<(), Error>),
}

impl Loop {
    fn new(options: &Options, env: Env) -> Self {
        let publishing = env.publishing(DaemonsetSyncer::NAME, Topic::DaemonRollouts);
        let memory = env.subscribing(DaemonsetSyncer::NAME, &[Topic::DaemonRollouts]);
        let duties = Duties {
            node_lifecycle: false,
            taint_eviction: false,
            daemonset: true,
        };
        let brake = Brake::start(&env, DaemonsetSyncer::NAME, duties);
        Self {
            core: Syncer::new(options.core(env.shard)),
            watches: Watches {
                daemonsets: Watch::start_with(&env.api, DAEMONSETS, &env.host.seed, brake.spy(What::DaemonSets)),
                revisions: Watch::start(&env.api, REVISIONS, &env.host.seed),
                nodes: Watch::start_in_parts(&env.api, NODES, &env.host.seed, ()),
                pods: pods::Watches::default(),
            },
            dispatch: Dispatch::new(options.requests(), env.api.limiter().clone()),
            api: env.api.clone().with_limiter(Limiter::none(&env.host.clock)),
            recalls: Recalls::default(),
            called_off: BTreeSet::new(),
            recorder: Recorder::start(&env.api, "daemonset-controller", &env.host.identity, &env.host.seed),
            publisher: publish(&env.bus, publishing, &env.host.clock, &env.host.seed),
            rollouts: Rollouts::default(),
            memory: Some(subscribe(&env.bus, memory, &env.host.clock, &env.host.seed)),
            unsaid: BTreeMap::new(),
            alarm: Alarm::new(&env.host.clock),
            beacon: Beacon::new(&env, "daemonset-syncer decisions"),
            brake,
            metrics: env.host.metrics.register("", Metrics::register),
            complete: false,
            env,
        }
    }

    async fn run(mut self) -> Result<(), Error> {
        let ended = loop {
            match self.turn().await {
                Turn::Input(input) => self.decide(input),
                Turn::Answers(first) => self.take_answers(first),
                Turn::Pods(scope, first) => self.take_pods(&scope, first),
                Turn::Remembered(news) => self.remember(news),
                Turn::Nothing => {}
                Turn::End(ended) => break ended,
            }
        };
        // Bounded by the deadline of each request; creates and deletes that still wait for their turn are not sent.
        self.recalls.call_off_all();
        self.dispatch.drain().await;
        if ended.is_ok() {
            settle(&self.publisher).await;
        }
        ended
    }

    async fn turn(&mut self) -> Turn {
        tokio::select! {
            biased;
            () = self.env.host.shutdown.triggered() => Turn::End(Ok(())),
            holds = self.brake.next() => Turn::Input(Input::Braked(holds)),
            () = self.beacon.due() => {
                self.report();
                Turn::Nothing
            }
            news = self.publisher.next() => heard(news),
            news = next_of(&mut self.memory) => Turn::Remembered(news),
            answer = self.dispatch.next() => Turn::Answers(answer),
            () = self.alarm.due() => Turn::Input(Input::Tick),
            event = self.watches.daemonsets.next() => Turn::Input(self.daemonset(event)),
            event = self.watches.revisions.next() => Turn::Input(self.revision(event)),
            event = self.watches.nodes.next() => Turn::Input(self.node(event)),
            (scope, event) = self.watches.pods.next() => Turn::Pods(scope, event),
        }
    }

    fn report(&self) {
        let watches = &self.watches;
        let signs = [
            ("daemonsets", watches.daemonsets.fresh_at()),
            ("controllerrevisions", watches.revisions.fresh_at()),
            ("nodes", watches.nodes.fresh_at()),
            ("pods", watches.pods.fresh_at(self.complete, self.env.host.clock.now().mono)),
        ];
        self.beacon.report(&self.publisher, &signs);
        self.metrics.depth(self.dispatch.waiting(), self.dispatch.running());
    }

    /// Answers come in crowds: those that are here, no more than are under way by now, are taken one after the other, without a look at
    /// everything else in between. What they lead to begins in the next turn, after that look.
    fn take_answers(&mut self, first: Answered) {
        let under_way = self.dispatch.running();
        let more = std::iter::from_fn(|| self.dispatch.next().now_or_never()).take(under_way);
        for (id, kind, answer) in std::iter::once(first).chain(more).collect::<Vec<_>>() {
            self.recalls.answered(&id);
            self.metrics.answered(kind, &answer);
            self.decide(Input::Answered(id, answer));
        }
    }

    fn decide(&mut self, input: Input) {
        let effects = self.core.apply(input, self.env.host.clock.now());
        self.metrics.decided();
        for effect in effects {
            self.execute(effect);
        }
        if !self.called_off.is_empty() {
            self.dispatch.release(&std::mem::take(&mut self.called_off));
        }
        self.complete();
    }

    fn complete(&mut self) {
        if self.core.is_ready() && self.memory.is_none() && !self.complete {
            self.complete = true;
            self.publisher.complete();
            tracing::info!("Listed all DaemonSets, revisions, nodes, and pods where DaemonSets are");
        }
    }

    // === publishing ===

    /// What we publish replaces what former processes did, so theirs is read first. Nothing else waits for it, and it does not wait
    /// long for a bus that is away.
    fn remember(&mut self, news: Update) {
        match news {
            Update::Snapshot { records, .. } => self.rollouts.remember(records.into_iter().filter_map(published)),
            Update::Lost { since } if self.env.host.clock.now().mono.saturating_since(since) >= FORGET_AFTER => {}
            _ => return,
        }
        self.memory = None;
        for (_, sync) in std::mem::take(&mut self.unsaid) {
            self.publish(sync);
        }
        self.complete();
    }

    fn publish(&mut self, sync: Box<DaemonSetSync>) {
        if self.memory.is_some() {
            self.unsaid.insert(record_key(&sync.namespace, &sync.name), sync);
            return;
        }
        let Publication { sync, trace, told } = self.rollouts.publish(sync);
        tell(&self.env.host.spans, told);
        self.publisher.set(Draft::new(Body::DaemonSetSync(sync)).traced(trace));
    }

    fn withdraw(&mut self, owner: &Owner) {
        let now = self.env.host.clock.wall();
        let told = self.rollouts.withdraw(&owner.namespace, &owner.name, now);
        tell(&self.env.host.spans, told);
        let key = record_key(&owner.namespace, &owner.name);
        self.unsaid.remove(&key);
        self.publisher.remove(&key);
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Send {
                id,
                owner,
                urgency,
                request,
            } => {
                let kind = request.kind();
                let (mut api, uid) = (self.api.clone(), owner.uid.clone());
                if is_recallable(&request) {
                    api = self.recalls.guard(id, api);
                }
                self.metrics.queued();
                self.dispatch.push(
                    urgency,
                    &uid,
                    id,
                    async move { (id, kind, perform(api, owner, request).await) },
                );
            }
            Effect::CallOff(id) => {
                self.recalls.call_off(&id);
                self.called_off.insert(id);
            }
            Effect::Event {
                owner,
                severity,
                reason,
                message,
                about,
            } => {
                let about = about.traced(self.rollouts.going_on(&owner.namespace, &owner.name));
                self.recorder.emit(|| event(&owner, severity, reason, message, about));
            }
            Effect::Publish(sync) => {
                self.metrics.published(&sync);
                self.publish(sync);
            }
            Effect::Withdraw(owner) => {
                self.metrics.withdrawn(&(owner.namespace.to_string(), owner.name.to_string()));
                self.withdraw(&owner);
            }
            Effect::WatchPods(scopes) => self.watches.pods.watch(&scopes, &self.env.api, &self.env.host.seed),
            Effect::WakeAt(at) => self.alarm.set(at),
        }
    }

    // === watches ===

    fn daemonset(&mut self, event: Event<Viewed<DaemonSet>>) -> Input {
        match event {
            Event::Snapshot(all) => Input::DaemonSets(all.into_listed(
                |view| view.facts,
                |meta| (Namespace::from(meta.namespace.as_str()), meta.name.as_str().into()),
            )),
            Event::Applied(one) => Input::DaemonSetApplied(one.facts),
            Event::Deleted(one) => Input::DaemonSetDeleted {
                namespace: one.namespace.as_str().into(),
                name: one.name.as_str().into(),
                uid: one.uid.into(),
            },
            Event::Stale { reason, .. } => self.went_stale(Watched::DaemonSets, reason),
            Event::Fresh => Input::WatchFresh(Watched::DaemonSets),
        }
    }

    fn revision(&mut self, event: Event<Kept>) -> Input {
        match event {
            Event::Snapshot(all) => Input::Revisions(all.into_listed(|view| view.facts, |meta| meta.uid.as_str().into())),
            Event::Applied(one) => Input::RevisionApplied(one.facts),
            Event::Deleted(one) => Input::RevisionDeleted {
                namespace: one.namespace.as_str().into(),
                name: one.name.as_str().into(),
                uid: one.uid.into(),
            },
            Event::Stale { reason, .. } => self.went_stale(Watched::Revisions, reason),
            Event::Fresh => Input::WatchFresh(Watched::Revisions),
        }
    }

    fn node(&mut self, event: EventInParts<Viewed<Node>>) -> Input {
        match event {
            Event::Part(ListPart { first, objects }) => Input::SomeNodes {
                first,
                nodes: objects.into_iter().map(|view| view.facts).collect(),
            },
            Event::Snapshot(all) => Input::Nodes(all.into_listed(|view| view.facts, |meta| NodeName::from(meta.name.as_str()))),
            Event::Applied(one) => Input::NodeApplied(one.facts),
            Event::Deleted(one) => Input::NodeDeleted(one.name.as_str().into()),
            Event::Stale { reason, .. } => self.went_stale(Watched::Nodes, reason),
            Event::Fresh => Input::WatchFresh(Watched::Nodes),
        }
    }

    /// Pods change in crowds: what came together, which is bounded, is taken one after the other, without a look at everything else in
    /// between.
    fn take_pods(&mut self, scope: &Scope, first: EventInParts<Viewed<Pod>>) {
        let mut next = Some(first);
        while let Some(event) = next {
            let input = self.pod(scope, event);
            self.decide(input);
            next = self.watches.pods.at_hand(scope);
        }
    }

    fn pod(&mut self, scope: &Scope, event: EventInParts<Viewed<Pod>>) -> Input {
        let of = scope.clone();
        match event {
            Event::Part(ListPart { first, objects }) => Input::SomePods {
                of,
                first,
                pods: objects.into_iter().map(|view| view.facts).collect(),
            },
            Event::Snapshot(all) => Input::Pods {
                of,
                pods: all.into_listed(|view| view.facts, |meta| PodUid::from(meta.uid.as_str())),
            },
            Event::Applied(one) => Input::PodApplied { of, pod: one.facts },
            Event::Deleted(one) => Input::PodDeleted(one.uid.into()),
            Event::Stale { reason, .. } => self.went_stale(Watched::Pods(of), reason),
            Event::Fresh => Input::WatchFresh(Watched::Pods(of)),
        }
    }

    fn went_stale(&self, watch: Watched, reason: String) -> Input {
        self.metrics.stale(&watch);
        Input::WatchStale { watch, reason }
    }
}

/// True if it may be called off while it waits.
const fn is_recallable(request: &Request) -> bool {
    matches!(
        request,
        Request::CreatePod { .. } | Request::DeletePod { .. } | Request::AdoptPod { .. } | Request::DeleteRevision { .. }
    )
}

/// The key of a DaemonSet's record on the bus.
fn record_key(namespace: &Namespace, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Waits for ever where there is nothing to hear.
async fn next_of(memory: &mut Option<Subscription>) -> Update {
    match memory {
        Some(memory) => memory.next().await,
        None => std::future::pending().await,
    }
}

/// What a former process published, and under which trace.
fn published(record: Record) -> Option<(Box<DaemonSetSync>, Option<TraceContext>)> {
    match record.body {
        Some(Body::DaemonSetSync(sync)) => Some((sync, record.trace)),
        _ => None,
    }
}

fn heard(news: Published) -> Turn {
    match news {
        Published::Fenced { detail } => Turn::End(Err(Error::Fenced {
            topic: Topic::DaemonRollouts.as_str(),
            detail,
        })),
        Published::Refused { key, detail } => {
            tracing::error!(%key, %detail, "The bus refused a record");
            Turn::Nothing
        }
        Published::Connected { .. } | Published::Lost => Turn::Nothing,
    }
}

/// DS-187
fn event(owner: &Owner, severity: Severity, reason: &'static str, note: String, about: About) -> EventDraft {
    EventDraft {
        regarding: Regarding {
            api_version: "apps/v1",
            kind: "DaemonSet",
            namespace: owner.namespace.to_string(),
            name: owner.name.to_string(),
            uid: owner.uid.to_string(),
            resource_version: String::new(),
        },
        severity: match severity {
            Severity::Normal => EventSeverity::Normal,
            Severity::Warning => EventSeverity::Warning,
        },
        reason,
        action: reason,
        note,
        about,
    }
}
