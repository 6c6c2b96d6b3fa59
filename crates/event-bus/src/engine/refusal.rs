//! Why an engine refuses, as a closed set.

use bailiff_model::{Revision, Topic};

/// A command that was refused, or the end of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The shard layout asked for makes no sense.
    #[error("shard: {shard} of {shard_count} is not allowed, wanted a shard below the shard count and at most {most} shards")]
    Shard {
        /// Shard asked for.
        shard: u32,
        /// Shard count asked for.
        shard_count: u32,
        /// Most shards.
        most: u32,
    },
    /// A batch is empty or too large.
    #[error("batch.records: {found} records are not allowed, wanted 1 to {most}")]
    Batch {
        /// Records found.
        found: usize,
        /// Most records.
        most: usize,
    },
    /// A replace part was ended that was never begun.
    #[error("end_replace: not allowed, wanted a session opened with replace and not ended before")]
    NotReplacing,
    /// A cursor that the bus never issued.
    #[error("cursor: {found:?} is not allowed, wanted one as received, or empty")]
    Cursor {
        /// Text found.
        found: String,
    },
    /// A higher epoch holds the shard.
    #[error("epoch {found} of {topic} shard {shard} is below {current}: another producer holds the shard")]
    Epoch {
        /// Topic.
        topic: Topic,
        /// Shard.
        shard: u32,
        /// Epoch asked for.
        found: u64,
        /// Epoch of the shard.
        current: u64,
    },
    /// Sessions with another shard count are open.
    #[error("{topic} has {current} shards while sessions are open, {found} were asked for")]
    Layout {
        /// Topic.
        topic: Topic,
        /// Shard count asked for.
        found: u32,
        /// Shard count now.
        current: u32,
    },
    /// A newer session took the shard over.
    #[error("producer {by:?} took over {topic} shard {shard} with epoch {epoch}")]
    Fenced {
        /// Topic.
        topic: Topic,
        /// Shard.
        shard: u32,
        /// Producer of the newer session.
        by: String,
        /// Its epoch.
        epoch: u64,
    },
    /// The shard's epoch was reset by a person.
    #[error("the epoch of {topic} shard {shard} was reset")]
    Reset {
        /// Topic.
        topic: Topic,
        /// Shard.
        shard: u32,
    },
    /// The session is not open any more.
    #[error("the session has ended")]
    Ended,
    /// Nothing was heard of the session's producer.
    #[error("nothing was heard of the producer for {seconds} s")]
    Silent {
        /// So long.
        seconds: u64,
    },
    /// The store did not take a command in time, or it is not known what became of it.
    #[error("the store of the bus did not take it in time, or lost track of it")]
    Store,
    /// A reader has seen what the bus does not know: its data went back in time.
    #[error("a reader has seen revision {seen}, and the bus knows {head} only: its data went back in time")]
    Forgotten {
        /// Revision seen.
        seen: Revision,
        /// Newest revision.
        head: Revision,
    },
    /// No room for more keys of a topic, or for more staged ones.
    #[error(
        "{topic}: {found} keys are not allowed, wanted at most {most} while others have what they have: all topics may have {of}, of \
         which {share} are kept for each"
    )]
    Keys {
        /// Topic.
        topic: Topic,
        /// Keys that it would have.
        found: usize,
        /// Most keys that it may have now.
        most: usize,
        /// Most keys of all topics.
        of: usize,
        /// How many of those each topic is sure of.
        share: usize,
    },
    /// No room for more sessions.
    #[error("the bus holds {most} sessions, which is its bound")]
    Sessions {
        /// The bound.
        most: usize,
    },
}

bailiff_model::kinds! {
    /// Word for metrics and for the metadata of the gRPC status. Closed set.
    Refusal {
        Self::Shard { .. } => "shard",
        Self::Batch { .. } => "batch",
        Self::NotReplacing => "not_replacing",
        Self::Cursor { .. } => "cursor",
        Self::Epoch { .. } => "epoch",
        Self::Layout { .. } => "layout",
        Self::Fenced { .. } => "fenced",
        Self::Reset { .. } => "reset",
        Self::Ended => "ended",
        Self::Silent { .. } => "silent",
        Self::Store => "store",
        Self::Forgotten { .. } => "forgotten",
        Self::Keys { .. } => "keys",
        Self::Sessions { .. } => "sessions",
    }
}
