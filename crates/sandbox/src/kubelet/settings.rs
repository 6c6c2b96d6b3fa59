//! What a simulated kubelet does, as settings that can be changed one by one while it runs.
//!
//! Three layers, later ones win: the profile's defaults, changes made by the program that runs the sandbox, and annotations on the
//! Node ([`super::annotations`]). Texts are parsed here, once; whoever uses a setting gets a typed value.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::ReadyStatus;

mod keys;

pub use keys::{Error, Key, Value};

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

/// Changes of some settings. A key that is not in it keeps what it has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change(BTreeMap<Key, Value>);

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
