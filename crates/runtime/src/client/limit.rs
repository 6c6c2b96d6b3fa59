//! Makes requests wait for a token: kube-controller-manager's client-side rate limit.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::TokenBucket;
use crate::Clock;
use crate::args::KubeArgs;

/// Lets callers pass one by one, as there are tokens, in the order they came; cloning it gives the same limit.
#[derive(Clone, Debug)]
pub struct Limiter {
    /// The lock is the queue: tokio's is fair, and who gives up leaves it.
    line: Arc<Mutex<()>>,
    /// The queue of the urgent, and of the first of the others.
    bucket: Option<Arc<Mutex<TokenBucket>>>,
    per_second: f64,
    clock: Clock,
}

// === impl Limiter ===

impl Limiter {
    /// At most `burst` at once and `per_second` over time; negative: no limit.
    pub fn new(per_second: f64, burst: u32, clock: &Clock) -> Self {
        Self {
            line: Arc::default(),
            bucket: TokenBucket::new(per_second, burst).map(|bucket| Arc::new(Mutex::new(bucket))),
            per_second,
            clock: clock.clone(),
        }
    }

    /// How many pass over time, if that is limited.
    pub fn per_second(&self) -> Option<f64> {
        self.bucket.as_ref().map(|_| self.per_second)
    }

    /// The limit these flags ask for.
    pub fn of(args: &KubeArgs, clock: &Clock) -> Self {
        Self::new(f64::from(args.kube_api_qps), args.kube_api_burst, clock)
    }

    /// No limit.
    pub fn none(clock: &Clock) -> Self {
        Self::new(-1.0, 1, clock)
    }

    /// Waits for a token and takes it. Cancel-safe: who gives up takes none.
    pub async fn take(&self) {
        let _first_in_line = self.line.lock().await;
        self.take_urgently().await;
    }

    /// The same, before all but the first of those who wait in [`Self::take`].
    pub async fn take_urgently(&self) {
        let Some(bucket) = &self.bucket else {
            return;
        };
        let mut bucket = bucket.lock().await;
        while let Err(at) = bucket.try_take(self.clock.now().mono) {
            tokio::time::sleep_until(self.clock.instant_of(at)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// How long it takes so many to pass.
    async fn mk_requests(per_second: f64, burst: u32, count: u32) -> Duration {
        let clock = Clock::virtual_from(bailiff_model::Wall::UNIX_EPOCH);
        let limiter = Limiter::new(per_second, burst, &clock);
        let start = clock.now().mono;
        for _ in 0..count {
            limiter.take().await;
        }
        clock.now().mono.saturating_since(start)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_wait_for_their_token() {
        assert_eq!(mk_requests(20.0, 30, 30).await, Duration::ZERO);
        assert_eq!(mk_requests(20.0, 30, 50).await, Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn callers_pass_in_the_order_they_came_and_who_gives_up_takes_nothing() {
        let clock = Clock::virtual_from(bailiff_model::Wall::UNIX_EPOCH);
        let limiter = Limiter::new(1.0, 1, &clock);
        let passed = async |patience: u64| {
            let taken = tokio::time::timeout(Duration::from_millis(patience), limiter.take()).await;
            taken.is_ok().then(|| clock.now().mono.since_origin().as_millis())
        };
        let answers = tokio::join!(passed(9000), passed(500), passed(9000), passed(9000));
        assert_eq!(answers, (Some(0), None, Some(1000), Some(2000)));
    }

    /// NL-074: who is urgent waits for one of the others at most.
    #[tokio::test(start_paused = true)]
    async fn the_urgent_pass_those_who_wait_in_line() {
        let clock = Clock::virtual_from(bailiff_model::Wall::UNIX_EPOCH);
        let limiter = Limiter::new(1.0, 1, &clock);
        limiter.take().await;
        let order = std::sync::Mutex::new(Vec::new());
        let ordinary = |n| {
            let (limiter, order) = (&limiter, &order);
            async move {
                limiter.take().await;
                order.lock().expect("no test panicked").push(n);
            }
        };
        let urgent = async {
            tokio::task::yield_now().await;
            limiter.take_urgently().await;
            order.lock().expect("no test panicked").push(0);
        };
        tokio::join!(ordinary(1), ordinary(2), ordinary(3), urgent);
        assert_eq!(*order.lock().expect("no test panicked"), [1, 0, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_negative_rate_is_no_limit() {
        assert_eq!(mk_requests(-1.0, 30, 10_000).await, Duration::ZERO);
    }
}
