//! What the kubelets know and decide: whose turn it is to renew, and what becomes of a pod. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// Kubelets renew every 10 s (`nodeLeaseDurationSeconds` / 4).
pub(super) const RENEW: Duration = Duration::from_secs(10);
/// And post their status every 5 minutes (`nodeStatusReportFrequency`).
pub(super) const POST: Duration = Duration::from_secs(300);

/// 2^64 divided by the golden ratio: its multiples, as fractions of 2^64, are evenly spread, however many there are (Weyl's sequence).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Turns of all nodes within a period, evenly spread, and so are those of any nodes in a row: what falls silent together renewed at
/// times that have nothing to do with each other.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    period: Duration,
    /// Nodes, in the order of their turns.
    order: Vec<usize>,
    done: u128,
}

/// A node and its kubelet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kubelet {
    pub(super) name: String,
    /// Version of its Lease, with which it is renewed.
    pub(super) version: String,
    pub(super) is_silent: bool,
    /// A renewal is under way: another one would be refused.
    pub(super) is_renewing: bool,
}

/// A pod, as far as its kubelet cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// Where it is; empty before it is bound.
    pub(super) node: String,
    /// Where it asks to be.
    pub(super) wanted_node: Option<String>,
    pub(super) is_pending: bool,
    pub(super) is_leaving: bool,
}

/// What is to be done with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// It goes to this node.
    Bind(Pod, String),
    /// It runs.
    Start(Pod),
    /// It ended, and goes for good.
    Finish(Pod),
}

/// All kubelets and their pods.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    pub(super) kubelets: Vec<Kubelet>,
    by_name: BTreeMap<String, usize>,
    /// Pods on silent nodes that something is to be done with once they speak again, by uid.
    held: BTreeMap<String, Pod>,
    /// Pods with a request under way, by uid, and how each was seen since: that is looked at once the request is answered.
    busy: BTreeMap<String, Option<Pod>>,
}

// === impl Turns ===

impl Turns {
    pub(super) fn every(period: Duration, nodes: usize) -> Self {
        let mut order: Vec<usize> = (0..nodes).collect();
        order.sort_by_key(|node| (*node as u64).wrapping_mul(GOLDEN));
        Self { period, order, done: 0 }
    }

    /// Whose turn came until then; after a long pause each comes once, not once for every period that passed.
    pub(super) fn until(&mut self, elapsed: Duration) -> Vec<usize> {
        let nodes = self.order.len() as u128;
        if nodes == 0 {
            return Vec::new();
        }
        let due = elapsed.as_nanos() * nodes / self.period.as_nanos();
        let from = self.done.max(due.saturating_sub(nodes));
        self.done = due;
        // A remainder of what was a usize.
        let turns = (from..due).filter_map(|turn| usize::try_from(turn % nodes).ok());
        turns.map(|turn| self.order[turn]).collect()
    }
}

// === impl Job ===

impl Job {
    pub(super) fn pod(&self) -> &Pod {
        let (Self::Bind(pod, _) | Self::Start(pod) | Self::Finish(pod)) = self;
        pod
    }

    pub(super) fn uid(&self) -> &str {
        &self.pod().uid
    }
}

// === impl Fleet ===

impl Fleet {
    pub(super) fn new(kubelets: Vec<Kubelet>) -> Self {
        let by_name = kubelets.iter().enumerate();
        Self {
            by_name: by_name.map(|(index, kubelet)| (kubelet.name.clone(), index)).collect(),
            kubelets,
            ..Self::default()
        }
    }

    /// A pod is as it is: what is to be done with it at once.
    pub(super) fn pod(&mut self, pod: Pod) -> Option<Job> {
        if let Some(seen) = self.busy.get_mut(&pod.uid) {
            *seen = Some(pod);
            return None;
        }
        let job = match &pod {
            Pod {
                node,
                wanted_node,
                is_leaving: false,
                ..
            } if node.is_empty() => Job::Bind(pod.clone(), wanted_node.clone()?),
            _ if self.is_silent(&pod.node) => {
                self.held.insert(pod.uid.clone(), pod);
                return None;
            }
            Pod { is_leaving: true, .. } => Job::Finish(pod),
            Pod { is_pending: true, .. } => Job::Start(pod),
            _ => return None,
        };
        self.busy.insert(job.uid().to_owned(), None);
        Some(job)
    }

    /// A pod is gone.
    pub(super) fn gone(&mut self, uid: &str) {
        self.held.remove(uid);
        self.busy.remove(uid);
    }

    /// What was to be done with a pod was answered: what is to be done next, if it changed meanwhile.
    pub(super) fn done(&mut self, uid: &str) -> Option<Job> {
        let seen = self.busy.remove(uid)??;
        self.pod(seen)
    }

    /// What was to be done with a pod came to nothing: it is to be done again, unless the pod changed or went meanwhile.
    pub(super) fn failed(&mut self, job: Job) -> Option<Job> {
        let seen = self.busy.remove(job.uid())?;
        self.pod(seen.unwrap_or_else(|| job.pod().clone()))
    }

    /// Nodes fall silent, or speak again; which of them are back, and what is to be done with their pods then.
    pub(super) fn silence(&mut self, names: &[String], is_silent: bool) -> (Vec<usize>, Vec<Job>) {
        let mut back = Vec::new();
        for index in names.iter().filter_map(|name| self.by_name.get(name)) {
            let was_silent = std::mem::replace(&mut self.kubelets[*index].is_silent, is_silent);
            if was_silent && !is_silent {
                back.push(*index);
            }
        }
        let held = if back.is_empty() {
            BTreeMap::new()
        } else {
            std::mem::take(&mut self.held)
        };
        let jobs = held.into_values().filter_map(|pod| self.pod(pod)).collect();
        (back, jobs)
    }

    fn is_silent(&self, node: &str) -> bool {
        let kubelet = self.by_name.get(node).map(|index| &self.kubelets[*index]);
        // The pods of a node that is somebody else's are that one's.
        kubelet.is_none_or(|kubelet| kubelet.is_silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_fleet() -> Fleet {
        let kubelet = |name: &str| Kubelet {
            name: name.to_owned(),
            ..Kubelet::default()
        };
        Fleet::new(vec![kubelet("a"), kubelet("b")])
    }

    fn mk_pod(node: &str) -> Pod {
        Pod {
            namespace: "default".to_owned(),
            name: "p".to_owned(),
            uid: "u".to_owned(),
            node: node.to_owned(),
            wanted_node: None,
            is_pending: true,
            is_leaving: false,
        }
    }

    #[test]
    fn turns_are_spread_over_the_period_and_none_is_left_out() {
        let mut turns = Turns::every(Duration::from_secs(10), 4);
        let mut all = Vec::new();
        for millis in (0..=20_000).step_by(700) {
            all.extend(turns.until(Duration::from_millis(millis)));
        }
        assert_eq!(all, [0, 2, 1, 3, 0, 2, 1]);
        assert_eq!(turns.until(Duration::from_secs(3600)).len(), 4, "once each after a pause");
        assert!(Turns::every(RENEW, 0).until(Duration::from_secs(7200)).is_empty());
    }

    /// A tenth of the nodes falls silent together: about as many graces end in each second.
    #[test]
    fn turns_of_nodes_in_a_row_are_spread_over_the_period() {
        let mut turns = Turns::every(Duration::from_secs(10), 5_000);
        for second in 1..=10 {
            let of_second = turns.until(Duration::from_secs(second));
            let silent = of_second.iter().filter(|node| (1_000..1_500).contains(*node)).count();
            assert!((45..=55).contains(&silent) && of_second.len() == 500, "{second}: {silent}");
        }
    }

    #[test]
    fn a_pod_is_bound_then_started_then_finished_once_each() {
        let mut fleet = mk_fleet();
        let daemon = Pod {
            wanted_node: Some("a".to_owned()),
            ..mk_pod("")
        };
        assert_eq!(fleet.pod(daemon.clone()), Some(Job::Bind(daemon.clone(), "a".to_owned())));
        assert_eq!(fleet.pod(mk_pod("a")), None, "it is bound, and that was not answered yet");
        assert_eq!(fleet.done("u"), Some(Job::Start(mk_pod("a"))));
        assert_eq!(fleet.done("u"), None, "nothing was seen meanwhile");
        let running = Pod {
            is_pending: false,
            ..mk_pod("a")
        };
        assert_eq!(fleet.pod(running.clone()), None);
        let leaving = Pod {
            is_leaving: true,
            ..running
        };
        assert_eq!(fleet.pod(leaving.clone()), Some(Job::Finish(leaving)));
        assert_eq!(fleet.pod(mk_pod("")), None, "it asks for no node");
    }

    #[test]
    fn pods_of_silent_nodes_wait_until_they_speak_again() {
        let mut fleet = mk_fleet();
        assert_eq!(fleet.silence(&["a".to_owned()], true), (Vec::new(), Vec::new()));
        let leaving = Pod {
            is_leaving: true,
            ..mk_pod("a")
        };
        assert_eq!(fleet.pod(leaving.clone()), None);
        assert_eq!(fleet.silence(&["b".to_owned()], false).1, [], "it was not silent");
        let (back, jobs) = fleet.silence(&["a".to_owned()], false);
        assert_eq!((back, jobs), (vec![0], vec![Job::Finish(leaving)]));
        assert_eq!(fleet.pod(mk_pod("elsewhere")), None, "not ours");
    }

    #[test]
    fn what_came_to_nothing_is_done_again_unless_the_pod_changed_or_went() {
        let mut fleet = mk_fleet();
        let start = fleet.pod(mk_pod("a")).expect("a job");
        assert_eq!(fleet.failed(start.clone()), Some(start.clone()));
        let leaving = Pod {
            is_leaving: true,
            ..mk_pod("a")
        };
        assert_eq!(fleet.pod(leaving.clone()), None);
        let finish = fleet.failed(start).expect("a job");
        assert_eq!(finish, Job::Finish(leaving));
        fleet.silence(&["a".to_owned()], true);
        assert_eq!(fleet.failed(finish.clone()), None, "its node fell silent");
        let (_, held) = fleet.silence(&["a".to_owned()], false);
        assert_eq!(held, std::slice::from_ref(&finish));
        fleet.gone("u");
        assert_eq!(fleet.failed(finish), None, "it went");
    }
}
