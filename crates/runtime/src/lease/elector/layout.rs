//! Into how many shards a stage's work is divided.
//!
//! The Lease of shard 0 says it, for it is in every layout; whoever takes that Lease says it anew. Shards of two layouts overlap, so:
//! - whoever leads another shard reads this Lease before each renewal, and stops if it says otherwise, or cannot be read for as long as
//!   a renewal is worth;
//! - a layout that follows another one is *settling* at first: until a lease duration after it was written nobody of it acts. Then all of
//!   the old one have stopped, and what they sent has ended.

use std::fmt;
use std::str::FromStr;

/// A layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many shards; at least 1.
    pub shards: u32,
    /// Nobody of another layout can act any more.
    pub is_settled: bool,
}

/// The text is no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("allowed is a number of shards from 1, and 'settling' after it while the layout changes")]
pub struct NoLayout;

const SETTLING: &str = " settling";

// === impl Layout ===

impl Layout {
    /// Undivided: what a Lease that says nothing stands for.
    pub const WHOLE: Self = Self {
        shards: 1,
        is_settled: true,
    };

    /// One that cannot be read: it is nobody's.
    pub const UNKNOWN: Self = Self {
        shards: 0,
        is_settled: false,
    };
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.shards, if self.is_settled { "" } else { SETTLING })
    }
}

impl FromStr for Layout {
    type Err = NoLayout;

    fn from_str(text: &str) -> Result<Self, NoLayout> {
        let number = text.strip_suffix(SETTLING);
        let shards: u32 = number.unwrap_or(text).parse().map_err(|_| NoLayout)?;
        if shards == 0 {
            return Err(NoLayout);
        }
        Ok(Self {
            shards,
            is_settled: number.is_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_read_as_it_is_written() {
        for (text, shards, is_settled) in [("1", 1, true), ("4", 4, true), ("3 settling", 3, false)] {
            let layout = Layout { shards, is_settled };
            assert_eq!((text.parse(), layout.to_string()), (Ok(layout), text.to_owned()));
        }
        for text in ["", "0", "-1", "two", "2 settled", " settling", "4294967296"] {
            assert_eq!(text.parse::<Layout>(), Err(NoLayout), "{text}");
        }
    }
}
