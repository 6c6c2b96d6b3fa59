//! The Leases of the stages.

use jiff::{SignedDuration, Timestamp};

use super::{Change, Seen, is_skewed, revision, text, time};

/// A Lease was taken, or given up.
#[derive(Clone, Debug)]
pub struct Holding {
    /// Nobody, if it is empty.
    pub holder: String,
    pub since: Timestamp,
}

/// A Lease was renewed.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// When, as who holds it says it.
    said: Option<Timestamp>,
    /// When it was seen.
    seen: Timestamp,
    revision: u64,
}

impl Seen {
    /// The longest time without a renewal of a Lease from the last one before `since`, as far as can be seen: not less than it was.
    pub fn unrenewed(&self, lease: &str, since: Timestamp, now: Timestamp) -> SignedDuration {
        let all = &self.renewals[lease];
        let first = all.iter().rposition(|renewal| renewal.seen <= since).unwrap_or(0);
        let nexts = all.iter().skip(first + 1).map(|renewal| renewal.seen).chain([now]);
        let distances = all
            .iter()
            .skip(first)
            .zip(nexts)
            .map(|(renewal, next)| next.duration_since(self.not_before(renewal.revision)));
        distances.max().expect("somebody held it")
    }

    pub(super) fn stage_lease(&mut self, change: &Change<'_>) {
        let name = text(&change.object["metadata"]["name"]);
        let holder = text(&change.object["spec"]["holderIdentity"]);
        let said = time(&change.object["spec"]["renewTime"]);
        if said.is_some_and(|said| is_skewed(said, change.at)) {
            self.skewed_renewals += 1;
        }
        let renewals = self.renewals.entry(name.clone()).or_default();
        // Whoever wants to have it writes it too.
        if renewals.last().is_none_or(|last| last.said != said) {
            renewals.push(Renewal {
                said,
                seen: change.at,
                revision: revision(change.object),
            });
        }
        let holdings = self.leases.entry(name).or_default();
        if holdings.last().is_none_or(|last| last.holder != holder) {
            holdings.push(Holding {
                holder,
                since: change.at,
            });
        }
    }
}
