//! Taints, tolerations, and the one implementation of toleration matching and toleration time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::time::Wall;

/// Effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// New pods are not scheduled.
    NoSchedule,
    /// The scheduler avoids the node.
    PreferNoSchedule,
    /// Running pods are evicted.
    NoExecute,
}

impl Effect {
    /// The effect of this API text; `None` for a text that is no effect.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            "NoExecute" => Some(Self::NoExecute),
            _ => None,
        }
    }

    /// The API text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A taint of a node. Its identity is key, value and effect; key and effect alone say which list entry it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// Key.
    pub key: Arc<str>,
    /// Value, or empty.
    pub value: Arc<str>,
    /// Effect.
    pub effect: Effect,
    /// `timeAdded`, if the API has one.
    pub time_added: Option<Wall>,
}

impl Taint {
    /// A taint without value and time.
    pub fn new(key: &str, effect: Effect) -> Self {
        Self {
            key: Arc::from(key),
            value: Arc::from(""),
            effect,
            time_added: None,
        }
    }

    /// True if both are the same list entry: same key and effect (NL-070).
    pub fn is_same_entry(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value.is_empty() {
            write!(f, "{}:{}", self.key, self.effect)
        } else {
            write!(f, "{}={}:{}", self.key, self.value, self.effect)
        }
    }
}

/// Operator of a toleration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// Values must be equal; also the meaning of an empty operator.
    #[default]
    Equal,
    /// Every value matches.
    Exists,
    /// An operator that never matches: `Lt` and `Gt` without their feature gate, or an unknown one (TE-050, DS-008).
    Never,
}

impl Operator {
    /// The operator of this API text.
    pub fn parse(text: &str) -> Self {
        match text {
            "" | "Equal" => Self::Equal,
            "Exists" => Self::Exists,
            _ => Self::Never,
        }
    }

    /// The API text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "Equal",
            Self::Exists => "Exists",
            Self::Never => "Never",
        }
    }
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// Key; empty matches every key.
    pub key: Arc<str>,
    /// Operator.
    pub operator: Operator,
    /// Value for [`Operator::Equal`].
    pub value: Arc<str>,
    /// Effect; `None` matches every effect.
    pub effect: Option<Effect>,
    /// `tolerationSeconds` as the pod has it; `None` is without limit.
    pub seconds: Option<i64>,
}

impl Toleration {
    /// A toleration of everything under `key`, with `effect`, without limit.
    pub fn exists(key: &str, effect: Effect) -> Self {
        Self {
            key: Arc::from(key),
            operator: Operator::Exists,
            value: Arc::from(""),
            effect: Some(effect),
            seconds: None,
        }
    }

    /// True if this toleration matches `taint` (TE-050, DS-082).
    pub fn matches(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator {
                Operator::Exists => true,
                Operator::Equal => self.value == taint.value,
                Operator::Never => false,
            }
    }
}

/// How long a pod may stay with some taints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// Nothing tolerates the taint at this index of the list judged (TE-052).
    Untolerated(usize),
    /// Without limit (TE-054). Also the answer for no taints at all.
    Forever,
    /// So long (TE-055); zero for a `tolerationSeconds` of zero or less.
    For(Duration),
}

/// The first toleration, in pod order, that matches `taint`: the used one (TE-051).
pub fn used<'a>(taint: &Taint, tolerations: &'a [Toleration]) -> Option<&'a Toleration> {
    tolerations.iter().find(|toleration| toleration.matches(taint))
}

/// How long a pod with `tolerations` may stay under all of `taints`, counted from now (TE-051 to TE-055).
///
/// Any int64 of `tolerationSeconds` is represented exactly: [`Duration`] holds more (TE-120).
pub fn tolerance(taints: &[Taint], tolerations: &[Toleration]) -> Tolerance {
    let mut shortest: Option<Duration> = None;
    for (index, taint) in taints.iter().enumerate() {
        let Some(toleration) = used(taint, tolerations) else {
            return Tolerance::Untolerated(index);
        };
        if let Some(seconds) = toleration.seconds {
            let limit = limit(seconds);
            shortest = Some(shortest.map_or(limit, |known| known.min(limit)));
        }
    }
    shortest.map_or(Tolerance::Forever, Tolerance::For)
}

/// `tolerationSeconds` as a duration: zero or negative is at once (TE-053).
pub fn limit(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_toleration(key: &str, operator: &str, value: &str, effect: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: Arc::from(key),
            operator: Operator::parse(operator),
            value: Arc::from(value),
            effect: Effect::parse(effect),
            seconds,
        }
    }

    fn mk_taint(key: &str, value: &str) -> Taint {
        Taint {
            value: Arc::from(value),
            ..Taint::new(key, Effect::NoExecute)
        }
    }

    /// TE-050, DS-082
    #[test]
    fn tolerations_match_by_effect_key_and_operator() {
        let taint = mk_taint("k", "v");
        let cases = [
            (("k", "Equal", "v", "NoExecute"), true),
            (("k", "", "v", ""), true),
            (("k", "Equal", "w", "NoExecute"), false),
            (("k", "Exists", "w", "NoExecute"), true),
            (("", "Exists", "", ""), true),
            (("", "Equal", "v", ""), true),
            (("k", "Equal", "v", "NoSchedule"), false),
            (("l", "Exists", "", ""), false),
            (("k", "Lt", "v", ""), false),
            (("k", "Gt", "0", ""), false),
            (("k", "exists", "", ""), false),
        ];
        for ((key, operator, value, effect), wanted) in cases {
            let toleration = mk_toleration(key, operator, value, effect, None);
            assert_eq!(toleration.matches(&taint), wanted, "{toleration:?}");
        }
    }

    /// TE-051, TE-052, TE-053, TE-120, TE-121, TE-122, TE-123
    #[test]
    fn tolerance_is_the_minimum_over_first_matches() {
        let (a, b) = (mk_taint("a", ""), mk_taint("b", ""));
        let t = |key: &str, seconds| mk_toleration(key, "Exists", "", "", seconds);
        let secs = |s| Tolerance::For(Duration::from_secs(s));
        let cases: [(&[Taint], Vec<Toleration>, Tolerance); 10] = [
            (&[], vec![], Tolerance::Forever),
            (std::slice::from_ref(&a), vec![], Tolerance::Untolerated(0)),
            (&[a.clone(), b.clone()], vec![t("a", None)], Tolerance::Untolerated(1)),
            (std::slice::from_ref(&a), vec![t("", None)], Tolerance::Forever),
            (
                std::slice::from_ref(&a),
                vec![t("a", Some(3600)), t("a", Some(10))],
                secs(3600),
            ),
            (&[a.clone(), b.clone()], vec![t("a", None), t("b", Some(60))], secs(60)),
            (&[a.clone(), b.clone()], vec![t("a", Some(1)), t("b", Some(2))], secs(1)),
            (std::slice::from_ref(&a), vec![t("a", Some(0))], secs(0)),
            (std::slice::from_ref(&a), vec![t("a", Some(i64::MIN))], secs(0)),
            (std::slice::from_ref(&a), vec![t("a", Some(i64::MAX))], secs(i64::MAX as u64)),
        ];
        for (taints, tolerations, wanted) in cases {
            assert_eq!(tolerance(taints, &tolerations), wanted, "{taints:?} {tolerations:?}");
        }
    }
}
