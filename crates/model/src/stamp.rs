//! Wall times, as small as they can be kept.

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZeroU32;

use crate::time::Wall;

/// A [`Wall`], for what is kept of every node or pod: twelve bytes, and so is an `Option` of it. Of a `Wall` it takes twenty-four.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Whole seconds since the epoch, in halves: a number of eight bytes would be followed by four that nobody uses.
    seconds: [u32; 2],
    /// The rest, which has the sign of the seconds, and [`SHIFT`] more.
    nanos: NonZeroU32,
}

/// More than a second has nanoseconds: what is that much more is never zero or less.
const SHIFT: i32 = 1_000_000_000;

impl Stamp {
    /// The same time.
    pub fn wall(self) -> Wall {
        let [high, low] = self.seconds.map(u64::from);
        let seconds = (high << 32 | low).cast_signed();
        // It was one before, so that it is one again.
        Wall::new(seconds, self.nanos.get().cast_signed() - SHIFT).unwrap_or_default()
    }
}

impl From<Wall> for Stamp {
    fn from(wall: Wall) -> Self {
        let seconds = wall.as_second().cast_unsigned();
        let nanos = (wall.subsec_nanosecond() + SHIFT).cast_unsigned();
        Self {
            seconds: [(seconds >> 32) as u32, seconds as u32],
            nanos: NonZeroU32::new(nanos).unwrap_or(NonZeroU32::MIN),
        }
    }
}

impl PartialOrd for Stamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Stamp {
    fn cmp(&self, other: &Self) -> Ordering {
        self.wall().cmp(&other.wall())
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.wall(), f)
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn nothing_of_a_time_is_lost() {
        let nanosecond = SignedDuration::from_nanos(1);
        for wall in [
            Wall::MIN,
            Wall::UNIX_EPOCH - SignedDuration::from_secs(1) - nanosecond,
            Wall::UNIX_EPOCH - nanosecond,
            Wall::UNIX_EPOCH,
            Wall::UNIX_EPOCH + nanosecond,
            Wall::MAX,
        ] {
            assert_eq!(Stamp::from(wall).wall(), wall);
        }
    }

    #[test]
    fn it_is_smaller() {
        let sizes = [size_of::<Stamp>(), size_of::<Option<Stamp>>(), size_of::<Option<Wall>>()];
        assert_eq!(sizes, [12, 12, 24]);
    }
}
