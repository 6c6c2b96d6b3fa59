//! The Leases of the stages.

use jiff::Timestamp;

use super::{Change, Seen, is_skewed, text, time};

/// A Lease was taken, or given up.
#[derive(Clone, Debug)]
pub struct Holding {
    /// Nobody, if it is empty.
    pub holder: String,
    pub since: Timestamp,
}

impl Seen {
    pub(super) fn stage_lease(&mut self, change: &Change<'_>) {
        let name = text(&change.object["metadata"]["name"]);
        let holder = text(&change.object["spec"]["holderIdentity"]);
        let renewed = time(&change.object["spec"]["renewTime"]);
        if renewed.is_some_and(|said| is_skewed(said, change.at)) {
            self.skewed_renewals += 1;
        }
        *self.renewals.entry(name.clone()).or_default() += 1;
        let holdings = self.leases.entry(name).or_default();
        if holdings.last().is_none_or(|last| last.holder != holder) {
            holdings.push(Holding {
                holder,
                since: change.at,
            });
        }
    }
}
