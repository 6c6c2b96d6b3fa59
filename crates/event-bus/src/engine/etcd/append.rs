//! Appending entries: one after another, each until etcd has it.

use std::convert::Infallible;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bailiff_runtime::shutdown::chain;
use tokio::sync::mpsc;

use super::client::{self, Error};
use super::driver::{AGAIN_AFTER, End, Link, Step};
use super::replica::Append;
use super::{Input, Standing};

/// Longest pause before etcd is asked again, if it did not answer: that much longer it takes until all goes on.
const AWAY_MAX: Duration = Duration::from_secs(1);
/// The same if it refused, for lack of room say. That passes only when somebody does something about it.
const REFUSED_MAX: Duration = Duration::from_secs(5);

/// How often an entry was not taken, and what was said about that.
#[derive(Debug, Default)]
struct Patience {
    failures: u32,
    is_away_said: bool,
    is_refusal_said: bool,
}

// === impl Patience ===

impl Patience {
    /// It was not taken: the pause before it is tried again, and whether to say why.
    fn failed(&mut self, error: &Error) -> (Duration, bool) {
        let is_refusal = !matches!(error, Error::Unavailable(_));
        let (most, said) = if is_refusal {
            (REFUSED_MAX, &mut self.is_refusal_said)
        } else {
            (AWAY_MAX, &mut self.is_away_said)
        };
        let pause = AGAIN_AFTER.saturating_mul(1 << self.failures.min(16)).min(most);
        self.failures += 1;
        (pause, !std::mem::replace(said, true))
    }
}

impl Link {
    pub(super) async fn append_all(&self, mut appends: mpsc::Receiver<Append>) -> Result<Infallible, End> {
        while let Some(append) = appends.recv().await {
            let mut patience = Patience::default();
            loop {
                match self.append(&append).await {
                    Ok(()) => break,
                    Err(Step::Ended(end)) => return Err(end),
                    Err(Step::Failed(error)) => {
                        self.count(|standing| standing.append_failures += 1);
                        let (pause, is_to_say) = patience.failed(&error);
                        if is_to_say {
                            tracing::warn!(error = chain(&error), "etcd does not take an entry: trying until it does");
                        } else {
                            tracing::debug!(error = chain(&error), seq = append.seq, "Entry was not appended yet");
                        }
                        tokio::time::sleep(pause).await;
                    }
                }
            }
            if patience.failures > 0 {
                tracing::info!(failures = patience.failures, "etcd takes entries again");
            }
            self.tell(Input::Committed(append.seq)).await?;
        }
        Err(End::Closed)
    }

    /// Appends an entry; one that was appended by an attempt before is there, and nothing is done.
    async fn append(&self, append: &Append) -> Result<(), Step> {
        let key = self.keys.log(&self.replica, append.seq);
        let compare = vec![client::stands_at(key.clone(), 0)];
        let put = client::put(key, append.bytes.clone(), 0);
        let response = self.guarded(compare, vec![put], Vec::new()).await?;
        if let Some(header) = response.header.filter(|_| response.succeeded) {
            self.appended.store(header.revision, Ordering::Relaxed);
        }
        Ok(())
    }

    fn count(&self, change: impl FnOnce(&mut Standing)) {
        change(&mut self.standing.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    #[test]
    fn etcd_is_asked_less_often_the_longer_it_takes_and_each_reason_is_said_once() {
        let away = Error::Unavailable(Box::new(Status::unavailable("away")));
        let full = Error::Refused(Box::new(Status::resource_exhausted("no space")));
        let mut patience = Patience::default();
        let mut told = Vec::new();
        for error in [&away, &away, &away, &away, &away, &full, &full, &full, &away] {
            let (pause, is_said) = patience.failed(error);
            told.push((pause.as_millis(), is_said));
        }
        let wanted = [
            (100, true),
            (200, false),
            (400, false),
            (800, false),
            (1_000, false),
            (3_200, true),
            (5_000, false),
            (5_000, false),
            (1_000, false),
        ];
        assert_eq!(told, wanted);
    }
}
