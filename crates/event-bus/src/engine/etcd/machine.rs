//! What the log means: the state after every entry, the same on every replica.
//!
//! Nothing here knows which replica it runs on, and no clock. Time is the bus's own: an entry carries the time that its replica
//! counted, and the log's time is the latest of those. It never runs faster than the clocks that it is made of: where it is unknown
//! how much passed (nobody was there), nothing is counted.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::{Mono, Now, Topic};

use super::log::{self, Entry, What};
use super::store as pb;
use crate::engine::{Answer, Command, Effect, Engine as _, Limits, Memory, Open, Refusal, Report, SessionId};
use crate::wire::{self, envelope};

/// How much replicas may count differently right after a Join: each says every 2 s what time it is, and looks at least every second
/// whether to.
pub(super) const APART: Duration = Duration::from_secs(3);

/// The state of the bus after a number of entries.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Machine {
    pub(super) memory: Memory,
    /// The bus's time.
    pub(super) clock: Mono,
    /// etcd's revision of the last entry applied.
    pub(super) position: u64,
    /// Revision of the last Join. What a replica counted before it does not move the time: the one that joined may be behind.
    last_join: u64,
    members: BTreeMap<String, Member>,
    /// Which replica holds a session's stream.
    owners: BTreeMap<SessionId, String>,
    /// Where in the log it was decided last who holds a shard, and what replica asked for it.
    claims: BTreeMap<(Topic, u32), Claim>,
}

/// Where in the log, and by what replica.
#[derive(Clone, Debug)]
struct Claim {
    at: u64,
    replica: String,
}

/// A replica that takes part.
#[derive(Clone, Debug, Default)]
struct Member {
    last_seq: u64,
    joined_at: u64,
    /// When it counts like the others; `None`: it has said nothing yet since it knows of the last Join.
    settled_at: Option<Mono>,
    /// Pieces of commands whose last piece has not come, and when they were gathered.
    parts: Vec<u8>,
    parts_made: Option<Made>,
}

/// When commands were gathered: what their replica had seen by then, and the time that it counted.
#[derive(Clone, Copy, Debug)]
struct Made {
    seen: u64,
    at: Mono,
}

/// What applying an entry did.
#[derive(Debug, PartialEq)]
pub(in crate::engine) enum Applied {
    /// It is of no member, or was applied before: nothing.
    Ignored,
    /// It holds nothing that this format knows: nothing.
    Malformed,
    /// Done. Answers carry the command's place in the entry as their ticket.
    Done(Vec<Effect>),
}

impl Machine {
    /// Before the first entry.
    #[cfg(test)]
    pub(super) fn new(incarnation: String, limits: Limits) -> Self {
        Self {
            memory: Memory::new(incarnation, limits),
            clock: Mono::ORIGIN,
            position: 0,
            last_join: 0,
            members: BTreeMap::new(),
            owners: BTreeMap::new(),
            claims: BTreeMap::new(),
        }
    }

    pub(super) fn is_member(&self, replica: &str) -> bool {
        self.members.contains_key(replica)
    }

    /// How many members come before this one; `None` if it is none.
    pub(super) fn rank(&self, replica: &str) -> Option<u64> {
        let before = self.members.keys().take_while(|name| name.as_str() < replica).count();
        self.is_member(replica).then_some(before as u64)
    }

    /// Where this replica joined; `None` if it is no member.
    pub(super) fn joined_at(&self, replica: &str) -> Option<u64> {
        self.members.get(replica).map(|member| member.joined_at)
    }

    /// The last entry of this replica that was applied; 0 if it is no member.
    pub(super) fn last_seq(&self, replica: &str) -> u64 {
        self.members.get(replica).map_or(0, |member| member.last_seq)
    }

    /// Open sessions whose streams this replica holds.
    pub(super) fn sessions_of(&self, replica: &str) -> Vec<SessionId> {
        let open = self.memory.open_sessions();
        open.filter(|session| self.owners.get(session).is_some_and(|owner| owner == replica))
            .collect()
    }

    /// Applies the entry that etcd has at this revision.
    pub(super) fn apply(&mut self, revision: u64, entry: Entry) -> Applied {
        if revision <= self.position {
            return Applied::Ignored;
        }
        self.position = revision;
        if let What::Join { alone, present } = &entry.what {
            return self.join(&entry, *alone, present);
        }
        let Some(member) = self.members.get_mut(&entry.replica) else {
            return Applied::Ignored;
        };
        if entry.seq <= member.last_seq {
            return Applied::Ignored;
        }
        member.last_seq = entry.seq;
        if entry.seen >= self.last_join {
            self.clock = self.clock.max(entry.at);
            member.settled_at.get_or_insert(self.clock + APART);
        }
        let now = Now {
            mono: self.clock,
            wall: entry.wall,
        };
        let made = Made {
            seen: entry.seen,
            at: entry.at,
        };
        match entry.what {
            What::Commands(commands) => self.run(&entry.replica, commands, made, now),
            What::Part { data, last } => {
                let Some((parts, made)) = member.take_part(data, last, made) else {
                    return Applied::Done(Vec::new());
                };
                match log::decode(&parts) {
                    Ok(commands) => self.run(&entry.replica, commands, made, now),
                    Err(_) => Applied::Malformed,
                }
            }
            What::Gone(replica) => {
                let before = self.memory.head();
                let mut effects = Vec::new();
                // It may have joined again since its lease ended.
                let is_gone = |name: &str, member: &Member| name == replica && member.joined_at <= made.seen;
                self.drop_members(is_gone, now, &mut effects);
                self.advanced(before, &mut effects);
                Applied::Done(effects)
            }
            What::Join { .. } => Applied::Ignored,
        }
    }

    fn run(&mut self, replica: &str, commands: Vec<Command>, made: Made, now: Now) -> Applied {
        let mut effects = Vec::new();
        for (place, command) in (0..).zip(commands) {
            let claim = claim(&command);
            if self.is_outdated(&command, replica, made.seen) {
                let result = Err(Refusal::Store);
                effects.push(Effect::Answer { ticket: place, result });
                continue;
            }
            let command = self.by_now(command, made);
            let now = self.time_of(&command, replica, now);
            for effect in self.memory.apply(place, command, now) {
                if let (Some(shard), Effect::Answer { result: Ok(_), .. }) = (claim, &effect) {
                    let (at, replica) = (self.position, replica.to_owned());
                    self.claims.insert(shard, Claim { at, replica });
                }
                if let Effect::Answer {
                    result: Ok(Answer::Opened { session, .. }),
                    ..
                } = &effect
                {
                    self.owners.insert(*session, replica.to_owned());
                }
                effects.push(effect);
            }
        }
        let open: Vec<SessionId> = self.memory.open_sessions().collect();
        if self.owners.len() > open.len() {
            self.owners.retain(|session, _| open.binary_search(session).is_ok());
        }
        Applied::Done(effects)
    }

    /// True if it was decided elsewhere who holds the shard after this was asked for, when so much of the log was seen. Whoever asked may
    /// have left meanwhile, and hold it by another replica: nothing must be taken from them by what they do not want any more. If they
    /// are there they ask again. Who has a higher epoch is in the right, however late.
    pub(super) fn is_outdated(&self, command: &Command, replica: &str, seen: u64) -> bool {
        let Some((topic, shard)) = claim(command) else {
            return false;
        };
        let is_above = match command {
            Command::Open(open) => open.epoch > self.memory.epoch(topic, shard),
            _ => false,
        };
        let claim = self.claims.get(&(topic, shard));
        !is_above && claim.is_some_and(|claim| claim.at > seen && claim.replica != replica)
    }

    /// When a command is applied, by the bus's time. A replica that read of the last Join late, or not at all yet, is behind the others
    /// until it has read what they say; they are ahead of the log by what they have not said. So the records that it brings come at
    /// the latest that anybody may count: they may be older than they look, and never younger.
    fn time_of(&self, command: &Command, replica: &str, now: Now) -> Now {
        let is_stamped = matches!(command, Command::Publish { .. } | Command::EndReplace { .. });
        let settled_at = self.members.get(replica).and_then(|member| member.settled_at);
        let is_settled = self.members.len() == 1 || settled_at.is_some_and(|at| at <= self.clock);
        let ahead = if is_stamped && !is_settled { APART } else { Duration::ZERO };
        Now {
            mono: now.mono + ahead,
            ..now
        }
    }

    /// A command as it is when it is applied: a report has become older on its way. How much older is not known if it was made
    /// before its replica knew of the last Join, for the time began anew there; then it says nothing.
    fn by_now(&self, command: Command, made: Made) -> Command {
        let Command::Keepalive { session, report } = command else {
            return command;
        };
        let report = if made.seen >= self.last_join {
            report.older_by(self.clock.saturating_since(made.at))
        } else {
            Report {
                detail: report.detail,
                ..Report::default()
            }
        };
        Command::Keepalive { session, report }
    }

    /// A replica takes part from here on; others whose presence it did not find do not any more.
    fn join(&mut self, entry: &Entry, alone: bool, present: &[String]) -> Applied {
        if entry.seq <= self.last_seq(&entry.replica) {
            return Applied::Ignored;
        }
        let before = self.memory.head();
        let now = Now {
            mono: self.clock,
            wall: entry.wall,
        };
        let mut effects = Vec::new();
        let seen = entry.seen;
        let is_gone = |name: &str, member: &Member| {
            let is_found = !alone && present.iter().any(|present| present == name);
            // Who joined after the one that joins now had looked is there.
            name == entry.replica || (!is_found && member.joined_at <= seen)
        };
        self.drop_members(is_gone, now, &mut effects);
        // The time begins anew here, and etcd may have been away: how long ago anything was reported is unknown.
        self.memory.forget_reports(now);
        let member = Member {
            last_seq: entry.seq,
            joined_at: self.position,
            ..Member::default()
        };
        self.members.insert(entry.replica.clone(), member);
        for member in self.members.values_mut() {
            member.settled_at = None;
        }
        self.last_join = self.position;
        self.advanced(before, &mut effects);
        Applied::Done(effects)
    }

    /// Forgets members, and ends the sessions whose streams they held.
    fn drop_members(&mut self, is_gone: impl Fn(&str, &Member) -> bool, now: Now, effects: &mut Vec<Effect>) {
        let gone = self.members.iter().filter(|(name, member)| is_gone(name, member));
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        for name in gone {
            for session in self.sessions_of(&name) {
                self.memory.abandon(session, now);
                self.owners.remove(&session);
                let refusal = Refusal::Ended;
                effects.push(Effect::Ended { session, refusal });
            }
            self.members.remove(&name);
        }
    }

    fn advanced(&self, before: bailiff_model::Revision, effects: &mut Vec<Effect>) {
        let head = self.memory.head();
        if head > before {
            effects.push(Effect::Advanced { head });
        }
    }

    /// True if it can be saved: no pieces are waiting for their last.
    pub(super) fn is_whole(&self) -> bool {
        self.members.values().all(|member| member.parts.is_empty())
    }

    /// Everything but keys and what is staged.
    pub(super) fn save(&self) -> pb::State {
        let claims = self.claims.iter().map(|((topic, shard), claim)| pb::Claim {
            topic: topic.to_string(),
            shard: *shard,
            at: claim.at,
            replica: claim.replica.clone(),
        });
        let mut state = pb::State {
            position: self.position,
            clock: self.clock.as_nanos(),
            last_join: self.last_join,
            claims: claims.collect(),
            ..self.memory.save()
        };
        let members = self.members.iter().map(|(name, member)| pb::Member {
            replica: name.clone(),
            last_seq: member.last_seq,
            joined_at: member.joined_at,
            settled_at: member.settled_at.map(Mono::as_nanos),
        });
        state.members = members.collect();
        for session in &mut state.sessions {
            let owner = self.owners.get(&SessionId(session.id));
            session.replica = owner.cloned().unwrap_or_default();
        }
        state
    }

    /// What [`Machine::save`] saved; chunks are to follow.
    pub(super) fn restore(incarnation: String, limits: Limits, state: &pb::State) -> Result<Self, wire::Error> {
        let members = state.members.iter().map(|member| {
            let restored = Member {
                last_seq: member.last_seq,
                joined_at: member.joined_at,
                settled_at: member.settled_at.map(Mono::from_nanos),
                ..Member::default()
            };
            (member.replica.clone(), restored)
        });
        let owners = state.sessions.iter();
        let claims = state.claims.iter().map(|claim| {
            let topic = envelope::topic("topic", &claim.topic)?;
            let (at, replica) = (claim.at, claim.replica.clone());
            Ok::<_, wire::Error>(((topic, claim.shard), Claim { at, replica }))
        });
        Ok(Self {
            claims: claims.collect::<Result<_, _>>()?,
            memory: Memory::restore(incarnation, limits, state)?,
            clock: Mono::from_nanos(state.clock),
            position: state.position,
            last_join: state.last_join,
            members: members.collect(),
            owners: owners
                .map(|session| (SessionId(session.id), session.replica.clone()))
                .collect(),
        })
    }
}

// === impl Member ===

impl Member {
    /// Takes a piece of commands; with the last, all of them and when they were gathered.
    fn take_part(&mut self, data: Vec<u8>, last: bool, made: Made) -> Option<(Vec<u8>, Made)> {
        self.parts.extend(data);
        let made = *self.parts_made.get_or_insert(made);
        if !last {
            return None;
        }
        self.parts_made = None;
        Some((std::mem::take(&mut self.parts), made))
    }
}

/// The shard whose holder the command is to change.
const fn claim(command: &Command) -> Option<(Topic, u32)> {
    match command {
        Command::Open(Open { topic, shard, .. }) | Command::ResetEpoch { topic, shard } => Some((*topic, *shard)),
        _ => None,
    }
}
