//! Correlated loss: many leases that stop together are more likely one failure of what lies between than many dead nodes.
//!
//! A node counts as lost from when it is late until it speaks, in its zone and in the cluster. When the share of nodes whose last
//! signs of life lie within one window reaches the limit, the scope is held, until enough of them spoke again, or for a limited time.
//! Each node is looked at when it becomes late and when it speaks: O(log n).
//!
//! **At the start nobody was heard yet**, and nobody is late, however long the silence has lasted: a monitor that starts anew in the
//! middle of a loss would free what the one before it held, until the nodes are late again. So a scope is *waited for* while the nodes
//! that are lost and those that were not heard since the start are together beyond the limit; for a grace at most, by when who is
//! silent is late, and counts. That holds what follows from verdicts that stand, in the records of unhealthy nodes, and nothing else: it
//! is no alarm, because at a start it is the rule, and it delays no verdict. In a healthy cluster it ends when most kubelets have
//! renewed their leases once, within seconds. It does not ask what was inherited: a record that says healthy may be older than the
//! silence, and one that is held has its late nodes counted anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_model::{Hold, HoldReason, Mono, NodeName, Now, Wall, Zone};

/// Fewer lost nodes than this are no correlation, whatever their share.
const FEWEST: usize = 2;

/// `--hold-on-correlated-loss`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossLimit {
    /// Share of the nodes of a scope, in millionths; more than 0 and at most 1,000,000.
    pub millionths: u32,
    /// Their last signs of life lie within this.
    pub window: Duration,
    /// The hold ends by itself after this.
    pub hold: Duration,
}

impl LossLimit {
    fn is_reached(&self, nodes: usize, of: usize) -> bool {
        nodes >= FEWEST && nodes.saturating_mul(1_000_000) >= of.saturating_mul(self.millionths as usize)
    }
}

/// The whole cluster (`None`), or a zone.
pub type Scope = Option<Zone>;

/// A hold that began or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossNews {
    /// Where.
    pub scope: Scope,
    /// Nodes lost there.
    pub lost: usize,
    /// Of so many.
    pub of: usize,
    /// How it stands now.
    pub state: LossState,
}

/// How a correlated loss stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossState {
    /// It is held, at most until then.
    Held {
        /// When the hold ends by itself.
        until: Wall,
    },
    /// Enough leases returned.
    Returned,
    /// The hold ran out: what is still silent is judged as ever.
    Expired,
}

/// The nodes lost in one scope.
#[derive(Debug, Default)]
struct Loss {
    lost: BTreeSet<(Mono, NodeName)>,
    held: Option<Held>,
    /// How many were not heard since the start.
    unheard: usize,
    /// It is waited for.
    waits: Option<Hold>,
}

#[derive(Debug)]
struct Held {
    hold: Hold,
    until: Mono,
}

/// Losses of all scopes.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    scopes: BTreeMap<Scope, Loss>,
    /// Who counts as lost, since which last sign of life; also after it was forgotten or its hold ran out.
    pub(crate) since: BTreeMap<NodeName, Mono>,
    /// Scopes that are held since, or no longer: records of silent nodes there are not what would be said now.
    pub(crate) changed: BTreeSet<Scope>,
    pub(crate) news: Vec<LossNews>,
    /// Nodes that were not heard since the start, with the zone they were in then.
    unheard: BTreeMap<NodeName, Zone>,
    /// Until when they are waited for.
    waits_until: Mono,
}

/// Sizes of a zone and of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) in_zone: usize,
    pub(crate) in_cluster: usize,
    /// Nodes are being listed: some of those that are counted may be gone.
    pub(crate) may_be_less: bool,
}

/// A node that fell silent or speaks again, with the sizes of its scopes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a NodeName,
    pub(crate) zone: &'a Zone,
    /// Its last sign of life.
    pub(crate) at: Mono,
    pub(crate) sizes: Sizes,
}

impl Subject<'_> {
    fn scopes(&self) -> [(Scope, usize); 2] {
        self.sizes.of(self.zone)
    }
}

impl Sizes {
    fn of(self, zone: &Zone) -> [(Scope, usize); 2] {
        [(None, self.in_cluster), (Some(zone.clone()), self.in_zone)]
    }
}

impl Losses {
    /// A node became late.
    pub(crate) fn enter(&mut self, limit: &LossLimit, subject: Subject<'_>, now: Now) {
        self.since.insert(subject.name.clone(), subject.at);
        for (scope, of) in subject.scopes() {
            self.enter_scope(limit, scope, of, subject, now);
        }
    }

    fn enter_scope(&mut self, limit: &LossLimit, scope: Scope, of: usize, subject: Subject<'_>, now: Now) {
        let loss = self.scopes.entry(scope.clone()).or_default();
        loss.lost.insert((subject.at, subject.name.clone()));
        if loss.held.is_some() {
            return;
        }
        loss.forget_before(limit.window);
        if loss.is_beyond(limit, of) {
            let until = now.mono + limit.hold;
            let detail = format!(
                "{} of {of} leases of {} stopped within {:?}",
                loss.lost.len(),
                name(&scope),
                limit.window
            );
            let hold = Hold {
                reason: HoldReason::CorrelatedLoss,
                detail,
                since: now.wall,
                until: Some(now.wall_of(until)),
            };
            loss.held = Some(Held { hold, until });
            self.changed.insert(scope.clone());
            let state = LossState::Held {
                until: now.wall_of(until),
            };
            self.news.push(loss.news(scope, of, state));
        }
    }

    /// A node spoke, or is gone.
    pub(crate) fn leave(&mut self, limit: &LossLimit, subject: Subject<'_>) {
        self.since.remove(subject.name);
        for (scope, of) in subject.scopes() {
            self.leave_scope(limit, scope, of, subject);
        }
    }

    fn leave_scope(&mut self, limit: &LossLimit, scope: Scope, of: usize, subject: Subject<'_>) {
        let Some(loss) = self.scopes.get_mut(&scope) else { return };
        loss.lost.remove(&(subject.at, subject.name.clone()));
        // Where there may be fewer nodes than are counted, it waits for the next to speak.
        let is_sure = !subject.sizes.may_be_less || loss.lost.is_empty();
        if loss.held.is_some() && is_sure && !loss.is_beyond(limit, of) {
            loss.held = None;
            self.changed.insert(scope.clone());
            self.news.push(loss.news(scope.clone(), of, LossState::Returned));
        }
        self.forget_if_empty(&scope);
    }

    /// A node is in another zone than before, which has so many nodes without it. To the cluster it is as lost as it was.
    pub(crate) fn change_zone(&mut self, limit: &LossLimit, (from, of): (&Zone, usize), subject: Subject<'_>, now: Now) {
        self.leave_scope(limit, Some(from.clone()), of, subject);
        let to = Some(subject.zone.clone());
        self.enter_scope(limit, to, subject.sizes.in_zone, subject, now);
    }

    fn forget_if_empty(&mut self, scope: &Scope) {
        if self
            .scopes
            .get(scope)
            .is_some_and(|loss| loss.lost.is_empty() && loss.unheard == 0)
        {
            self.scopes.remove(scope);
        }
    }

    /// At the start: nobody heard this node yet.
    pub(crate) fn expect(&mut self, name: &NodeName, zone: &Zone) {
        self.unheard.insert(name.clone(), zone.clone());
        for scope in [None, Some(zone.clone())] {
            self.scopes.entry(scope).or_default().unheard += 1;
        }
    }

    /// Waits for those that are expected, where they are so many; `of` tells how many nodes a scope has.
    pub(crate) fn wait(&mut self, limit: &LossLimit, until: Mono, of: impl Fn(&Scope) -> usize, now: Now) {
        self.waits_until = until;
        for (scope, loss) in &mut self.scopes {
            let of = of(scope);
            if loss.unheard > 0 && loss.is_waited_for(limit, of) {
                let detail = format!(
                    "{} of {of} nodes of {} were not heard since the start",
                    loss.unheard,
                    name(scope)
                );
                loss.waits = Some(Hold {
                    reason: HoldReason::CorrelatedLoss,
                    detail,
                    since: now.wall,
                    until: Some(now.wall_of(until)),
                });
                self.changed.insert(scope.clone());
            }
        }
    }

    /// The zone in which the node is expected to speak, if it is.
    pub(crate) fn expected_in(&self, name: &NodeName) -> Option<&Zone> {
        self.unheard.get(name)
    }

    /// The node spoke, or counts as lost, or is gone.
    pub(crate) fn end_wait(&mut self, limit: &LossLimit, name: &NodeName, sizes: Sizes) {
        let Some(zone) = self.unheard.remove(name) else { return };
        for (scope, of) in sizes.of(&zone) {
            let Some(loss) = self.scopes.get_mut(&scope) else {
                continue;
            };
            loss.unheard -= 1;
            let is_enough = !sizes.may_be_less && !loss.is_waited_for(limit, of);
            if loss.waits.is_some() && (loss.unheard == 0 || is_enough) {
                loss.waits = None;
                self.changed.insert(scope.clone());
            }
            self.forget_if_empty(&scope);
        }
    }

    /// Who was not heard for a grace is late by now, unless graces began anew meanwhile (NL-099): nobody is waited for any longer.
    pub(crate) fn end_waits(&mut self, now: Mono) {
        if self.unheard.is_empty() || now < self.waits_until {
            return;
        }
        self.unheard.clear();
        for (scope, loss) in &mut self.scopes {
            loss.unheard = 0;
            if loss.waits.take().is_some() {
                self.changed.insert(scope.clone());
            }
        }
        self.scopes.retain(|_, loss| !loss.lost.is_empty());
    }

    /// Ends what was held for long enough. Who is lost then does not count again before it spoke.
    pub(crate) fn expire(&mut self, now: Mono) {
        let over = |loss: &Loss| loss.held.as_ref().is_some_and(|held| held.until <= now);
        let scopes: Vec<Scope> = self
            .scopes
            .iter()
            .filter(|(_, loss)| over(loss))
            .map(|(scope, _)| scope.clone())
            .collect();
        for scope in scopes {
            if let Some(loss) = self.scopes.get_mut(&scope) {
                let news = loss.news(scope.clone(), loss.lost.len(), LossState::Expired);
                loss.lost.clear();
                loss.held = None;
                self.changed.insert(scope.clone());
                self.news.push(news);
            }
            self.forget_if_empty(&scope);
        }
    }

    /// Why nothing may be written about nodes of the zone.
    pub(crate) fn hold_on(&self, zone: &Zone) -> Option<&Hold> {
        self.find(zone, |loss| loss.held.as_ref().map(|held| &held.hold))
    }

    /// Why nothing may follow from what is written about nodes of the zone.
    pub(crate) fn hold_after(&self, zone: &Zone) -> Option<&Hold> {
        self.hold_on(zone).or_else(|| self.find(zone, |loss| loss.waits.as_ref()))
    }

    fn find<'a>(&'a self, zone: &Zone, hold: impl Fn(&'a Loss) -> Option<&'a Hold>) -> Option<&'a Hold> {
        if self.scopes.is_empty() {
            return None;
        }
        let of = |scope: &Scope| self.scopes.get(scope).and_then(&hold);
        of(&None).or_else(|| of(&Some(zone.clone())))
    }

    /// Scopes that are held.
    pub(crate) fn held(&self) -> usize {
        self.scopes.values().filter(|loss| loss.held.is_some()).count()
    }
}

impl Loss {
    /// Forgets who fell silent more than a window before the last one.
    fn forget_before(&mut self, window: Duration) {
        let Some((newest, _)) = self.lost.last() else { return };
        let oldest = newest.saturating_sub(window);
        while self.lost.first().is_some_and(|(at, _)| *at < oldest) {
            self.lost.pop_first();
        }
    }

    fn is_beyond(&self, limit: &LossLimit, of: usize) -> bool {
        limit.is_reached(self.lost.len(), of)
    }

    /// Who was not heard yet may have fallen silent with those that are lost.
    fn is_waited_for(&self, limit: &LossLimit, of: usize) -> bool {
        limit.is_reached(self.lost.len() + self.unheard, of)
    }

    fn news(&self, scope: Scope, of: usize, state: LossState) -> LossNews {
        LossNews {
            scope,
            lost: self.lost.len(),
            of,
            state,
        }
    }
}

fn name(scope: &Scope) -> String {
    match scope {
        None => "the cluster".to_owned(),
        Some(zone) => format!("zone {zone}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: LossLimit = LossLimit {
        millionths: 500_000,
        window: Duration::from_secs(30),
        hold: Duration::from_secs(600),
    };

    fn at(seconds: u64) -> Now {
        Now {
            mono: Mono::from_origin(Duration::from_secs(seconds)),
            wall: Wall::UNIX_EPOCH,
        }
    }

    /// Two nodes of four are lost at 100 s.
    fn mk_lost(losses: &mut Losses, zone: &Zone) {
        for node in ["n1", "n2"] {
            let (name, at_start) = (NodeName::from(node), at(100));
            losses.enter(&LIMIT, mk_subject(&name, zone), at_start);
        }
    }

    fn mk_subject<'a>(name: &'a NodeName, zone: &'a Zone) -> Subject<'a> {
        let sizes = Sizes {
            in_zone: 4,
            in_cluster: 4,
            may_be_less: false,
        };
        Subject {
            name,
            zone,
            at: at(60).mono,
            sizes,
        }
    }

    /// Correlated loss: nobody is waited for where everybody who is missing counts as lost: a hold that runs out is over.
    #[test]
    fn nobody_is_waited_for_where_nobody_is_expected() {
        let (mut losses, zone) = (Losses::default(), Zone::new("", "a"));
        mk_lost(&mut losses, &zone);
        losses.wait(&LIMIT, at(150).mono, |_| 4, at(100));
        assert!(losses.hold_after(&zone).is_some());
        losses.expire(at(700).mono);
        assert_eq!(losses.hold_after(&zone), None);
    }

    /// Correlated loss: few who were not heard yet hold nothing.
    #[test]
    fn few_are_not_waited_for() {
        let (mut losses, zone) = (Losses::default(), Zone::new("", "a"));
        losses.expect(&NodeName::from("n1"), &zone);
        losses.wait(&LIMIT, at(150).mono, |_| 4, at(100));
        assert_eq!(losses.hold_after(&zone), None);
    }

    /// Correlated loss: the end of the wait for those that were not heard yet ends nothing of what is lost.
    #[test]
    fn the_end_of_the_wait_leaves_the_lost_held() {
        let (mut losses, zone) = (Losses::default(), Zone::new("", "a"));
        losses.expect(&NodeName::from("n3"), &zone);
        mk_lost(&mut losses, &zone);
        losses.wait(&LIMIT, at(150).mono, |_| 4, at(100));
        losses.end_waits(at(150).mono);
        assert!(losses.hold_on(&zone).is_some());
        assert_eq!(losses.held(), 2, "the zone and the cluster");
    }

    /// Correlated loss: while nodes are listed a hold outlives that few are lost of those that are counted, but not that none is.
    #[test]
    fn a_hold_does_not_end_by_who_may_be_gone() {
        let (mut losses, zone) = (Losses::default(), Zone::new("", "a"));
        mk_lost(&mut losses, &zone);
        let [first, second] = ["n1", "n2"].map(NodeName::from);
        let leave = |losses: &mut Losses, name, may_be_less| {
            let mut subject = mk_subject(name, &zone);
            subject.sizes.may_be_less = may_be_less;
            losses.leave(&LIMIT, subject);
        };
        leave(&mut losses, &first, true);
        assert_eq!(losses.held(), 2, "one of four, or of fewer");
        leave(&mut losses, &second, true);
        assert_eq!((losses.held(), losses.news.len()), (0, 4));
        mk_lost(&mut losses, &zone);
        leave(&mut losses, &first, false);
        assert_eq!(losses.held(), 0, "one of four");
    }

    /// Correlated loss: the same of the wait for those that were not heard yet.
    #[test]
    fn a_wait_does_not_end_by_who_may_be_gone() {
        let (mut losses, zone) = (Losses::default(), Zone::new("", "a"));
        let names = ["n1", "n2"].map(NodeName::from);
        names.iter().for_each(|name| losses.expect(name, &zone));
        losses.wait(&LIMIT, at(150).mono, |_| 4, at(100));
        let sizes = Sizes {
            may_be_less: true,
            ..mk_subject(&names[0], &zone).sizes
        };
        losses.end_wait(&LIMIT, &names[0], sizes);
        assert!(losses.hold_after(&zone).is_some());
        losses.end_wait(&LIMIT, &names[1], sizes);
        assert_eq!(losses.hold_after(&zone), None);
    }

    /// Style §21: what is over leaves nothing behind, whether who was lost or was expected spoke.
    #[test]
    fn nothing_is_kept_of_a_loss_that_is_over() {
        let (mut losses, zone) = (Losses::default(), Zone::new("", "a"));
        let third = NodeName::from("n3");
        losses.expect(&third, &zone);
        mk_lost(&mut losses, &zone);
        for node in ["n1", "n2"] {
            let name = NodeName::from(node);
            losses.leave(&LIMIT, mk_subject(&name, &zone));
        }
        assert_eq!(losses.scopes.len(), 2, "one is still expected");
        losses.end_wait(&LIMIT, &third, mk_subject(&third, &zone).sizes);
        assert!(losses.scopes.is_empty() && losses.since.is_empty() && losses.unheard.is_empty());
    }
}
