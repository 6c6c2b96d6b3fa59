//! Names and values of settings: parsed here, once, for every way in which they can be given.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::ReadyStatus;

use super::PodMode;

/// A setting that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is documented at the field of the same name")]
pub enum Key {
    Alive,
    LeaseInterval,
    StatusInterval,
    StatusOnResume,
    Ready,
    Pods,
    Bind,
    Finalize,
    BindDelay,
    RunDelay,
    FinalizeDelay,
    Partitioned,
    MemoryPressure,
    DiskPressure,
    PidPressure,
    Reboot,
    RebootDelay,
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a switch.
    Flag(bool),
    /// Of an interval, which can be off.
    Interval(Option<Duration>),
    /// Of a delay.
    Delay(Duration),
    /// Of [`Key::Ready`].
    Ready(ReadyStatus),
    /// Of [`Key::Pods`].
    Pods(PodMode),
    /// Of [`Key::Reboot`].
    Token(Arc<str>),
}

/// Why a setting was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such setting.
    #[error("unknown kubelet setting {0:?}: known are {known}", known = known_keys())]
    UnknownKey(String),
    /// The value is none of this setting.
    #[error("invalid value {value:?} of kubelet setting {key:?}: wanted {wanted}")]
    InvalidValue {
        /// The setting.
        key: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        wanted: &'static str,
    },
}

// === impl Key ===

bailiff_model::words! {
    /// The name, in words joined by hyphens.
    Key {
        Alive => "alive",
        LeaseInterval => "lease-interval",
        StatusInterval => "status-interval",
        StatusOnResume => "status-on-resume",
        Ready => "ready",
        Pods => "pods",
        Bind => "bind",
        Finalize => "finalize",
        BindDelay => "bind-delay",
        RunDelay => "run-delay",
        FinalizeDelay => "finalize-delay",
        Partitioned => "partitioned",
        MemoryPressure => "memory-pressure",
        DiskPressure => "disk-pressure",
        PidPressure => "pid-pressure",
        Reboot => "reboot",
        RebootDelay => "reboot-delay",
    }
}

impl Key {
    /// The key of this name; underscores may stand for hyphens.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        let is_same = |key: &Self| {
            let wanted = key.as_str();
            wanted.len() == name.len()
                && wanted
                    .chars()
                    .zip(name.chars())
                    .all(|(a, b)| a == b || (a == '-' && b == '_'))
        };
        Self::ALL
            .into_iter()
            .find(is_same)
            .ok_or_else(|| Error::UnknownKey(name.to_owned()))
    }

    /// What is allowed, for messages.
    pub const fn wanted(self) -> &'static str {
        match self {
            Self::LeaseInterval | Self::StatusInterval => {
                "a positive time such as 10, 0.5, 10s, 500ms, 5m (without unit: seconds), or none"
            }
            Self::BindDelay | Self::RunDelay | Self::FinalizeDelay | Self::RebootDelay => {
                "a time such as 0, 0.4, 10s, 500ms, 5m (without unit: seconds)"
            }
            Self::Ready => "True, False or Unknown",
            Self::Pods => "ready, notready, fail, succeed, none, image-pull-failure or crash-loop",
            Self::Reboot => "any text that is not empty",
            _ => "true or false",
        }
    }

    /// Reads a value of this key.
    pub fn parse(self, text: &str) -> Result<Value, Error> {
        let value = match self {
            Self::LeaseInterval | Self::StatusInterval => match text {
                "none" => Some(Value::Interval(None)),
                text => parse_time(text)
                    .filter(|every| *every >= SHORTEST_INTERVAL)
                    .map(|every| Value::Interval(Some(every))),
            },
            Self::BindDelay | Self::RunDelay | Self::FinalizeDelay | Self::RebootDelay => parse_time(text).map(Value::Delay),
            Self::Ready => parse_ready(text).map(Value::Ready),
            Self::Pods => PodMode::parse(text).map(Value::Pods),
            Self::Reboot => (!text.is_empty()).then(|| Value::Token(Arc::from(text))),
            _ => text.parse().ok().map(Value::Flag),
        };
        value.ok_or_else(|| Error::InvalidValue {
            key: self.as_str(),
            value: text.to_owned(),
            wanted: self.wanted(),
        })
    }
}

/// Renewing more often than every 10 ms would only show how fast the machine is.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

fn parse_ready(text: &str) -> Option<ReadyStatus> {
    Some(match text {
        "True" => ReadyStatus::True,
        "False" => ReadyStatus::False,
        "Unknown" => ReadyStatus::Unknown,
        _ => return None,
    })
}

/// A time, with one unit or in seconds; at most a year, which no simulation lives to see the end of.
fn parse_time(text: &str) -> Option<Duration> {
    const LONGEST: f64 = 366.0 * 24.0 * 3600.0;
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let seconds = match unit {
        "" | "s" => number,
        "ms" => number / 1000.0,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    (seconds <= LONGEST).then(|| Duration::from_secs_f64(seconds))
}

fn known_keys() -> String {
    Key::ALL.map(Key::as_str).join(", ")
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_refused_with_what_is_allowed() {
        let secs = Duration::from_secs_f64;
        let cases = [
            (Key::Alive, "false", Some(Value::Flag(false))),
            (Key::Alive, "no", None),
            (Key::LeaseInterval, "none", Some(Value::Interval(None))),
            (Key::LeaseInterval, "1.0", Some(Value::Interval(Some(secs(1.0))))),
            (Key::LeaseInterval, "500ms", Some(Value::Interval(Some(secs(0.5))))),
            (Key::LeaseInterval, "0", None),
            (Key::LeaseInterval, "-1", None),
            (Key::StatusInterval, "5m", Some(Value::Interval(Some(secs(300.0))))),
            (Key::StatusInterval, "1e9", None),
            (Key::RunDelay, "0", Some(Value::Delay(Duration::ZERO))),
            (Key::RunDelay, "none", None),
            (Key::RunDelay, "99999h", None),
            (Key::Ready, "Unknown", Some(Value::Ready(ReadyStatus::Unknown))),
            (Key::Ready, "true", None),
            (Key::Pods, "crash-loop", Some(Value::Pods(PodMode::CrashLoop))),
            (Key::Pods, "Ready", None),
            (Key::Reboot, "1", Some(Value::Token(Arc::from("1")))),
            (Key::Reboot, "", None),
        ];
        for (key, text, wanted) in cases {
            let parsed = key.parse(text);
            assert_eq!(parsed.clone().ok(), wanted, "{key} {text:?}");
            if let Err(error) = parsed {
                let message = error.to_string();
                assert!(message.contains(key.as_str()) && message.contains(key.wanted()), "{message}");
            }
        }
    }

    #[test]
    fn every_setting_is_in_the_handbook() {
        let handbook = include_str!("../../../../../docs/sandbox.md");
        for key in Key::ALL {
            assert!(handbook.contains(&format!("`{key}`")), "{key}");
        }
    }
}
