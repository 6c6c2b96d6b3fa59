//! Pods that are there.

use std::collections::BTreeSet;

use bailiff_model::{EvictionMode, Mono, Profile, ReadyStatus};
use serde_json::Value;

use super::lives::{is_down, no_execute};
use super::{Case, Finding, Judge, MOMENT, SETTLED};
use crate::StageName;
use crate::chaos::timeline::Node;

impl Judge<'_> {
    pub(super) fn standing(&self, case: &Case<'_>) -> Result<Finding, String> {
        let Some(node) = self.lives.node(&case.subject.node, case.at) else {
            return Ok(Finding::Aside("its node is gone"));
        };
        if node.ready == ReadyStatus::Absent {
            return Ok(Finding::Aside("its node has never said how it is"));
        }
        if self.moved_at(case, node) + SETTLED > case.at {
            return Ok(Finding::Aside("something moves at this moment"));
        }
        if case.answer.past("podEviction").next().is_none() {
            let bound = case.life.bound_at().unwrap_or(case.at);
            let lost = self.trouble.memory_lost(case.at);
            if self.was_to_go(case, lost.unwrap_or(bound).max(bound)) {
                return Err("its time ran once, and nobody is said to have wanted it to go".to_owned());
            }
            if lost.is_some() && self.was_to_go(case, bound) {
                return Ok(Finding::Aside("it was asked for before the bus lost its memory"));
            }
        }
        if self.is_lately_troubled(case.at) {
            return Ok(Finding::Aside("a stage or the bus is not whole at this moment"));
        }
        self.check_seen(case, node)?;
        if self.terms.mode == EvictionMode::Node {
            return if is_down(node) {
                self.on_silent_node(case, node)
            } else {
                self.at_rest(case, node)
            };
        }
        match self.lives.due(case.life, case.at, self.terms.profile) {
            Some((_, last)) if last + SETTLED <= case.at => self.due(case, node),
            Some((first, last)) if first > case.at + SETTLED => self.timed(case, first, last),
            Some(_) => Ok(Finding::Aside("something moves at this moment")),
            None if no_execute(node).next().is_none() && is_down(node) => self.not_isolated(case, node),
            None => self.at_rest(case, node),
        }
    }

    /// When anything that the fate of the pod depends on changed last.
    fn moved_at(&self, case: &Case<'_>, node: &Node) -> Mono {
        let respect = |node: &Node| {
            (
                node.uid.clone(),
                node.ready,
                node.zone.clone(),
                no_execute(node).cloned().collect::<Vec<_>>(),
            )
        };
        let own = self.lives.since(&node.name, case.at, respect);
        let others = self.lives.nodes(case.at).map(|other| {
            self.lives
                .since(&other.name, case.at, |node| (is_down(node), node.zone.clone()))
        });
        let moved = others.max().unwrap_or(own).max(own).max(case.life.still_since(case.at));
        moved.max(self.lives.paused_since(case.at))
    }

    /// What is said that the API has of the pod is what it has.
    fn check_seen(&self, case: &Case<'_>, node: &Node) -> Result<(), String> {
        let Some(seen) = case.answer.seen() else {
            return Err("nothing is said of what the API has, and it is there".to_owned());
        };
        let said: BTreeSet<&str> = seen["taints"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let names: Vec<String> = no_execute(node).map(ToString::to_string).collect();
        let had: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        if said != had {
            return Err(format!("the node is said to have {said:?}, and had {had:?}"));
        }
        Ok(())
    }

    /// Nothing on its node asks for it to go.
    fn at_rest(&self, case: &Case<'_>, node: &Node) -> Result<Finding, String> {
        let wish = case.answer.present("podEviction");
        if let Some(wish) = wish.filter(|wish| wish["state"] != "withdrawn") {
            return Err(format!("nothing asks for it to go, and it is said to be {}", wish["state"]));
        }
        let outcome = case
            .answer
            .present("podOutcome")
            .and_then(|outcome| outcome["state"].as_str());
        if !matches!(outcome, None | Some("cancelled" | "refused")) {
            return Err(format!(
                "nothing asks for it to go, and what became of it is said to be {outcome:?}"
            ));
        }
        let bound = case.life.bound_at().unwrap_or(case.at);
        let had: Vec<&Node> = self.lives.states(&node.name, bound, case.at).collect();
        let was_tainted = had.iter().any(|node| no_execute(node).next().is_some());
        let is_tainted = no_execute(node).next().is_some();
        let is_wished = case.answer.past("podEviction").next().is_some();
        Ok(match (is_tainted, outcome, is_wished, was_tainted) {
            (true, _, _, _) if self.terms.mode == EvictionMode::Taint => agreed("spared: it tolerates what there is"),
            (_, Some("refused"), _, _) => agreed("spared: what the API has does not justify it"),
            (_, _, true, _) => agreed("spared: what it was to go for went first"),
            (_, _, false, true) => agreed("spared: it tolerated what there was"),
            _ if self.was_threatened(case, case.at) => agreed("spared: its node was well again before it was isolated"),
            _ => Finding::Aside("nothing ever threatened it"),
        })
    }

    /// True if at some time since then, for long enough to be seen by stages that are whole, its node had what it was to go for.
    fn was_to_go(&self, case: &Case<'_>, from: Mono) -> bool {
        let mut since = None;
        let moments = self.lives.moments(&case.subject.node, from, case.at);
        for (nth, from) in moments.iter().enumerate() {
            let to = moments.get(nth + 1).copied().unwrap_or(case.at);
            let node = self.lives.node(&case.subject.node, *from);
            let is_threat = node.is_some_and(|node| match self.terms.mode {
                EvictionMode::Taint => self.lives.due(case.life, *from, self.terms.profile).is_some(),
                EvictionMode::Node => is_down(node),
            });
            since = is_threat.then(|| since.unwrap_or(*from));
            if since.is_some_and(|since| to.saturating_since(since) > SETTLED && !self.trouble.is_any_amid(since, to)) {
                return true;
            }
        }
        false
    }

    /// Its time runs.
    fn timed(&self, case: &Case<'_>, first: Mono, last: Mono) -> Result<Finding, String> {
        let wish = case
            .answer
            .present("podEviction")
            .ok_or("its time runs, and nobody is said to want it to go")?;
        if wish["state"] != "scheduled" {
            return Err(format!("its time runs, and it is said to be {}", wish["state"]));
        }
        if !self.has_taints(case, wish, case.at) {
            return Err("the node does not have the taints that it is said to go for".to_owned());
        }
        let due = self.moments(case, StageName::TaintManager, &wish["dueAt"]);
        let latest = if self.counts_anew(case) { case.at.max(last) } else { last };
        if !due.iter().any(|due| *due + MOMENT >= first && *due <= latest + self.slack()) {
            let (due, first) = (
                due.first().map(|due| due.since_origin().as_secs_f64()),
                first.since_origin().as_secs_f64(),
            );
            return Err(format!("it is said to be due at {due:?} s, and is at {first:.3} s"));
        }
        self.no_outcome(case)?;
        Ok(agreed("to go: its time runs"))
    }

    /// TE-057: upstream counts from the start of its process; and so does whoever has only a wrong clock to go by. TE-076: upstream
    /// forgets what was tried, and counts a whole time when the taints change after that.
    fn counts_anew(&self, case: &Case<'_>) -> bool {
        let bound = case.life.bound_at().unwrap_or(case.at);
        let is_upstream = self.terms.profile == Profile::Upstream;
        let is_wrong = self.trouble.offsets(StageName::TaintManager).count() > 1;
        (is_upstream || is_wrong) && self.trouble.is_amid(StageName::TaintManager, bound, case.at)
            || is_upstream && self.was_tried_before(case, bound)
    }

    /// True if it was due before the taints of its node changed last.
    fn was_tried_before(&self, case: &Case<'_>, bound: Mono) -> bool {
        let moments = self.lives.moments(&case.subject.node, bound, case.at);
        let taints = |at: Mono| {
            self.lives
                .last_node(&case.subject.node, at)
                .map(|node| no_execute(node).cloned().collect::<Vec<_>>())
        };
        moments.windows(2).any(|two| {
            let due = self.lives.due(case.life, two[0], self.terms.profile);
            taints(two[0]) != taints(two[1]) && due.is_some_and(|(first, _)| first <= two[1])
        })
    }

    /// Nothing is said that has become of it.
    fn no_outcome(&self, case: &Case<'_>) -> Result<(), String> {
        let outcome = case
            .answer
            .present("podOutcome")
            .and_then(|outcome| outcome["state"].as_str());
        match outcome {
            None | Some("cancelled" | "refused") => Ok(()),
            Some(other) => Err(format!("its time runs, and what became of it is said to be {other}")),
        }
    }

    /// It should be gone.
    fn due(&self, case: &Case<'_>, node: &Node) -> Result<Finding, String> {
        let wish = case
            .answer
            .present("podEviction")
            .ok_or("it is due, and nobody is said to want it to go")?;
        if wish["state"] == "scheduled" && self.counts_anew(case) {
            return Ok(agreed("to go: its time runs anew"));
        }
        if wish["state"] != "due" {
            return Err(format!("it is due, and it is said to be {}", wish["state"]));
        }
        if !self.has_taints(case, wish, case.at) {
            return Err("the node does not have the taints that it is said to go for".to_owned());
        }
        let outcome = case
            .answer
            .present("podOutcome")
            .ok_or("it is due and there, and nothing is said of why")?;
        self.why_not(case, node, outcome)
    }

    /// Why a pod that is due is there.
    fn why_not(&self, case: &Case<'_>, node: &Node, outcome: &Value) -> Result<Finding, String> {
        match outcome["state"].as_str().unwrap_or_default() {
            "held" => {
                let reason = outcome["held"]["reason"].as_str().unwrap_or_default();
                self.check_reason(case, node, reason)?;
                Ok(Finding::Agreed(format!("held: {reason}")))
            }
            "blocked" if self.lives.has_budget(case.at) => Ok(agreed("held: by a budget")),
            "refused" if outcome["refused"]["reason"] == "api" && self.is_given_up(case) => {
                Ok(agreed("spared: the API refused it for good"))
            }
            "refused" if outcome["refused"]["reason"] == "daemon_set" && self.terms.mode == EvictionMode::Node => {
                Ok(agreed("spared: a DaemonSet selects it"))
            }
            other => Err(format!("it is due and there, and what became of it is said to be {other}")),
        }
    }

    /// TE-076: upstream gives a pod up after five attempts. Whether there were as many is checked of those that are given up in the end.
    fn is_given_up(&self, case: &Case<'_>) -> bool {
        let amid = || {
            self.trouble
                .is_amid(StageName::ZoneEvictor, case.life.bound_at().unwrap_or(case.at), case.at)
        };
        self.terms.profile == Profile::Upstream && (self.given_up.contains(&case.subject.uid) || amid())
    }

    /// Its node is not ready, and not isolated: said of the node, or of its zone.
    fn not_isolated(&self, case: &Case<'_>, node: &Node) -> Result<Finding, String> {
        if let Some(wish) = case.answer.present("podEviction").filter(|wish| wish["state"] != "withdrawn") {
            return Err(format!("its node is not isolated, and it is said to be {}", wish["state"]));
        }
        let reason = self.said_of_node(case, node)?;
        self.check_reason(case, node, reason)?;
        Ok(Finding::Agreed(format!("its node waits: {reason}")))
    }

    /// Why the node waits.
    fn said_of_node<'c>(&self, case: &Case<'c>, node: &Node) -> Result<&'c str, String> {
        let said = case
            .answer
            .present("nodeOutcome")
            .filter(|outcome| outcome["node"]["uid"] == *node.uid);
        match said.and_then(|outcome| outcome["state"].as_str()) {
            Some("queued") => return Ok("queued"),
            Some("held") => {
                return Ok(said
                    .and_then(|outcome| outcome["held"]["reason"].as_str())
                    .unwrap_or_default());
            }
            _ => {}
        }
        let of_zone = case
            .answer
            .present("zoneStatus")
            .and_then(|zone| zone["held"]["reason"].as_str());
        let of_health = case.answer.health().and_then(|health| health["held"]["reason"].as_str());
        of_zone
            .or(of_health)
            .ok_or_else(|| "its node is not ready and not isolated, and nothing is said of why".to_owned())
    }

    /// Node mode: its node is to be emptied.
    fn on_silent_node(&self, case: &Case<'_>, node: &Node) -> Result<Finding, String> {
        let wish = case
            .answer
            .present("podEviction")
            .ok_or("its node is not ready, and nobody is said to want it to go")?;
        match (wish["state"].as_str().unwrap_or_default(), case.answer.present("podOutcome")) {
            ("scheduled", _) => self
                .no_outcome(case)
                .map(|()| agreed("to go with its node: the timeout runs")),
            ("due", Some(outcome)) => self.why_not(case, node, outcome),
            ("due", None) => Err("it is due and there, and nothing is said of why".to_owned()),
            (other, _) => Err(format!("its node is not ready, and it is said to be {other}")),
        }
    }
}

fn agreed(kind: &str) -> Finding {
    Finding::Agreed(kind.to_owned())
}
