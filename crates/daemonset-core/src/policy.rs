//! What annotations of a DaemonSet ask of its rollout beyond what its spec can say. All of it is opt-in: without annotations there is
//! nothing here, and behaviour is upstream's.
//!
//! An annotation that cannot be read is never an error of the DaemonSet: it is complained about, and read as whatever replaces fewer
//! pods. Syntax and meaning of each are told to people in `docs/daemonsets.md`.

mod order;

use std::collections::BTreeMap;
use std::fmt;

use crate::facts::Amount;

pub(crate) use order::{Order, Place, Rank};

/// What all annotations read here begin with.
const PREFIX: &str = "bailiff.dev/";

/// Longest piece of a value that a complaint repeats: enough to recognise it.
const REPEATED: usize = 64;

const FLAG: &str = "must be \"true\" or \"false\"";

/// What is asked for. The default asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    /// No old pod is replaced.
    pub(crate) paused: bool,
    /// So many nodes keep their old pod.
    pub(crate) partition: Option<Amount>,
    /// In which order nodes are served; by name alone if there is none.
    pub(crate) order: Option<Order>,
    /// Nodes that were bad before the current revision use up no budget, and those that went bad with it halt the rollout.
    pub(crate) exclude_unready: bool,
    /// Unavailable old pods are replaced within the budget too.
    pub(crate) strict: bool,
    /// Why the rollout is not complete is told as a condition.
    pub(crate) conditions: bool,
}

/// An annotation that cannot be used as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    annotation: String,
    value: String,
    /// What is allowed.
    wanted: &'static str,
    /// What happens now.
    instead: &'static str,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            annotation,
            value,
            wanted,
            instead,
        } = self;
        let shown: String = value.chars().take(REPEATED).collect();
        let rest = if shown.len() < value.len() { "…" } else { "" };
        write!(f, "annotation {annotation}: {shown:?}{rest} {wanted}; {instead}")
    }
}

impl Policy {
    /// Reads annotations; those of others are passed over.
    pub(crate) fn read(annotations: &BTreeMap<String, String>) -> (Self, Vec<Complaint>) {
        let mut reader = Reader::default();
        let ours = annotations.range(PREFIX.to_owned()..);
        for (annotation, value) in ours.take_while(|(annotation, _)| annotation.starts_with(PREFIX)) {
            reader.take(annotation, value);
        }
        (reader.policy, reader.complaints)
    }

    /// True if some nodes are to keep their old pods.
    pub(crate) fn is_partitioned(&self) -> bool {
        self.partition.is_some_and(|amount| amount.of(u32::MAX) > 0)
    }

    /// How many of `desired` nodes keep their old pod.
    pub(crate) fn kept(&self, desired: u32) -> usize {
        let kept = self.partition.map_or(0, |amount| amount.of(desired));
        usize::try_from(kept).unwrap_or(usize::MAX)
    }
}

#[derive(Default)]
struct Reader {
    policy: Policy,
    complaints: Vec<Complaint>,
}

impl Reader {
    fn take(&mut self, annotation: &str, value: &str) {
        let halts = "until it is mended no old pod is replaced";
        let ignored = "it is ignored";
        let complaint = match &annotation[PREFIX.len()..] {
            "rollout-paused" => {
                let paused = flag(value);
                self.policy.paused |= paused.unwrap_or(true);
                paused.is_none().then_some((FLAG, halts))
            }
            "rollout-partition" => {
                let partition = amount(value);
                self.policy.partition = Some(partition.unwrap_or(Amount::Percent(100)));
                let wanted = "must be a number of nodes or a percentage from \"0%\" to \"100%\"";
                partition.is_none().then_some((wanted, halts))
            }
            "rollout-order" => {
                self.policy.order = Order::parse(value);
                // Without it pods that were to be last might be first.
                self.policy.paused |= self.policy.order.is_none();
                let wanted = "must be a label key, and perhaps '=' and different label values with ',' between them";
                self.policy.order.is_none().then_some((wanted, halts))
            }
            "exclude-unready-nodes" => {
                let exclude = flag(value);
                self.policy.exclude_unready = exclude.unwrap_or(false);
                exclude.is_none().then_some((FLAG, ignored))
            }
            "strict-max-unavailable" => {
                let strict = flag(value);
                self.policy.strict = strict.unwrap_or(true);
                strict.is_none().then_some((FLAG, "it is read as \"true\""))
            }
            "rollout-conditions" => {
                let conditions = flag(value);
                self.policy.conditions = conditions.unwrap_or(false);
                conditions.is_none().then_some((FLAG, ignored))
            }
            _ => Some(("belongs to no annotation that is known for DaemonSets", ignored)),
        };
        if let Some((wanted, instead)) = complaint {
            let (annotation, value) = (annotation.to_owned(), value.to_owned());
            self.complaints.push(Complaint {
                annotation,
                value,
                wanted,
                instead,
            });
        }
    }
}

fn flag(value: &str) -> Option<bool> {
    match value {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A number of nodes, or a percentage of them up to all.
fn amount(value: &str) -> Option<Amount> {
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u32>().ok()).flatten()
    };
    match value.strip_suffix('%') {
        Some(digits) => number(digits).filter(|percent| *percent <= 100).map(Amount::Percent),
        None => number(value).map(Amount::Absolute),
    }
}

#[cfg(test)]
mod tests;
