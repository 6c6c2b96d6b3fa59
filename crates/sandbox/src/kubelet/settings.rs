//! What a simulated kubelet does, as settings that can be changed one by one while it runs.
//!
//! Three layers, later ones win: the profile's defaults, changes made by the program that runs the sandbox, and annotations on the
//! Node ([`super::annotations`]). Texts are parsed here, once; whoever uses a setting gets a typed value.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::ReadyStatus;

/// Settings of one kubelet.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletSettings {
    /// `false`: no lease, no status posts, pods are neither run nor finalised.
    pub alive: bool,
    /// Time between lease renewals; `None`: no lease.
    pub lease_interval: Option<Duration>,
    /// Time between node status posts; `None`: none.
    pub status_interval: Option<Duration>,
    /// One status post when `alive` turns true; without it only the lease resumes.
    pub status_on_resume: bool,
    /// Status of condition Ready in posts; a change while alive causes a post at once.
    pub ready: ReadyStatus,
    /// What becomes of pods that start here.
    pub pods: PodMode,
    /// The stand-in scheduler binds pods that name this node.
    pub bind: bool,
    /// Terminating pods are deleted for good.
    pub finalize: bool,
    /// From unbound to bound.
    pub bind_delay: Duration,
    /// From bound to what `pods` says.
    pub run_delay: Duration,
    /// From terminating to gone. With [`Fidelity::Full`] a shorter grace period of the pod wins.
    pub finalize_delay: Duration,
    /// The node is cut off: no lease, no status of nodes or pods, nothing new is learnt, but pods keep running.
    pub partitioned: bool,
    /// Condition MemoryPressure in posts.
    pub memory_pressure: bool,
    /// Condition DiskPressure in posts.
    pub disk_pressure: bool,
    /// Condition PIDPressure in posts.
    pub pid_pressure: bool,
    /// A change of this text, unless it becomes absent, reboots the machine.
    pub reboot: Option<Arc<str>>,
    /// How long a reboot takes.
    pub reboot_delay: Duration,
    /// How closely a real kubelet is followed; not a key, only a profile decides it.
    pub fidelity: Fidelity,
}

/// How closely a real kubelet is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// As the simulated kubelets of the recorded scenarios: pod conditions are set once, without reasons, and nothing that others
    /// change is put right; every node name has a kubelet; all phases are equal; nothing is rejected.
    Recorded,
    /// As a kubelet: what others change in a status it owns is put right, readiness follows, containers restart, grace periods bound
    /// termination, phases are spread, what does not fit is rejected, statuses and Events carry reasons.
    Full,
}

/// What becomes of a pod that is bound, Pending and not terminating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodMode {
    /// Running and ready.
    #[default]
    Ready,
    /// Running, not ready.
    NotReady,
    /// Failed.
    Fail,
    /// Succeeded.
    Succeed,
    /// Stays Pending.
    None,
    /// Stays Pending: its image cannot be pulled.
    ImagePullFailure,
    /// Starts, crashes and is restarted after a growing time.
    CrashLoop,
}

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

/// Changes of some settings. A key that is not in it keeps what it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change(BTreeMap<Key, Value>);

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

// === impl KubeletSettings ===

impl KubeletSettings {
    /// As the simulated kubelets of the recorded scenarios: a lease every second, no status posts.
    pub fn oracle() -> Self {
        Self {
            alive: true,
            lease_interval: Some(Duration::from_secs(1)),
            status_interval: None,
            status_on_resume: true,
            ready: ReadyStatus::True,
            pods: PodMode::Ready,
            bind: true,
            finalize: true,
            bind_delay: Duration::from_millis(200),
            run_delay: Duration::from_millis(400),
            finalize_delay: Duration::from_millis(600),
            partitioned: false,
            memory_pressure: false,
            disk_pressure: false,
            pid_pressure: false,
            reboot: None,
            // Long enough to be seen, shorter than the default grace of 50 s: a reboot alone should not look like a dead node.
            reboot_delay: Duration::from_secs(20),
            fidelity: Fidelity::Recorded,
        }
    }

    /// As a kubelet with its defaults: a lease every 10 s (`nodeLeaseDurationSeconds` / 4), status every 5 minutes
    /// (`nodeStatusReportFrequency`) or when it changes.
    pub fn cluster() -> Self {
        Self {
            lease_interval: Some(Duration::from_secs(10)),
            status_interval: Some(Duration::from_secs(300)),
            fidelity: Fidelity::Full,
            ..Self::oracle()
        }
    }

    /// True if a real kubelet is followed.
    pub fn is_full(&self) -> bool {
        self.fidelity == Fidelity::Full
    }

    fn set(&mut self, key: Key, value: &Value) {
        match (key, value) {
            (Key::Alive, Value::Flag(on)) => self.alive = *on,
            (Key::LeaseInterval, Value::Interval(every)) => self.lease_interval = *every,
            (Key::StatusInterval, Value::Interval(every)) => self.status_interval = *every,
            (Key::StatusOnResume, Value::Flag(on)) => self.status_on_resume = *on,
            (Key::Ready, Value::Ready(status)) => self.ready = *status,
            (Key::Pods, Value::Pods(mode)) => self.pods = *mode,
            (Key::Bind, Value::Flag(on)) => self.bind = *on,
            (Key::Finalize, Value::Flag(on)) => self.finalize = *on,
            (Key::BindDelay, Value::Delay(delay)) => self.bind_delay = *delay,
            (Key::RunDelay, Value::Delay(delay)) => self.run_delay = *delay,
            (Key::FinalizeDelay, Value::Delay(delay)) => self.finalize_delay = *delay,
            (Key::Partitioned, Value::Flag(on)) => self.partitioned = *on,
            (Key::MemoryPressure, Value::Flag(on)) => self.memory_pressure = *on,
            (Key::DiskPressure, Value::Flag(on)) => self.disk_pressure = *on,
            (Key::PidPressure, Value::Flag(on)) => self.pid_pressure = *on,
            (Key::Reboot, Value::Token(token)) => self.reboot = Some(Arc::clone(token)),
            (Key::RebootDelay, Value::Delay(delay)) => self.reboot_delay = *delay,
            // `Change` only holds what `Key::parse` gave for that key.
            _ => debug_assert!(false, "a value of another key: {key:?} {value:?}"),
        }
    }
}

// === impl PodMode ===

impl PodMode {
    /// The mode of this text.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "ready" => Self::Ready,
            "notready" => Self::NotReady,
            "fail" => Self::Fail,
            "succeed" => Self::Succeed,
            "none" => Self::None,
            "image-pull-failure" => Self::ImagePullFailure,
            "crash-loop" => Self::CrashLoop,
            _ => return None,
        })
    }
}

// === impl Key ===

impl Key {
    /// All, in the order of the table in [`super::annotations`].
    pub const ALL: [Self; 17] = [
        Self::Alive,
        Self::LeaseInterval,
        Self::StatusInterval,
        Self::StatusOnResume,
        Self::Ready,
        Self::Pods,
        Self::Bind,
        Self::Finalize,
        Self::BindDelay,
        Self::RunDelay,
        Self::FinalizeDelay,
        Self::Partitioned,
        Self::MemoryPressure,
        Self::DiskPressure,
        Self::PidPressure,
        Self::Reboot,
        Self::RebootDelay,
    ];

    /// The name, in words joined by hyphens.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::LeaseInterval => "lease-interval",
            Self::StatusInterval => "status-interval",
            Self::StatusOnResume => "status-on-resume",
            Self::Ready => "ready",
            Self::Pods => "pods",
            Self::Bind => "bind",
            Self::Finalize => "finalize",
            Self::BindDelay => "bind-delay",
            Self::RunDelay => "run-delay",
            Self::FinalizeDelay => "finalize-delay",
            Self::Partitioned => "partitioned",
            Self::MemoryPressure => "memory-pressure",
            Self::DiskPressure => "disk-pressure",
            Self::PidPressure => "pid-pressure",
            Self::Reboot => "reboot",
            Self::RebootDelay => "reboot-delay",
        }
    }

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

// === impl Change ===

impl Change {
    /// A change of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads settings as scenario files have them: names with underscores, times in seconds, `null` for none.
    pub fn from_json<'a>(entries: impl IntoIterator<Item = (&'a str, &'a serde_json::Value)>) -> Result<Self, Error> {
        let mut change = Self::default();
        for (name, value) in entries {
            let key = Key::from_name(name)?;
            let text = match value {
                serde_json::Value::Null => "none".to_owned(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            change.0.insert(key, key.parse(&text)?);
        }
        Ok(change)
    }

    /// This change and one more setting, given as text.
    pub fn with(mut self, name: &str, text: &str) -> Result<Self, Error> {
        let key = Key::from_name(name)?;
        self.0.insert(key, key.parse(text)?);
        Ok(self)
    }

    /// Adds a parsed value.
    pub(crate) fn insert(&mut self, key: Key, value: Value) {
        self.0.insert(key, value);
    }

    /// Forgets a key.
    pub(crate) fn remove(&mut self, key: Key) {
        self.0.remove(&key);
    }

    /// True if the key is changed.
    pub fn contains(&self, key: Key) -> bool {
        self.0.contains_key(&key)
    }

    /// True if nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all of `later`, which wins.
    pub fn merge(&mut self, later: Self) {
        self.0.extend(later.0);
    }

    /// Applies it.
    pub fn apply_to(&self, settings: &mut KubeletSettings) {
        for (key, value) in &self.0 {
            settings.set(*key, value);
        }
    }
}

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
    use serde_json::json;

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
    fn scenario_files_change_settings_by_their_names() {
        let file = json!({"alive": false, "lease_interval": null, "status_interval": 1.0, "ready": "False", "pods": "none", "run_delay": 2});
        let entries = file.as_object().unwrap();
        let change = Change::from_json(entries.iter().map(|(name, value)| (name.as_str(), value))).unwrap();
        let mut settings = KubeletSettings::oracle();
        change.apply_to(&mut settings);
        let wanted = KubeletSettings {
            alive: false,
            lease_interval: None,
            status_interval: Some(Duration::from_secs(1)),
            ready: ReadyStatus::False,
            pods: PodMode::None,
            run_delay: Duration::from_secs(2),
            ..KubeletSettings::oracle()
        };
        assert_eq!(settings, wanted);
        let unknown = Change::from_json([("lives", &json!(9))]).unwrap_err();
        assert!(
            unknown
                .to_string()
                .starts_with("unknown kubelet setting \"lives\": known are alive, "),
            "{unknown}"
        );
    }
}
