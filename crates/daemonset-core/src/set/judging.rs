//! Judging pairs again, and keeping counters, candidate sets and the partition up to date.

use bailiff_model::{About, NodeName, PodUid, Profile};

use super::partition::Partition;
use super::{Cx, Set, Timer};
use crate::effect::Severity;
use crate::facts::{Pod, Strategy};
use crate::pair::{self, Class, Facts, Look, Rolled, Rules, Wanted, Work};
use crate::policy::{Place, Policy, Rank};

impl Set {
    /// Reads what annotations ask for. What most of it changes are pairs, all of which are judged again; pausing and telling cost none.
    pub(super) fn read_policy(&mut self) {
        let (policy, complaints) = Policy::read(&self.ds.annotations);
        let (paused, conditions) = (policy.paused, policy.conditions);
        let alike = Policy {
            paused,
            conditions,
            ..self.policy.clone()
        };
        self.rules_changed |= policy != alike;
        self.policy = policy;
        if !self.policy.is_partitioned() {
            self.partition = Partition::default();
        }
        if self.complaints != complaints {
            self.complaints = complaints;
            self.is_complaining = true;
        }
    }

    /// Says what is wrong with annotations, once.
    pub(super) fn complain(&mut self, cx: &mut Cx<'_>) {
        if !std::mem::take(&mut self.is_complaining) || self.ds.deleting {
            return;
        }
        for complaint in &self.complaints {
            let (message, about) = (complaint.to_string(), About::default());
            cx.out
                .event(&self.owner, Severity::Warning, "InvalidAnnotation", message, about);
        }
    }

    pub(super) fn judge_touched(&mut self, cx: &mut Cx<'_>) {
        if std::mem::take(&mut self.rules_changed) {
            self.touched = self.pairs.keys().cloned().collect();
        }
        while !self.touched.is_empty() {
            for node in std::mem::take(&mut self.touched) {
                self.judge(&node, cx);
            }
            // Who crossed the boundary is judged once more, which moves nobody.
            let kept = self.policy.kept(self.tally.counts().desired);
            self.touched.extend(self.partition.resize(kept));
        }
    }

    fn rules<'a>(&'a self, hash: &'a str, cx: &Cx<'_>) -> Rules<'a> {
        Rules {
            hash,
            since: self.since,
            generation: self.generation_label.as_deref(),
            min_ready: self.ds.min_ready,
            surging: self.ds.strategy.is_surging(),
            on_delete: self.ds.strategy == Strategy::OnDelete,
            patient: cx.profile == Profile::Bailiff,
            exclude_unready: self.policy.exclude_unready,
            partitioned: self.policy.is_partitioned(),
            strict: self.policy.strict,
            now: cx.now,
        }
    }

    /// Judges a pair and brings counters and candidate sets up to date. What it does not want any more is taken back.
    pub(super) fn judge(&mut self, node: &NodeName, cx: &mut Cx<'_>) {
        let (Some(current), Some((index, _, pair))) = (&self.current, self.pairs.get_full(node)) else {
            return;
        };
        let order = self.policy.order.as_ref();
        let rank = order.map_or_else(Rank::default, |order| order.rank(cx.world.nodes.get(node)));
        let place = Place {
            rank,
            node: node.clone(),
        };
        let pods: Vec<&Pod> = pair.pods.iter().filter_map(|key| cx.world.pod_at(*key)).collect();
        let look = |pod| Look {
            pod,
            work: self.claims.work(pod),
        };
        let looks: Vec<Look<'_>> = pods.into_iter().map(look).collect();
        let facts = Facts {
            node: pair.node,
            verdict: pair.verdict,
            pods: &looks,
            creating: pair.creating.is_some(),
            blocked: pair.adopting > 0,
            backoff: self.backoffs.get(node).copied(),
            rank: place.rank.clone(),
            kept: self.partition.keeps(&place),
            rolled: pair.rolled,
        };
        let rules = self.rules(&current.hash, cx);
        let judgement = pair::judge(&rules, &facts);
        let needless = self.needless(&rules, &facts);
        let is_create_needless = self.creates.may_wait_for(node) && !self.wants_pod(&rules, &facts);
        self.take_judgement(index, place, judgement, cx);
        self.note_held(node, cx);
        for uid in needless {
            self.call_off_delete(&uid, cx.out);
        }
        if is_create_needless {
            self.creates.call_off(node, cx.out);
        }
    }

    /// True if the pod that is being created for a pair would be if that were to be decided now.
    fn wants_pod(&self, rules: &Rules<'_>, facts: &Facts<'_>) -> bool {
        let creating = false;
        let facts = Facts {
            creating,
            ..facts.clone()
        };
        pair::judge(rules, &facts).wants_pod(!self.rests)
    }

    /// Running pods of a pair whose deletion was asked for, and would not be if that were to be decided now.
    fn needless(&self, rules: &Rules<'_>, facts: &Facts<'_>) -> Vec<PodUid> {
        let is_asked = |look: &Look<'_>| look.work == Work::Asked && !look.pod.is_terminal();
        let asked: Vec<&Look<'_>> = facts.pods.iter().filter(|look| is_asked(look)).collect();
        if asked.is_empty() {
            return Vec::new();
        }
        let mut pods = facts.pods.to_vec();
        // Pods that have ended go all the same. As if nothing were asked of them, they might keep others.
        for look in pods.iter_mut().filter(|look| is_asked(look)) {
            look.work = Work::None;
        }
        let judgement = pair::judge(
            rules,
            &Facts {
                pods: &pods,
                ..facts.clone()
            },
        );
        let pods = asked.into_iter().map(|look| look.pod);
        let needless = pods.filter(|pod| !judgement.wants_gone(pod, !self.rests));
        needless.map(|pod| pod.uid.clone()).collect()
    }

    /// The judgement of the pair at this index.
    fn take_judgement(&mut self, index: usize, place: Place, judgement: pair::Judgement, cx: &Cx<'_>) {
        let node = &place.node;
        let Some((_, pair)) = self.pairs.get_index_mut(index) else {
            return;
        };
        // The earlier moment stays: looking too early only looks again.
        let timer = Timer::Pair(node.clone());
        let wake = judgement
            .wake
            .map(|wake| self.timers.get(&timer).map_or(wake, |set| set.min(wake)));
        self.timers.set(&timer, wake);
        if judgement.reason.is_none() || matches!(judgement.class, Class::Candidate(_) | Class::Replace(_)) {
            pair.rolled = Rolled::Nothing;
        }
        if pair.judgement != judgement {
            if pair.judgement.reason != judgement.reason {
                pair.since = judgement.reason.is_some().then(|| cx.now.wall.into());
            }
            // One that stays at its place stays where it was when it was judged, on either side of the boundary.
            if pair.judgement.old && !(judgement.old && judgement.rank == pair.judgement.rank) {
                self.partition.remove(&Place::of(node, &pair.judgement));
            }
            self.tally.change(node, &pair.judgement, &judgement);
            if pair.judgement.create == Wanted::Nothing && !pair.judgement.creating {
                self.creates.came(node, judgement.create);
            }
            pair.judgement = judgement;
            self.report.dirty = true;
        }
        if pair.is_empty() {
            self.tally.change(node, &pair.judgement, &pair::Judgement::default());
            self.pairs.swap_remove_index(index);
        } else if pair.judgement.old && self.policy.is_partitioned() && self.partition.insert(&place) {
            self.touched.insert(place.node);
        }
    }
}
