//! How many nodes a rolling update may touch at once (DS-131, DS-132).

use crate::facts::{Amount, Strategy};

impl Amount {
    /// So many of `total`; a percentage is rounded up.
    pub(crate) fn of(self, total: u32) -> u32 {
        match self {
            Self::Absolute(count) => count,
            Self::Percent(percent) => {
                let scaled = (u64::from(percent) * u64::from(total)).div_ceil(100);
                u32::try_from(scaled).unwrap_or(u32::MAX)
            }
        }
    }
}

impl Strategy {
    /// True if new pods are made beside old ones: maxSurge is more than zero of one node (DS-131).
    pub(crate) fn is_surging(self) -> bool {
        match self {
            Self::OnDelete => false,
            Self::RollingUpdate { max_surge, .. } => max_surge.of(1) > 0,
        }
    }

    /// maxUnavailable and maxSurge for `desired` nodes (DS-132); zero under OnDelete.
    pub(crate) fn limits(self, desired: u32) -> Limits {
        let Self::RollingUpdate {
            max_unavailable,
            max_surge,
        } = self
        else {
            return Limits {
                unavailable: 0,
                surge: 0,
            };
        };
        let limits = Limits {
            unavailable: max_unavailable.of(desired),
            surge: max_surge.of(desired),
        };
        if limits.unavailable == 0 && limits.surge == 0 && desired > 0 {
            return Limits {
                unavailable: 1,
                surge: 0,
            };
        }
        limits
    }
}

/// Budgets in nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) unavailable: u32,
    pub(crate) surge: u32,
}

#[cfg(test)]
mod tests {
    use super::Amount::{Absolute, Percent};
    use super::*;

    fn mk(max_unavailable: Amount, max_surge: Amount) -> Strategy {
        Strategy::RollingUpdate {
            max_unavailable,
            max_surge,
        }
    }

    /// DS-132; upstream's TestGetUnavailableNumbers
    #[test]
    fn budgets_are_scaled_and_rounded_up() {
        let cases = [
            (mk(Absolute(0), Absolute(0)), 0, (0, 0)),
            (mk(Absolute(1), Absolute(0)), 2, (1, 0)),
            (mk(Absolute(0), Absolute(0)), 2, (1, 0)),
            (mk(Percent(50), Absolute(0)), 2, (1, 0)),
            (mk(Percent(50), Absolute(0)), 3, (2, 0)),
            (mk(Absolute(0), Percent(50)), 2, (0, 1)),
            (mk(Absolute(0), Percent(100)), 2, (0, 2)),
            (mk(Percent(1), Absolute(0)), 0, (0, 0)),
            (mk(Percent(u32::MAX), Absolute(0)), u32::MAX, (u32::MAX, 0)),
            (Strategy::OnDelete, 5, (0, 0)),
        ];
        for (strategy, desired, (unavailable, surge)) in cases {
            assert_eq!(
                strategy.limits(desired),
                Limits { unavailable, surge },
                "{strategy:?} of {desired}"
            );
        }
    }

    /// DS-131
    #[test]
    fn any_positive_surge_is_surging() {
        assert!(!mk(Absolute(1), Absolute(0)).is_surging());
        assert!(!mk(Absolute(1), Percent(0)).is_surging());
        assert!(mk(Absolute(0), Percent(1)).is_surging());
        assert!(mk(Absolute(0), Absolute(3)).is_surging());
        assert!(!Strategy::OnDelete.is_surging());
    }
}
