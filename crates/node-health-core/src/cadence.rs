//! When a sign counts as noticed, and when a deadline is acted on.
//!
//! Event-driven, both are at once, but for renewals that waited to be seen. In profile `upstream` there are passes (NL-006): a sign
//! counts from the pass that notices it, and a node is judged by the first pass after its grace (NL-060).

use std::time::Duration;

use bailiff_model::{Mono, Now, Profile, Wall};

use crate::config::Config;

/// "Strictly after" (NL-052) in terms of a clock that counts nanoseconds.
const JUST_AFTER: Duration = Duration::from_nanos(1);

/// The moments at which the monitor looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cadence {
    /// The first pass and the pause between passes; `None` if there are none.
    passes: Option<(Mono, Duration)>,
    /// How long what is seen may have waited.
    look: Duration,
}

impl Cadence {
    /// The cadence of a monitor that begins now.
    pub(crate) fn beginning_at(now: Mono, config: &Config) -> Self {
        Self {
            passes: (config.profile == Profile::Upstream).then_some((now, config.period)),
            look: config.look,
        }
    }

    /// When something that happened at `at` is noticed.
    pub(crate) fn notices(&self, at: Mono) -> Mono {
        match self.passes {
            None => at,
            Some((first, period)) => {
                let since = at.saturating_since(first).as_nanos();
                let pass = since.div_ceil(period.as_nanos().max(1));
                nth(first, period, pass)
            }
        }
    }

    /// When a renewal came that is seen now, after `last`, from when on its node was silent. Within the time that it may have waited its
    /// own time says it: no other clock knows. Whatever the node's clock shows, it is by no more than that before now.
    pub(crate) fn came(&self, renewed: Option<Wall>, last: Mono, now: Now) -> Now {
        let since = renewed.map(|renewed| now.wall.duration_since(renewed));
        let waited = match since {
            Some(since) if self.passes.is_none() && since.is_positive() => since.unsigned_abs().min(self.look),
            _ => return now,
        };
        let waited = waited.min(now.mono.saturating_since(last));
        Now {
            mono: now.mono.saturating_sub(waited),
            wall: now.wall.checked_sub(waited).unwrap_or(now.wall),
        }
    }

    /// When something whose time is over strictly after `deadline` is acted on.
    pub(crate) fn acts_after(&self, deadline: Mono) -> Mono {
        self.notices(deadline + JUST_AFTER)
    }

    /// The pass after the one at `pass`; the same moment if there are none.
    pub(crate) fn next(&self, pass: Mono) -> Mono {
        self.passes.map_or(pass, |(_, period)| pass + period)
    }
}

fn nth(first: Mono, period: Duration, pass: u128) -> Mono {
    let nanos = period.as_nanos().saturating_mul(pass);
    match u64::try_from(nanos) {
        Ok(nanos) => first + Duration::from_nanos(nanos),
        Err(_) => Mono::FAR_FUTURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Mono {
        Mono::from_origin(Duration::from_millis(millis))
    }

    /// NL-006, NL-052, NL-060
    #[test]
    fn passes_notice_late_and_judge_after() {
        let upstream = Config {
            profile: Profile::Upstream,
            ..Config::default()
        };
        let passes = Cadence::beginning_at(at(1_000), &upstream);
        let cases = [(0, 1_000), (1_000, 1_000), (1_001, 6_000), (6_000, 6_000), (56_000, 56_000)];
        for (happened, noticed) in cases {
            assert_eq!(passes.notices(at(happened)), at(noticed), "{happened}");
        }
        assert_eq!(
            passes.acts_after(at(56_000)),
            at(61_000),
            "exactly at the deadline is not expired"
        );
        assert_eq!(passes.acts_after(at(55_999)), at(56_000));

        let events = Cadence::beginning_at(at(1_000), &Config::default());
        assert_eq!(events.notices(at(1_001)), at(1_001));
        assert_eq!(events.acts_after(at(1_001)), at(1_001) + JUST_AFTER);
    }

    /// NL-040: by how much earlier than it is seen a renewal came, at most as long as it may have waited.
    #[test]
    fn a_renewal_came_when_it_says_within_the_time_that_it_may_have_waited() {
        let millis = Duration::from_millis;
        let now = Now {
            mono: at(60_000),
            wall: Wall::from_second(1_000).expect("a time"),
        };
        let ago = |by: i64| Some(now.wall - jiff::SignedDuration::from_millis(by));
        let cases = [
            ("none", None, 0),
            ("ahead", ago(-7_000), 0),
            ("just now", ago(0), 0),
            ("between two looks", ago(90), 90),
            ("before the last sign of life, or by a clock that is behind", ago(7_000), 100),
        ];
        for (what, renewed, earlier) in cases {
            for (look, profile, earlier) in [
                (millis(128), Profile::Bailiff, earlier),
                (millis(128), Profile::Upstream, 0),
                (Duration::ZERO, Profile::Bailiff, 0),
            ] {
                let config = Config {
                    look,
                    profile,
                    ..Config::default()
                };
                let came = Cadence::beginning_at(at(0), &config).came(renewed, at(59_900), now);
                let wanted = Now {
                    mono: at(60_000 - earlier),
                    wall: now.wall - millis(earlier),
                };
                assert_eq!(came, wanted, "{what}, {look:?}, {profile:?}");
            }
        }
    }
}
