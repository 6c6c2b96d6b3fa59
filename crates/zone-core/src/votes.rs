//! Who votes how, per zone, kept incrementally; and what state that makes of a zone (NL-090 to NL-092).

use std::collections::BTreeMap;

use bailiff_model::{ReadyStatus, Verdict, Zone, ZoneState};

use crate::config::Rates;

/// A node's vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// Ready.
    Ready,
    /// Ready so far, but late or not heard of; counts as not ready for the brake.
    Late,
    /// Not ready.
    NotReady,
}

impl Vote {
    /// The vote that a verdict stands for. No status is not ready (NL-090); one that said no before it fell silent still says no. One
    /// that its monitor never `heard` a sign of life of may be silent for long: where monitor and bus were lost together, nobody knows.
    pub const fn of(verdict: Verdict, ready: ReadyStatus, heard: bool) -> Self {
        match (verdict, ready) {
            (Verdict::Healthy, _) if heard => Self::Ready,
            (Verdict::Healthy, _) => Self::Late,
            (Verdict::Late, ReadyStatus::True) => Self::Late,
            (Verdict::Late | Verdict::NotReady | Verdict::Unreachable | Verdict::NoStatus, _) => Self::NotReady,
        }
    }
}

/// The votes of one zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Nodes that vote.
    pub voting: u32,
    /// Of these, not ready.
    pub not_ready: u32,
    /// Of these, late.
    pub late: u32,
}

/// From which side a tally is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// As things are: what is published.
    Actual,
    /// Late nodes count as not ready: what grants are judged by.
    Brake,
}

impl Tally {
    fn not_ready_in(self, view: View) -> u32 {
        match view {
            View::Actual => self.not_ready,
            View::Brake => self.not_ready + self.late,
        }
    }

    /// State of the zone (NL-092); Initial without votes (NL-095).
    pub fn state(self, view: View, rates: &Rates) -> ZoneState {
        let not_ready = self.not_ready_in(view);
        if self.voting == 0 {
            ZoneState::Initial
        } else if not_ready == self.voting {
            ZoneState::FullDisruption
        } else if not_ready > 2 && not_ready as f32 / self.voting as f32 >= rates.unhealthy {
            ZoneState::PartialDisruption
        } else {
            ZoneState::Normal
        }
    }

    /// Rate of a zone in `state`, as long as not all zones are down (NL-093).
    pub fn rate(self, state: ZoneState, rates: &Rates) -> f64 {
        match state {
            ZoneState::Initial | ZoneState::Normal | ZoneState::FullDisruption => rates.primary,
            ZoneState::PartialDisruption if self.voting > rates.large_zone => rates.secondary,
            ZoneState::PartialDisruption => 0.0,
        }
    }
}

/// The votes of all zones.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    zones: BTreeMap<Zone, Tally>,
    full: usize,
    full_for_brake: usize,
}

impl Votes {
    /// The votes of `zone`.
    pub fn tally(&self, zone: &Zone) -> Tally {
        self.zones.get(zone).copied().unwrap_or_default()
    }

    /// True if every voting zone, and at least one, has no ready node (NL-096).
    pub fn all_down(&self, view: View) -> bool {
        let full = match view {
            View::Actual => self.full,
            View::Brake => self.full_for_brake,
        };
        !self.zones.is_empty() && full == self.zones.len()
    }

    /// Adds a vote.
    pub fn add(&mut self, zone: &Zone, vote: Vote) {
        self.change(zone, |tally| {
            tally.voting += 1;
            match vote {
                Vote::Ready => {}
                Vote::Late => tally.late += 1,
                Vote::NotReady => tally.not_ready += 1,
            }
        });
    }

    /// Takes back a vote that was added.
    pub fn remove(&mut self, zone: &Zone, vote: Vote) {
        self.change(zone, |tally| {
            tally.voting = tally.voting.saturating_sub(1);
            match vote {
                Vote::Ready => {}
                Vote::Late => tally.late = tally.late.saturating_sub(1),
                Vote::NotReady => tally.not_ready = tally.not_ready.saturating_sub(1),
            }
        });
    }

    fn change(&mut self, zone: &Zone, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally(zone);
        self.count(tally, false);
        change(&mut tally);
        self.count(tally, true);
        if tally.voting == 0 {
            self.zones.remove(zone);
        } else {
            self.zones.insert(zone.clone(), tally);
        }
    }

    fn count(&mut self, tally: Tally, there: bool) {
        for (view, count) in [(View::Actual, &mut self.full), (View::Brake, &mut self.full_for_brake)] {
            if tally.voting > 0 && tally.not_ready_in(view) == tally.voting {
                *count = if there { *count + 1 } else { count.saturating_sub(1) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NL-092
    #[test]
    fn the_state_follows_the_votes() {
        use ZoneState::{FullDisruption, Initial, Normal, PartialDisruption};
        let rates = Rates::default();
        let cases = [
            ((0, 0), Initial),
            ((1, 1), FullDisruption),
            ((3, 2), Normal),
            ((5, 2), Normal),
            ((5, 3), PartialDisruption),
            ((6, 3), Normal),
            ((20, 11), PartialDisruption),
            ((20, 10), Normal),
            ((4, 3), PartialDisruption),
            ((4, 4), FullDisruption),
        ];
        for ((voting, not_ready), wanted) in cases {
            let tally = Tally {
                voting,
                not_ready,
                late: 0,
            };
            assert_eq!(tally.state(View::Actual, &rates), wanted, "{not_ready} of {voting}");
            let late = Tally {
                voting,
                not_ready: 0,
                late: not_ready,
            };
            assert_eq!(late.state(View::Brake, &rates), wanted, "{not_ready} of {voting} late");
            assert_ne!(late.state(View::Actual, &rates), PartialDisruption);
        }
    }

    /// NL-093
    #[test]
    fn the_rate_follows_state_and_size() {
        let rates = Rates::default();
        let rate = |voting, state| {
            Tally {
                voting,
                ..Tally::default()
            }
            .rate(state, &rates)
        };
        assert!(rate(50, ZoneState::PartialDisruption) == 0.0);
        assert!(rate(51, ZoneState::PartialDisruption) == 0.01);
        assert!(rate(5, ZoneState::Normal) == 0.1);
        assert!(rate(5, ZoneState::FullDisruption) == 0.1);
        assert!(rate(0, ZoneState::Initial) == 0.1);
    }

    /// NL-096, NL-101
    #[test]
    fn all_down_needs_every_voting_zone_and_at_least_one() {
        let (a, b) = (Zone::new("", "a"), Zone::new("", "b"));
        let mut votes = Votes::default();
        assert!(!votes.all_down(View::Actual), "no votes, no disruption");
        votes.add(&a, Vote::NotReady);
        assert!(votes.all_down(View::Actual));
        votes.add(&b, Vote::Late);
        assert!(!votes.all_down(View::Actual));
        assert!(votes.all_down(View::Brake));
        votes.add(&b, Vote::Ready);
        assert!(!votes.all_down(View::Brake), "one ready node anywhere ends it");
        votes.remove(&b, Vote::Ready);
        votes.remove(&b, Vote::Late);
        assert!(votes.all_down(View::Actual), "a zone without votes does not count");
        votes.remove(&a, Vote::NotReady);
        assert!(!votes.all_down(View::Brake));
    }
}
