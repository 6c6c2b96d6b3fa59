//! Writes that are wanted, under way, or waiting for another try: at most one per key, a bounded number at a time.
//!
//! ```text
//!           want            next              settle             saw, or 10 s
//!   (idle) ──────▶ queued ───────▶ running ──────────▶ settling ─────────────▶ (idle)
//!                    ▲                │ │ done
//!                    │ retry          │ └──────▶ (idle)
//!                    └─── backoff ◀───┘ failed
//! ```
//! After a write a key settles: until the watch has shown it, what the watch shows is older than what was written, and deciding on
//! it would write twice.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bailiff_model::{Backoff, Load, Mono, Now, ResourceVersion, Window};

/// After failures: upstream's pause after a conflict first (NL-005), and an API server that is back is noticed within half a minute.
const FAILED: Backoff = Backoff {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(30),
};

/// How long to wait until the watch shows a write: far beyond the delay of a healthy watch. A stale one resumes with a new list.
const SETTLE: Duration = Duration::from_secs(10);

/// How a try begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// From what is known.
    Write,
    /// From a fresh read, because the last one failed.
    Read,
}

#[derive(Debug)]
enum Phase {
    Queued(Step),
    Running,
    Backoff,
    Settling(ResourceVersion),
}

#[derive(Debug)]
struct Task {
    phase: Phase,
    failures: u32,
    /// Versions that the watch showed while the write was under way; usually none, at most a few.
    seen: Vec<ResourceVersion>,
}

/// Tasks by key.
#[derive(Debug)]
pub(crate) struct Tasks<K> {
    window: Window,
    running: usize,
    tasks: BTreeMap<K, Task>,
    queue: VecDeque<K>,
}

impl<K: Ord + Clone> Tasks<K> {
    /// No tasks; as many of them may run at a time as the window has.
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            running: 0,
            tasks: BTreeMap::new(),
            queue: VecDeque::new(),
        }
    }

    /// Tasks that are not idle.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Queues a write of `key` if nothing is going on with it.
    pub(crate) fn want(&mut self, key: &K) {
        if !self.tasks.contains_key(key) {
            let task = Task {
                phase: Phase::Queued(Step::Write),
                failures: 0,
                seen: Vec::new(),
            };
            self.tasks.insert(key.clone(), task);
            self.queue.push_back(key.clone());
        }
    }

    /// Starts the next task, if one more may run.
    pub(crate) fn next(&mut self) -> Option<(K, Step)> {
        if self.running >= self.window.size() {
            return None;
        }
        while let Some(key) = self.queue.pop_front() {
            let Some(task) = self.tasks.get_mut(&key) else { continue };
            if let Phase::Queued(step) = task.phase {
                task.phase = Phase::Running;
                self.running += 1;
                return Some((key, step));
            }
        }
        None
    }

    /// A running task is finished, or turned out to be unnecessary.
    pub(crate) fn done(&mut self, key: &K) {
        if self.is_running(key) {
            self.running -= 1;
            self.tasks.remove(key);
        }
    }

    /// A running task is finished, as of `version` of `key`, or because there is none. True if the watch showed one meanwhile that may be
    /// newer.
    pub(crate) fn done_as_of(&mut self, key: &K, version: Option<&ResourceVersion>) -> bool {
        let may_be_newer = |seen: &ResourceVersion| version.is_none_or(|version| !seen.is_older_than(version));
        let task = self.tasks.get(key);
        let overtaken = task.is_some_and(|task| task.seen.iter().any(may_be_newer));
        self.done(key);
        overtaken
    }

    /// A running task was answered, and is finished.
    pub(crate) fn answered(&mut self, key: &K) {
        if self.is_running(key) {
            self.window.ended(Load::Answered);
            self.done(key);
        }
    }

    /// A running task wrote `version`. Returns until when to wait for the watch to show it; `None` if it did already.
    pub(crate) fn settle(&mut self, key: &K, version: &ResourceVersion, now: Now) -> Option<Mono> {
        if !self.is_running(key) {
            return None;
        }
        let task = self.tasks.get_mut(key)?;
        self.window.ended(Load::Answered);
        if task.seen.contains(version) {
            self.done(key);
            return None;
        }
        self.running -= 1;
        task.phase = Phase::Settling(version.clone());
        Some(now.mono + SETTLE)
    }

    /// The watch showed `version` of `key`. True if the key became idle by it.
    pub(crate) fn saw(&mut self, key: &K, version: &ResourceVersion) -> bool {
        let Some(task) = self.tasks.get_mut(key) else { return false };
        match &task.phase {
            Phase::Settling(wanted) if wanted == version => {
                self.tasks.remove(key);
                true
            }
            Phase::Running => {
                task.seen.push(version.clone());
                false
            }
            _ => false,
        }
    }

    /// A list showed `key`, whatever its version: nothing older will follow. True if the key became idle by it.
    pub(crate) fn listed(&mut self, key: &K) -> bool {
        let settling = self
            .tasks
            .get(key)
            .is_some_and(|task| matches!(task.phase, Phase::Settling(_)));
        if settling {
            self.tasks.remove(key);
        }
        settling
    }

    /// A running task failed. Returns when to call [`Self::expired`].
    pub(crate) fn failed(&mut self, key: &K, retry_after: Option<Duration>, load: Load, now: Now) -> Option<Mono> {
        if !self.is_running(key) {
            return None;
        }
        self.running -= 1;
        self.window.ended(load);
        let task = self.tasks.get_mut(key)?;
        task.phase = Phase::Backoff;
        task.seen.clear();
        task.failures = task.failures.saturating_add(1);
        Some(now.mono + FAILED.heeding(task.failures, retry_after))
    }

    /// The moment given by [`Self::failed`] or [`Self::settle`] has come. True if the key became idle by it.
    pub(crate) fn expired(&mut self, key: &K) -> bool {
        let Some(task) = self.tasks.get_mut(key) else { return false };
        match task.phase {
            Phase::Backoff => {
                task.phase = Phase::Queued(Step::Read);
                self.queue.push_back(key.clone());
                false
            }
            Phase::Settling(_) => {
                self.tasks.remove(key);
                true
            }
            Phase::Queued(_) | Phase::Running => false,
        }
    }

    /// Nothing is wanted of `key` any more. One that runs goes on until its answer.
    pub(crate) fn forget(&mut self, key: &K) {
        if !self.is_running(key) {
            self.tasks.remove(key);
        }
    }

    fn is_running(&self, key: &K) -> bool {
        self.tasks.get(key).is_some_and(|task| matches!(task.phase, Phase::Running))
    }
}

#[cfg(test)]
mod tests {
    use bailiff_model::Wall;

    use super::*;

    fn mk_now(millis: u64) -> Now {
        Now {
            mono: Mono::from_origin(Duration::from_millis(millis)),
            wall: Wall::UNIX_EPOCH,
        }
    }

    #[test]
    fn no_more_than_the_limit_runs() {
        let mut tasks = Tasks::new(Window::new(2, 2));
        for key in [1, 2, 3, 1, 2] {
            tasks.want(&key);
        }
        assert_eq!(tasks.next(), Some((1, Step::Write)));
        assert_eq!(tasks.next(), Some((2, Step::Write)));
        assert_eq!(tasks.next(), None);
        tasks.done(&1);
        tasks.done(&1);
        assert_eq!(tasks.next(), Some((3, Step::Write)));
        assert_eq!(tasks.next(), None);
        assert_eq!(tasks.len(), 2);
    }

    /// NL-115, NL-122
    #[test]
    fn a_failure_is_tried_again_from_a_fresh_read_later_and_later() {
        let mut tasks = Tasks::new(Window::new(1, 1));
        tasks.want(&1);
        assert_eq!(tasks.next(), Some((1, Step::Write)));
        let mut pauses = Vec::new();
        for _ in 0..11 {
            let at = tasks.failed(&1, None, Load::Overloaded, mk_now(0)).expect("it ran");
            pauses.push(u64::try_from(at.since_origin().as_millis()).expect("small"));
            assert_eq!(tasks.next(), None, "not before its time");
            assert!(!tasks.expired(&1));
            assert_eq!(tasks.next(), Some((1, Step::Read)));
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        let asked = tasks.failed(&1, Some(Duration::from_secs(60)), Load::Overloaded, mk_now(0));
        assert_eq!(asked, Some(mk_now(60_000).mono));
    }

    #[test]
    fn a_write_settles_when_the_watch_shows_it() {
        let (old, new) = (ResourceVersion::from("1"), ResourceVersion::from("2"));
        let mut tasks = Tasks::new(Window::new(1, 1));
        tasks.want(&1);
        tasks.next();
        assert!(!tasks.saw(&1, &old));
        assert_eq!(tasks.settle(&1, &new, mk_now(0)), Some(mk_now(10_000).mono));
        tasks.want(&1);
        assert_eq!(tasks.next(), None, "settling");
        assert!(!tasks.saw(&1, &old));
        assert!(tasks.saw(&1, &new));
        tasks.want(&1);
        tasks.next();
        assert!(!tasks.saw(&1, &new), "the watch was faster than the answer");
        assert_eq!(tasks.settle(&1, &new, mk_now(0)), None);
        assert_eq!(tasks.len(), 0);
    }
}
