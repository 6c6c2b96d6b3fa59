//! What a service says about itself: checks that must hold before it is ready, heartbeats that show it is alive.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiff_model::Mono;

use crate::{Clock, GoDuration};

type Name = Cow<'static, str>;

/// Checks and heartbeats of a service; cloning it gives the same ones.
#[derive(Clone, Debug)]
pub struct Readiness {
    clock: Clock,
    inner: Arc<Mutex<Inner>>,
    /// What the names begin with.
    part: String,
}

#[derive(Debug, Default)]
struct Inner {
    checks: BTreeMap<Name, State>,
    heartbeats: BTreeMap<Name, (Arc<AtomicU64>, Duration)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Ok(Option<String>),
    Failed(String),
}

/// A condition of being ready. It fails until told otherwise, and keeps what it was told last when this handle is dropped.
#[derive(Clone, Debug)]
pub struct Check {
    name: Name,
    inner: Arc<Mutex<Inner>>,
}

/// Shows that a loop turns.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    clock: Clock,
    /// Nanoseconds since the clock's origin.
    last: Arc<AtomicU64>,
}

/// How a check went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The check's name.
    pub name: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// What is worth knowing although it did not.
    pub note: Option<String>,
}

// === impl Readiness ===

impl Readiness {
    /// Without checks: ready and alive.
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            inner: Arc::default(),
            part: String::new(),
        }
    }

    /// The clock that ages are by.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The checks and heartbeats of a part of this service: their names begin with that of the part.
    pub fn of_part(&self, name: &str) -> Self {
        Self {
            part: format!("{}{name}: ", self.part),
            ..self.clone()
        }
    }

    /// Forgets the checks and heartbeats of this part; those of the whole stay.
    pub fn forget(&self) {
        if self.part.is_empty() {
            return;
        }
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.checks.retain(|name, _| !name.starts_with(&self.part));
        inner.heartbeats.retain(|name, _| !name.starts_with(&self.part));
    }

    fn name(&self, name: Name) -> Name {
        if self.part.is_empty() {
            name
        } else {
            format!("{}{name}", self.part).into()
        }
    }

    /// Adds a check that fails until told otherwise. Of two with one name the later counts.
    pub fn check(&self, name: impl Into<Name>) -> Check {
        let check = Check {
            name: self.name(name.into()),
            inner: self.inner.clone(),
        };
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.checks.insert(check.name.clone(), State::Failed("not yet".to_owned()));
        drop(inner);
        check
    }

    /// Adds a heartbeat: the service is alive while the last beat is no older than `max_age`. Adding it is a beat.
    pub fn heartbeat(&self, name: impl Into<Name>, max_age: Duration) -> Heartbeat {
        let heartbeat = Heartbeat {
            clock: self.clock.clone(),
            last: Arc::new(AtomicU64::new(0)),
        };
        heartbeat.beat();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner
            .heartbeats
            .insert(self.name(name.into()), (heartbeat.last.clone(), max_age));
        heartbeat
    }

    /// Is every check ok?
    pub fn is_ready(&self) -> bool {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.checks.values().all(|state| matches!(state, State::Ok(_)))
    }

    /// Every check, by name.
    pub fn readiness(&self) -> Vec<Outcome> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = |(name, state): (&Name, &State)| {
            let (failure, note) = match state.clone() {
                State::Ok(note) => (None, note),
                State::Failed(reason) => (Some(reason), None),
            };
            Outcome {
                name: name.to_string(),
                failure,
                note,
            }
        };
        inner.checks.iter().map(outcome).collect()
    }

    /// Every heartbeat, by name.
    pub fn liveness(&self) -> Vec<Outcome> {
        let now = self.clock.now().mono;
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = |(name, (last, max_age)): (&Name, &(Arc<AtomicU64>, Duration))| {
            let last = Mono::from_nanos(last.load(Ordering::Relaxed));
            let age = now.saturating_since(last);
            let late = || {
                format!(
                    "no turn for {}, allowed are {}",
                    GoDuration::new(age),
                    GoDuration::new(*max_age)
                )
            };
            Outcome {
                name: name.to_string(),
                failure: (age > *max_age).then(late),
                note: None,
            }
        };
        inner.heartbeats.iter().map(outcome).collect()
    }
}

// === impl Check ===

impl Check {
    /// It holds.
    pub fn ok(&self) {
        self.set(State::Ok(None));
    }

    /// It holds, and this is worth knowing: a standby waits for its turn, something is held back.
    pub fn note(&self, note: impl Into<String>) {
        self.set(State::Ok(Some(note.into())));
    }

    /// It does not hold.
    pub fn fail(&self, reason: impl Into<String>) {
        self.set(State::Failed(reason.into()));
    }

    /// It is not asked for any more.
    pub fn remove(self) {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .checks
            .remove(&self.name);
    }

    fn set(&self, state: State) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was forgotten with its part stays so.
        let Some(known) = inner.checks.get_mut(&self.name) else {
            return;
        };
        let before = std::mem::replace(known, state.clone());
        drop(inner);
        match (before, state) {
            (State::Failed(old), State::Failed(new)) if old == new => {}
            (_, State::Failed(reason)) => tracing::info!(check = %self.name, %reason, "not ready"),
            (State::Failed(_), State::Ok(_)) => tracing::info!(check = %self.name, "ready"),
            _ => {}
        }
    }
}

// === impl Heartbeat ===

impl Heartbeat {
    /// The loop turned.
    pub fn beat(&self) {
        self.last.store(self.clock.now().mono.as_nanos(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::Wall;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_part_has_checks_of_its_own_and_can_be_forgotten() {
        let readiness = Readiness::new(&Clock::virtual_from(Wall::UNIX_EPOCH));
        readiness.check("bus").ok();
        let part = readiness.of_part("shard 1 of 2");
        part.check("bus").fail("lost");
        part.heartbeat("loop", Duration::from_secs(1));
        let names = |readiness: &Readiness| readiness.readiness().into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names(&readiness), ["bus", "shard 1 of 2: bus"]);
        assert_eq!((readiness.is_ready(), readiness.liveness().len()), (false, 1));
        readiness.forget();
        assert_eq!(names(&readiness).len(), 2, "the whole is not forgotten");
        part.forget();
        assert_eq!(names(&readiness), ["bus"]);
        assert_eq!((readiness.is_ready(), readiness.liveness().len()), (true, 0));
    }
}
