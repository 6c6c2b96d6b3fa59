//! One pod against the NoExecute taints of its node (TE-050 to TE-063).

use std::time::Duration;

use bailiff_model::intent::WithdrawnReason;
use bailiff_model::{Mono, Profile, Toleration, taint};

use crate::start::{Standing, Start};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A toleration time that runs, or ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Armed {
    /// Since when the pod has been under finite tolerations without a break.
    pub(crate) since: Start,
    /// When it is over.
    pub(crate) due: Mono,
}

/// What a pod's tolerations say about the taints of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Nothing to do.
    Clear(WithdrawnReason),
    /// Nothing tolerates the taint at this index.
    Untolerated(usize),
    /// It may stay until [`Armed::due`], because of the taint at this index.
    Timed(usize, Armed),
}

/// The time that a toleration leaves.
#[derive(Clone, Copy, Debug)]
struct Term {
    seconds: i64,
    /// From when it counts if no time runs yet.
    since: Start,
    /// Which taint it is for.
    index: usize,
}

/// Judges a pod. `armed` is the time that runs already; a new one counts from `arming`.
///
/// A running time is never shortened, except to nothing when a taint is not tolerated at all (TE-052). Under
/// [`Profile::Upstream`] it is not lengthened either (TE-063).
pub(crate) fn judge(
    taints: &[Standing],
    tolerations: &[Toleration],
    armed: Option<Armed>,
    arming: Start,
    profile: Profile,
) -> Judgement {
    if taints.is_empty() {
        return Judgement::Clear(WithdrawnReason::TaintsGone);
    }
    let since = armed.map_or(arming, |armed| armed.since);
    let mut first: Option<Term> = None;
    for (index, standing) in taints.iter().enumerate() {
        let Some(used) = taint::used(&standing.taint, tolerations) else {
            return Judgement::Untolerated(index);
        };
        if let Some(seconds) = used.seconds {
            let since = standing.since.max(since);
            let term = Term { seconds, since, index };
            first = Some(first.map_or(term, |known| known.or_sooner(term, profile)));
        }
    }
    let ends = first.and_then(|term| Some((term.end(profile)?, term.index)));
    let Some((end, index)) = ends else {
        return Judgement::Clear(WithdrawnReason::Tolerated);
    };
    let due = match (armed, profile) {
        (None, _) => end,
        (Some(armed), Profile::Bailiff) => armed.due.max(end),
        (Some(armed), Profile::Upstream) => armed.due,
    };
    Judgement::Timed(index, Armed { since, due })
}

/// `tolerationSeconds` as a time; `None` is for ever (TE-053, TE-120).
///
/// What 64 bits of nanoseconds cannot hold is for ever. Under [`Profile::Upstream`] it is what is left of it in 64 bits: for ever if
/// that is negative, as it is for 2⁶³−1 seconds.
fn limit(seconds: i64, profile: Profile) -> Option<Duration> {
    let seconds = seconds.max(0);
    let nanos = match (seconds.checked_mul(NANOS_PER_SECOND), profile) {
        (Some(nanos), _) => nanos,
        (None, Profile::Bailiff) => return None,
        (None, Profile::Upstream) => seconds.wrapping_mul(NANOS_PER_SECOND),
    };
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

// === impl Term ===

impl Term {
    /// When it is over; `None` is never.
    fn end(self, profile: Profile) -> Option<Mono> {
        Some(self.since.plus(limit(self.seconds, profile)?))
    }

    /// The one of both that is over first, this one if both are. Upstream compares the seconds, before they wrap around (TE-120).
    fn or_sooner(self, other: Self, profile: Profile) -> Self {
        let is_sooner = match profile {
            Profile::Upstream => other.seconds < self.seconds,
            Profile::Bailiff => {
                let ours = self.end(profile);
                other.end(profile).is_some_and(|end| ours.is_none_or(|ours| end < ours))
            }
        };
        if is_sooner { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bailiff_model::{Effect, Now, Taint, Wall};

    use super::*;

    fn mk_start(seconds: u64) -> Start {
        Start::at(Now {
            mono: mk_mono(seconds),
            wall: Wall::UNIX_EPOCH + Duration::from_secs(seconds),
        })
    }

    fn mk_mono(seconds: u64) -> Mono {
        Mono::from_origin(Duration::from_secs(seconds))
    }

    fn mk_standing(key: &str, since: u64) -> Standing {
        Standing {
            taint: Arc::new(Taint::new(key, Effect::NoExecute)),
            since: mk_start(since),
            live: true,
            trace: None,
        }
    }

    fn mk_toleration(key: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            seconds,
            ..Toleration::exists(key, Effect::NoExecute)
        }
    }

    fn check(
        taints: &[(&str, u64)],
        tolerations: &[(&str, Option<i64>)],
        armed: Option<(u64, u64)>,
        arming: u64,
        profile: Profile,
    ) -> Judgement {
        let taints: Vec<Standing> = taints.iter().map(|(key, since)| mk_standing(key, *since)).collect();
        let tolerations: Vec<Toleration> = tolerations.iter().map(|(key, s)| mk_toleration(key, *s)).collect();
        let armed = armed.map(|(since, due)| mk_armed(since, due));
        judge(&taints, &tolerations, armed, mk_start(arming), profile)
    }

    fn mk_armed(since: u64, due: u64) -> Armed {
        Armed {
            since: mk_start(since),
            due: mk_mono(due),
        }
    }

    /// TE-032, TE-051, TE-052, TE-053, TE-054, TE-055, TE-120, TE-121, TE-122, TE-123
    #[test]
    fn a_pod_without_a_running_time_gets_the_minimum() {
        use Judgement::{Clear, Timed, Untolerated};
        type Case<'a> = (&'a [(&'a str, u64)], &'a [(&'a str, Option<i64>)], Judgement);
        let cases: [Case; 12] = [
            (&[], &[], Clear(WithdrawnReason::TaintsGone)),
            (&[("a", 1)], &[], Untolerated(0)),
            (&[("a", 1), ("b", 1)], &[("a", None)], Untolerated(1)),
            (&[("a", 1)], &[("a", None)], Clear(WithdrawnReason::Tolerated)),
            (&[("a", 1)], &[("", None)], Clear(WithdrawnReason::Tolerated)),
            (&[("a", 1)], &[("a", Some(i64::MAX))], Clear(WithdrawnReason::Tolerated)),
            (&[("a", 1)], &[("a", Some(9_223_372_037))], Clear(WithdrawnReason::Tolerated)),
            (&[("a", 1)], &[("a", Some(0))], Timed(0, mk_armed(5, 5))),
            (&[("a", 1)], &[("a", Some(-7))], Timed(0, mk_armed(5, 5))),
            (
                &[("a", 1), ("b", 1)],
                &[("a", Some(9)), ("b", Some(2))],
                Timed(1, mk_armed(5, 7)),
            ),
            (
                &[("a", 1), ("b", 1)],
                &[("a", None), ("b", Some(60))],
                Timed(1, mk_armed(5, 65)),
            ),
            (
                &[("a", 1)],
                &[("a", Some(3600)), ("a", Some(10))],
                Timed(0, mk_armed(5, 3605)),
            ),
        ];
        for (taints, tolerations, wanted) in cases {
            for profile in [Profile::Bailiff, Profile::Upstream] {
                let found = check(taints, tolerations, None, 5, profile);
                assert_eq!(found, wanted, "{taints:?} {tolerations:?}");
            }
        }
    }

    /// TE-120: what overflows is for ever; under upstream's profile it wraps around, once the least was chosen.
    #[test]
    fn seconds_beyond_a_duration_are_for_ever_or_wrap_around() {
        const WRAPPED: u64 = 290_448_384;
        let nanos = Duration::from_nanos;
        let cases = [
            (i64::MIN, Some(Duration::ZERO), Some(Duration::ZERO)),
            (-1, Some(Duration::ZERO), Some(Duration::ZERO)),
            (0, Some(Duration::ZERO), Some(Duration::ZERO)),
            (1, Some(nanos(1_000_000_000)), Some(nanos(1_000_000_000))),
            (
                9_223_372_036,
                Some(nanos(9_223_372_036_000_000_000)),
                Some(nanos(9_223_372_036_000_000_000)),
            ),
            (9_223_372_037, None, None),
            (18_446_744_073, None, None),
            (18_446_744_074, None, Some(nanos(WRAPPED))),
            // 2⁵⁵ seconds are a multiple of 2⁶⁴ nanoseconds.
            (1 << 55, None, Some(Duration::ZERO)),
            (i64::MAX - 1, None, None),
            (i64::MAX, None, None),
        ];
        for (seconds, ours, upstreams) in cases {
            assert_eq!(limit(seconds, Profile::Bailiff), ours, "{seconds}");
            assert_eq!(limit(seconds, Profile::Upstream), upstreams, "{seconds}");
        }
        let taints = [("a", 1), ("b", 1)];
        let both = |other| {
            let tolerations = [("a", Some(18_446_744_074)), ("b", other)];
            [Profile::Bailiff, Profile::Upstream].map(|profile| check(&taints, &tolerations, None, 5, profile))
        };
        assert_eq!(both(Some(60)), [Judgement::Timed(1, mk_armed(5, 65)); 2]);
        let wrapped = Armed {
            since: mk_start(5),
            due: mk_mono(5) + nanos(WRAPPED),
        };
        let forever = Judgement::Clear(WithdrawnReason::Tolerated);
        assert_eq!(both(None), [forever, Judgement::Timed(0, wrapped)]);
        assert_eq!(both(Some(18_446_744_073)), [forever, forever], "the least of both");
    }

    /// TE-120: for each number of seconds, of every size
    #[test]
    fn any_seconds_are_never_longer_than_they_say() {
        let around = |bit: u32| (-2..=2).map(move |by| (1i64 << bit).saturating_add(by));
        let spread = |by: i64| (0..2000).map(move |n: i64| by.wrapping_mul(n).wrapping_add(n));
        let all = (0..63)
            .flat_map(around)
            .chain(spread(18_446_744_073))
            .chain(spread(i64::MAX / 997));
        for seconds in all {
            let exact = i128::from(seconds.max(0)) * i128::from(NANOS_PER_SECOND);
            let held = i64::try_from(exact).ok().and_then(|nanos| u64::try_from(nanos).ok());
            assert_eq!(limit(seconds, Profile::Bailiff), held.map(Duration::from_nanos), "{seconds}");
            // What 64 bits with a sign keep of it.
            let kept = (exact + (1 << 63)).rem_euclid(1 << 64) - (1 << 63);
            let kept = u64::try_from(kept).ok().map(Duration::from_nanos);
            assert_eq!(limit(seconds, Profile::Upstream), kept, "{seconds}");
        }
    }

    /// TE-063, and the difference from it
    #[test]
    fn a_running_time_is_lengthened_but_never_shortened() {
        type Case<'a> = (&'a str, &'a [(&'a str, u64)], &'a [(&'a str, Option<i64>)], u64);
        let cases: [Case; 6] = [
            ("unchanged", &[("a", 2)], &[("a", Some(5))], 7),
            ("lengthened", &[("a", 2)], &[("a", Some(100))], 102),
            ("shortened", &[("a", 2)], &[("a", Some(1))], 7),
            (
                "second, shorter taint",
                &[("a", 2), ("b", 4)],
                &[("a", Some(5)), ("b", Some(1))],
                7,
            ),
            ("the shorter one is gone", &[("b", 2)], &[("a", Some(5)), ("b", Some(30))], 32),
            ("another value", &[("a", 4)], &[("a", Some(20))], 24),
        ];
        for (name, taints, tolerations, due) in cases {
            let found = check(taints, tolerations, Some((2, 7)), 4, Profile::Bailiff);
            let Judgement::Timed(_, armed) = found else {
                panic!("{name}: {found:?}");
            };
            assert_eq!(armed, mk_armed(2, due), "{name}");
            let kept = check(taints, tolerations, Some((2, 7)), 4, Profile::Upstream);
            assert!(
                matches!(kept, Judgement::Timed(_, armed) if armed == mk_armed(2, 7)),
                "{name}: {kept:?}"
            );
        }
    }

    /// TE-052, TE-054, TE-064, TE-065: what changes a running time under either profile
    #[test]
    fn a_running_time_ends_when_nothing_or_everything_is_tolerated() {
        for profile in [Profile::Bailiff, Profile::Upstream] {
            let check = |tolerations| check(&[("a", 2)], tolerations, Some((2, 7)), 4, profile);
            assert_eq!(check(&[]), Judgement::Untolerated(0));
            assert_eq!(check(&[("a", None)]), Judgement::Clear(WithdrawnReason::Tolerated));
        }
    }
}
