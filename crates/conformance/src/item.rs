//! What a stage is held to, item by item.

use std::fmt;

/// How binding an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A stage that does not do it is none.
    Required,
    /// A stage that does it has done harm.
    Forbidden,
    /// Others do better with it; a stage may leave it.
    Optional,
}

impl Level {
    /// The word of reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Forbidden => "forbidden",
            Self::Optional => "optional",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One thing that a stage does, or must not do.
#[derive(Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name in reports and in `docs/contract.md`: unique within the stage.
    pub id: &'static str,
    /// How binding it is.
    pub level: Level,
    /// What is expected, or what must not happen.
    pub says: &'static str,
    /// What happens to a cluster otherwise.
    pub because: &'static str,
}

impl Item {
    /// What a stage has to do.
    pub const fn required(id: &'static str, says: &'static str, because: &'static str) -> Self {
        Self::new(id, Level::Required, says, because)
    }

    /// What a stage must not do.
    pub const fn forbidden(id: &'static str, says: &'static str, because: &'static str) -> Self {
        Self::new(id, Level::Forbidden, says, because)
    }

    /// What a stage may leave.
    pub const fn optional(id: &'static str, says: &'static str, because: &'static str) -> Self {
        Self::new(id, Level::Optional, says, because)
    }

    const fn new(id: &'static str, level: Level, says: &'static str, because: &'static str) -> Self {
        Self {
            id,
            level,
            says,
            because,
        }
    }
}
