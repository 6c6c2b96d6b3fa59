//! The loop: one input at a time into the core, its effects out. Nothing is decided here.

use bailiff_cluster::views::Meta;
use bailiff_cluster::watch::{Event, EventInParts, ListPart, Source, WatchInParts};
use bailiff_cluster::{Recorder, Watch};
use bailiff_event_bus::{Body, Draft, Published, Publisher, Record, Shards, Subscription, Update};
use bailiff_model::{Duties, NodeName, NodeRef, NodeUid, Topic, Verdict};
use bailiff_node_health_core::{Effect, Inherited, Input, Monitor, TopicNews};
use bailiff_runtime::admin::Check;
use bailiff_stage::rival::What;
use bailiff_stage::{Alarm, Beacon, Brake, Env, Error, Recalls, Requests, Stage, settle};
use futures::FutureExt;

use crate::metrics::Metrics;
use crate::opinion::{self, Doubts};
use crate::options::Options;
use crate::views::{LeaseView, NodeView};
use crate::{NodeHealthMonitor, requests, telling};

/// Inputs taken in a row before the timer and the report are looked at: a flood of renewals must not silence the stage. At 10 µs
/// each that is every few milliseconds.
const BURST: u32 = 512;

/// The running stage.
pub(crate) struct Shell {
    env: Env,
    monitor: Monitor,
    nodes: WatchInParts<NodeView>,
    leases: WatchInParts<LeaseView>,
    /// Ended once nothing depends on it any more.
    topic: Option<Subscription>,
    shards: Shards,
    publisher: Publisher,
    requests: Requests<Input>,
    recalls: Recalls<NodeRef>,
    doubts: Doubts,
    alarm: Alarm,
    beacon: Beacon,
    brake: Brake,
    recorder: Recorder,
    metrics: Metrics,
    ready: Check,
    in_a_row: u32,
}

/// What one turn of the loop is about.
enum Turn {
    Input(Input),
    Leases(EventInParts<LeaseView>),
    Topic(Update),
    Published(Published),
    Report,
    Nothing,
    Stop,
}

impl Shell {
    /// Starts watches, subscription and session.
    pub(crate) fn start(options: &Options, env: Env, doubts: Doubts) -> Self {
        let shard = env.shard;
        let seed = env.host.seed.fork("monitor");
        let subscription = env.subscribing(NodeHealthMonitor::NAME, &[Topic::NodeHealth]);
        let session = env.publishing(NodeHealthMonitor::NAME, Topic::NodeHealth);
        let duties = Duties {
            node_lifecycle: true,
            taint_eviction: false,
            daemonset: false,
        };
        let brake = Brake::start(&env, NodeHealthMonitor::NAME, duties);
        let config = options.config(shard, env.api.limiter().per_second());
        Self {
            monitor: Monitor::new(config),
            nodes: Watch::start_in_parts(&env.api, requests::ALL_NODES, &seed, brake.spy(What::Nodes)),
            leases: Watch::start_in_parts(&env.api, Source::all(requests::LEASES), &seed, ()),
            topic: Some(bailiff_event_bus::subscribe(&env.bus, subscription, &env.host.clock, &seed)),
            shards: Shards::default(),
            publisher: bailiff_event_bus::publish(&env.bus, session, &env.host.clock, &seed),
            // The core asks for no more at a time, and one list; this is the wire's own bound.
            requests: Requests::new(config.node_reads + config.status_writes + 1),
            recalls: Recalls::default(),
            doubts,
            alarm: Alarm::new(&env.host.clock),
            beacon: Beacon::new(&env, NodeHealthMonitor::NAME),
            brake,
            recorder: Recorder::start(&env.api, telling::EVENT_SOURCE, &env.host.identity, &seed),
            metrics: Metrics::register(&env.host.metrics),
            ready: env.host.readiness.check("node health"),
            in_a_row: 0,
            env,
        }
    }

    /// Runs until the shutdown begins or the shard is lost.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        self.apply(Input::Leading(true));
        loop {
            match self.turn().await {
                Turn::Input(input) => self.apply(input),
                Turn::Leases(first) => self.take_leases(first),
                Turn::Topic(update) => self.follow(update),
                Turn::Published(news) => published(news)?,
                Turn::Report => self.report(),
                Turn::Nothing => {}
                Turn::Stop => break,
            }
        }
        self.drain().await;
        Ok(())
    }

    /// What comes next. The timer comes last: what waits may be a sign of life.
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
            event = self.leases.next() => Turn::Leases(event),
            update = next_of(&mut self.topic) => Turn::Topic(update),
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
        if let Input::Written { node, .. } = &input {
            self.recalls.answered(node);
        }
        let is_wake = matches!(input, Input::Wake);
        let now = self.env.host.clock.now();
        let effects = self.monitor.apply(input, now);
        if is_wake {
            self.metrics.passed(self.env.host.clock.now().mono.saturating_since(now.mono));
        }
        for effect in effects {
            self.perform(effect);
        }
    }

    /// Renewals come in crowds: those that are here are taken one after the other, without a look at everything else in between.
    fn take_leases(&mut self, first: EventInParts<LeaseView>) {
        let mut next = Some(first);
        while let Some(event) = next {
            if let Some(input) = from_leases(event) {
                self.apply(input);
            }
            next = (self.in_a_row < BURST).then(|| self.leases.at_hand()).flatten();
            self.in_a_row += u32::from(next.is_some());
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Confirm { asked, by, mut nodes } => {
                let now = self.env.host.clock.now();
                let answered = self.doubts.take(&mut nodes, &self.recorder, now);
                let reading = (!nodes.is_empty()).then(|| {
                    let (api, seed) = (self.env.api.clone(), self.env.host.seed.fork("confirm"));
                    requests::confirm_until(self.env.host.shutdown.clone(), api, seed, asked, by, nodes)
                });
                self.requests.push(opinion::joined(answered, reading, asked, by));
            }
            Effect::WriteUnknown(write) => {
                let api = self.recalls.guard(write.node.clone(), self.env.api.clone());
                self.requests.push(requests::write(api, write));
            }
            Effect::CallOff(node) => self.recalls.call_off(&node),
            Effect::Publish { health, trace } => {
                tracing::debug!(node = %health.node.name, verdict = health.verdict.as_str(), "Published node health");
                if health.verdict != Verdict::Late {
                    self.doubts.forget(&health.node.name);
                }
                self.publisher.set(Draft::new(Body::NodeHealth(health)).traced(trace));
            }
            Effect::Retract(node) => {
                self.doubts.forget(&node);
                self.publisher.remove(node.as_str());
            }
            Effect::Complete => {
                self.publisher.complete();
                self.report();
            }
            Effect::Event(event) => telling::event(&self.recorder, &event),
            Effect::Measure(measurement) => telling::measurement(&self.metrics, &self.env.host.spans, &self.recorder, &measurement),
            Effect::WakeAt(at) => self.alarm.set(Some(at)),
        }
    }

    /// Follows the own topic: the records and whether all shards are complete.
    fn follow(&mut self, update: Update) {
        let was = self.is_complete();
        self.shards.take(&update);
        match update {
            Update::Snapshot { records, .. } => {
                let news = TopicNews::Snapshot {
                    records: records.into_iter().filter_map(|record| inherited(record).1).collect(),
                    complete: self.is_complete(),
                };
                self.apply(Input::Topic(news));
            }
            // Of a key that is not understood nothing is inherited; what another shard said of it before stays its vote.
            Update::Changes { records, .. } => {
                let records = records.into_iter().map(inherited).collect();
                self.take_changes(records);
            }
            Update::Status { .. } if was != self.is_complete() => self.take_changes(Vec::new()),
            Update::Status { .. } => {}
            // Nothing depends on the topic being fresh: votes of other shards stay as they are.
            Update::Lost { since } => tracing::debug!(?since, "Lost the bus"),
        }
    }

    fn take_changes(&mut self, records: Vec<(NodeName, Option<Inherited>)>) {
        let complete = self.is_complete();
        self.apply(Input::Topic(TopicNews::Changes { records, complete }));
    }

    fn is_complete(&self) -> bool {
        self.shards.is_complete(Topic::NodeHealth)
    }

    fn report(&mut self) {
        if !self.monitor.needs_topic() {
            self.topic = None;
        }
        let watches = [("nodes", self.nodes.fresh_at()), ("leases", self.leases.fresh_at())];
        self.beacon.report(&self.publisher, &watches);
        let summary = self.monitor.summary();
        self.metrics.levels(&summary);
        match summary.waits_for {
            Some(what) => self.ready.fail(format!("waiting for {what}")),
            None if summary.losses_held > 0 => self.ready.note("leases stopped together: what would follow is held"),
            None if summary.everything_down => self.ready.note("no voting node is ready"),
            None => self.ready.ok(),
        }
    }

    /// Lets what is under way end, so that no write is cut off half-way. Each has a deadline of its own. A verdict that was stored is
    /// said on the bus; nothing is begun, and writes that still wait for their turn are not sent.
    async fn drain(&mut self) {
        self.recalls.call_off_all();
        for answer in self.requests.drain().await {
            self.metrics.answered(&answer);
            for effect in self.monitor.apply(answer, self.env.host.clock.now()) {
                match effect {
                    Effect::Publish { .. } | Effect::Retract(_) | Effect::Event(_) | Effect::Measure(_) => self.perform(effect),
                    Effect::Confirm { .. }
                    | Effect::WriteUnknown(_)
                    | Effect::CallOff(_)
                    | Effect::Complete
                    | Effect::WakeAt(_) => {}
                }
            }
        }
        settle(&self.publisher).await;
    }
}

async fn next_of(topic: &mut Option<Subscription>) -> Update {
    match topic {
        Some(topic) => topic.next().await,
        None => std::future::pending().await,
    }
}

fn published(news: Published) -> Result<(), Error> {
    match news {
        Published::Fenced { detail } => {
            return Err(Error::Fenced {
                topic: Topic::NodeHealth.as_str(),
                detail,
            });
        }
        Published::Refused { key, detail } => tracing::error!(node = %key, %detail, "Record was refused by the bus"),
        Published::Connected { incarnation } => tracing::info!(%incarnation, "Publishing node health"),
        Published::Lost => tracing::warn!("Lost the bus; node health is published again when it is back"),
    }
    Ok(())
}

fn name(meta: &Meta) -> NodeName {
    NodeName::from(meta.name.as_str())
}

fn from_nodes(event: EventInParts<NodeView>) -> Turn {
    match event {
        Event::Part(ListPart { first, objects }) => Turn::Input(Input::SomeNodes {
            first,
            nodes: objects.into_iter().map(NodeView::into_facts).collect(),
        }),
        Event::Snapshot(all) => Turn::Input(Input::Nodes(all.into_listed(NodeView::into_facts, name))),
        Event::Applied(node) => Turn::Input(Input::NodeApplied(node.into_facts())),
        Event::Deleted(node) => Turn::Input(Input::NodeDeleted {
            name: name(&node),
            uid: NodeUid::from(node.uid),
        }),
        Event::Stale { since, reason } => {
            tracing::warn!(?since, %reason, "Watch of nodes went stale");
            Turn::Nothing
        }
        Event::Fresh => Turn::Nothing,
    }
}

fn from_leases(event: EventInParts<LeaseView>) -> Option<Input> {
    match event {
        Event::Part(ListPart { first, objects }) => Some(Input::SomeLeases {
            first,
            leases: objects.into_iter().map(LeaseView::into_facts).collect(),
        }),
        Event::Snapshot(all) => Some(Input::Leases(all.into_listed(LeaseView::into_facts, name))),
        Event::Applied(lease) => Some(Input::LeaseApplied(lease.into_facts())),
        Event::Deleted(lease) => Some(Input::LeaseDeleted(name(&lease))),
        Event::Stale { since, reason } => {
            tracing::warn!(?since, %reason, "Watch of leases went stale");
            None
        }
        Event::Fresh => None,
    }
}

/// A record of the own topic by its key; `None` if it is gone, or not of this topic.
fn inherited(record: Record) -> (NodeName, Option<Inherited>) {
    let trace = record.trace;
    let health = match record.body {
        Some(Body::NodeHealth(health)) => Some(Inherited { health, trace }),
        _ => None,
    };
    (NodeName::from(record.key), health)
}
