//! What a controller did, as anybody who watches the API sees it: when a silent node became Unknown, when a pod was told to go, and
//! whether either was early. Pure: every moment is an argument.
//!
//! Moments are those at which a change was seen, so a lag of the API server's watch is in them; it is the same for every program that
//! is compared. Nodes and pods come over watches of their own: where the deletion of a pod is seen before the taint that explains it,
//! it waits for that, and its latency is a little below zero.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bailiff_model::{ReadyStatus, Taint, Toleration, Wall, taint};

use crate::figures::ratio;

/// A node that is known.
#[derive(Debug, Default)]
struct Node {
    is_ready: bool,
    taints: Vec<Taint>,
    /// When the first of its taints was seen.
    tainted: Option<Wall>,
    /// The earliest `timeAdded` that its taints had since then: one that is written anew starts no toleration anew (TE-063).
    added: Option<Wall>,
    /// Pods that are on it and not going, daemon pods aside.
    staying: usize,
    /// What its kubelet posted last, by its own word, and when that was seen.
    posted: Option<(Wall, Wall)>,
    /// When pods were told to go, of which no taint is known yet, and what they tolerate.
    unexplained: Vec<(Wall, usize)>,
    /// Whoever measures evicts its pods since then.
    taken_over: Option<Wall>,
}

/// When a node's grace ends.
#[derive(Clone, Copy, Debug)]
struct Expiry {
    /// Whoever is before it is early: by what the API says, which cuts the time of a status to whole seconds.
    earliest: Wall,
    /// What lateness is counted from: the last sign of life, as it was seen.
    counted: Wall,
}

/// A pod that is known.
#[derive(Debug)]
struct Pod {
    node: String,
    /// Which of the sets of tolerations it has.
    tolerations: usize,
    /// Its kubelet started it.
    is_started: bool,
    is_leaving: bool,
    is_daemon: bool,
}

/// A pod, as it was seen.
#[derive(Clone, Debug)]
pub struct PodSeen<'a> {
    /// Its uid.
    pub uid: &'a str,
    /// Where it is; empty while it waits to be bound.
    pub node: &'a str,
    /// What it tolerates.
    pub tolerations: &'a [Toleration],
    /// Its kubelet started it.
    pub is_started: bool,
    /// It was told to go.
    pub is_leaving: bool,
    /// It is a DaemonSet's.
    pub is_daemon: bool,
}

/// What was seen since the last beginning, or the last end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Seconds from the end of a node's grace until it was Unknown.
    pub detections: Vec<f64>,
    /// When each pod that was told to go was due, and when it was told.
    pub evicted: Vec<(Wall, Wall)>,
    /// Pods that went while nobody could see it: when they were told to go is not known.
    pub unseen: usize,
    /// Seconds from the beginning until a daemon pod was there.
    pub creations: Vec<f64>,
    /// What came before its time: nodes that were Unknown within their grace, pods that were told to go before they were due or without
    /// a reason.
    pub early: Vec<String>,
}

/// Everything that is known.
#[derive(Debug, Default)]
pub struct Ledger {
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<String, Pod>,
    /// Of these, those that were started.
    started: usize,
    /// Few are different: pods are made from templates.
    sets: Vec<Vec<Toleration>>,
    /// When the graces of silent nodes end.
    expiries: BTreeMap<String, Expiry>,
    began: Option<Wall>,
    seen: Seen,
    /// What came before its time between an end and a beginning.
    early_between: Vec<String>,
    changes: u64,
}

// === impl Seen ===

impl Seen {
    /// Seconds from when a pod was due until it was told to go.
    pub fn evictions(&self) -> Vec<f64> {
        self.evicted.iter().map(|(due, at)| seconds(*at, *due)).collect()
    }

    /// Pods a second from when the last was due: until then it is whoever makes them due that holds them up. `None` where that is how
    /// most of them went.
    pub fn evictions_per_second(&self) -> Option<f64> {
        let all_due = self.evicted.iter().map(|(due, _)| *due).max()?;
        let after = self.evicted.iter().map(|(_, at)| *at).filter(|at| *at > all_due);
        let (count, last) = (after.clone().count(), after.max()?);
        if count * 2 < self.evicted.len() {
            return None;
        }
        // Far below what a float holds exactly.
        #[allow(clippy::cast_precision_loss)]
        ratio(count as f64, seconds(last, all_due))
    }
}

// === impl Ledger ===

impl Ledger {
    /// Counts from here. Of what was seen before, what came before its time is kept.
    pub fn begin(&mut self, now: Wall) {
        let before = self.end();
        self.early_between.extend(before.early);
        self.began = Some(now);
        self.expiries.clear();
    }

    /// What came before its time between the ends and the beginnings until now.
    pub fn take_early_between(&mut self) -> Vec<String> {
        let last = self.end();
        self.early_between.extend(last.early);
        std::mem::take(&mut self.early_between)
    }

    /// What was seen since the beginning. Pods that went and that nothing explains by now were told to go without a reason.
    pub fn end(&mut self) -> Seen {
        let mut seen = std::mem::take(&mut self.seen);
        for (name, node) in &mut self.nodes {
            for _ in node.unexplained.drain(..) {
                seen.early
                    .push(format!("a pod was deleted on {name}, which has no NoExecute taint"));
            }
            node.taken_over = None;
        }
        self.began = None;
        seen
    }

    /// From here on, until the end, whoever measures evicts the pods of these nodes, all of which are due.
    pub fn take_over(&mut self, now: Wall, nodes: &[String]) {
        for name in nodes {
            self.nodes.entry(name.clone()).or_default().taken_over = Some(now);
        }
    }

    /// A node is silent, and renewed its Lease last then. What it posted later than that is a sign of life too. One that is not Ready
    /// already is not waited for: it was told as early.
    pub fn expect(&mut self, name: &str, renewed: Wall, grace: Duration) {
        let Some(node) = self.nodes.get(name).filter(|node| node.is_ready) else {
            return;
        };
        let (said, seen) = node.posted.unwrap_or((renewed, renewed));
        // A grace beyond what the calendar holds does not end.
        let after = |sign: Wall| sign.max(renewed).checked_add(grace).unwrap_or(Wall::MAX);
        let expiry = Expiry {
            earliest: after(said),
            counted: after(seen),
        };
        self.expiries.insert(name.to_owned(), expiry);
    }

    /// A node is as it is.
    pub fn node(&mut self, now: Wall, name: &str, ready: ReadyStatus, taints: Vec<Taint>) {
        let node = self.nodes.entry(name.to_owned()).or_default();
        if ready == ReadyStatus::Unknown && node.is_ready {
            match self.expiries.remove(name) {
                Some(Expiry { earliest, .. }) if now < earliest => {
                    let early = seconds(earliest, now);
                    self.seen
                        .early
                        .push(format!("{name} was Unknown {early:.3} s within its grace"));
                }
                Some(Expiry { counted, .. }) => self.seen.detections.push(seconds(now, counted)),
                None => self.seen.early.push(format!("{name} was Unknown, and was not silent")),
            }
        }
        node.is_ready = ready == ReadyStatus::True;
        if taints.is_empty() {
            (node.tainted, node.added) = (None, None);
        } else {
            node.tainted = node.tainted.or(Some(now));
            node.added = taints.iter().filter_map(|taint| taint.time_added).chain(node.added).min();
        }
        node.taints = taints;
        if node.tainted.is_some() {
            let explained = std::mem::take(&mut node.unexplained);
            for (at, set) in explained {
                judge(&mut self.seen, name, node, at, &self.sets[set]);
            }
        }
    }

    /// A node is gone.
    pub fn node_gone(&mut self, name: &str) {
        self.changes += 1;
        self.nodes.remove(name);
    }

    /// A node changed, and not because its kubelet posted a status.
    pub fn node_changed(&mut self) {
        self.changes += 1;
    }

    /// How often nodes and pods changed until now, but for what kubelets post at rest too.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// A node's kubelet says when it posted its status last. True if it did since that was seen last.
    pub fn posted(&mut self, now: Wall, name: &str, said: Wall) -> bool {
        let node = self.nodes.entry(name.to_owned()).or_default();
        let is_news = node.posted.is_none_or(|(known, _)| known != said);
        node.posted = match node.posted {
            Some((known, seen)) if known == said => Some((known, seen)),
            Some(_) => Some((said, now)),
            // It may have been posted long before it was first seen.
            None => Some((said, said)),
        };
        is_news
    }

    /// A pod is as it is.
    pub fn pod(&mut self, now: Wall, seen: &PodSeen<'_>) {
        self.changes += 1;
        // A daemon pod counts from when it was made; where it will be is known.
        if seen.node.is_empty() && !seen.is_daemon {
            return;
        }
        if !self.pods.contains_key(seen.uid) {
            self.add(now, seen);
        }
        if let Some(pod) = self.pods.get_mut(seen.uid)
            && seen.is_started
            && !std::mem::replace(&mut pod.is_started, true)
        {
            self.started += 1;
        }
        if seen.is_leaving {
            self.leave(now, seen.uid);
        }
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, now: Wall, uid: &str) {
        self.changes += 1;
        self.leave(now, uid);
        let was_started = self.pods.remove(uid).is_some_and(|pod| pod.is_started);
        self.started -= usize::from(was_started);
    }

    /// These pods and no others are there. When the others went was not seen.
    pub fn pods_are(&mut self, uids: &BTreeSet<String>) {
        let gone: Vec<String> = self.pods.keys().filter(|uid| !uids.contains(*uid)).cloned().collect();
        for pod in gone.iter().filter_map(|uid| self.pods.remove(uid)) {
            self.changes += 1;
            self.started -= usize::from(pod.is_started);
            if pod.is_leaving || pod.is_daemon {
                continue;
            }
            if let Some(node) = self.nodes.get_mut(&pod.node) {
                node.staying = node.staying.saturating_sub(1);
            }
            self.seen.unseen += 1;
        }
    }

    /// These nodes and no others are there.
    pub fn nodes_are(&mut self, names: &BTreeSet<String>) {
        let before = self.nodes.len();
        self.nodes.retain(|name, _| names.contains(name));
        self.changes += (before - self.nodes.len()) as u64;
    }

    /// Names of all nodes, those of several zones in turns: names end with a number within their zone.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.nodes.keys().cloned().collect();
        names.sort_by_cached_key(|name| {
            let number = name.rsplit('-').next().unwrap_or_default().to_owned();
            (number.len(), number, name.clone())
        });
        names
    }

    /// Nodes that are known, and pods that were started.
    pub fn sizes(&self) -> (usize, usize) {
        (self.nodes.len(), self.started)
    }

    /// Nodes that are Ready and have no taint that makes pods go.
    pub fn healthy(&self) -> usize {
        self.nodes
            .values()
            .filter(|node| node.is_ready && node.taints.is_empty())
            .count()
    }

    /// Silent nodes that are not Unknown yet.
    pub fn undetected(&self) -> usize {
        self.expiries.len()
    }

    /// Pods on these nodes that were not told to go yet.
    pub fn staying<'a>(&self, nodes: impl IntoIterator<Item = &'a String>) -> usize {
        let staying = nodes.into_iter().filter_map(|name| self.nodes.get(name));
        staying.map(|node| node.staying).sum()
    }

    /// Daemon pods that came since the beginning.
    pub fn created(&self) -> usize {
        self.seen.creations.len()
    }

    fn add(&mut self, now: Wall, seen: &PodSeen<'_>) {
        if seen.is_daemon {
            self.seen.creations.extend(self.began.map(|began| seconds(now, began)));
        } else {
            self.nodes.entry(seen.node.to_owned()).or_default().staying += 1;
        }
        let pod = Pod {
            node: seen.node.to_owned(),
            tolerations: self.set_of(seen.tolerations),
            is_started: false,
            is_leaving: false,
            is_daemon: seen.is_daemon,
        };
        self.pods.insert(seen.uid.to_owned(), pod);
    }

    /// It was told to go, if it was not before.
    fn leave(&mut self, now: Wall, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        // A rollout replaces its own pods whenever it wants.
        if std::mem::replace(&mut pod.is_leaving, true) || pod.is_daemon {
            return;
        }
        let node = self.nodes.entry(pod.node.clone()).or_default();
        node.staying = node.staying.saturating_sub(1);
        if let Some(due) = node.taken_over {
            self.seen.evicted.push((due, now));
        } else if node.tainted.is_some() {
            judge(&mut self.seen, &pod.node, node, now, &self.sets[pod.tolerations]);
        } else {
            node.unexplained.push((now, pod.tolerations));
        }
    }

    fn set_of(&mut self, tolerations: &[Toleration]) -> usize {
        if let Some(known) = self.sets.iter().position(|set| set == tolerations) {
            return known;
        }
        self.sets.push(tolerations.to_vec());
        self.sets.len() - 1
    }
}

/// A pod with these tolerations was told to go at a moment.
fn judge(seen: &mut Seen, name: &str, node: &Node, at: Wall, tolerations: &[Toleration]) {
    let Some(tainted) = node.tainted else { return };
    let tolerated = match taint::tolerance(&node.taints, tolerations) {
        taint::Tolerance::Untolerated(_) => Duration::ZERO,
        taint::Tolerance::For(tolerated) => tolerated,
        taint::Tolerance::Forever => {
            seen.early
                .push(format!("a pod was deleted on {name} that tolerates its taints for ever"));
            return;
        }
    };
    // A pod that tolerates it beyond what the calendar holds is never due.
    seen.evicted.push((tainted.checked_add(tolerated).unwrap_or(Wall::MAX), at));
    // What the API says of the taints is cut to whole seconds, so whoever is before it is early by any clock.
    if let Some(added) = node.added {
        let late = seconds(at, added) - tolerated.as_secs_f64();
        if late < 0.0 {
            seen.early
                .push(format!("a pod was deleted on {name} {:.3} s before it was due", -late));
        }
    }
}

/// From one moment to another.
fn seconds(later: Wall, earlier: Wall) -> f64 {
    later.duration_since(earlier).as_secs_f64()
}

#[cfg(test)]
#[path = "ledger/tests.rs"]
mod tests;
