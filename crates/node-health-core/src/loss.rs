//! Correlated loss: many leases that stop together are more likely one failure of what lies between than many dead nodes.
//!
//! A node counts as lost from when it is late until it speaks, in its zone and in the cluster. When the share of nodes whose last
//! signs of life lie within one window reaches the limit, the scope is held, until enough of them spoke again, or for a limited time.
//! Each node is looked at when it becomes late and when it speaks: O(log n).

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
}

/// A node that fell silent or speaks again, with the sizes of its scopes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a NodeName,
    pub(crate) zone: &'a Zone,
    /// Its last sign of life.
    pub(crate) at: Mono,
    pub(crate) in_zone: usize,
    pub(crate) in_cluster: usize,
}

impl Subject<'_> {
    fn scopes(&self) -> [(Scope, usize); 2] {
        [(None, self.in_cluster), (Some(self.zone.clone()), self.in_zone)]
    }
}

impl Losses {
    /// A node became late.
    pub(crate) fn enter(&mut self, limit: &LossLimit, subject: Subject<'_>, now: Now) {
        self.since.insert(subject.name.clone(), subject.at);
        for (scope, of) in subject.scopes() {
            let loss = self.scopes.entry(scope.clone()).or_default();
            loss.lost.insert((subject.at, subject.name.clone()));
            if loss.held.is_some() {
                continue;
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
                };
                loss.held = Some(Held { hold, until });
                self.changed.insert(scope.clone());
                let state = LossState::Held {
                    until: now.wall_of(until),
                };
                self.news.push(loss.news(scope, of, state));
            }
        }
    }

    /// A node spoke, or is gone.
    pub(crate) fn leave(&mut self, limit: &LossLimit, subject: Subject<'_>) {
        self.since.remove(subject.name);
        let key = (subject.at, subject.name.clone());
        for (scope, of) in subject.scopes() {
            let Some(loss) = self.scopes.get_mut(&scope) else {
                continue;
            };
            loss.lost.remove(&key);
            if loss.held.is_some() && !loss.is_beyond(limit, of) {
                loss.held = None;
                self.changed.insert(scope.clone());
                self.news.push(loss.news(scope.clone(), of, LossState::Returned));
            }
            if loss.lost.is_empty() {
                self.scopes.remove(&scope);
            }
        }
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
            if let Some(loss) = self.scopes.remove(&scope) {
                self.changed.insert(scope.clone());
                self.news.push(loss.news(scope, loss.lost.len(), LossState::Expired));
            }
        }
    }

    /// Why nothing may be written about nodes of the zone.
    pub(crate) fn hold_on(&self, zone: &Zone) -> Option<&Hold> {
        if self.scopes.is_empty() {
            return None;
        }
        let held = |scope: &Scope| self.scopes.get(scope)?.held.as_ref();
        held(&None).or_else(|| held(&Some(zone.clone()))).map(|held| &held.hold)
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
        let lost = self.lost.len();
        lost >= FEWEST && lost.saturating_mul(1_000_000) >= of.saturating_mul(limit.millionths as usize)
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
