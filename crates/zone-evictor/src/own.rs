//! Which records are this instance's own: where the bus issues epochs, or does not know how to leave anybody out, the stage hears of its
//! topic what it says itself.

/// What the bus says of whoever publishes in our session.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    producer: String,
    /// 0: the bus gives it.
    epoch: u64,
}

// === impl Own ===

impl Own {
    /// Of the session of `producer` that is opened with `epoch`.
    pub(crate) const fn new(producer: String, epoch: u64) -> Self {
        Self { producer, epoch }
    }

    /// True if a record of `producer` in `epoch` is ours. A process that gave its Lease away and has it again is another instance, by
    /// the same name in a later epoch; without Leases there is one instance in the life of a process.
    pub(crate) fn said(&self, producer: &str, epoch: u64) -> bool {
        self.producer == producer && (self.epoch == 0 || self.epoch == epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_told_by_its_name_and_its_epoch() {
        // Opened with, found, ours.
        let cases = [
            (7, ("zone-evictor/a", 7), true),
            (7, ("zone-evictor/a", 6), false),
            (7, ("zone-evictor/b", 7), false),
            (0, ("zone-evictor/a", 3), true),
            (0, ("zone-evictor/b", 3), false),
        ];
        for (epoch, (producer, found), wanted) in cases {
            let own = Own::new("zone-evictor/a".to_owned(), epoch);
            assert_eq!(own.said(producer, found), wanted, "{epoch}: {producer} in {found}");
        }
    }
}
