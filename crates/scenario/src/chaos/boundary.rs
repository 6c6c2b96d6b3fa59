//! The places of a run where a single fault can be put.

use std::collections::BTreeMap;
use std::fmt;

use crate::StageName;

/// One fault at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The stage dies when it is about to send its n-th write.
    BeforeWrite(StageName, u32),
    /// The stage dies when its n-th write was carried out, without hearing of it.
    AfterWrite(StageName, u32),
    /// The stage's n-th write is carried out and never answered.
    LostAnswer(StageName, u32),
    /// Somebody else changed the object right before the stage's n-th write: what it was based on is stale by one.
    StaleWrite(StageName, u32),
    /// The stage's n-th read shows what was there before the last change.
    StaleRead(StageName, u32),
    /// The stage dies right before its n-th record.
    BeforeRecord(StageName, u32),
    /// The stage dies right after its n-th record reached the bus.
    AfterRecord(StageName, u32),
    /// The n-th event of the stage's watches comes late, and so does everything after it.
    LateEvent(StageName, u32),
    /// The n-th event of the stage's watches is never seen: the watch expires, and the stage lists again.
    HiddenEvent(StageName, u32),
}

/// How often each stage did what a fault can be put at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes.
    pub writes: BTreeMap<StageName, u32>,
    /// Reads, without those of Events; watches are none.
    pub reads: BTreeMap<StageName, u32>,
    /// Events of watches, without those of Leases.
    pub events: BTreeMap<StageName, u32>,
    /// Records published.
    pub records: BTreeMap<StageName, u32>,
}

impl Boundary {
    /// Every place that a run with these counts has.
    pub fn all(counts: &Counts) -> Vec<Self> {
        let each = |counts: &BTreeMap<StageName, u32>, kinds: &[fn(StageName, u32) -> Self]| -> Vec<Self> {
            let places = counts.iter().flat_map(|(stage, count)| (1..=*count).map(|nth| (*stage, nth)));
            places
                .flat_map(|(stage, nth)| kinds.iter().map(move |kind| kind(stage, nth)))
                .collect()
        };
        let mut all = each(
            &counts.writes,
            &[Self::BeforeWrite, Self::AfterWrite, Self::LostAnswer, Self::StaleWrite],
        );
        all.extend(each(&counts.reads, &[Self::StaleRead]));
        all.extend(each(&counts.records, &[Self::BeforeRecord, Self::AfterRecord]));
        all.extend(each(&counts.events, &[Self::LateEvent, Self::HiddenEvent]));
        all
    }
}

impl Boundary {
    /// Whose place it is.
    pub const fn stage(self) -> StageName {
        self.parts().1
    }

    const fn parts(self) -> (&'static str, StageName, u32) {
        match self {
            Self::BeforeWrite(stage, nth) => ("dies before its write", stage, nth),
            Self::AfterWrite(stage, nth) => ("dies after its write", stage, nth),
            Self::LostAnswer(stage, nth) => ("gets no answer to its write", stage, nth),
            Self::StaleWrite(stage, nth) => ("is overtaken at its write", stage, nth),
            Self::StaleRead(stage, nth) => ("reads what was before at its read", stage, nth),
            Self::BeforeRecord(stage, nth) => ("dies before its record", stage, nth),
            Self::AfterRecord(stage, nth) => ("dies after its record", stage, nth),
            Self::LateEvent(stage, nth) => ("sees late its event", stage, nth),
            Self::HiddenEvent(stage, nth) => ("never sees its event", stage, nth),
        }
    }
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, stage, nth) = self.parts();
        write!(f, "{} {what} {nth}", stage.as_str())
    }
}
