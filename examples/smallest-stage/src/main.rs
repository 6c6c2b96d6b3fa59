//! A node-health-monitor in one file: the loop that every stage is, and nothing else.
//!
//! What is decided is decided in `bailiff_node_health_core`, a state machine without I/O: inputs in, effects out. This is what stands
//! around it: two watches, a subscription, a session on the bus, the brake, requests, a timer. README.md says what it leaves out.

use std::process::ExitCode;

use bailiff_cluster::events::{Draft as EventDraft, Regarding, Severity};
use bailiff_cluster::views::Meta;
use bailiff_cluster::watch::{Event, Source};
use bailiff_cluster::{Recorder, Watch};
use bailiff_event_bus::{Body, Draft, Published, Publisher, Record, Shards, Subscription, Update, publish, subscribe};
use bailiff_model::{About, Duties, NodeName, NodeRef, Topic};
use bailiff_node_health_core::{Effect, Inherited, Input, Monitor, NodeEvent, TopicNews};
use bailiff_node_health_monitor::views::{LeaseView, NodeView};
use bailiff_node_health_monitor::{Options, requests};
use bailiff_stage::rival::What;
use bailiff_stage::{Alarm, Beacon, Brake, Env, Error, Recalls, Requests, Stage, idle, settle};

const TOPIC: Topic = Topic::NodeHealth;

/// Requests under way at once. The core asks for fewer.
const MOST_REQUESTS: usize = 64;

/// Flags, log, ports, certificates, Leases and signals are `bailiff_stage`'s: [`Stage::run`] is called while this process leads.
struct Smallest;

impl Stage for Smallest {
    const NAME: &'static str = "node-health-monitor";
    const ABOUT: &'static str = "The smallest node-health-monitor: judges by Leases and statuses whether nodes are alive";
    type Options = Options;

    async fn run(options: Options, env: Env) -> Result<(), Error> {
        if !options.shared.controllers.node_lifecycle {
            return idle(&env, Self::NAME, "node-lifecycle-controller").await;
        }
        Shell::start(&options, env).run().await
    }
}

fn main() -> ExitCode {
    bailiff_stage::service::main::<Smallest>()
}

struct Shell {
    env: Env,
    core: Monitor,
    nodes: Watch<NodeView>,
    leases: Watch<LeaseView>,
    /// The own topic: what the process before said, and what other shards say.
    topic: Subscription,
    shards: Shards,
    publisher: Publisher,
    requests: Requests<Input>,
    recalls: Recalls<NodeRef>,
    brake: Brake,
    beacon: Beacon,
    alarm: Alarm,
    recorder: Recorder,
}

impl Shell {
    fn start(options: &Options, env: Env) -> Self {
        let (clock, seed) = (&env.host.clock, &env.host.seed);
        let duties = Duties {
            node_lifecycle: true,
            ..Duties::NONE
        };
        let brake = Brake::start(&env, Smallest::NAME, duties);
        Self {
            core: Monitor::new(options.config(env.shard, env.api.limiter().per_second())),
            nodes: Watch::start_with(&env.api, Source::all(requests::NODES), seed, brake.spy(What::Nodes)),
            leases: Watch::start(&env.api, Source::all(requests::LEASES), seed),
            topic: subscribe(&env.bus, env.subscribing(Smallest::NAME, &[TOPIC]), clock, seed),
            shards: Shards::default(),
            publisher: publish(&env.bus, env.publishing(Smallest::NAME, TOPIC), clock, seed),
            requests: Requests::new(MOST_REQUESTS),
            recalls: Recalls::default(),
            brake,
            beacon: Beacon::new(&env, Smallest::NAME),
            alarm: Alarm::new(clock),
            recorder: Recorder::start(&env.api, "node-controller", &env.host.identity, seed),
            env,
        }
    }

    /// One input at a time, until the shutdown begins or another process has the shard.
    async fn run(mut self) -> Result<(), Error> {
        self.apply(Input::Leading(true));
        loop {
            // In this order: a flood of renewals must not silence the report, and what waits may be a sign of life.
            let input = tokio::select! {
                biased;
                () = self.env.host.shutdown.triggered() => break,
                () = self.beacon.due() => { self.report(); None }
                news = self.publisher.next() => { heed(news)?; None }
                holds = self.brake.next() => Some(Input::Braked(holds)),
                event = self.nodes.next() => of_nodes(event),
                event = self.leases.next() => of_leases(event),
                update = self.topic.next() => self.of_topic(update),
                answer = self.requests.next() => Some(answer),
                () = self.alarm.due() => Some(Input::Wake),
            };
            if let Some(input) = input {
                self.apply(input);
            }
        }
        // What is under way ends, and is told; nothing new begins.
        self.recalls.call_off_all();
        for answer in self.requests.drain().await {
            self.apply(answer);
        }
        settle(&self.publisher).await;
        Ok(())
    }

    fn apply(&mut self, input: Input) {
        if let Input::Written { node, .. } = &input {
            self.recalls.answered(node);
        }
        for effect in self.core.apply(input, self.env.host.clock.now()) {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        let (api, host) = (self.env.api.clone(), &self.env.host);
        match effect {
            Effect::Confirm { asked, by, nodes } => {
                let (end, seed) = (host.shutdown.clone(), host.seed.fork("confirm"));
                self.requests.push(requests::confirm_until(end, api, seed, asked, by, nodes));
            }
            Effect::WriteUnknown(write) => {
                let api = self.recalls.guard(write.node.clone(), api);
                self.requests.push(requests::write(api, write));
            }
            Effect::CallOff(node) => self.recalls.call_off(&node),
            Effect::Publish { health, trace } => self.publisher.set(Draft::new(Body::NodeHealth(health)).traced(trace)),
            Effect::Retract(node) => self.publisher.remove(node.as_str()),
            Effect::Complete => {
                self.publisher.complete();
                self.report();
            }
            Effect::Event(event) => self.recorder.emit(|| event_about(&event)),
            Effect::WakeAt(at) => self.alarm.set(Some(at)),
            Effect::Measure(what) => tracing::debug!(?what, "Measured"),
        }
    }

    /// The loop turns, and the watches are as fresh as this.
    fn report(&self) {
        let watches = [("nodes", self.nodes.fresh_at()), ("leases", self.leases.fresh_at())];
        self.beacon.report(&self.publisher, &watches);
    }

    fn of_topic(&mut self, update: Update) -> Option<Input> {
        let was_complete = self.shards.is_complete(TOPIC);
        self.shards.take(&update);
        let complete = self.shards.is_complete(TOPIC);
        let news = match update {
            Update::Snapshot { records, .. } => TopicNews::Snapshot {
                records: records.into_iter().filter_map(|record| inherited(record).1).collect(),
                complete,
            },
            Update::Changes { records, .. } => TopicNews::Changes {
                records: records.into_iter().map(inherited).collect(),
                complete,
            },
            Update::Status { .. } if was_complete != complete => TopicNews::Changes {
                records: Vec::new(),
                complete,
            },
            Update::Status { .. } | Update::Lost { .. } => return None,
        };
        Some(Input::Topic(news))
    }
}

fn inherited(record: Record) -> (NodeName, Option<Inherited>) {
    let trace = record.trace;
    let health = match record.body {
        Some(Body::NodeHealth(health)) => Some(Inherited { health, trace }),
        _ => None,
    };
    (record.key.into(), health)
}

fn of_nodes(event: Event<NodeView>) -> Option<Input> {
    match event {
        Event::Snapshot(all) => Some(Input::Nodes(all.into_listed(NodeView::into_facts, name))),
        Event::Applied(node) => Some(Input::NodeApplied(node.into_facts())),
        Event::Deleted(node) => Some(Input::NodeDeleted {
            name: name(&node),
            uid: node.uid.into(),
        }),
        Event::Stale { .. } | Event::Fresh => None,
    }
}

fn of_leases(event: Event<LeaseView>) -> Option<Input> {
    match event {
        Event::Snapshot(all) => Some(Input::Leases(all.into_listed(LeaseView::into_facts, name))),
        Event::Applied(lease) => Some(Input::LeaseApplied(lease.into_facts())),
        Event::Deleted(lease) => Some(Input::LeaseDeleted(name(&lease))),
        Event::Stale { .. } | Event::Fresh => None,
    }
}

fn name(meta: &Meta) -> NodeName {
    meta.name.as_str().into()
}

/// What becomes of what was published.
fn heed(news: Published) -> Result<(), Error> {
    match news {
        Published::Fenced { detail } => {
            let topic = TOPIC.as_str();
            return Err(Error::Fenced { topic, detail });
        }
        Published::Refused { key, detail } => tracing::error!(node = %key, %detail, "Record was refused by the bus"),
        Published::Connected { incarnation } => tracing::info!(%incarnation, "Publishing node health"),
        Published::Lost => tracing::warn!("Lost the bus; node health is published again when it is back"),
    }
    Ok(())
}

fn event_about(event: &NodeEvent) -> EventDraft {
    EventDraft {
        regarding: Regarding {
            api_version: "v1",
            kind: "Node",
            name: event.node.name.to_string(),
            uid: event.node.uid.to_string(),
            ..Regarding::default()
        },
        severity: Severity::Normal,
        reason: event.kind.reason(),
        action: event.kind.reason(),
        note: event.message(),
        about: About::node(&event.node.name).traced(event.trace),
    }
}
