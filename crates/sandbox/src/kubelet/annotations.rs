//! Settings of a kubelet that anybody who may write a Node can change, with kubectl alone:
//! `kubectl annotate node n1 sandbox.bailiff.dev/alive=false`.
//!
//! | annotation on the Node | values | meaning |
//! |---|---|---|
//! | `sandbox.bailiff.dev/alive` | `true`, `false` | `false`: the kubelet is silent: no lease, no status, pods are neither started nor finalised |
//! | `sandbox.bailiff.dev/lease-interval` | time, `none` | time between lease renewals |
//! | `sandbox.bailiff.dev/status-interval` | time, `none` | time between node status posts; changes are posted at once anyway |
//! | `sandbox.bailiff.dev/status-on-resume` | `true`, `false` | `false`: after silence only the lease resumes at once |
//! | `sandbox.bailiff.dev/ready` | `True`, `False`, `Unknown` | status of the node's condition Ready |
//! | `sandbox.bailiff.dev/pods` | `ready`, `notready`, `fail`, `succeed`, `none`, `image-pull-failure`, `crash-loop` | what becomes of pods that start here; `ready`, `notready` and `crash-loop` also reach running ones. On a Pod: the same for that pod, whatever its node says |
//! | `sandbox.bailiff.dev/bind` | `true`, `false` | `false`: pods that name this node by affinity are not bound |
//! | `sandbox.bailiff.dev/finalize` | `true`, `false` | `false`: terminating pods are not deleted for good |
//! | `sandbox.bailiff.dev/bind-delay` | time | from created to bound |
//! | `sandbox.bailiff.dev/run-delay` | time | from bound to started |
//! | `sandbox.bailiff.dev/finalize-delay` | time | from terminating to gone; a shorter grace period of the pod wins |
//! | `sandbox.bailiff.dev/partitioned` | `true`, `false` | `true`: cut off from the API: no lease, no status, nothing learnt, but pods keep running |
//! | `sandbox.bailiff.dev/memory-pressure` | `true`, `false` | condition MemoryPressure |
//! | `sandbox.bailiff.dev/disk-pressure` | `true`, `false` | condition DiskPressure |
//! | `sandbox.bailiff.dev/pid-pressure` | `true`, `false` | condition PIDPressure |
//! | `sandbox.bailiff.dev/reboot` | any new text | the machine reboots: silence for `reboot-delay`, then a new bootID, and containers restart |
//! | `sandbox.bailiff.dev/reboot-delay` | time | how long a reboot takes |
//!
//! A time is a number with `ms`, `s`, `m` or `h`, or seconds without a unit. Removing an annotation restores what held before it. A
//! value or name that is not understood causes a Warning Event on the Node and changes nothing: the last good value keeps holding.
//! An annotation acts although the node is silent or cut off: it stands for what happens to the machine, not for a message to it.

use std::collections::BTreeMap;

use super::settings::{Change, Error, Key, PodMode};

/// What every annotation of the sandbox begins with.
pub const PREFIX: &str = "sandbox.bailiff.dev/";

/// The layer of settings that a Node's annotations make.
#[derive(Clone, Debug, Default)]
pub struct Annotations {
    texts: BTreeMap<String, String>,
    change: Change,
}

// === impl Annotations ===

impl Annotations {
    /// Takes a Node's annotations, without prefix. Returns what was not understood, once per new text.
    pub fn update(&mut self, texts: &BTreeMap<String, String>) -> Vec<Error> {
        if *texts == self.texts {
            return Vec::new();
        }
        let removed: Vec<Key> = self
            .texts
            .keys()
            .filter(|name| !texts.contains_key(*name))
            .filter_map(|name| Key::from_name(name).ok())
            .collect();
        for key in removed {
            self.change.remove(key);
        }
        let errors = texts
            .iter()
            .filter(|(name, text)| self.texts.get(*name) != Some(text))
            .filter_map(|(name, text)| set(&mut self.change, name, text).err())
            .collect();
        self.texts.clone_from(texts);
        errors
    }

    /// The settings they change.
    pub fn change(&self) -> &Change {
        &self.change
    }
}

/// What a Pod's own annotation says about it; a text that is not understood says nothing.
pub fn pod_mode(annotations: &BTreeMap<String, String>) -> Option<PodMode> {
    annotations.get(Key::Pods.as_str()).and_then(|text| PodMode::parse(text))
}

/// Annotation names have hyphens only: an underscore would be a second spelling that removal could not match.
fn set(change: &mut Change, name: &str, text: &str) -> Result<(), Error> {
    let key = Key::from_name(name)?;
    if key.as_str() != name {
        return Err(Error::UnknownKey(name.to_owned()));
    }
    change.insert(key, key.parse(text)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::settings::KubeletSettings;
    use super::*;

    fn mk_texts(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
        texts
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    fn effective(annotations: &Annotations) -> KubeletSettings {
        let mut settings = KubeletSettings::cluster();
        annotations.change().apply_to(&mut settings);
        settings
    }

    #[test]
    fn a_malformed_value_is_reported_once_and_the_last_good_one_holds() {
        let mut annotations = Annotations::default();
        assert_eq!(
            annotations.update(&mk_texts(&[("lease-interval", "2s"), ("alive", "false")])),
            []
        );
        let bad = mk_texts(&[("lease-interval", "soon"), ("alive", "false")]);
        let errors = annotations.update(&bad);
        assert_eq!(errors, [Key::LeaseInterval.parse("soon").unwrap_err()]);
        assert_eq!(annotations.update(&bad), []);
        assert_eq!(effective(&annotations).lease_interval, Some(Duration::from_secs(2)));
        assert!(!effective(&annotations).alive);
    }

    #[test]
    fn removing_an_annotation_restores_what_held_before() {
        let mut annotations = Annotations::default();
        annotations.update(&mk_texts(&[("alive", "false"), ("pods", "none")]));
        annotations.update(&mk_texts(&[("pods", "none")]));
        assert!(effective(&annotations).alive);
        assert_eq!(effective(&annotations).pods, PodMode::None);
        annotations.update(&mk_texts(&[]));
        assert_eq!(effective(&annotations), KubeletSettings::cluster());
    }

    #[test]
    fn unknown_names_are_reported() {
        let mut annotations = Annotations::default();
        let errors = annotations.update(&mk_texts(&[("lives", "9"), ("lease_interval", "1")]));
        assert_eq!(
            errors,
            [
                Error::UnknownKey("lease_interval".to_owned()),
                Error::UnknownKey("lives".to_owned())
            ]
        );
    }
}
