//! Between the tiny cluster and its core: what is told, in which order, and when.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bailiff_daemonset_core::{Effect, Input, Pod, Request, Scope};
use bailiff_model::Now;

use super::{Cluster, Lists, PODS, STREAMS};

impl Cluster {
    /// Every watch that has it among its pods tells.
    pub(super) fn tell_of_pod(&mut self, pod: &Pod) {
        for of in self.watched.iter().filter(|of| has(of, pod)) {
            let (of, pod) = (of.clone(), pod.clone());
            self.streams[PODS].push_back(Input::PodApplied { of, pod });
        }
    }

    pub fn feed(&mut self, input: Input) {
        self.inputs += 1;
        for effect in self.core.apply(input, self.now) {
            if let Effect::Send {
                urgency,
                request: Request::CreatePod { .. },
                ..
            } = &effect
            {
                self.urgencies.push(*urgency);
            }
            match effect {
                Effect::Send { id, owner, request, .. } if self.has_to_wait(&request) => {
                    self.unsent.push_back((id, owner, request));
                }
                Effect::Send { id, owner, request, .. } => self.serve(id, &owner, &request),
                Effect::CallOff(id) => self.call_off(id),
                Effect::Event {
                    reason, message, about, ..
                } => {
                    self.events.push(format!("{reason} {message}"));
                    self.abouts.push(about);
                }
                Effect::Publish(sync) => self.published = Some(*sync),
                Effect::Withdraw(_) => self.published = None,
                Effect::WatchPods(scopes) => self.watch_pods(scopes),
                Effect::WakeAt(at) => self.wake = at,
            }
        }
    }

    fn has_to_wait(&self, request: &Request) -> bool {
        match request {
            Request::CreatePod { .. } => self.creates_wait,
            Request::DeletePod { .. } | Request::AdoptPod { .. } | Request::DeleteRevision { .. } => self.is_slow,
            _ => false,
        }
    }

    /// What is not watched yet is listed, as it is now.
    fn watch_pods(&mut self, scopes: BTreeSet<Scope>) {
        let before = std::mem::replace(&mut self.watched, scopes);
        // Of a watch that ends nothing more is heard.
        let is_heard = |input: &Input| match input {
            Input::SomePods { of, .. } | Input::Pods { of, .. } | Input::PodApplied { of, .. } => self.watched.contains(of),
            _ => true,
        };
        self.streams[PODS].retain(is_heard);
        let more: Vec<Scope> = self.watched.difference(&before).cloned().collect();
        for of in more {
            let mut pods: Vec<Pod> = self.pods().into_iter().filter(|pod| has(&of, pod)).collect();
            match self.lists {
                Lists::AtOnce => self.feed(Input::Pods { of, pods: pods.into() }),
                Lists::InTurn => {
                    let rest = pods.split_off(pods.len() / 2).into();
                    self.streams[PODS].push_back(Input::SomePods {
                        of: of.clone(),
                        first: true,
                        pods,
                    });
                    self.streams[PODS].push_back(Input::Pods { of, pods: rest });
                }
                Lists::ByHand => {}
            }
        }
    }

    /// Streams with something to deliver.
    pub fn pending(&self) -> Vec<usize> {
        (0..STREAMS).filter(|stream| !self.streams[*stream].is_empty()).collect()
    }

    /// What a stream has to deliver, taken out of it.
    pub fn hold_back(&mut self, stream: usize) -> VecDeque<Input> {
        std::mem::take(&mut self.streams[stream])
    }

    /// The opposite.
    pub fn give_back(&mut self, stream: usize, late: VecDeque<Input>) {
        self.streams[stream] = late;
    }

    pub fn deliver(&mut self, stream: usize) {
        if let Some(input) = self.streams[stream].pop_front() {
            self.feed(input);
        }
    }

    /// Delivers everything there is, watches before answers.
    pub fn settle(&mut self) {
        let mut steps = 0;
        while let Some(stream) = self.pending().first().copied() {
            self.deliver(stream);
            steps += 1;
            let last = &self.requests[self.requests.len().saturating_sub(12)..];
            assert!(steps < 20_000, "the cluster does not come to rest: {last:#?}");
        }
    }

    /// Lets time pass, waking the core when it asks for it.
    pub fn pass(&mut self, seconds: u64) {
        let end = self.now.mono + Duration::from_secs(seconds);
        self.settle();
        for _ in 0..100_000 {
            let next = self
                .wake
                .filter(|wake| *wake <= end)
                .map_or(end, |wake| wake.max(self.now.mono));
            let by = next.saturating_since(self.now.mono);
            self.now = Now {
                mono: next,
                wall: self.now.wall + by,
            };
            if next == end && self.wake.is_none_or(|wake| wake > end) {
                return;
            }
            self.feed(Input::Tick);
            self.settle();
        }
        unreachable!("the core wakes without end");
    }

    /// Plays kubelets and time until nothing changes.
    pub fn rest(&mut self) {
        for _ in 0..200 {
            let before = self.counter;
            self.settle();
            self.kubelets();
            self.pass(2);
            if self.counter == before {
                return;
            }
        }
        unreachable!("the cluster does not come to rest: {:#?}", self.writes);
    }

    /// Lets a second pass and nothing else happen.
    pub fn pass_one_second(&mut self) {
        self.pass_some(Duration::from_secs(1));
    }

    /// Lets some time pass and nothing else happen.
    pub fn pass_some(&mut self, by: Duration) {
        self.now = Now {
            mono: self.now.mono + by,
            wall: self.now.wall + by,
        };
        self.feed(Input::Tick);
    }

    /// Like [`Cluster::rest`], after every backoff has had time to end.
    pub fn rest_longer(&mut self) {
        for _ in 0..20 {
            self.settle();
            self.kubelets();
            self.pass(120);
        }
        self.rest();
    }
}

fn has(scope: &Scope, pod: &Pod) -> bool {
    match scope {
        Scope::All => true,
        Scope::Namespace(namespace) => *namespace == pod.namespace,
    }
}
