//! How long to wait after a failure.

use std::time::Duration;

use bailiff_model::Backoff;

/// Upstream tries five times, 10 ms apart, and gives up (TE-004, TE-076), which is for its profile; else we go on, so we begin slower. An
/// API that is back is noticed within the longest pause, and 10,000 failing requests cost it about 300/s at most.
const FAILED: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(30),
};

/// After a request that the server will not have as it is: a policy or a webhook that says so is changed by people. One pod costs nothing
/// then, and a policy that is gone is noticed soon enough.
const REFUSED: Backoff = Backoff {
    first: Duration::from_secs(5),
    longest: Duration::from_secs(300),
};

/// The pause after the `failures`-th failure in a row (from 1) if the last one was that the server will not have the request.
pub fn pause_refused(failures: u32) -> Duration {
    REFUSED.after(failures)
}

/// The pause after the `failures`-th failure in a row (from 1), not shorter than what the server asked for.
///
/// There is no jitter: requests of one evictor are bounded in number anyhow, and only one evictor works on a zone.
pub fn pause(failures: u32, retry_after: Option<Duration>) -> Duration {
    FAILED.heeding(failures, retry_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TE-076
    #[test]
    fn pauses_double_up_to_a_bound_and_honour_the_server() {
        let after = |failures| pause(failures, None).as_millis();
        assert_eq!(
            [1, 2, 3, 9, 10, 64, u32::MAX].map(after),
            [100, 200, 400, 25_600, 30_000, 30_000, 30_000]
        );
        let asked = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(pause(1, asked(45)), Duration::from_secs(45));
        assert_eq!(pause(1, asked(u64::MAX)), Duration::from_secs(60), "but not for ever");
    }
}
