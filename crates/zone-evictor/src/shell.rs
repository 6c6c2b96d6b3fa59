//! The loop: one input at a time into the core, its effects out. Nothing is decided here.

use bailiff_cluster::Watch;
use bailiff_cluster::views::Meta;
use bailiff_cluster::watch::{Event, EventInParts, ListPart, Source, WatchInParts};
use bailiff_event_bus::{
    Body as BusBody, Draft, Published, Publisher, Record as BusRecord, ShardStatus as BusShard, Skipped, Subscription, Update,
};
use bailiff_model::{Duties, Listed, Mono, Origin, Topic, Wall};
use bailiff_runtime::admin::Check;
use bailiff_stage::rival::What;
use bailiff_stage::{Alarm, Beacon, Brake, Env, Error, Recalls, Requests, Stage, settle};
use bailiff_zone_core::{
    Body, DaemonSetFacts, DaemonSetKey, Effect, EvictionMode, Evictor, Input, Purpose, Record, ShardStatus, Ticket,
};
use futures::FutureExt;

use crate::metrics::Metrics;
use crate::options::Options;
use crate::own::Own;
use crate::telling::{self, Recorders};
use crate::views::{DaemonSetView, NodeView};
use crate::{ZoneEvictor, requests};

/// Requests under way at once, twice the evictions that there may be unless it is said otherwise; more of either wait here. The core
/// bounds evictions; this bounds the untainting of a whole cluster too (NL-097).
const MOST_REQUESTS: usize = 512;

/// Inputs taken in a row before the timer and the report are looked at, so that a flood of changes does not silence the stage. At
/// some 20 µs each that is every few milliseconds.
const BURST: u32 = 256;

/// The running stage.
pub(crate) struct Shell {
    env: Env,
    evictor: Evictor,
    nodes: WatchInParts<NodeView>,
    /// In node mode only: whom they select is spared (NL-206).
    daemon_sets: Option<Watch<DaemonSetView>>,
    bus: Subscription,
    publisher: Publisher,
    own: Own,
    requests: Requests<Input>,
    recalls: Recalls<Ticket>,
    alarm: Alarm,
    beacon: Beacon,
    brake: Brake,
    recorders: Recorders,
    metrics: Metrics,
    ready: Check,
    holds: Check,
    in_a_row: u32,
}

/// What one turn of the loop is about.
enum Turn {
    Input(Input),
    Answers(Input),
    Published(Published),
    Report,
    Stop,
}

impl Shell {
    /// Starts the watch, the subscription and the session.
    pub(crate) fn start(options: &Options, env: Env) -> Self {
        let shard = env.shard;
        let seed = env.host.seed.fork("evictor");
        let topics = [Topic::NodeHealth, Topic::EvictionIntents, Topic::EvictionOutcomes];
        let subscription = env.subscribing(ZoneEvictor::NAME, &topics);
        let session = env.publishing(ZoneEvictor::NAME, Topic::EvictionOutcomes);
        let own = Own::new(session.producer.clone(), session.epoch);
        let config = options.config(shard, env.api.limiter().per_second());
        let duties = Duties {
            daemonset: false,
            ..config.duties
        };
        let brake = Brake::start(&env, ZoneEvictor::NAME, duties);
        Self {
            nodes: Watch::start_in_parts(&env.api, Source::all(requests::NODES), &seed, brake.spy(What::Nodes)),
            daemon_sets: (config.mode == EvictionMode::Node)
                .then(|| Watch::start(&env.api, Source::all(requests::DAEMON_SETS), &seed)),
            evictor: Evictor::new(config),
            bus: bailiff_event_bus::subscribe(&env.bus, subscription, &env.host.clock, &seed).without_echo(&session),
            publisher: bailiff_event_bus::publish(&env.bus, session, &env.host.clock, &seed),
            own,
            requests: Requests::new(MOST_REQUESTS),
            recalls: Recalls::default(),
            alarm: Alarm::new(&env.host.clock),
            beacon: Beacon::new(&env, ZoneEvictor::NAME),
            brake,
            recorders: Recorders::start(&env),
            metrics: Metrics::register(&env.host.metrics),
            ready: env.host.readiness.check("zone eviction"),
            holds: env.host.readiness.check("zone holds"),
            in_a_row: 0,
            env,
        }
    }

    /// Runs until the shutdown begins or the shard is lost.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        loop {
            match self.turn().await {
                Turn::Input(input) => self.apply(input),
                Turn::Answers(first) => self.take_answers(first),
                Turn::Published(news) => published(news)?,
                Turn::Report => self.report(),
                Turn::Stop => break,
            }
        }
        self.drain().await;
        Ok(())
    }

    /// What comes next. News comes before the timer: what waits may be a reason not to act.
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
            event = self.nodes.next() => Turn::Input(from_nodes(event)),
            event = next_of(&mut self.daemon_sets) => Turn::Input(from_daemon_sets(event)),
            update = self.bus.next() => Turn::Input(from_bus(update, &self.own, self.env.host.clock.now().mono)),
            answer = self.requests.next() => Turn::Answers(answer),
            () = self.beacon.due() => Turn::Report,
            () = self.alarm.due() => Turn::Input(Input::Wake),
        };
        if matches!(turn, Turn::Report | Turn::Input(Input::Wake)) {
            self.in_a_row = 0;
        }
        turn
    }

    fn apply(&mut self, input: Input) {
        if let Input::PodAnswer { ticket, .. } | Input::NodeAnswer { ticket, .. } = &input {
            self.recalls.answered(ticket);
        }
        for effect in self.evictor.apply(input, self.env.host.clock.now()) {
            self.perform(effect);
        }
    }

    /// Answers come in crowds: those that are here, which are bounded by what is under way, are taken one after the other, without a look
    /// at everything else in between. What they lead to begins in the next turn, after that look.
    fn take_answers(&mut self, first: Input) {
        let mut answers = vec![first];
        while self.in_a_row < BURST
            && let Some(answer) = self.requests.next().now_or_never()
        {
            answers.push(answer);
            self.in_a_row += 1;
        }
        for answer in answers {
            self.apply(answer);
        }
    }

    fn perform(&mut self, effect: Effect) {
        let api = || self.env.api.clone();
        match effect {
            Effect::WriteTaints(write) => {
                tracing::info!(node = %write.node.name, purpose = ?write.purpose, "Writing taints");
                if write.purpose == Purpose::Clear {
                    self.requests.push_urgent(requests::write_taints(api().urgently(), write));
                } else {
                    let api = self.recalls.guard(write.ticket, api());
                    self.requests.push(requests::write_taints(api, write));
                }
            }
            Effect::ReadNode { ticket, node } => self.requests.push(requests::read_node(api(), ticket, node)),
            Effect::ReadPod { ticket, pod } => self.requests.push(requests::read_pod(api(), ticket, pod)),
            Effect::MarkPod { ticket, pod, mark } => {
                let api = self.recalls.guard(ticket, api());
                self.requests.push(requests::mark_pod(api, ticket, pod, mark));
            }
            Effect::DeletePod { ticket, pod } => {
                tracing::info!(%pod, uid = %pod.uid, "Deleting pod");
                let api = self.recalls.guard(ticket, api());
                self.requests.push(requests::delete_pod(api, ticket, pod));
            }
            Effect::EvictPod { ticket, pod } => {
                tracing::info!(%pod, uid = %pod.uid, "Evicting pod");
                let api = self.recalls.guard(ticket, api());
                self.requests.push(requests::evict_pod(api, ticket, pod));
            }
            Effect::CallOff { ticket } => self.recalls.call_off(&ticket),
            Effect::Publish(draft) => self.publisher.set(Draft {
                key: draft.key,
                route: draft.route,
                derived_from: draft.derived_from,
                trace: draft.trace,
                body: BusBody::Outcome(draft.outcome),
            }),
            Effect::Remove { key } => self.publisher.remove(&key),
            Effect::Complete => {
                self.publisher.complete();
                self.report();
            }
            Effect::Emit(event) => self.recorders.emit(event),
            Effect::Count(count) => self.metrics.count(&count),
            Effect::Span(span) => telling::span(&self.env.host.spans, span),
            Effect::WakeAt(at) => self.alarm.set(Some(at)),
        }
    }

    fn report(&mut self) {
        let mut watches = vec![("nodes", self.nodes.fresh_at())];
        watches.extend(self.daemon_sets.as_ref().map(|watch| ("daemonsets", watch.fresh_at())));
        self.beacon.report(&self.publisher, &watches);
        self.metrics.levels(&self.evictor);
        match self.evictor.waits_for() {
            Some(what) => self.ready.fail(format!("waiting for {what}")),
            None => self.ready.ok(),
        }
        // A hold is no reason to send the process away: it ends by itself.
        let held: Vec<String> = self
            .evictor
            .zones()
            .filter_map(|view| {
                view.held
                    .map(|hold| format!("{}: {} ({})", view.zone, hold.reason, hold.detail))
            })
            .collect();
        if held.is_empty() {
            self.holds.ok();
        } else {
            self.holds.note(held.join("; "));
        }
    }

    /// Lets what is under way end, so that no eviction is cut off between mark and delete without its answer being known. Each
    /// request has a deadline of its own. What became of them is said on the bus, or the next instance would not know; nothing is begun,
    /// nor sent that may be held and still waits for its turn.
    async fn drain(&mut self) {
        self.recalls.call_off_all();
        for answer in self.requests.drain().await {
            for effect in self.evictor.apply(answer, self.env.host.clock.now()) {
                match effect {
                    Effect::Publish(_) | Effect::Remove { .. } | Effect::Count(_) | Effect::Span(_) => self.perform(effect),
                    _ => {}
                }
            }
        }
        settle(&self.publisher).await;
    }
}

fn published(news: Published) -> Result<(), Error> {
    match news {
        Published::Fenced { detail } => {
            return Err(Error::Fenced {
                topic: Topic::EvictionOutcomes.as_str(),
                detail,
            });
        }
        Published::Refused { key, detail } => tracing::error!(%key, %detail, "Outcome was refused by the bus"),
        Published::Connected { incarnation } => tracing::info!(%incarnation, "Publishing eviction outcomes"),
        Published::Lost => tracing::warn!("Lost the bus; outcomes are published again when it is back"),
    }
    Ok(())
}

fn from_nodes(event: EventInParts<NodeView>) -> Input {
    match event {
        Event::Part(ListPart { first, objects }) => Input::SomeNodes {
            first,
            nodes: objects.into_iter().map(NodeView::into_facts).collect(),
        },
        Event::Snapshot(all) => Input::Nodes(all.into_listed(NodeView::into_facts, |meta| meta.name.as_str().into())),
        Event::Applied(node) => Input::NodeApplied(node.into_facts()),
        Event::Deleted(meta) => Input::NodeDeleted {
            name: meta.name.as_str().into(),
            uid: Some(meta.uid.into()),
        },
        Event::Stale { reason, .. } => {
            tracing::warn!(%reason, "Watch on nodes is stale; nothing is done until it is back");
            Input::ApiFresh(false)
        }
        Event::Fresh => Input::ApiFresh(true),
    }
}

/// The next news of a watch that may not be wanted.
async fn next_of(watch: &mut Option<Watch<DaemonSetView>>) -> Event<DaemonSetView> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

fn from_daemon_sets(event: Event<DaemonSetView>) -> Input {
    match event {
        Event::Snapshot(snapshot) => {
            let facts = snapshot.objects.into_iter().map(DaemonSetView::into_facts);
            let mut listed: Listed<DaemonSetFacts, DaemonSetKey> = facts.collect();
            let malformed = snapshot.malformed.into_iter();
            listed.unreadable = malformed.map(|meta| key_of(&meta)).collect();
            Input::DaemonSets(listed)
        }
        Event::Applied(view) => Input::DaemonSetApplied(view.into_facts()),
        Event::Deleted(meta) => Input::DaemonSetDeleted(key_of(&meta)),
        Event::Stale { reason, .. } => {
            tracing::warn!(%reason, "Watch on DaemonSets is stale; no pod of a node is deleted until it is back");
            Input::DaemonSetsFresh(false)
        }
        Event::Fresh => Input::DaemonSetsFresh(true),
    }
}

fn key_of(meta: &Meta) -> DaemonSetKey {
    (meta.namespace.as_str().into(), meta.name.to_string())
}

fn from_bus(update: Update, own: &Own, now: Mono) -> Input {
    match update {
        Update::Snapshot {
            records,
            skipped,
            shards,
        } => Input::Snapshot {
            records: all_records(records, skipped, own, now),
            shards: shards.into_iter().map(shard).collect(),
        },
        Update::Changes {
            records,
            skipped,
            shards,
        } => Input::Changes {
            records: all_records(records, skipped, own, now),
            shards: shards.into_iter().map(shard).collect(),
        },
        Update::Status { shards } => Input::Status(shards.into_iter().map(shard).collect()),
        Update::Lost { since } => Input::BusLost { since },
    }
}

/// The records of a set, and what stands for those that were skipped: each key is there once, so their order does not matter.
fn all_records(records: Vec<BusRecord>, skipped: Vec<Skipped>, own: &Own, now: Mono) -> Vec<Record> {
    let skipped = skipped.into_iter().map(|skipped| Record {
        topic: skipped.topic,
        key: skipped.key,
        origin: Origin::default(),
        derived_from: Origin::default(),
        produced_at: Wall::UNIX_EPOCH,
        age: None,
        is_echo: false,
        trace: None,
        body: Some(Body::Unreadable),
    });
    records.into_iter().map(|one| record(one, own, now)).chain(skipped).collect()
}

fn record(record: BusRecord, own: &Own, now: Mono) -> Record {
    Record {
        origin: record.origin(),
        age: record.age_at(now),
        is_echo: own.said(&record.producer, record.epoch),
        produced_at: record.produced_at,
        topic: record.topic,
        key: record.key,
        derived_from: record.derived_from,
        trace: record.trace,
        body: record.body.and_then(|body| match body {
            BusBody::NodeHealth(health) => Some(Body::Health(health)),
            BusBody::Intent(intent) => Some(Body::Intent(intent)),
            BusBody::Outcome(outcome) => Some(Body::Outcome(outcome)),
            // Not of a topic that is subscribed to.
            BusBody::DaemonSetSync(_) => None,
        }),
    }
}

fn shard(status: BusShard) -> ShardStatus {
    ShardStatus {
        topic: status.topic,
        shard: status.shard,
        shard_count: status.shard_count,
        complete: status.complete,
        live: status.live,
        detail: status.detail,
    }
}
