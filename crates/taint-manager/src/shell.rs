//! The loop: one input at a time into the core, its effects out. Nothing is decided here.

use bailiff_cluster::Watch;
use bailiff_cluster::watch::{Event, EventInParts, ListPart, Source, WatchInParts};
use bailiff_event_bus::{Body, Draft, Published, Publisher, Shards, Subscription, Update};
use bailiff_model::{Duties, NodeName, NodeUid, PodUid, Topic};
use bailiff_runtime::admin::Check;
use bailiff_stage::rival::What;
use bailiff_stage::{Alarm, Beacon, Brake, Env, Error, Recalls, Requests, Stage, settle};
use bailiff_taint_core::{Effect, Input, Manager};
use futures::FutureExt;

use crate::metrics::Metrics;
use crate::options::Options;
use crate::records;
use crate::telling::Teller;
use crate::views::{NodeView, PodView};
use crate::{TaintManager, requests};

/// Inputs taken in a row before the timer and the report are looked at: a flood of events must not silence the stage. At some 10 µs
/// each that is every few milliseconds.
const BURST: u32 = 512;

/// The running stage.
pub(crate) struct Shell {
    env: Env,
    manager: Manager,
    nodes: WatchInParts<NodeView>,
    pods: WatchInParts<PodView>,
    health: Subscription,
    shards: Shards,
    /// The own topic, until what it remembers was taken over.
    past: Option<Subscription>,
    publisher: Publisher,
    requests: Requests<Input>,
    recalls: Recalls<PodUid>,
    alarm: Alarm,
    beacon: Beacon,
    brake: Brake,
    teller: Teller,
    metrics: Metrics,
    ready: Check,
    in_a_row: u32,
}

/// What one turn of the loop is about.
enum Turn {
    Input(Input),
    Pods(EventInParts<PodView>),
    Health(Update),
    Past(Update),
    Published(Published),
    Report,
    Nothing,
    Stop,
}

impl Shell {
    /// Starts watches, subscriptions and session.
    pub(crate) fn start(options: &Options, env: Env) -> Self {
        let shard = env.shard;
        let config = options.config(shard, env.api.limiter().per_second());
        let seed = env.host.seed.fork(TaintManager::NAME);
        let subscribe = |topic: Topic| {
            let options = env.subscribing(TaintManager::NAME, &[topic]);
            bailiff_event_bus::subscribe(&env.bus, options, &env.host.clock, &seed.fork(topic.as_str()))
        };
        let session = env.publishing(TaintManager::NAME, Topic::EvictionIntents);
        let duties = Duties {
            daemonset: false,
            ..config.duties
        };
        let brake = Brake::start(&env, TaintManager::NAME, duties);
        Self {
            manager: Manager::new(config),
            nodes: Watch::start_in_parts(&env.api, Source::all(requests::NODES), &seed, brake.spy(What::Nodes)),
            pods: Watch::start_in_parts(&env.api, requests::PODS, &seed, brake.spy(What::Pods)),
            health: subscribe(Topic::NodeHealth),
            shards: Shards::default(),
            past: Some(subscribe(Topic::EvictionIntents)),
            publisher: bailiff_event_bus::publish(&env.bus, session, &env.host.clock, &seed),
            // The core asks for no more at a time; this is the wire's own bound.
            requests: Requests::new(config.node_writes + config.pod_marks),
            recalls: Recalls::default(),
            alarm: Alarm::new(&env.host.clock),
            beacon: Beacon::new(&env, TaintManager::NAME),
            brake,
            teller: Teller::new(&env, &seed),
            metrics: Metrics::register(&env.host.metrics),
            ready: env.host.readiness.check("eviction intents"),
            in_a_row: 0,
            env,
        }
    }

    /// Runs until the shutdown begins or the shard is lost.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        loop {
            match self.turn().await {
                Turn::Input(input) => self.apply(input),
                Turn::Pods(first) => self.take_pods(first),
                Turn::Health(update) => self.follow_health(update),
                Turn::Past(update) => self.take_over(update),
                Turn::Published(news) => published(news)?,
                Turn::Report => self.report(),
                Turn::Nothing => {}
                Turn::Stop => break,
            }
        }
        self.drain().await;
        Ok(())
    }

    /// What comes next. The timer comes last: what waits may be a reason not to act.
    async fn turn(&mut self) -> Turn {
        if self.in_a_row >= BURST {
            self.in_a_row = 0;
            if self.beacon.due().now_or_never().is_some() {
                return Turn::Report;
            }
            if self.alarm.due().now_or_never().is_some() {
                return Turn::Input(Input::Wake);
            }
        }
        self.in_a_row += 1;
        let turn = tokio::select! {
            biased;
            () = self.env.host.shutdown.triggered() => Turn::Stop,
            holds = self.brake.next() => Turn::Input(Input::Braked(holds)),
            news = self.publisher.next() => Turn::Published(news),
            event = self.nodes.next() => from_nodes(event),
            update = self.health.next() => Turn::Health(update),
            event = self.pods.next() => Turn::Pods(event),
            update = next_of(&mut self.past) => Turn::Past(update),
            answer = self.requests.next() => Turn::Input(answer),
            () = self.beacon.due() => Turn::Report,
            () = self.alarm.due() => Turn::Input(Input::Wake),
        };
        if matches!(turn, Turn::Report | Turn::Input(Input::Wake)) {
            self.in_a_row = 0;
        }
        turn
    }

    fn apply(&mut self, input: Input) {
        self.metrics.answered(&input);
        if let Input::PodMarked { uid, .. } = &input {
            self.recalls.answered(uid);
        }
        for effect in self.manager.apply(input, self.env.host.clock.now()) {
            self.perform(effect);
        }
    }

    /// Pods change in crowds: what came together is taken one after the other, without a look at everything else in between. Nothing new
    /// comes meanwhile, as the stage has one thread.
    fn take_pods(&mut self, first: EventInParts<PodView>) {
        let mut next = Some(first);
        while let Some(event) = next {
            if let Some(input) = from_pods(event) {
                self.apply(input);
            }
            next = (self.in_a_row < BURST).then(|| self.pods.at_hand()).flatten();
            self.in_a_row += u32::from(next.is_some());
        }
    }

    fn perform(&mut self, effect: Effect) {
        let api = || self.env.api.clone();
        match effect {
            Effect::PatchNode(patch) => self.requests.push(requests::patch_node(api(), patch)),
            Effect::ReadNode(name) => self.requests.push(requests::read_node(api(), name)),
            Effect::MarkPod(mark) => {
                let api = self.recalls.guard(mark.pod.uid.clone(), api());
                self.requests.push(requests::mark_pod(api, mark));
            }
            Effect::CallOff(uid) => self.recalls.call_off(&uid),
            Effect::ReadPod(pod) => self.requests.push(requests::read_pod(api(), pod)),
            Effect::Event(event) => self.teller.event(event),
            Effect::Tell(told) => self.teller.told(&told),
            Effect::Publish {
                intent,
                derived_from,
                trace,
            } => {
                self.metrics.published(&intent);
                self.teller.intent(&intent, &derived_from);
                let draft = Draft::new(Body::Intent(intent)).derived_from(derived_from).traced(trace);
                self.publisher.set(draft);
            }
            Effect::Remove { key } => self.publisher.remove(&key),
            Effect::Complete => {
                self.publisher.complete();
                self.report();
            }
            Effect::WakeAt(at) => self.alarm.set(Some(at)),
        }
    }

    /// Follows topic `node-health`: the records and whether all shards are complete.
    fn follow_health(&mut self, update: Update) {
        let was_complete = self.shards.is_complete(Topic::NodeHealth);
        self.shards.take(&update);
        let (snapshot, records, skipped) = match update {
            Update::Snapshot { records, skipped, .. } => (true, records, skipped),
            Update::Changes { records, skipped, .. } => (false, records, skipped),
            Update::Status { .. } => (false, Vec::new(), Vec::new()),
            // What was wished stands; the zone-evictor holds what depends on fresh news.
            Update::Lost { since } => return tracing::warn!(?since, "Lost the bus; verdicts stay as they are"),
        };
        let complete = self.shards.is_complete(Topic::NodeHealth);
        if snapshot || !records.is_empty() || !skipped.is_empty() || complete != was_complete {
            let records = records.into_iter().map(records::health).collect();
            self.apply(Input::Health {
                snapshot,
                complete,
                records,
                unreadable: skipped.into_iter().map(|skipped| NodeName::from(skipped.key)).collect(),
            });
        }
    }

    /// Takes over what the own topic remembers; after that, it only says what this process said.
    fn take_over(&mut self, update: Update) {
        if let Update::Snapshot { records, .. } = update {
            self.past = None;
            let now = self.env.host.clock.now().mono;
            let records = records.into_iter().filter_map(|record| records::inherited(record, now));
            let records = records.collect();
            self.apply(Input::Inherit(records));
        }
    }

    fn report(&mut self) {
        let watches = [("nodes", self.nodes.fresh_at()), ("pods", self.pods.fresh_at())];
        self.beacon.report(&self.publisher, &watches);
        self.metrics.levels(&self.manager.stats());
        match (self.manager.waits_for(), self.shards.trouble(Topic::NodeHealth)) {
            (Some(what), _) => self.ready.fail(format!("waiting for {what}")),
            (None, Some(trouble)) => self.ready.note(trouble),
            (None, None) => self.ready.ok(),
        }
    }

    /// Lets what is under way end, so that no write is cut off half-way. Each has a deadline of its own. Marks that still wait for their
    /// turn are not sent. What was decided is on the bus by then: the next instance counts toleration times from what stands there.
    async fn drain(&mut self) {
        self.recalls.call_off_all();
        for answer in self.requests.drain().await {
            self.metrics.answered(&answer);
        }
        settle(&self.publisher).await;
    }
}

async fn next_of(subscription: &mut Option<Subscription>) -> Update {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

fn published(news: Published) -> Result<(), Error> {
    match news {
        Published::Fenced { detail } => {
            return Err(Error::Fenced {
                topic: Topic::EvictionIntents.as_str(),
                detail,
            });
        }
        Published::Refused { key, detail } => tracing::error!(%key, %detail, "Record was refused by the bus"),
        Published::Connected { incarnation } => tracing::info!(%incarnation, "Publishing eviction intents"),
        Published::Lost => tracing::warn!("Lost the bus; intents are published again when it is back"),
    }
    Ok(())
}

fn from_nodes(event: EventInParts<NodeView>) -> Turn {
    Turn::Input(match event {
        Event::Part(ListPart { first, objects }) => Input::SomeNodes {
            first,
            nodes: objects.into_iter().map(NodeView::into_facts).collect(),
        },
        Event::Snapshot(all) => Input::Nodes(all.into_listed(NodeView::into_facts, |meta| NodeName::from(meta.name.as_str()))),
        Event::Applied(node) => Input::Node(node.into_facts()),
        Event::Deleted(node) => Input::NodeGone {
            name: NodeName::from(node.name.as_str()),
            uid: NodeUid::from(node.uid),
        },
        Event::Stale { since, reason } => {
            tracing::warn!(?since, %reason, "Watch of nodes went stale");
            return Turn::Nothing;
        }
        Event::Fresh => return Turn::Nothing,
    })
}

fn from_pods(event: EventInParts<PodView>) -> Option<Input> {
    Some(match event {
        Event::Part(ListPart { first, objects }) => Input::SomePods {
            first,
            pods: objects.into_iter().map(PodView::into_facts).collect(),
        },
        Event::Snapshot(all) => Input::Pods(all.into_listed(PodView::into_facts, |meta| PodUid::from(meta.uid.as_str()))),
        Event::Applied(pod) => Input::Pod(pod.into_facts()),
        Event::Deleted(pod) => Input::PodGone(PodUid::from(pod.uid)),
        Event::Stale { since, reason } => {
            tracing::warn!(?since, %reason, "Watch of pods went stale");
            return None;
        }
        Event::Fresh => return None,
    })
}
