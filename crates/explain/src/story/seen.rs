//! What the API has of a pod: the one reason to stay of which no stage says anything is that the pod tolerates what there is.

use bailiff_model::taint::{Effect, Tolerance, tolerance};
use bailiff_model::{Taint, Toleration, Wall};
use serde_json::json;

use super::{Line, Story};

/// A pod that is there, as the API has it, with the taints of its node.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When it was read.
    pub at: Wall,
    /// The node it is bound to.
    pub node: &'a str,
    /// What the pod tolerates.
    pub tolerations: &'a [Toleration],
    /// The taints of the node.
    pub taints: &'a [Taint],
}

// === impl Seen ===

impl Seen<'_> {
    fn line(&self) -> Line {
        let taints: Vec<Taint> = self
            .taints
            .iter()
            .filter(|taint| taint.effect == Effect::NoExecute)
            .cloned()
            .collect();
        let names: Vec<String> = taints.iter().map(Taint::to_string).collect();
        let (list, node) = (names.join(", "), self.node);
        let (text, rules, tolerance): (_, &'static [&'static str], _) = match tolerance(&taints, self.tolerations) {
            Tolerance::Forever if taints.is_empty() => (
                format!("node {node} carries no NoExecute taint"),
                &[],
                json!({"forever": true}),
            ),
            Tolerance::Forever => (
                format!("it may stay on node {node}, whose taints it tolerates without limit: {list}"),
                &["TE-054"],
                json!({"forever": true}),
            ),
            Tolerance::For(limit) => (
                format!("it tolerates the taints of node {node} for {}s: {list}", limit.as_secs()),
                &["TE-055"],
                json!({"seconds": limit.as_secs()}),
            ),
            Tolerance::Untolerated(index) => (
                format!("it does not tolerate {} on node {node}", names[index]),
                &["TE-052"],
                json!({"untolerated": names[index]}),
            ),
        };
        Line {
            at: self.at,
            by: "kube-apiserver".to_owned(),
            text,
            rules,
            record: json!({"seen": {"node": node, "taints": names, "tolerance": tolerance}}),
        }
    }
}

// === impl Story ===

impl Story {
    /// The answer, with what the API has of the pod.
    pub fn with(mut self, seen: &Seen<'_>) -> Self {
        self.present.push(seen.line());
        self
    }
}
