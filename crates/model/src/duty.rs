//! What a process was asked to do, and in which manner: values of flags that several stages share.

use std::fmt;
use std::str::FromStr;

/// Which of the documented differences from kube-controller-manager apply (design §10): `--profile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// All of them.
    #[default]
    Bailiff,
    /// None that can be switched off.
    Upstream,
}

/// How workloads leave an unhealthy node: `--eviction-mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvictionMode {
    /// By NoExecute taints and the pods' tolerations.
    #[default]
    Taint,
    /// The whole node at once, after a timeout, whatever is tolerated (NL-200 to NL-209).
    Node,
}

/// Which of kube-controller-manager's controllers are stood in for: `--controllers`. A duty nobody was asked to take is not a
/// missing producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duties {
    /// `node-lifecycle-controller`: node health, NoSchedule taints, labels, marking pods, health NoExecute taints, node mode.
    pub node_lifecycle: bool,
    /// `taint-eviction-controller`: deletion of pods that do not tolerate a NoExecute taint.
    pub taint_eviction: bool,
    /// `daemonset-controller`: daemon pods.
    pub daemonset: bool,
}

/// A text that is none of the words allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("allowed is {allowed}")]
pub struct UnknownWord {
    allowed: &'static str,
}

/// A list of controllers that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no controller is called '{name}'; allowed are *, and with or without a leading '-': {NODE_LIFECYCLE}, {TAINT_EVICTION}, {DAEMONSET}"
)]
pub struct UnknownController {
    name: String,
}

const NODE_LIFECYCLE: &str = "node-lifecycle-controller";
const TAINT_EVICTION: &str = "taint-eviction-controller";
const DAEMONSET: &str = "daemonset-controller";

/// Old names that kube-controller-manager still takes (NL-001, TE-001).
const ALIASES: [(&str, &str); 2] = [("nodelifecycle", NODE_LIFECYCLE), ("daemonset", DAEMONSET)];

// === impl Profile ===

impl FromStr for Profile {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "bailiff" => Ok(Self::Bailiff),
            "upstream" => Ok(Self::Upstream),
            _ => Err(UnknownWord {
                allowed: "bailiff or upstream",
            }),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bailiff => "bailiff",
            Self::Upstream => "upstream",
        })
    }
}

// === impl EvictionMode ===

impl FromStr for EvictionMode {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "taint" => Ok(Self::Taint),
            "node" => Ok(Self::Node),
            _ => Err(UnknownWord {
                allowed: "taint or node",
            }),
        }
    }
}

impl fmt::Display for EvictionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Taint => "taint",
            Self::Node => "node",
        })
    }
}

// === impl Duties ===

impl Duties {
    /// All of them.
    pub const ALL: Self = Self {
        node_lifecycle: true,
        taint_eviction: true,
        daemonset: true,
    };

    /// None of them.
    pub const NONE: Self = Self {
        node_lifecycle: false,
        taint_eviction: false,
        daemonset: false,
    };
}

impl Default for Duties {
    fn default() -> Self {
        Self::ALL
    }
}

/// Reads kube-controller-manager's list: of a name and its negation the first counts, else the star.
impl FromStr for Duties {
    type Err = UnknownController;

    fn from_str(text: &str) -> Result<Self, UnknownController> {
        let mut said = Vec::new();
        let mut star = false;
        for entry in text.split(',').map(str::trim) {
            if entry == "*" {
                star = true;
                continue;
            }
            let (wanted, name) = entry.strip_prefix('-').map_or((true, entry), |name| (false, name));
            let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
            let name = alias.map_or(name, |(_, name)| name);
            if ![NODE_LIFECYCLE, TAINT_EVICTION, DAEMONSET].contains(&name) {
                return Err(UnknownController { name: name.to_owned() });
            }
            said.push((name, wanted));
        }
        let is_wanted = |name: &str| {
            said.iter()
                .find(|(known, _)| *known == name)
                .map_or(star, |(_, wanted)| *wanted)
        };
        Ok(Self {
            node_lifecycle: is_wanted(NODE_LIFECYCLE),
            taint_eviction: is_wanted(TAINT_EVICTION),
            daemonset: is_wanted(DAEMONSET),
        })
    }
}

impl fmt::Display for Duties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node_lifecycle,
            taint_eviction,
            daemonset,
        } = *self;
        if *self == Self::ALL {
            return f.write_str("*");
        }
        let named = [
            (NODE_LIFECYCLE, node_lifecycle),
            (TAINT_EVICTION, taint_eviction),
            (DAEMONSET, daemonset),
        ];
        let wanted: Vec<&str> = named.iter().filter(|(_, wanted)| *wanted).map(|(name, _)| *name).collect();
        if wanted.is_empty() {
            // An empty list is no list.
            return write!(f, "-{NODE_LIFECYCLE},-{TAINT_EVICTION},-{DAEMONSET}");
        }
        f.write_str(&wanted.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NL-001, TE-001, DS-001
    #[test]
    fn controllers_are_chosen_as_upstream() {
        for (list, node_lifecycle, taint_eviction, daemonset) in [
            ("*", true, true, true),
            ("node-lifecycle-controller", true, false, false),
            ("nodelifecycle", true, false, false),
            ("daemonset, taint-eviction-controller", false, true, true),
            ("*,-taint-eviction-controller", true, false, true),
            ("-nodelifecycle,*", false, true, true),
            ("-daemonset-controller", false, false, false),
            ("-daemonset,*,daemonset-controller", true, true, false),
        ] {
            let duties = Duties {
                node_lifecycle,
                taint_eviction,
                daemonset,
            };
            assert_eq!(list.parse(), Ok(duties), "{list}");
            assert_eq!(duties.to_string().parse(), Ok(duties), "{list}");
        }
    }

    #[test]
    fn what_is_unknown_is_answered_with_what_is_allowed() {
        for list in ["", "*,", "node-ipam", "*,-node-ipam", "-*"] {
            let refused = list.parse::<Duties>().expect_err(list).to_string();
            assert!(refused.contains("*, and") && refused.contains(DAEMONSET), "{refused}");
        }
        assert_eq!(
            "kcm".parse::<Profile>().expect_err("none").to_string(),
            "allowed is bailiff or upstream"
        );
        assert_eq!(
            "pod".parse::<EvictionMode>().expect_err("none").to_string(),
            "allowed is taint or node"
        );
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for profile in [Profile::Bailiff, Profile::Upstream] {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        for mode in [EvictionMode::Taint, EvictionMode::Node] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
    }
}
