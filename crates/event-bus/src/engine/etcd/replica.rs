//! One replica of the bus: which of its commands are in the log, what the answers are, and what time it is.
//!
//! Commands are gathered into entries, one entry under way at a time, so that they are applied in the order in which they came. An
//! answer is given when the entry comes back out of the log: by then etcd has committed it, and every replica will apply it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bailiff_model::{Mono, Now, Revision};

use super::log::{self, Entry, What};
use super::machine::{Applied, Machine};
use super::{SnapshotAfter, Standing};
use crate::engine::{Answer, Command, Effect, Engine as _, Refusal, Ticket};

/// How long a command waits for a place in the log. A client waits as long for the answer to a call.
pub(super) const STORE_WITHIN: Duration = Duration::from_secs(5);
/// A replica that appended nothing for so long appends a tick: a sign of life that also tells it how far behind it is.
pub(super) const SIGN_EVERY: Duration = Duration::from_secs(2);
/// Commands of an entry, in bytes: well below the 1.5 MiB that etcd takes.
const ENTRY_BYTES: usize = 1024 * 1024;
/// Commands of an entry. A queue that is longer than this waits for the next.
const ENTRY_COMMANDS: usize = 1_000;

/// A replica.
#[derive(Debug)]
pub(in crate::engine) struct Replica {
    id: String,
    pub(super) machine: Machine,
    reference: Reference,
    queue: VecDeque<Queued>,
    /// The entry that etcd has to take next, until it has.
    flight: Option<Append>,
    /// Pieces that follow the one under way.
    parts: VecDeque<(Vec<u8>, bool)>,
    /// Tickets of commands under way in pieces.
    part_tickets: Vec<Option<Ticket>>,
    /// Own entries that did not come back yet.
    awaited: BTreeMap<u64, Awaited>,
    last_seq: u64,
    last_sent: Mono,
    /// When an entry came out of the log last.
    heard_at: Mono,
    since_snapshot: Logged,
    snapshot_bytes: u64,
}

/// How much of the log is in no snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Logged {
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

/// A moment that is known on both clocks: what lies between it and now counts on.
#[derive(Clone, Copy, Debug)]
struct Reference {
    local: Mono,
    bus: Mono,
}

#[derive(Debug)]
struct Queued {
    /// `None`: nobody waits for the answer.
    ticket: Option<Ticket>,
    command: Message,
    since: Mono,
    /// How much of the log was known then.
    seen: u64,
}

/// What a replica wants to say.
#[derive(Clone, Debug)]
enum Message {
    Command(Command),
    Join {
        alone: bool,
        present: Vec<String>,
    },
    /// The lease of this replica ended.
    Gone(String),
}

/// An own entry under way.
#[derive(Debug)]
struct Awaited {
    tickets: Vec<Option<Ticket>>,
    sent_at: Mono,
    at: Mono,
}

/// An entry for etcd to take.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Append {
    pub(super) seq: u64,
    pub(super) bytes: Vec<u8>,
}

impl Replica {
    /// A replica that has read the log so far.
    pub(super) fn new(id: String, machine: Machine, now: Now) -> Self {
        let reference = Reference {
            local: now.mono,
            bus: machine.clock,
        };
        Self {
            last_seq: machine.last_seq(&id),
            id,
            machine,
            reference,
            queue: VecDeque::new(),
            flight: None,
            parts: VecDeque::new(),
            part_tickets: Vec::new(),
            awaited: BTreeMap::new(),
            last_sent: now.mono,
            heard_at: now.mono,
            since_snapshot: Logged::default(),
            snapshot_bytes: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The bus's time at a moment of this process.
    pub(super) fn time(&self, now: Now) -> Now {
        let counted = self.reference.bus + now.mono.saturating_since(self.reference.local);
        Now {
            mono: counted.max(self.machine.clock),
            wall: now.wall,
        }
    }

    pub(super) fn is_member(&self) -> bool {
        self.machine.is_member(&self.id)
    }

    pub(super) fn standing(&self, now: Mono) -> Standing {
        let oldest = self.awaited.values().next();
        Standing {
            is_member: self.is_member(),
            position: self.machine.position,
            waiting: oldest.map_or(Duration::ZERO, |awaited| now.saturating_since(awaited.sent_at)),
            entries: self.since_snapshot.entries,
            bytes: self.since_snapshot.bytes,
            ..Standing::default()
        }
    }

    /// For so long an own entry has not come back, be it the one by which this replica takes part; or, while it does not and so may have
    /// none, no entry at all has come. Each of those who do writes one every few seconds.
    pub(super) fn is_cut_off(&self, after: Duration, now: Now) -> bool {
        let silent_for = if self.is_member() {
            Duration::ZERO
        } else {
            now.mono.saturating_since(self.heard_at)
        };
        self.standing(now.mono).waiting.max(silent_for) >= after
    }

    /// The log is long enough for a snapshot. The first of the replicas writes it; the next only where the first does not.
    pub(super) fn wants_snapshot(&self, after: SnapshotAfter) -> bool {
        let Some(rank) = self.machine.rank(&self.id) else {
            return false;
        };
        let times = rank + 1;
        let bytes = after.bytes.max(self.snapshot_bytes);
        let Logged { entries, bytes: logged } = self.since_snapshot;
        let is_long = entries >= after.entries * times || logged >= bytes * times;
        is_long && self.machine.is_whole()
    }

    /// Takes part from here on, as soon as etcd has taken it.
    pub(super) fn join(&mut self, alone: bool, present: Vec<String>, now: Now) {
        self.queue.push_front(Queued {
            ticket: None,
            command: Message::Join { alone, present },
            since: now.mono,
            seen: self.machine.position,
        });
    }

    /// The lease of this replica has ended.
    pub(super) fn departed(&mut self, replica: &str, now: Now) {
        if replica != self.id && self.machine.is_member(replica) {
            self.queue.push_back(Queued {
                ticket: None,
                command: Message::Gone(replica.to_owned()),
                since: now.mono,
                seen: self.machine.position,
            });
        }
    }

    /// Takes a command; the answer follows, of this call if nothing has to be asked.
    pub(super) fn submit(&mut self, ticket: Ticket, command: Command, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        if command == Command::Tick {
            self.refuse_late(now.mono, &mut effects);
            if !self.wants_tick(now) {
                let result = Ok(Answer::Done);
                effects.push(Effect::Answer { ticket, result });
                return effects;
            }
        }
        self.queue.push_back(Queued {
            ticket: Some(ticket),
            command: Message::Command(command),
            since: now.mono,
            seen: self.machine.position,
        });
        effects
    }

    /// A tick goes into the log if it changes anything there, or as a sign of life; one at a time.
    fn wants_tick(&self, now: Now) -> bool {
        let is_busy = self.flight.is_some() || !self.queue.is_empty() || !self.awaited.is_empty();
        let is_quiet = now.mono.saturating_since(self.last_sent) >= SIGN_EVERY;
        !is_busy && (is_quiet || self.machine.memory.is_due(self.time(now)))
    }

    /// Refuses what waited too long for a place in the log. What etcd was given may be in it. The end of a session stays: nobody waits
    /// for the answer, and nobody says it again.
    fn refuse_late(&mut self, now: Mono, effects: &mut Vec<Effect>) {
        let is_late = |queued: &Queued| now.saturating_since(queued.since) >= STORE_WITHIN;
        let is_asked = |queued: &Queued| match &queued.command {
            Message::Command(command) => !matches!(command, Command::Close { .. }),
            Message::Join { .. } | Message::Gone(_) => false,
        };
        refuse_queued(&mut self.queue, |queued| is_late(queued) && is_asked(queued), effects);
    }

    /// Refuses what was decided elsewhere while it waited for a place in the log.
    fn refuse_outdated(&mut self, effects: &mut Vec<Effect>) {
        let is_outdated = |queued: &Queued| match &queued.command {
            Message::Command(command) => self.machine.is_outdated(command, &self.id, queued.seen),
            Message::Join { .. } | Message::Gone(_) => false,
        };
        refuse_queued(&mut self.queue, is_outdated, effects);
    }

    /// The next entry for etcd, once it has taken the one before.
    pub(super) fn next_append(&mut self, now: Now) -> Option<Append> {
        if self.flight.is_some() {
            return None;
        }
        let at = self.time(now);
        let (what, tickets) = self.next_what(now.mono)?;
        self.last_seq += 1;
        let entry = Entry {
            replica: self.id.clone(),
            seq: self.last_seq,
            seen: self.machine.position,
            at: at.mono,
            wall: at.wall,
            what,
        };
        let awaited = Awaited {
            tickets,
            sent_at: now.mono,
            at: at.mono,
        };
        self.awaited.insert(self.last_seq, awaited);
        self.last_sent = now.mono;
        let append = Append {
            seq: self.last_seq,
            bytes: entry.to_bytes(),
        };
        self.flight = Some(append.clone());
        Some(append)
    }

    fn next_what(&mut self, now: Mono) -> Option<(What, Vec<Option<Ticket>>)> {
        if !self.parts.is_empty() {
            return self.next_part();
        }
        if !self.is_member() && !matches!(self.queue.front()?.command, Message::Join { .. }) {
            return None;
        }
        let (mut commands, mut tickets, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(queued) = self.queue.pop_front() {
            match queued.command {
                Message::Command(command) if bytes < ENTRY_BYTES / 2 && commands.len() < ENTRY_COMMANDS => {
                    let command = later(command, now.saturating_since(queued.since));
                    bytes += weight(&command);
                    commands.push(command);
                    tickets.push(queued.ticket);
                }
                Message::Join { alone, present } if commands.is_empty() => {
                    return Some((What::Join { alone, present }, Vec::new()));
                }
                Message::Gone(replica) if commands.is_empty() => {
                    let joined_at = self.machine.joined_at(&replica);
                    // Whoever joined again since is not meant.
                    if joined_at.is_some_and(|joined_at| joined_at <= queued.seen) {
                        return Some((What::Gone(replica), Vec::new()));
                    }
                }
                _ => {
                    self.queue.push_front(queued);
                    break;
                }
            }
        }
        if commands.is_empty() {
            return None;
        }
        if bytes >= ENTRY_BYTES / 2 {
            let whole = log::encode(&commands);
            if whole.len() > ENTRY_BYTES {
                return self.next_of_parts(&whole, tickets);
            }
        }
        Some((What::Commands(commands), tickets))
    }

    /// Commands that are too large for one entry: their first piece.
    fn next_of_parts(&mut self, whole: &[u8], tickets: Vec<Option<Ticket>>) -> Option<(What, Vec<Option<Ticket>>)> {
        let count = whole.len().div_ceil(ENTRY_BYTES);
        let parts = whole.chunks(ENTRY_BYTES).enumerate();
        self.parts = parts.map(|(place, part)| (part.to_vec(), place + 1 == count)).collect();
        self.part_tickets = tickets;
        self.next_part()
    }

    fn next_part(&mut self) -> Option<(What, Vec<Option<Ticket>>)> {
        let (data, last) = self.parts.pop_front()?;
        let tickets = if last {
            std::mem::take(&mut self.part_tickets)
        } else {
            Vec::new()
        };
        Some((What::Part { data, last }, tickets))
    }

    /// etcd has taken the entry.
    pub(super) fn committed(&mut self, seq: u64) {
        if self.flight.as_ref().is_some_and(|flight| flight.seq == seq) {
            self.flight = None;
        }
    }

    /// An entry came out of the log.
    pub(super) fn take(&mut self, revision: u64, entry: Entry, now: Now) -> Vec<Effect> {
        let own = (entry.replica == self.id).then_some(entry.seq);
        let is_join = matches!(entry.what, What::Join { .. });
        let at = entry.at;
        self.heard_at = now.mono;
        let was_member = self.is_member();
        let applied = self.machine.apply(revision, entry);
        let awaited = own.and_then(|seq| {
            self.committed(seq);
            self.awaited.remove(&seq)
        });
        self.count_on(awaited.as_ref().filter(|awaited| awaited.at == at), is_join, now.mono);
        let tickets = awaited.map(|awaited| awaited.tickets).unwrap_or_default();
        let mut effects = self.translate(applied, &tickets);
        self.refuse_outdated(&mut effects);
        if was_member && !self.is_member() {
            self.refuse_all(&mut effects);
        }
        effects
    }

    /// Moves the reference to whatever says that it is latest. An own entry was made when it was sent, not when it came back: so a
    /// replica that hears of things late knows it.
    fn count_on(&mut self, own: Option<&Awaited>, is_join: bool, now: Mono) {
        let bus = self.machine.clock;
        let local = match own {
            Some(awaited) if awaited.at == bus => awaited.sent_at,
            _ => now,
        };
        let counted = self.reference.bus + now.saturating_since(self.reference.local);
        if is_join || bus + now.saturating_since(local) >= counted {
            self.reference = Reference { local, bus };
        }
    }

    /// Answers are for whoever waits here; everything else is for everybody.
    fn translate(&self, applied: Applied, tickets: &[Option<Ticket>]) -> Vec<Effect> {
        let mut effects = Vec::new();
        let Applied::Done(done) = applied else {
            refuse(tickets.iter().copied(), &mut effects);
            return effects;
        };
        for effect in done {
            match effect {
                Effect::Answer { ticket, result } => {
                    let place = usize::try_from(ticket).unwrap_or(usize::MAX);
                    if let Some(ticket) = tickets.get(place).copied().flatten() {
                        effects.push(Effect::Answer { ticket, result });
                    }
                }
                effect => effects.push(effect),
            }
        }
        effects
    }

    /// The others count this replica as gone: whatever it has under way is void.
    fn refuse_all(&mut self, effects: &mut Vec<Effect>) {
        let queued = self.queue.drain(..).map(|queued| queued.ticket);
        refuse(queued, effects);
        let awaited = std::mem::take(&mut self.awaited).into_values();
        refuse(awaited.flat_map(|awaited| awaited.tickets), effects);
        refuse(std::mem::take(&mut self.part_tickets).into_iter(), effects);
        self.parts.clear();
    }

    /// The log between here and this state was lost: begins again from it. What was decided in between is not known.
    pub(super) fn reload(&mut self, machine: Machine, now: Now) -> Vec<Effect> {
        let before = self.machine.memory.head();
        let ours = self.machine.sessions_of(&self.id);
        self.machine = machine;
        self.heard_at = now.mono;
        let counted = self.reference.bus + now.mono.saturating_since(self.reference.local);
        self.reference = Reference {
            local: now.mono,
            bus: self.machine.clock.max(counted),
        };
        let mut effects = Vec::new();
        let applied = self.machine.last_seq(&self.id);
        let waiting = self.awaited.split_off(&(applied + 1));
        let passed = std::mem::replace(&mut self.awaited, waiting);
        refuse(passed.into_values().flat_map(|awaited| awaited.tickets), &mut effects);
        if self.flight.as_ref().is_some_and(|flight| flight.seq <= applied) {
            self.flight = None;
        }
        let still: Vec<_> = self.machine.sessions_of(&self.id);
        for session in ours.into_iter().filter(|session| !still.contains(session)) {
            let refusal = Refusal::Ended;
            effects.push(Effect::Ended { session, refusal });
        }
        self.refuse_outdated(&mut effects);
        if !self.is_member() {
            self.refuse_all(&mut effects);
        }
        let head: Revision = self.machine.memory.head();
        if head > before {
            effects.push(Effect::Advanced { head });
        }
        self.since_snapshot = Logged::default();
        effects
    }

    /// So much came out of the log.
    pub(super) const fn counted(&mut self, bytes: usize) {
        self.since_snapshot.count(bytes);
    }

    /// There is a snapshot of so many bytes, of all that the log said so far but for this.
    pub(super) const fn snapshot_taken(&mut self, bytes: u64, since: Logged) {
        (self.snapshot_bytes, self.since_snapshot) = (bytes, since);
    }
}

impl Logged {
    /// An entry of so many bytes more.
    pub(super) const fn count(&mut self, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes as u64;
    }
}

fn refuse(tickets: impl Iterator<Item = Option<Ticket>>, effects: &mut Vec<Effect>) {
    effects.extend(tickets.flatten().map(|ticket| Effect::Answer {
        ticket,
        result: Err(Refusal::Store),
    }));
}

/// Refuses those of the queue that are not to go on.
fn refuse_queued(queue: &mut VecDeque<Queued>, is_refused: impl Fn(&Queued) -> bool, effects: &mut Vec<Effect>) {
    let (refused, kept): (VecDeque<Queued>, _) = std::mem::take(queue).into_iter().partition(is_refused);
    *queue = kept;
    refuse(refused.into_iter().map(|queued| queued.ticket), effects);
}

/// A command that has waited: a report has become older.
fn later(command: Command, waited: Duration) -> Command {
    match command {
        Command::Keepalive { session, report } => Command::Keepalive {
            session,
            report: report.older_by(waited),
        },
        command => command,
    }
}

/// How many bytes a command takes in the log.
fn weight(command: &Command) -> usize {
    log::encode(std::slice::from_ref(command)).len()
}
