//! When toleration times start: of each NoExecute taint of a node, as this process knows it.
//!
//! A taint seen to appear starts then. One that stood already starts when the bus remembers, else at `timeAdded`, else now.

use std::sync::Arc;
use std::time::Duration;

use bailiff_model::intent::HealthTaint;
use bailiff_model::{ClockReading, Effect, Moment, Mono, Now, Taint, TraceContext, Wall};

/// A moment that toleration times are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Start {
    moment: Moment,
    /// The same moment by the clock as it was: an identity, not to be compared with others.
    pub(crate) wall: Wall,
}

impl Start {
    /// This moment.
    pub(crate) fn at(now: Now) -> Self {
        Self {
            moment: Moment::from(now.mono),
            wall: now.wall,
        }
    }

    /// The moment `wall` by our clock, which is not later than now. For what only the API tells of.
    pub(crate) fn of_wall(wall: Wall, now: Now) -> Self {
        let wall = wall.min(now.wall);
        Self {
            moment: now.moment_of(wall),
            wall,
        }
    }

    /// The moment `wall` by the clock of which there is this reading; it is not later than now.
    pub(crate) fn told(wall: Wall, reading: ClockReading, now: Now) -> Self {
        Self {
            moment: reading.moment_of(wall).min(Moment::from(now.mono)),
            wall,
        }
    }

    /// The moment on the clock as it is now: its steps since then are left out, so that it can be compared with other moments told at
    /// `now`.
    pub(crate) fn told_at(self, now: Now) -> Wall {
        now.wall_at(self.moment.min(Moment::from(now.mono)))
    }

    /// The moment that lies `after` later; the origin if that is before it, never if it cannot be expressed.
    pub(crate) fn plus(self, after: Duration) -> Mono {
        self.moment.plus(after)
    }
}

/// A NoExecute taint that stands on a node, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The taint as the API has it; shared with what is remembered of the pods that it concerns.
    pub(crate) taint: Arc<Taint>,
    /// What toleration times are counted from.
    pub(crate) since: Start,
    /// It was seen to appear: what the bus remembers is about an earlier one.
    pub(crate) live: bool,
    /// The trace that it began, once something followed from it that no verdict accounts for.
    pub(crate) trace: Option<TraceContext>,
}

impl Standing {
    /// Identity is key and value.
    pub(crate) fn is_of(&self, taint: &Taint) -> bool {
        self.taint.key == taint.key && self.taint.value == taint.value
    }
}

/// The NoExecute taints of `taints` with their starts: those that stood `before` keep theirs, the others get `new`'s.
///
/// Identity is key and value; `timeAdded` is not (TE-063: stamping a taint again moves nothing). A swap of the two health taints
/// keeps the start, whether it comes in one step or in two (TE-111).
pub(crate) fn follow(before: &[Standing], taints: &[Taint], new: impl Fn(&Taint) -> (Start, bool)) -> Vec<Standing> {
    let no_execute = taints.iter().filter(|taint| taint.effect == Effect::NoExecute);
    no_execute
        .map(|taint| {
            let known = known(before, taint);
            let (since, live) = known.map_or_else(|| new(taint), |known| (known.since, known.live));
            let same = known.filter(|known| known.is_of(taint));
            let taint = match same {
                Some(known) if *known.taint == *taint => known.taint.clone(),
                _ => Arc::new(taint.clone()),
            };
            let trace = same.and_then(|known| known.trace);
            Standing {
                taint,
                since,
                live,
                trace,
            }
        })
        .collect()
}

fn known<'a>(before: &'a [Standing], taint: &Taint) -> Option<&'a Standing> {
    if let Some(standing) = before.iter().find(|standing| standing.is_of(taint)) {
        return Some(standing);
    }
    let opposite = HealthTaint::of(taint)?.opposite();
    before
        .iter()
        .find(|standing| HealthTaint::of(&standing.taint) == Some(opposite))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_now(seconds: u64) -> Now {
        Now {
            mono: Mono::from_origin(Duration::from_secs(seconds)),
            wall: Wall::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds),
        }
    }

    #[test]
    fn a_start_before_the_origin_still_counts() {
        let start = Start::of_wall(mk_now(0).wall - Duration::from_secs(200), mk_now(10));
        assert_eq!(
            start.plus(Duration::from_secs(300)),
            Mono::from_origin(Duration::from_secs(100))
        );
        assert_eq!(start.plus(Duration::ZERO), Mono::ORIGIN);
        assert_eq!(Start::at(mk_now(10)).plus(Duration::MAX), Mono::FAR_FUTURE);
        let future = Start::of_wall(Wall::MAX, mk_now(10));
        assert_eq!(future, Start::at(mk_now(10)));
        let past = Start::of_wall(Wall::MIN, mk_now(10));
        assert_eq!(past.plus(Duration::from_secs(5)), Mono::ORIGIN);
    }

    /// TE-063, TE-111, TE-125
    #[test]
    fn a_taint_keeps_its_start_until_its_value_changes() {
        let mk = |key: &str, value: &str| Taint {
            value: value.into(),
            ..Taint::new(key, Effect::NoExecute)
        };
        let (not_ready, unreachable) = (HealthTaint::NotReady.key(), HealthTaint::Unreachable.key());
        let restamped = Taint {
            time_added: Some(Wall::UNIX_EPOCH),
            ..mk("k", "v")
        };
        let (early, late) = (Start::at(mk_now(1)), Start::at(mk_now(5)));
        let cases = [
            (vec![mk("k", "v")], restamped, early),
            (vec![mk("k", "v")], mk("k", "w"), late),
            (vec![mk("k", "v")], mk("l", "v"), late),
            (vec![mk(not_ready, "")], mk(unreachable, ""), early),
            (vec![mk(unreachable, "")], mk(not_ready, ""), early),
            (vec![mk("k", "")], mk(not_ready, ""), late),
        ];
        for (before, after, wanted) in cases {
            let before = follow(&[], &before, |_| (early, false));
            let found = follow(&before, &[Taint::new("x", Effect::NoSchedule), after.clone()], |_| {
                (late, true)
            });
            let wanted = Standing {
                taint: Arc::new(after.clone()),
                since: wanted,
                live: wanted == late,
                trace: None,
            };
            assert_eq!(found, [wanted], "{after}");
        }
    }
}
