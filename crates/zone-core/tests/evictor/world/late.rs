//! What reaches the evictor late, or not as it was, and what it must never ask for with what it was told.

use super::*;

/// News that was not delivered yet, and whether it may be.
#[derive(Clone, Debug, Default)]
pub struct Late {
    pub is_watch_late: bool,
    pub is_bus_late: bool,
    pub are_answers_late: bool,
    /// Of the next answers it only gets through that nobody knows what came of the request.
    pub answers_lost: u32,
    pub watch: VecDeque<Input>,
    pub bus: VecDeque<Input>,
    pub answers: Vec<Input>,
    /// A hold on everything was told, and not that it ended.
    pub is_all_held: bool,
}

// === impl Late ===

impl Late {
    /// The process that all this was for is gone.
    pub fn forget(&mut self) {
        let (is_watch_late, is_bus_late) = (self.is_watch_late, self.is_bus_late);
        *self = Self {
            is_watch_late,
            is_bus_late,
            ..Self::default()
        };
    }
}

// === impl World ===

impl World {
    /// Delivers what may be.
    pub fn catch_up(&mut self) {
        while !self.late.is_watch_late
            && let Some(input) = self.late.watch.pop_front()
        {
            self.tell(input);
        }
        while !self.late.is_bus_late
            && let Some(input) = self.late.bus.pop_front()
        {
            self.tell(input);
        }
    }

    /// Delivers what there is, and all that follows from it.
    pub fn deliver_all(&mut self) {
        self.is_unsent = false;
        (self.late.is_watch_late, self.late.is_bus_late, self.late.are_answers_late) = (false, false, false);
        self.late.answers_lost = 0;
        self.catch_up();
        self.answer_all();
        for answer in std::mem::take(&mut self.late.answers) {
            self.tell(answer);
        }
    }

    pub(super) fn tell_answer(&mut self, mut answer: Input) {
        if self.late.answers_lost > 0 {
            self.late.answers_lost -= 1;
            match &mut answer {
                Input::NodeAnswer { result, .. } => *result = Err(mk_failure(FailureKind::Unknown)),
                Input::PodAnswer { result, .. } => *result = Err(mk_failure(FailureKind::Unknown)),
                _ => {}
            }
        }
        if self.late.are_answers_late {
            self.late.answers.push(answer);
        } else {
            self.tell(answer);
        }
    }

    /// A session that is complete takes back what it did not mention, but for what is over (design §2).
    pub(super) fn complete(&mut self) {
        self.completed = true;
        let mentioned = &self.mentioned;
        let is_over = |record: &Record| matches!(&record.body, Some(Body::Outcome(Outcome::Pod(pod))) if pod.state.is_terminal());
        self.bus
            .retain(|(topic, key), record| *topic != Topic::EvictionOutcomes || mentioned.contains(key) || is_over(record));
        let bus = &self.bus;
        self.outcomes
            .retain(|key, _| bus.contains_key(&(Topic::EvictionOutcomes, key.clone())));
    }

    /// The evictor alone, begun anew in the same cluster, on what the bus keeps.
    pub fn successor(&self) -> Self {
        let mut next = Self {
            now: self.now,
            nodes: self.nodes.clone(),
            pods: self.pods.clone(),
            bus: self.bus.clone(),
            daemon_sets: self.daemon_sets.clone(),
            shards: self.shards.clone(),
            outcomes: self.outcomes.clone(),
            budgets: self.budgets.clone(),
            version: self.version,
            revision: self.revision,
            made_at: self.made_at.clone(),
            tells_age: self.tells_age,
            incarnation: self.incarnation,
            ..Self::unseen(self.config.clone())
        };
        next.shown.others_speak = self.shown.others_speak;
        next.stop();
        next
    }

    pub(super) fn note_told(&mut self, input: &Input) {
        if let Input::Braked(holds) = input {
            self.late.is_all_held = holds.on_everything().is_some();
        }
        self.shown.note(input);
    }

    /// Nothing is asked for while everything is held, nor about a pod that is not due, whatever else is true.
    pub(super) fn assert_is_allowed(&self, request: &Effect) {
        let pod = match request {
            Effect::WriteTaints(write) => {
                assert!(
                    !self.late.is_all_held || write.purpose == Purpose::Clear,
                    "{request:?} is held"
                );
                return;
            }
            Effect::MarkPod { pod, .. } | Effect::DeletePod { pod, .. } | Effect::EvictPod { pod, .. } => pod,
            _ => return,
        };
        assert!(!self.late.is_all_held, "{request:?} is held");
        assert!(self.shown.due.contains(&pod.uid), "{request:?} is not due");
    }
}
