//! The evictor's surroundings: its first views, time, and answers to its requests.

use super::*;

impl World {
    /// Lists all nodes, as the shell does in parts, after a list that broke off.
    pub fn list_nodes(&mut self) {
        let mut nodes: Vec<NodeFacts> = self.nodes.values().cloned().collect();
        for middle in [nodes.len().min(1), nodes.len() / 2] {
            let nodes = nodes[..middle].to_vec();
            self.tell(Input::SomeNodes { first: true, nodes });
        }
        self.tell(Input::Nodes(nodes.split_off(nodes.len() / 2).into()));
    }

    /// Gives the evictor its first views of the API and the bus.
    pub fn show_everything(&mut self) {
        self.list_nodes();
        if self.config.mode == EvictionMode::Node {
            self.tell(Input::DaemonSets(self.daemon_sets.iter().cloned().collect()));
        }
        let records = self.bus.values().map(|record| self.aged(record)).collect();
        let shards = self.shards();
        self.tell(Input::Snapshot { records, shards });
    }

    /// A record as the bus delivers it now.
    pub fn aged(&self, record: &Record) -> Record {
        let age = self.now.mono.saturating_since(self.made_at[&record.origin.revision]);
        Record {
            age: self.tells_age.then_some(age),
            ..record.clone()
        }
    }

    /// The wall clock of the evictor's machine is stepped, or another machine takes over.
    pub fn step_clock(&mut self, seconds: i64) {
        let by = secs(seconds.unsigned_abs());
        self.now.wall = if seconds < 0 { self.now.wall - by } else { self.now.wall + by };
    }

    /// The process dies; another one takes over, with what API and bus hold.
    pub fn restart(&mut self) {
        self.stop();
        self.show_everything();
    }

    pub fn stop(&mut self) {
        self.evictor = Evictor::new(self.config.clone());
        self.bus.values_mut().for_each(|record| record.is_echo = false);
        self.unanswered.clear();
        self.called_off.clear();
        self.late.forget();
        self.shown.forget();
        self.mentioned.clear();
        self.wake_at = None;
        self.completed = false;
    }

    /// The bus loses its memory of the evictor's own topic.
    pub fn forget_outcomes(&mut self) {
        self.bus.retain(|(topic, _), _| *topic != Topic::EvictionOutcomes);
    }

    pub fn watch(&mut self, input: Input) {
        if self.completed && !self.is_watch_stalled {
            self.late.watch.push_back(input);
            self.catch_up();
        }
    }

    pub fn tell(&mut self, input: Input) {
        self.note_told(&input);
        let effects = self.evictor.apply(input, self.now);
        if self.shown.others_speak {
            self.leave_to_others();
        }
        self.perform(effects);
    }

    /// Time passes; the evictor is woken when it asked to be.
    pub fn pass(&mut self, by: Duration) {
        let end = self.now.mono + by;
        while let Some(at) = self.wake_at.filter(|at| *at <= end) {
            self.wake_at = None;
            self.set_time(at.max(self.now.mono));
            self.tell(Input::Wake);
        }
        self.set_time(end);
    }

    fn set_time(&mut self, to: Mono) {
        self.now = Now {
            mono: to,
            wall: self.now.wall_of(to),
        };
    }

    /// Requests are answered when all else is done: an answer may bring another time to wake up, which is the newer one.
    fn perform(&mut self, effects: Vec<Effect>) {
        let mut requests = Vec::new();
        for effect in effects {
            match effect {
                Effect::Publish(draft) => self.heed(draft),
                Effect::Remove { key } => {
                    self.mentioned.remove(&key);
                    self.bus.remove(&(Topic::EvictionOutcomes, key.clone()));
                    self.outcomes.remove(&key);
                }
                Effect::Complete => self.complete(),
                Effect::Emit(event) => self.events.push(event),
                Effect::Count(count) => self.counts.push(count),
                Effect::Span(span) => self.spans.push(span),
                Effect::CallOff { ticket } => {
                    self.called_off.insert(ticket);
                }
                Effect::WakeAt(at) => self.wake_at = Some(at),
                request => requests.push(request),
            }
        }
        for request in requests {
            self.assert_is_allowed(&request);
            if self.is_slow {
                self.unanswered.push(request);
            } else {
                self.answer(request);
            }
        }
    }

    fn heed(&mut self, draft: Draft) {
        self.published += 1;
        self.mentioned.insert(draft.key.clone());
        let body = Some(Body::Outcome(draft.outcome.clone()));
        let record = Record {
            is_echo: true,
            trace: draft.trace,
            ..self.mk_record(Topic::EvictionOutcomes, draft.key.clone(), body)
        };
        self.bus.insert((Topic::EvictionOutcomes, draft.key.clone()), record);
        self.sources.insert(draft.key.clone(), (draft.derived_from, draft.trace));
        self.outcomes.insert(draft.key, draft.outcome);
    }

    /// Answers everything that was kept.
    pub fn answer_all(&mut self) {
        self.is_slow = false;
        for request in std::mem::take(&mut self.unanswered) {
            self.answer(request);
        }
    }

    /// Answers the oldest request that was sent, and no other.
    pub fn answer_first(&mut self) {
        let is_unsent = std::mem::replace(&mut self.is_unsent, false);
        let request = self.unanswered.remove(0);
        self.answer(request);
        self.is_unsent = is_unsent;
    }

    fn answer(&mut self, request: Effect) {
        if let Some(answer) = self.called_off(&request).filter(|_| self.is_unsent) {
            return self.tell_answer(answer);
        }
        self.requests += 1;
        let failure = self.failures.pop_front().map(|kind| Failure {
            kind,
            retry_after: self.retry_after,
            load: load_of(kind),
            detail: "as the test wanted".to_owned(),
        });
        match request {
            Effect::WriteTaints(write) => {
                let result = failure.map_or_else(|| self.write_taints(&write.node, write.taints, write.purpose), Err);
                let shown = result.as_ref().ok().cloned();
                self.tell_answer(Input::NodeAnswer {
                    ticket: write.ticket,
                    result,
                });
                if let Some(facts) = shown {
                    self.watch(Input::NodeApplied(facts));
                }
            }
            Effect::ReadNode { ticket, node } => {
                self.reads += 1;
                let unreadable = self.unreadable.contains(&node).then(|| mk_failure(FailureKind::Unknown));
                let result = failure.or(unreadable).map_or_else(
                    || self.nodes.get(&node).cloned().ok_or_else(|| mk_failure(FailureKind::Gone)),
                    Err,
                );
                self.tell_answer(Input::NodeAnswer { ticket, result });
            }
            Effect::ReadPod { ticket, pod } => {
                let found = self
                    .pods
                    .values()
                    .find(|facts| facts.name == pod.name && facts.namespace == pod.namespace)
                    .cloned();
                let result = failure.map_or_else(
                    || found.map(PodAnswer::Facts).ok_or_else(|| mk_failure(FailureKind::Gone)),
                    Err,
                );
                self.tell_answer(Input::PodAnswer { ticket, result });
            }
            Effect::MarkPod { ticket, pod, mark } => {
                let result = failure.map_or_else(|| self.mark(&pod, &mark), Err);
                self.tell_answer(Input::PodAnswer { ticket, result });
            }
            Effect::DeletePod { ticket, pod } => {
                let result = failure.map_or_else(|| self.delete(&pod), Err);
                self.tell_answer(Input::PodAnswer { ticket, result });
            }
            Effect::EvictPod { ticket, pod } => {
                let result = failure.map_or_else(|| self.evict(&pod), Err);
                self.tell_answer(Input::PodAnswer { ticket, result });
            }
            other => unreachable!("{other:?} is no request"),
        }
    }

    /// The answer to a request that was called off before it was sent.
    fn called_off(&self, request: &Effect) -> Option<Input> {
        match request {
            Effect::MarkPod { ticket, .. }
            | Effect::DeletePod { ticket, .. }
            | Effect::EvictPod { ticket, .. }
            | Effect::ReadPod { ticket, .. }
                if self.called_off.contains(ticket) =>
            {
                let (ticket, result) = (*ticket, Err(mk_failure(FailureKind::CalledOff)));
                Some(Input::PodAnswer { ticket, result })
            }
            Effect::WriteTaints(write) if self.called_off.contains(&write.ticket) => {
                assert_ne!(write.purpose, Purpose::Clear, "withdrawing is never held");
                let (ticket, result) = (write.ticket, Err(mk_failure(FailureKind::CalledOff)));
                Some(Input::NodeAnswer { ticket, result })
            }
            _ => None,
        }
    }

    fn write_taints(&mut self, node: &NodeRef, taints: Vec<Taint>, purpose: Purpose) -> Result<NodeFacts, Failure> {
        let version = self.next_version();
        let facts = self.nodes.get_mut(&node.name).ok_or_else(|| mk_failure(FailureKind::Gone))?;
        if facts.uid != node.uid || facts.resource_version != node.resource_version {
            return Err(mk_failure(FailureKind::Conflict));
        }
        assert_ne!(facts.taints, taints, "a write that changes nothing is not sent");
        facts.taints = taints;
        facts.resource_version = ResourceVersion::from(version.to_string());
        let name = node.name.to_string();
        let happened = match purpose {
            Purpose::Isolate => Happened::Isolated(name, facts.zone.clone()),
            Purpose::Swap => Happened::Swapped(name),
            Purpose::Clear => Happened::Cleared(name),
        };
        let facts = facts.clone();
        self.history.push((self.now.mono, happened));
        Ok(facts)
    }

    fn checked_pod(&mut self, pod: &PodRef) -> Result<&mut PodFacts, Failure> {
        let found = self
            .pods
            .values_mut()
            .find(|facts| facts.name == pod.name && facts.namespace == pod.namespace);
        let facts = found.ok_or_else(|| mk_failure(FailureKind::Gone))?;
        if facts.uid != pod.uid || facts.resource_version != pod.resource_version {
            return Err(mk_failure(FailureKind::Conflict));
        }
        Ok(facts)
    }

    fn mark(&mut self, pod: &PodRef, mark: &Mark) -> Result<PodAnswer, Failure> {
        let version = self.next_version();
        let facts = self.checked_pod(pod)?;
        match mark {
            Mark::DisruptionTarget { transition, generation } => {
                assert_eq!(*generation, facts.generation, "observedGeneration is the pod's generation");
                assert_eq!(
                    transition.is_none(),
                    facts.disruption_target,
                    "a condition that is True keeps its transition"
                );
                facts.disruption_target = true;
                facts.marked = true;
            }
            Mark::NodeLost { .. } => facts.reason = NODE_LOST.to_owned(),
        }
        facts.resource_version = ResourceVersion::from(version.to_string());
        let facts = facts.clone();
        self.history.push((self.now.mono, Happened::Marked(facts.name.to_string())));
        Ok(PodAnswer::Facts(facts))
    }

    fn evict(&mut self, pod: &PodRef) -> Result<PodAnswer, Failure> {
        let facts = self.checked_pod(pod)?.clone();
        self.evictions_tried += 1;
        if let Some(block) = self.budgets.get(&facts.uid) {
            return Ok(PodAnswer::Blocked(block.clone()));
        }
        self.pods.remove(&facts.uid);
        self.history.push((self.now.mono, Happened::Evicted(facts.name.to_string())));
        Ok(PodAnswer::Deleted)
    }

    fn delete(&mut self, pod: &PodRef) -> Result<PodAnswer, Failure> {
        let facts = self.checked_pod(pod)?.clone();
        self.pods.remove(&facts.uid);
        self.history.push((self.now.mono, Happened::Deleted(facts.name.to_string())));
        Ok(PodAnswer::Deleted)
    }
}
