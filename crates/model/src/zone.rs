//! Failure domains: which zone a node is in, and what its state can be.

use std::fmt;
use std::sync::Arc;

use crate::wellknown;

/// A failure domain of nodes: region and zone label values. Both empty: nodes without such labels (NL-022).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zone {
    /// Region, or empty.
    pub region: Arc<str>,
    /// Zone, or empty.
    pub zone: Arc<str>,
}

/// A printable zone key that is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a zone key: wanted \"<region>:<zone>\"")]
pub struct ParseError(String);

impl Default for Zone {
    fn default() -> Self {
        Self::new("", "")
    }
}

impl Zone {
    /// The zone of these label values.
    pub fn new(region: &str, zone: &str) -> Self {
        Self {
            region: Arc::from(region),
            zone: Arc::from(zone),
        }
    }

    /// The zone that a node's labels put it in; `label` looks one up. Legacy keys win if present, even if empty (NL-020).
    pub fn from_labels<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Self {
        let value = |legacy: &str, stable: &str| label(legacy).or_else(|| label(stable)).unwrap_or_default();
        Self::new(
            value(wellknown::LABEL_REGION_LEGACY, wellknown::LABEL_REGION),
            value(wellknown::LABEL_ZONE_LEGACY, wellknown::LABEL_ZONE),
        )
    }

    /// True if neither label is set.
    pub fn is_unlabelled(&self) -> bool {
        self.region.is_empty() && self.zone.is_empty()
    }

    /// Value of the metric label `zone`, as upstream forms it: NUL byte included, empty for unlabelled nodes (NL-021).
    pub fn metric_label(&self) -> String {
        if self.is_unlabelled() {
            return String::new();
        }
        format!("{}:\0:{}", self.region, self.zone)
    }
}

/// The printable key, `<region>:<zone>`. Label values cannot hold a colon, so it can be read back.
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.region, self.zone)
    }
}

impl std::str::FromStr for Zone {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.split_once(':') {
            Some((region, zone)) if !zone.contains(':') => Ok(Self::new(region, zone)),
            _ => Err(ParseError(text.to_owned())),
        }
    }
}

/// Disruption state of a zone (NL-023).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ZoneState {
    /// Not judged yet.
    #[default]
    Initial,
    /// Enough ready nodes.
    Normal,
    /// At least the unhealthy threshold is not ready.
    PartialDisruption,
    /// No voting node is ready.
    FullDisruption,
}

impl fmt::Display for ZoneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initial => "Initial",
            Self::Normal => "Normal",
            Self::PartialDisruption => "PartialDisruption",
            Self::FullDisruption => "FullDisruption",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Labels, the region and zone they mean, and the metric label.
    type Case<'a> = (&'a [(&'a str, &'a str)], (&'a str, &'a str), &'a str);

    /// NL-020, NL-021, NL-022
    #[test]
    fn zone_comes_from_labels() {
        let (rl, r) = (wellknown::LABEL_REGION_LEGACY, wellknown::LABEL_REGION);
        let (zl, z) = (wellknown::LABEL_ZONE_LEGACY, wellknown::LABEL_ZONE);
        let cases: [Case<'_>; 6] = [
            (&[], ("", ""), ""),
            (&[(z, "a")], ("", "a"), ":\0:a"),
            (&[(r, "eu"), (z, "a")], ("eu", "a"), "eu:\0:a"),
            (&[(rl, "us"), (r, "eu"), (z, "a")], ("us", "a"), "us:\0:a"),
            (&[(zl, ""), (z, "a")], ("", ""), ""),
            (&[(zl, "b"), (rl, "")], ("", "b"), ":\0:b"),
        ];
        for (labels, (region, zone), metric) in cases {
            let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
            let found = Zone::from_labels(|key| labels.get(key).copied());
            assert_eq!(found, Zone::new(region, zone), "{labels:?}");
            assert_eq!(found.metric_label(), metric, "{labels:?}");
            assert_eq!(found.to_string().parse(), Ok(found), "{labels:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "a", "a:b:c"] {
            assert!(text.parse::<Zone>().is_err(), "{text:?}");
        }
    }
}
