//! What must hold of the traces of a zone failure, told by whatever was seen of the API.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::span::{Collector, SeenSpan, Trace, traces};
use crate::judge::Premises;
use crate::system::{GRACE, SILENT_ZONE, TOLERATION};
use crate::witness::Seen;
use crate::witness::nodes::Node;
use crate::witness::pods::Pod;

/// What a killed stage may have had in its queue, or was about to tell: OpenTelemetry's default delay.
const UNTOLD: SignedDuration = SignedDuration::from_secs(5);
/// A moment that has passed is told by two clocks, which are read one after the other; and collectors cut times off at microseconds.
const CUT_OFF: SignedDuration = SignedDuration::from_millis(1);

/// How it ended.
const OUTCOME: &str = "bailiff.outcome";
/// Why it was not done.
const REASON: &str = "bailiff.reason";

/// What was done.
pub struct Facts {
    pub begin: Timestamp,
    pub end: Timestamp,
    /// When the zone-evictor that leads was killed.
    pub killed: Option<Timestamp>,
}

/// What is judged.
struct Judge<'a> {
    collector: &'a dyn Collector,
    seen: &'a Seen,
    facts: &'a Facts,
    traces: BTreeMap<String, Trace>,
    premises: Premises,
}

/// Judges everything that was collected.
pub fn judge(collector: &dyn Collector, seen: &Seen, facts: &Facts) -> Premises {
    let mut judge = Judge {
        collector,
        seen,
        facts,
        traces: traces(collector.all()),
        premises: Premises::default(),
    };
    for what in [
        "a trace was whole",
        "a node was judged in its trace",
        "a node was isolated in its trace",
        "a node waited in vain in its trace",
        "a pod was evicted in its node's trace",
    ] {
        judge.premises.saw_so_many(what, 0);
    }
    judge.all();
    judge.premises
}

impl Judge<'_> {
    fn all(&mut self) {
        let traces = std::mem::take(&mut self.traces);
        for trace in traces.values() {
            self.trace(trace);
        }
        self.traces = traces;
        let seen = self.seen;
        for (name, node) in seen.nodes.iter().filter(|(_, node)| node.zone == SILENT_ZONE) {
            self.node(name, node);
        }
        for (uid, pod) in seen.pods.iter().filter(|(_, pod)| pod.daemon_set.is_none()) {
            self.pod(uid, pod);
        }
        if self.facts.killed.is_none() {
            let mut all = self.traces.values().flat_map(Trace::values);
            let is_paused = |span: &SeenSpan| span.name == "held" && span.has(&[(REASON, "PAUSED")]);
            let paused = all.find(|span| is_paused(span) && span.stage == "zone-evictor");
            self.premises
                .saw_so_many("a node was held by a pause in its trace", usize::from(paused.is_some()));
        }
    }

    /// Any trace: a tree with one root, of one thing, within the time of the test.
    fn trace(&mut self, trace: &Trace) {
        let roots: Vec<&SeenSpan> = trace.values().filter(|span| span.parent.is_none()).collect();
        let [root] = roots[..] else {
            panic!("not one root: {trace:#?}");
        };
        let of = match &*root.name {
            "node incident" => "k8s.node.name",
            "rollout" => "k8s.daemonset.uid",
            other => panic!("nothing here begins with {other}: {root:#?}"),
        };
        // The API says in whole seconds when a revision was made.
        let begin = match &*root.name {
            "rollout" => Timestamp::from_second(self.facts.begin.as_second()).unwrap(),
            _ => self.facts.begin,
        };
        for span in trace.values() {
            let is_there = span.parent.as_ref().is_none_or(|parent| trace.contains_key(parent));
            assert!(is_there || self.may_lack(span), "no parent: {span:#?} in {trace:#?}");
            assert_eq!(span.get(of), root.get(of), "{span:#?}");
            assert_eq!(span.service, span.stage, "each stage is a process here: {span:#?}");
            assert!(!span.instance.is_empty(), "{span:#?}");
            let bounds = [begin, root.start, span.start, span.end, self.facts.end];
            assert!(in_order(&bounds), "{bounds:?}: {span:#?}");
            assert!(span.parent.is_none() || span.attributes.contains_key(OUTCOME) || span.attributes.contains_key(REASON));
            if span.attributes.contains_key("k8s.pod.uid") {
                assert_eq!(span.get("k8s.namespace.name"), "default", "{span:#?}");
                assert!(!span.get("k8s.pod.name").is_empty(), "{span:#?}");
            }
        }
        self.premises.saw("a trace was whole");
    }

    /// What is above a span of who was killed may be lost with it.
    fn may_lack(&self, span: &SeenSpan) -> bool {
        self.facts.killed.is_some() && span.stage == "zone-evictor"
    }

    /// Who was killed then may not have told what it did.
    fn may_be_untold(&self, at: Timestamp) -> bool {
        let is_near = |killed: Timestamp| killed.duration_since(at).abs() <= UNTOLD;
        self.facts.killed.is_some_and(is_near)
    }

    /// The traces in which this stage told of it.
    fn found(&self, stage: &str, attributes: &[(&str, &str)]) -> BTreeSet<String> {
        self.collector.find(stage, attributes)
    }

    /// The traces of the times in which the node was silent, in order.
    fn incidents(&self, name: &str) -> Vec<&Trace> {
        let found = self.found("node-health-monitor", &[("k8s.node.name", name)]);
        // Whoever is late for once has an incident, too.
        let of_node = found.iter().map(|id| &self.traces[id]);
        let mut silent: Vec<&Trace> = of_node.filter(|trace| some(trace, "node unreachable").is_some()).collect();
        silent.sort_by_key(|trace| one(trace, "node incident").start);
        silent
    }

    /// A silent node: silence, grace, a read, a write, and its turn among the others.
    fn node(&mut self, name: &str, node: &Node) {
        let mark = node.unknown.first().expect("it was silent for long enough");
        let incidents = self.incidents(name);
        assert_eq!(
            incidents.len(),
            node.unknown.len(),
            "{name} was silent: {node:?} {incidents:#?}"
        );
        let trace = incidents[0];
        let (root, grace) = (one(trace, "node incident"), one(trace, "grace"));
        let (read, write) = (one(trace, "confirming read"), one(trace, "status write"));
        let unknown = mark.seen;
        let silence = self.seen.silence(&self.seen.lapses(node, self.facts.end), mark);
        let times = [
            silence.expect("it was silent for long enough").renewed,
            root.start,
            grace.start,
            grace.end,
            read.start,
            read.end,
            write.start,
            unknown,
        ];
        assert!(in_order(&times), "{times:?}: {trace:#?}");
        assert!(lasted(grace) + CUT_OFF >= GRACE, "{grace:#?}");
        for request in [read, write] {
            assert_eq!(request.kind, "client", "{request:#?}");
        }
        // Whoever follows another monitor knows of the last sign of life on record, which may be a later one.
        let recovery = one(trace, "recovery");
        let since = if recovery.instance == root.instance {
            root.start
        } else {
            recovery.start.max(root.start)
        };
        assert_eq!((recovery.start, recovery.get(OUTCOME)), (since, "recovered"), "{recovery:#?}");
        let marks = last(trace, "mark pods not ready").is_some_and(|marks| marks.get(OUTCOME) == "marked");
        // What was tried before, or waited for, may have ended otherwise.
        let (wait, isolation) = (last(trace, "zone queue wait"), last(trace, "isolation"));
        let isolated = node.isolated.first().map(|isolation| isolation.seen);
        let is_untold = self.may_be_untold(isolated.unwrap_or(unknown)) && (wait.is_none() || isolation.is_none());
        // A machine that is too slow for its kubelets makes nodes silent before their time, and their turn comes in another incident.
        let is_excused = is_untold || incidents.len() > 1;
        let was_killed = |wait: &SeenSpan| {
            self.facts
                .killed
                .is_some_and(|killed| wait.start < killed && killed < wait.end)
        };
        let outlived = wait.is_some_and(was_killed);
        if !is_excused {
            let wait = wait.unwrap_or_else(|| panic!("{name} waited: {trace:#?}"));
            judge_turn(write, wait, isolation, isolated);
            self.premises.saw(match isolated {
                Some(_) => "a node was isolated in its trace",
                None => "a node waited in vain in its trace",
            });
        }
        if self.facts.killed.is_some() {
            self.premises
                .saw_so_many("a wait outlived a zone-evictor", usize::from(outlived));
        }
        self.premises
            .saw_so_many("pods were marked in their node's trace", usize::from(marks));
        self.premises.saw("a node was judged in its trace");
    }

    /// A pod that was evicted is found by all that people know of it.
    fn pod(&mut self, uid: &str, pod: &Pod) {
        let Some(deleted) = pod.deleted.map(|deletion| deletion.seen) else {
            return;
        };
        let name = [("k8s.namespace.name", "default"), ("k8s.pod.name", &*pod.name)];
        let by_uid = self.found("taint-manager", &[("k8s.pod.uid", uid)]);
        assert_eq!(by_uid.len(), 1, "{pod:?}: {by_uid:?}");
        assert_eq!(by_uid, self.found("taint-manager", &name), "{pod:?}");
        let by_node = self.found("taint-manager", &[("k8s.node.name", &pod.node)]);
        assert!(by_uid.is_subset(&by_node), "{pod:?}");

        let trace = &self.traces[by_uid.first().expect("there is one")];
        let of_pod = trace.iter().filter(|(_, span)| span.has(&[("k8s.pod.uid", uid)]));
        let of_pod: Trace = of_pod.map(|(id, span)| (id.clone(), span.clone())).collect();
        let toleration = one(&of_pod, "toleration time");
        assert!(lasted(toleration) + CUT_OFF >= TOLERATION, "{toleration:#?}");
        let allowed: f64 = toleration.get("bailiff.toleration.seconds").parse().unwrap();
        assert_eq!(
            (allowed, toleration.get(OUTCOME)),
            (TOLERATION.as_secs_f64(), "expired"),
            "{toleration:#?}"
        );
        let taint = "node.kubernetes.io/unreachable:NoExecute";
        assert_eq!(toleration.get("bailiff.taint"), taint, "{toleration:#?}");
        let termination = one(&of_pod, "pod termination");
        assert!(in_order(&[toleration.end, termination.start]), "{termination:#?}");
        let Some(eviction) = some(&of_pod, "pod eviction") else {
            assert!(self.may_be_untold(deleted), "it was evicted: {pod:?} {trace:#?}");
            return;
        };
        assert_eq!(eviction.get(OUTCOME), "deleted", "{eviction:#?}");
        let times = [toleration.end, eviction.start, deleted];
        assert!(in_order(&times), "{times:?}: {trace:#?}");
        assert_eq!(by_uid, self.found("zone-evictor", &[("k8s.pod.uid", uid)]), "{pod:?}");
        self.premises.saw("a pod was evicted in its node's trace");
    }
}

/// The wait of a node for its turn, which came or did not.
fn judge_turn(write: &SeenSpan, wait: &SeenSpan, isolation: Option<&SeenSpan>, isolated: Option<Timestamp>) {
    let mut times = vec![write.end, wait.start, wait.end];
    match (isolation, isolated) {
        (Some(isolation), Some(isolated)) => {
            assert_eq!(wait.get(OUTCOME), "granted", "{wait:#?}");
            // Whoever comes first has nothing to wait for.
            assert!(lasted(wait).is_zero() || wait.attributes.contains_key(REASON), "{wait:#?}");
            assert_eq!(
                (isolation.get(OUTCOME), &*isolation.kind),
                ("isolated", "client"),
                "{isolation:#?}"
            );
            times.extend([isolation.start, isolated]);
        }
        (None, None) => assert_ne!(wait.get(OUTCOME), "granted", "{wait:#?}"),
        told => panic!("told is not what was seen: {told:#?}"),
    }
    assert!(in_order(&times), "{times:?}: {wait:#?} {isolation:#?}");
}

/// The span of this name, which may be there once.
fn some<'a>(trace: &'a Trace, name: &str) -> Option<&'a SeenSpan> {
    let mut all = trace.values().filter(|span| span.name == name);
    let first = all.next();
    assert!(all.next().is_none(), "more than one {name}: {trace:#?}");
    first
}

/// The span of this name that began last.
fn last<'a>(trace: &'a Trace, name: &str) -> Option<&'a SeenSpan> {
    let all = trace.values().filter(|span| span.name == name);
    all.max_by_key(|span| span.start)
}

/// The span of this name, which is there once.
fn one<'a>(trace: &'a Trace, name: &str) -> &'a SeenSpan {
    some(trace, name).unwrap_or_else(|| panic!("no {name}: {trace:#?}"))
}

fn lasted(span: &SeenSpan) -> SignedDuration {
    span.end.duration_since(span.start)
}

fn in_order(times: &[Timestamp]) -> bool {
    times.windows(2).all(|pair| pair[0] <= pair[1] + CUT_OFF)
}
