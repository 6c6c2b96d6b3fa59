//! The state machine: inputs in, effects out.
//!
//! ```text
//!  sign of life ──▶ watched ──3/4 grace──▶ late ──grace──▶ queued ──▶ reading ──▶ confirmed ──▶ writing ──▶ unreachable
//!        ▲             ▲                                      │  a sign of life    │               │
//!        └─────────────┴──────────────────────────────────────┴────────────────────┴─ conflict: read again
//! ```

mod begin;
mod incidents;
mod judge;
mod lost;
mod observe;
mod publish;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_model::timers::Timers;
use bailiff_model::{Holds, IndexMap, Mono, NodeName, Now, Unlisted, Verdict};

use crate::cadence::Cadence;
use crate::config::Config;
use crate::effect::{Effect, Measurement};
use crate::facts::LeaseFacts;
use crate::input::{Inherited, Input};
use crate::loss::Losses;
use crate::node::Node;
use crate::queue::Queue;
use crate::votes::Votes;
use crate::zones::Interner;

/// How overdue a wake has to be to say that the process did not run. Ten times what a loaded machine delays a timer.
const OVERDUE: Duration = Duration::from_secs(1);

/// How long a new leader waits for its own topic. After this the bus counts as lost (a subscriber's staleness limit), and nothing is
/// inherited: everybody gets a full grace.
const INHERIT_WAIT: Duration = Duration::from_secs(10);

/// The monitor. See the crate's documentation for its guarantees.
#[derive(Debug)]
pub struct Monitor {
    config: Config,
    // IndexMap: a lookup costs the same at any number of nodes; its order is that of arrival, not the hasher's.
    nodes: IndexMap<NodeName, Box<Node>>,
    /// Leases of names that have no Node.
    stray_leases: BTreeMap<NodeName, LeaseFacts>,
    interner: Interner,
    /// By the places of nodes.
    timers: Timers,
    queue: Queue,
    votes: Votes,
    cadence: Cadence,
    seen: Seen,
    /// Records of the own topic by the name of an own node, until leadership begins to act.
    inherited: BTreeMap<NodeName, Inherited>,
    leading_since: Option<Mono>,
    running: bool,
    holds: Holds,
    losses: Losses,
    /// Nodes whose record says that they are not healthy, if losses are looked at.
    unhealthy: BTreeSet<NodeName>,
    everything_down: bool,
    settle_until: Mono,
    wake: Option<Mono>,
    /// Up to when timers were looked at ahead of their time.
    looked_ahead: Mono,
    verdicts: [usize; 5],
}

/// Which snapshots have come, and of which lists that come in parts the end has not.
#[derive(Debug, Default)]
struct Seen {
    nodes: bool,
    unlisted_nodes: Unlisted<NodeName>,
    /// Nodes that were read or written since a list began that has not ended: what it says of them may be the past.
    newer_nodes: BTreeSet<NodeName>,
    /// Nodes that are there, and that nothing is known of.
    unreadable: BTreeSet<NodeName>,
    leases: bool,
    unlisted_leases: Unlisted<NodeName>,
    topic: bool,
    topic_complete: bool,
}

impl Seen {
    /// A node was read or written.
    fn node_since_list(&mut self, name: &NodeName) {
        if self.unlisted_nodes.is_under_way() {
            self.newer_nodes.insert(name.clone());
        }
    }
}

/// Sizes, for metrics and readiness; O(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Nodes of this shard.
    pub nodes: usize,
    /// Of these, published as healthy, late, not ready, unreachable, without status.
    pub verdicts: [(&'static str, usize); 5],
    /// Nodes waiting to be read or written.
    pub waiting: usize,
    /// Requests under way.
    pub under_way: usize,
    /// The initial set is published and nodes are judged.
    pub running: bool,
    /// What is missing before that.
    pub waits_for: Option<&'static str>,
    /// Scopes held because leases stopped together.
    pub losses_held: usize,
    /// No voting node is ready anywhere.
    pub everything_down: bool,
}

impl Monitor {
    /// A monitor that knows nothing and does not lead. `config` is taken as valid: see [`Config::validate`].
    pub fn new(config: Config) -> Self {
        Self {
            config,
            nodes: IndexMap::default(),
            stray_leases: BTreeMap::new(),
            interner: Interner::default(),
            timers: Timers::default(),
            queue: Queue::new(&config),
            votes: Votes::default(),
            cadence: Cadence::beginning_at(Mono::ORIGIN, &config),
            seen: Seen::default(),
            inherited: BTreeMap::new(),
            leading_since: None,
            running: false,
            holds: Holds::NONE,
            losses: Losses::default(),
            unhealthy: BTreeSet::new(),
            everything_down: false,
            settle_until: Mono::ORIGIN,
            wake: None,
            looked_ahead: Mono::ORIGIN,
            verdicts: [0; 5],
        }
    }

    /// Takes one input and returns what is to be done about it, in order.
    ///
    /// A renewal of the lease of a node that is not late returns an empty vector, which allocates nothing.
    pub fn apply(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let mut out = Vec::new();
        self.notice_stall(now, &mut out);
        match input {
            Input::SomeNodes { first, nodes } => self.take_some_nodes(first, nodes, now, &mut out),
            Input::Nodes(all) => self.take_nodes(all, now, &mut out),
            Input::NodeApplied(facts) => self.take_node(facts, false, now, &mut out),
            Input::NodeDeleted { name, uid } => self.forget_node(&name, &uid, now, &mut out),
            Input::SomeLeases { first, leases } => self.take_some_leases(first, leases, now, &mut out),
            Input::Leases(all) => self.take_leases(all, now, &mut out),
            Input::LeaseApplied(lease) => self.take_lease(lease, false, now, &mut out),
            Input::LeaseDeleted(name) => self.forget_lease(&name),
            Input::Topic(news) => self.take_topic(news),
            Input::Leading(leads) => self.lead(leads, now),
            Input::Braked(holds) => self.holds = holds,
            Input::Confirmed { asked, by, answers } => self.take_answers(asked, by, answers, now, &mut out),
            Input::Written { node, outcome } => self.take_written(&node, outcome, now, &mut out),
            Input::Wake => self.wake_up(now, &mut out),
        }
        self.begin_if_complete(now, &mut out);
        if self.running {
            self.tell_losses(now, &mut out);
            self.watch_level(now, &mut out);
            self.call_off_held(&mut out);
            self.start_requests(now, &mut out);
        }
        self.arm_wake(now, &mut out);
        out
    }

    /// Sizes, for metrics and readiness.
    pub fn summary(&self) -> Summary {
        let (waiting, under_way) = self.queue.sizes();
        let names = VERDICTS.map(Verdict::as_str);
        let mut verdicts = [("", 0); 5];
        for (slot, pair) in verdicts.iter_mut().zip(names.into_iter().zip(self.verdicts)) {
            *slot = pair;
        }
        Summary {
            nodes: self.nodes.len(),
            verdicts,
            waiting,
            under_way,
            running: self.running,
            waits_for: self.waits_for(),
            losses_held: self.losses.held(),
            everything_down: self.everything_down,
        }
    }

    /// True while news of the own topic can still change anything: before it begins they are what is inherited, after that they are
    /// the other shards' votes.
    pub fn needs_topic(&self) -> bool {
        !self.running || self.config.shard.count > 1
    }

    /// After the process stood still (stopped, swapped out, the machine slept), what waited may be signs of life. Nothing is found
    /// late or judged until there was time to take it in, and what was decided before and is not sent by now is called off.
    fn notice_stall(&mut self, now: Now, out: &mut Vec<Effect>) {
        let Some(wake) = self.wake else { return };
        if now.mono <= wake + OVERDUE {
            return;
        }
        self.settle_until = now.mono + self.config.period;
        self.wake = None;
        self.call_off_all(out);
        out.push(Effect::Measure(Measurement::Stalled(now.mono.saturating_since(wake))));
    }

    fn is_settling(&self, now: Now) -> bool {
        now.mono < self.settle_until
    }

    fn wake_up(&mut self, now: Now, out: &mut Vec<Effect>) {
        self.wake = None;
        self.losses.expire(now.mono);
        if self.running && !self.is_settling(now) {
            while let Some(place) = self.timers.pop_due(now.mono) {
                let name = self.nodes.get_index(place as usize).map(|(name, _)| name.clone());
                if let Some(name) = name {
                    self.fire(&name, now, out);
                }
            }
            self.put_off(now);
            self.losses.end_waits(now.mono);
        }
    }

    /// Asks to be woken for the first deadline, and once a period in any case: a wake that comes late shows that the process stood
    /// still.
    fn arm_wake(&mut self, now: Now, out: &mut Vec<Effect>) {
        let Some(leading_since) = self.leading_since else { return };
        let latest = now.mono + self.config.period;
        let wanted = if self.running {
            let first = self.timers.first().unwrap_or(Mono::FAR_FUTURE);
            first.max(self.settle_until).max(now.mono).min(latest)
        } else if self.seen.nodes && self.seen.leases {
            (leading_since + INHERIT_WAIT).max(now.mono).min(latest)
        } else {
            // What there is to wait for comes as an input, not with time.
            latest
        };
        if self.wake.is_none_or(|wake| wanted < wake) {
            self.wake = Some(wanted);
            out.push(Effect::WakeAt(wanted));
        }
    }
}

/// Verdicts in the order in which they are counted.
const VERDICTS: [Verdict; 5] = [
    Verdict::Healthy,
    Verdict::Late,
    Verdict::NotReady,
    Verdict::Unreachable,
    Verdict::NoStatus,
];

const fn slot(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Healthy => 0,
        Verdict::Late => 1,
        Verdict::NotReady => 2,
        Verdict::Unreachable => 3,
        Verdict::NoStatus => 4,
    }
}
