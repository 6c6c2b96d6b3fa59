//! When a sign counts as noticed, and when a deadline is acted on.
//!
//! Event-driven, both are at once. In profile `upstream` there are passes (NL-006): a sign counts from the pass that notices it, and
//! a node is judged by the first pass after its grace (NL-060).

use std::time::Duration;

use bailiff_model::{Mono, Profile};

use crate::config::Config;

/// "Strictly after" (NL-052) in terms of a clock that counts nanoseconds.
const JUST_AFTER: Duration = Duration::from_nanos(1);

/// The moments at which the monitor looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cadence {
    /// The first pass and the pause between passes; `None` if there are none.
    passes: Option<(Mono, Duration)>,
}

impl Cadence {
    /// The cadence of a monitor that begins now.
    pub(crate) fn beginning_at(now: Mono, config: &Config) -> Self {
        Self {
            passes: (config.profile == Profile::Upstream).then_some((now, config.period)),
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
}
