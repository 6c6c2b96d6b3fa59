//! From the end of a grace to a verdict: read again, write, and what may come between.

use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Backoff, Hold, Load, Mono, NodeName, NodeRef, Now, ReadyStatus, Verdict, Wall};

use super::Monitor;
use super::incidents::Refused;
use crate::effect::{Effect, EventKind, Judgement, Measurement, ReadBy};
use crate::incident::{Outcome, Refusal, Reprieve, Request};
use crate::input::{Read, WriteOutcome};
use crate::node::{Attempt, Confirmation, Phase, Suspicion};
use crate::unknown::{self, StatusWrite};

/// Conflicts that are answered by another read at once; after these the node backs off. Upstream tries about this often (NL-056).
const CONFLICTS_AT_ONCE: u32 = 5;

/// First pause after a failed request; doubles up to the monitor period.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

impl Monitor {
    /// A node's timer is due: it became late, its grace ended, a pause is over, or its record has aged.
    pub(super) fn fire(&mut self, name: &NodeName, now: Now, out: &mut Vec<Effect>) {
        let held = self.is_held(name);
        let Some(node) = self.nodes.get_mut(name) else { return };
        if node.ready.status == ReadyStatus::Unknown {
            node.changed |= node.recounted;
        } else if matches!(node.phase, Phase::Watched)
            && now.mono >= self.cadence.acts_after(node.grace_ends(&self.config)).max(node.not_before)
        {
            if held {
                node.not_before = now.mono + self.config.period;
                self.note_held(name, now, out);
            } else {
                node.phase = Phase::Queued;
                self.queue.read(name);
                Self::end_hold(name, node, Outcome::Released, now, out);
            }
        }
        self.refresh(name, now, out);
    }

    /// True if nothing may be written about the node at the moment.
    fn is_held(&self, name: &NodeName) -> bool {
        self.hold_on(name).is_some()
    }

    /// Why nothing may be written about the node.
    pub(super) fn hold_on(&self, name: &NodeName) -> Option<&Hold> {
        let zone = &self.nodes.get(name)?.zone;
        self.holds.on_node(zone, name).or_else(|| self.losses.hold_on(zone))
    }

    /// Takes writes back about nodes of which nothing may be written by now: they may wait for their turn.
    pub(super) fn call_off_held(&mut self, out: &mut Vec<Effect>) {
        let held = self.queue.wanted_writes().filter(|node| self.is_held(&node.name));
        let held = held.cloned().collect();
        self.call_off(held, out);
    }

    /// It lives: what would be written of it is not true any more, should it wait for its turn still.
    pub(super) fn call_off_write(&mut self, name: &NodeName, out: &mut Vec<Effect>) {
        let wanted = self.queue.wanted_writes().find(|node| node.name == *name);
        let wanted = wanted.cloned().into_iter().collect();
        self.call_off(wanted, out);
    }

    /// Nobody knows whether these are silent still: what waits for its turn follows from reads of another time.
    pub(super) fn call_off_all(&mut self, out: &mut Vec<Effect>) {
        let wanted = self.queue.wanted_writes().cloned().collect();
        self.call_off(wanted, out);
    }

    fn call_off(&mut self, writes: Vec<NodeRef>, out: &mut Vec<Effect>) {
        for node in writes {
            self.queue.recalled(&node);
            out.push(Effect::CallOff(node));
        }
    }

    /// Starts as many requests as may be under way.
    pub(super) fn start_requests(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some(name) = self.queue.next_write() {
            self.start_write(&name, now, out);
        }
        // A LIST is of the nodes of all shards, about as many each.
        let listed = self.nodes.len().saturating_mul(self.config.shard.count as usize);
        while let Some((by, nodes)) = self.queue.next_read(listed) {
            for name in &nodes {
                if let Some(node) = self.nodes.get_mut(name) {
                    let ended = self.cadence.acts_after(node.grace_ends(&self.config));
                    node.phase = Phase::Reading(Box::new(Suspicion {
                        asked: now,
                        node: node.reference(name),
                        lease: node.lease.version(),
                        trace: node.trace(),
                        counted_from: node.count.wall.wall(),
                        grace_ended: now.wall_of(ended),
                    }));
                }
            }
            out.push(Effect::Confirm {
                asked: now.mono,
                by,
                nodes,
            });
        }
    }

    pub(super) fn take_answers(
        &mut self,
        asked: Mono,
        by: ReadBy,
        answers: Vec<(NodeName, Read)>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let load = answers.first().map_or(Load::None, |(_, read)| match read {
            Read::Failed { load, .. } => *load,
            Read::Found { .. } | Read::Gone => Load::Answered,
        });
        let unread = answers.iter().filter(|(_, read)| matches!(read, Read::Failed { .. }));
        self.queue.was_read(by, load, unread.count());
        for (name, read) in answers {
            let Some(node) = self.nodes.get_mut(&name) else { continue };
            if !matches!(&node.phase, Phase::Reading(read) if read.asked.mono == asked) {
                continue;
            }
            let Phase::Reading(suspicion) = std::mem::take(&mut node.phase) else {
                continue;
            };
            match read {
                Read::Failed { retry_after, detail, .. } => {
                    let refused = refused_read(&suspicion, Refusal::Failed, detail);
                    self.note_refused(&name, refused, now, out);
                    self.postpone(&name, asked, retry_after, now, out);
                }
                // The watch will say so too. Until then nothing can be said about it (NL-056, NL-057).
                Read::Gone => {
                    let refused = refused_read(&suspicion, Refusal::Gone, no_such_node());
                    self.note_refused(&name, refused, now, out);
                    self.postpone(&name, asked, None, now, out);
                }
                // Of what was known when it was asked for nothing can be newer, unless the server itself went back.
                Read::Found { node: found, lease } => {
                    if let Some(lease) = lease {
                        let went_back = lease.resource_version.is_older_than(&suspicion.lease);
                        let is_present = node.lease.is_present();
                        self.take_lease(lease, went_back, now, out);
                        // Whether it is there the watch says alone: it may have been deleted since it was read.
                        if !is_present {
                            self.forget_lease(&name);
                        }
                    }
                    let went_back = found.resource_version.is_older_than(&suspicion.node.resource_version);
                    self.take_node(*found, went_back, now, out);
                    self.judge(&name, *suspicion, now, out);
                }
            }
        }
    }

    /// The read is in: a sign of life in it, or one that came while it was made, means that its grace ends later than the read was
    /// asked for. Else the node is silent; after the process stood still it is read again to say so.
    fn judge(&mut self, name: &NodeName, suspicion: Suspicion, now: Now, out: &mut Vec<Effect>) {
        let asked = suspicion.asked;
        let settling = self.is_settling(now);
        let Some(node) = self.nodes.get_mut(name) else { return };
        if !matches!(node.phase, Phase::Watched) {
            return;
        }
        Self::end_failed_reads(name, node, now, out);
        if node.ready.status != ReadyStatus::Unknown {
            if asked.mono <= node.grace_ends(&self.config) {
                out.push(Effect::Measure(Measurement::Reprieved(reprieve(suspicion, now))));
            } else if !settling {
                node.phase = Phase::Confirmed(Box::new(Confirmation { asked, answered: now }));
                self.queue.write(name);
            }
        }
        self.refresh(name, now, out);
    }

    fn start_write(&mut self, name: &NodeName, now: Now, out: &mut Vec<Effect>) {
        let (held, settling) = (self.is_held(name), self.is_settling(now));
        let Some(node) = self.nodes.get_mut(name) else { return };
        let Phase::Confirmed(read) = &node.phase else {
            return;
        };
        let read = **read;
        node.phase = Phase::Watched;
        if settling {
            self.refresh(name, now, out);
        } else if now.mono.saturating_since(read.answered.mono) > self.config.period {
            // It waited so long that its lease may have been renewed unseen.
            node.phase = Phase::Queued;
            self.queue.read(name);
        } else if held {
            node.not_before = now.mono + self.config.period;
            self.note_held(name, now, out);
            self.refresh(name, now, out);
        } else if let Some(conditions) = unknown::conditions(node, now.wall) {
            let reference = node.reference(name);
            node.phase = Phase::Writing(Box::new(Attempt {
                read,
                since: unknown::whole_seconds(now.wall),
                version: node.version.clone(),
                was: node.ready.status,
            }));
            self.queue.writing(reference.clone());
            out.push(Effect::WriteUnknown(StatusWrite {
                node: reference,
                conditions,
            }));
        } else {
            self.refresh(name, now, out);
        }
    }

    pub(super) fn take_written(&mut self, written: &NodeRef, outcome: WriteOutcome, now: Now, out: &mut Vec<Effect>) {
        let load = match &outcome {
            WriteOutcome::Failed { load, .. } => *load,
            WriteOutcome::CalledOff => Load::None,
            WriteOutcome::Stored(_) | WriteOutcome::Conflict | WriteOutcome::Gone => Load::Answered,
        };
        self.queue.was_written(written, load);
        let Some(node) = self.nodes.get_mut(&written.name) else {
            return;
        };
        let Phase::Writing(attempt) = &node.phase else { return };
        if node.uid != written.uid || attempt.version != written.resource_version {
            return;
        }
        let (was, since, asked) = (attempt.was, attempt.since, attempt.read.asked.mono);
        let refused = refused_write(&outcome, attempt.read.answered.wall);
        match outcome {
            // What came of it since is known.
            WriteOutcome::Stored(version) if version.is_older_than(&node.version) => {
                node.phase = Phase::Watched;
                self.refresh(&written.name, now, out);
            }
            // A list that was made before took it back to an older state: what is stored is that of another one. It is read again.
            WriteOutcome::Stored(_) if node.version != written.resource_version => {
                node.phase = Phase::Watched;
                node.doubtful = Some(was);
                self.refresh(&written.name, now, out);
            }
            WriteOutcome::Stored(version) => {
                unknown::take_written(node, since, version);
                node.changed = true;
                self.seen.node_since_list(&written.name);
                self.unknown_arrived(&written.name, now, out);
                self.refresh(&written.name, now, out);
            }
            WriteOutcome::Conflict => {
                node.failures += 1;
                node.phase = Phase::Watched;
                if node.failures <= CONFLICTS_AT_ONCE {
                    node.phase = Phase::Queued;
                    self.queue.read(&written.name);
                } else {
                    self.postpone(&written.name, asked, None, now, out);
                }
            }
            WriteOutcome::Gone => {
                node.phase = Phase::Watched;
                self.postpone(&written.name, asked, None, now, out);
            }
            // No failure. It is read again before it is written, which nothing may be as long as it is held.
            WriteOutcome::CalledOff => {
                node.phase = Phase::Watched;
                node.not_before = now.mono;
                self.refresh(&written.name, now, out);
            }
            WriteOutcome::Failed { retry_after, .. } => {
                node.phase = Phase::Watched;
                node.doubtful = Some(was);
                self.postpone(&written.name, asked, retry_after, now, out);
            }
        }
        if let Some(refused) = refused {
            self.note_refused(&written.name, refused, now, out);
        }
    }

    /// Ready turned Unknown in the API. If that was this monitor's doing, now or in a write whose end was not known, the verdict
    /// stands and is told (NL-085); a condition that others wrote tells nothing (NL-086).
    pub(super) fn unknown_arrived(&mut self, name: &NodeName, now: Now, out: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        let (was, read) = match std::mem::take(&mut node.phase) {
            Phase::Writing(attempt) => (Some(attempt.was), Some(attempt.read)),
            other => {
                // Reading goes on: its answer finds the node judged.
                node.phase = other;
                (node.doubtful, None)
            }
        };
        node.failures = 0;
        node.unsaid = false;
        node.doubtful = None;
        Self::end_delays(name, node, Outcome::Overtaken, now, out);
        let ended = self.cadence.acts_after(node.grace_ends(&self.config));
        let trace = Self::incident(name, node, Verdict::Unreachable, now, out);
        if was == Some(ReadyStatus::True) {
            out.push(Self::event(name, node, EventKind::NodeNotReady));
        }
        if let Some(read) = read {
            out.push(Effect::Measure(Measurement::Judged(Judgement {
                node: node.reference(name),
                trace,
                counted_from: node.count.wall.wall(),
                grace_ended: now.wall_of(ended),
                asked: read.asked.wall,
                answered: read.answered.wall,
                judged: now.wall,
                past_grace: now.mono.saturating_since(ended),
                turn: now.mono.saturating_since(read.asked.mono),
            })));
        }
    }

    /// A request about a node that was found silent at `asked` failed: no verdict and no vote (NL-057, NL-152); tried again later. Nothing
    /// of that if it spoke since, or is Unknown by now.
    fn postpone(&mut self, name: &NodeName, asked: Mono, retry_after: Option<Duration>, now: Now, out: &mut Vec<Effect>) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        if asked > node.grace_ends(&self.config) && node.ready.status != ReadyStatus::Unknown {
            let backoff = Backoff {
                first: FIRST_PAUSE,
                longest: self.config.period,
            };
            node.failures = node.failures.saturating_add(1);
            node.not_before = now.mono + backoff.heeding(node.failures, retry_after);
            node.unsaid = true;
        }
        self.refresh(name, now, out);
    }
}

fn reprieve(suspicion: Suspicion, now: Now) -> Reprieve {
    Reprieve {
        node: suspicion.node,
        trace: suspicion.trace,
        counted_from: suspicion.counted_from,
        grace_ended: suspicion.grace_ended,
        asked: suspicion.asked.wall,
        answered: now.wall,
    }
}

fn refused_read(suspicion: &Suspicion, refusal: Refusal, detail: Arc<str>) -> Refused {
    Refused {
        request: Request::Read,
        refusal,
        detail,
        asked: suspicion.asked.wall,
    }
}

/// A write that did not do what it was made for; one that was taken back was not made.
fn refused_write(outcome: &WriteOutcome, asked: Wall) -> Option<Refused> {
    let (refusal, detail) = match outcome {
        WriteOutcome::Stored(_) | WriteOutcome::CalledOff => return None,
        WriteOutcome::Conflict => (Refusal::Conflict, Arc::from("the node changed since it was read")),
        WriteOutcome::Gone => (Refusal::Gone, no_such_node()),
        WriteOutcome::Failed { detail, .. } => (Refusal::Failed, detail.clone()),
    };
    Some(Refused {
        request: Request::Write,
        refusal,
        detail,
        asked,
    })
}

fn no_such_node() -> Arc<str> {
    Arc::from("there is no such node")
}
