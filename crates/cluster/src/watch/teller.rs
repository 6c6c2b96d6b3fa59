//! What a watch tells its reader, and when it has to say that what it told is not the present any more.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bailiff_model::Mono;
use bailiff_runtime::{Alarm, Clock};
use tokio::sync::mpsc;

use super::{Event, SILENT_AFTER};

/// Last sign of life from the server, as nanoseconds since the clock's origin; 0 is never. Cloning it gives the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Life(Arc<AtomicU64>);

impl Life {
    pub(super) fn beat(&self, now: Mono) {
        self.0.store(now.as_nanos().max(1), Ordering::Relaxed);
    }

    pub(super) fn last(&self) -> Option<Mono> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Mono::from_nanos(nanos)),
        }
    }
}

/// Events shown at once, at most.
const BATCH: usize = 64;

/// The reader is gone: the watch has no purpose any more.
pub(super) struct Unwanted;

/// The way to the reader.
pub(super) struct Teller<T, P> {
    sender: mpsc::Sender<Vec<Event<T, P>>>,
    /// What happened and is not shown yet.
    held: Vec<Event<T, P>>,
    clock: Clock,
    /// When what was shown will have been old for too long, as far as was known when somebody last waited.
    alarm: Alarm,
    /// When the server last gave a sign of life while what was shown was the present. What a list brings before its end is none.
    shown: Life,
    started: Mono,
    stale: bool,
}

impl<T, P> Teller<T, P> {
    pub(super) fn new(sender: mpsc::Sender<Vec<Event<T, P>>>, shown: Life, clock: &Clock) -> Self {
        Self {
            sender,
            held: Vec::new(),
            clock: clock.clone(),
            alarm: Alarm::new(clock),
            shown,
            started: clock.now().mono,
            stale: false,
        }
    }

    /// A list was shown.
    pub(super) fn has_shown(&self) -> bool {
        self.shown.last().is_some()
    }

    /// [`Event::Stale`] was said, and [`Event::Fresh`] not yet. What is shown next must be a list.
    pub(super) fn is_stale(&self) -> bool {
        self.stale
    }

    /// True if what was shown has not been the present for [`SILENT_AFTER`].
    pub(super) fn is_behind(&self) -> bool {
        self.behind_at() <= self.clock.now().mono
    }

    /// Notes a sign of life of a stream that continues what was shown.
    pub(super) fn alive(&self) {
        self.shown.beat(self.clock.now().mono);
    }

    /// Takes what happened, to be shown with what is taken before [`Teller::flush`]. Waking the reader costs more than an event does.
    pub(super) async fn take(&mut self, event: Event<T, P>) -> Result<(), Unwanted> {
        self.held.push(event);
        if self.held.len() >= BATCH {
            self.flush().await?;
        }
        Ok(())
    }

    /// Shows what was taken.
    pub(super) async fn flush(&mut self) -> Result<(), Unwanted> {
        if self.held.is_empty() {
            return Ok(());
        }
        // As much comes next, as a rule: what grows on the way is copied each time.
        let room = Vec::with_capacity(self.held.len());
        let held = std::mem::replace(&mut self.held, room);
        self.sender.send(held).await.map_err(|_| Unwanted)
    }

    async fn show(&mut self, event: Event<T, P>) -> Result<(), Unwanted> {
        self.take(event).await?;
        self.flush().await
    }

    /// Shows all there is; ends a stale time.
    pub(super) async fn show_all(&mut self, snapshot: Event<T, P>) -> Result<(), Unwanted> {
        self.alive();
        self.show(snapshot).await?;
        if std::mem::take(&mut self.stale) {
            self.show(Event::Fresh).await?;
        }
        Ok(())
    }

    /// Says once that what was shown is not the present any more.
    pub(super) async fn went_stale(&mut self, reason: String) -> Result<(), Unwanted> {
        if std::mem::replace(&mut self.stale, true) {
            return Ok(());
        }
        let since = self.shown.last();
        self.show(Event::Stale { since, reason }).await
    }

    fn behind_at(&self) -> Mono {
        self.shown.last().unwrap_or(self.started) + SILENT_AFTER
    }

    /// Resolves once the watch [is behind](Self::is_behind). Cancel-safe. (Held alone: what it holds need not be shared by threads.)
    pub(super) async fn silence(&mut self) {
        loop {
            let end = self.behind_at();
            if end <= self.clock.now().mono {
                return;
            }
            self.alarm.set(Some(end));
            self.alarm.due().await;
        }
    }

    /// Drives `work` to its end, and says in between that the watch went stale if it does.
    pub(super) async fn mind<F: Future>(&mut self, reason: &str, work: F) -> Result<F::Output, Unwanted> {
        let mut work = pin!(work);
        if !self.stale {
            tokio::select! {
                biased;
                output = &mut work => return Ok(output),
                () = self.silence() => {}
            }
            self.went_stale(reason.to_owned()).await?;
        }
        Ok(work.await)
    }
}
