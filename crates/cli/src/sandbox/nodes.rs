//! `bailiff sandbox set` and `bailiff sandbox taint`: what happens to nodes.

use std::str::FromStr;

use bailiff_cluster::error::Kind;
use bailiff_cluster::{Api, Decode, Patch};
use bailiff_model::{Effect, Taint};
use bailiff_runtime::args::{Error as Invalid, exit_invalid};
use bailiff_sandbox::kubelet::Key;
use bailiff_sandbox::kubelet::annotations::PREFIX;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::cluster::{self, Node, Target, of_write, pick};
use crate::{Failure, out};

/// Attempts at a change that somebody else's came between. A node that a failure is played on is written by a few controllers at once.
const ATTEMPTS: u32 = 10;

/// One setting of a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    name: &'static str,
    /// `None`: as it was before.
    value: Option<String>,
}

/// What becomes of a taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaintChange {
    /// It is put on, or gets this value.
    On(Taint),
    /// All of this key, or the one of this effect, are taken off.
    Off(String, Option<Effect>),
}

// === impl Setting ===

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = match (text.split_once('='), text.strip_suffix('-')) {
            (Some((name, value)), _) => (name, Some(value)),
            (None, Some(name)) => (name, None),
            (None, None) => return Err("allowed is name=value, or name- to have it as it was before".to_owned()),
        };
        let key = Key::from_name(name).map_err(|error| error.to_string())?;
        if let Some(value) = value {
            key.parse(value).map_err(|error| error.to_string())?;
        }
        Ok(Self {
            name: key.as_str(),
            value: value.map(str::to_owned),
        })
    }
}

// === impl TaintChange ===

impl FromStr for TaintChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const ALLOWED: &str = "allowed is key=value:effect, key:effect, key- or key:effect-, with effect NoSchedule, PreferNoSchedule or \
                               NoExecute";
        let effect_of = |effect| Effect::parse(effect).ok_or(ALLOWED);
        let (text, is_off) = match text.strip_suffix('-') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (named, effect) = match text.split_once(':') {
            Some((named, effect)) => (named, Some(effect_of(effect)?)),
            None => (text, None),
        };
        let (key, value) = named.split_once('=').unwrap_or((named, ""));
        match (is_off, effect) {
            _ if key.is_empty() => Err(ALLOWED.to_owned()),
            (true, effect) => Ok(Self::Off(key.to_owned(), effect)),
            (false, None) => Err(ALLOWED.to_owned()),
            (false, Some(effect)) => {
                let mut taint = Taint::new(key, effect);
                taint.value = value.into();
                Ok(Self::On(taint))
            }
        }
    }
}

impl TaintChange {
    fn is_meant(&self, taint: &Value) -> bool {
        match self {
            Self::On(wanted) => taint["key"] == *wanted.key && taint["effect"] == wanted.effect.as_str(),
            Self::Off(key, effect) => taint["key"] == **key && effect.is_none_or(|effect| taint["effect"] == effect.as_str()),
        }
    }

    /// The taints of a node afterwards; `None` if nothing is different.
    fn made_to(&self, taints: &[Value]) -> Option<Vec<Value>> {
        let mut changed: Vec<Value> = taints.iter().filter(|taint| !self.is_meant(taint)).cloned().collect();
        if let Self::On(taint) = self {
            let same = taints
                .iter()
                .find(|old| self.is_meant(old) && text(old, "value") == &*taint.value);
            let new = || json!({"key": &*taint.key, "value": &*taint.value, "effect": taint.effect.as_str()});
            changed.push(same.cloned().unwrap_or_else(new));
        }
        let is_same = changed.len() == taints.len() && changed.iter().all(|taint| taints.contains(taint));
        (!is_same).then_some(changed)
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Changes settings of the nodes that are meant.
pub async fn set(api: &Api, target: &Target, settings: &[Setting]) -> Result<(), Failure> {
    let annotations: Map<String, Value> = settings
        .iter()
        .map(|setting| (format!("{PREFIX}{}", setting.name), json!(setting.value)))
        .collect();
    let said: Vec<String> = settings
        .iter()
        .map(|Setting { name, value }| match value {
            Some(value) => format!("{name}={value}"),
            None => format!("{name} as before"),
        })
        .collect();
    for node in meant(api, target).await? {
        let patch = Patch::Merge(json!({"metadata": {"uid": node.uid, "annotations": annotations}}));
        api.patch::<IgnoredAny>(&path(&node), &patch).await.map_err(of_write)?;
        out::line(format_args!("{}: {}", node.name, said.join(", ")))?;
    }
    Ok(())
}

/// Changes a taint of the nodes that are meant.
pub async fn taint(api: &Api, target: &Target, change: &TaintChange) -> Result<(), Failure> {
    let said = match change {
        TaintChange::On(taint) => taint.to_string(),
        TaintChange::Off(key, None) => format!("no taint {key}"),
        TaintChange::Off(key, Some(effect)) => format!("no taint {key}:{effect}"),
    };
    for node in meant(api, target).await? {
        taint_one(api, &node, change).await?;
        out::line(format_args!("{}: {said}", node.name))?;
    }
    Ok(())
}

async fn taint_one(api: &Api, node: &Node, change: &TaintChange) -> Result<(), Failure> {
    let mut attempt = 1;
    loop {
        let found: Tainted = api.get(&path(node)).await?;
        let Some(taints) = change.made_to(&found.spec.taints.unwrap_or_default()) else {
            return Ok(());
        };
        let metadata = json!({"uid": node.uid, "resourceVersion": found.metadata.resource_version});
        let patch = Patch::Merge(json!({"metadata": metadata, "spec": {"taints": taints}}));
        match api.patch::<IgnoredAny>(&path(node), &patch).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind == Kind::Conflict && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(of_write(error)),
        }
    }
}

#[derive(Deserialize)]
struct Tainted {
    metadata: Version,
    #[serde(default)]
    spec: Spec,
}

impl Decode for Tainted {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

#[derive(Default, Deserialize)]
struct Spec {
    taints: Option<Vec<Value>>,
}

fn path(node: &Node) -> String {
    format!("/api/v1/nodes/{}", node.name)
}

/// The nodes that are meant: at least one, or the process ends with what is wrong.
async fn meant(api: &Api, target: &Target) -> Result<Vec<Node>, Failure> {
    let mut nodes = cluster::nodes(api).await?;
    if let Some(zone) = &target.zone {
        let mut zones: Vec<_> = nodes.iter().map(|node| node.zone.clone()).collect();
        zones.sort();
        zones.dedup();
        match pick(zone, &zones) {
            Ok(zone) => nodes.retain(|node| node.zone == zone),
            Err(error) => exit_invalid(&error),
        }
    }
    if let Some(name) = &target.node {
        nodes.retain(|node| node.name == *name);
        if nodes.is_empty() {
            exit_invalid(&Invalid::new("node", name, "there is no such node"));
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_that_a_kubelet_understands() {
        let parse = |text: &str| text.parse::<Setting>();
        let alive = |value: Option<&str>| Setting {
            name: "alive",
            value: value.map(str::to_owned),
        };
        assert_eq!(parse("alive=false"), Ok(alive(Some("false"))));
        assert_eq!(parse("alive-"), Ok(alive(None)));
        for (wrong, wanted) in [
            ("alive", "name=value"),
            ("alive=maybe", "true or false"),
            ("mood=bad", "known are"),
            ("mood-", "known are"),
        ] {
            let error = parse(wrong).expect_err(wrong);
            assert!(error.contains(wanted), "{wrong}: {error}");
        }
    }

    #[test]
    fn taints_are_written_as_kubectl_writes_them() {
        let parse = |text: &str| text.parse::<TaintChange>();
        let mut disk = Taint::new("maintenance", Effect::NoExecute);
        assert_eq!(parse("maintenance:NoExecute"), Ok(TaintChange::On(disk.clone())));
        disk.value = "disk".into();
        assert_eq!(parse("maintenance=disk:NoExecute"), Ok(TaintChange::On(disk)));
        let off = |effect| Ok(TaintChange::Off("maintenance".to_owned(), effect));
        assert_eq!(parse("maintenance-"), off(None));
        assert_eq!(parse("maintenance:NoExecute-"), off(Some(Effect::NoExecute)));
        for wrong in ["maintenance", "maintenance=disk", "maintenance:Sometimes", ":NoExecute", "-"] {
            let error = parse(wrong).expect_err(wrong);
            assert!(error.contains("key=value:effect"), "{wrong}: {error}");
        }
    }

    #[test]
    fn one_taint_changes_and_the_others_stay_as_they_are() {
        let other = json!({"key": "other", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"});
        let old = json!({"key": "k", "value": "a", "effect": "NoExecute"});
        let new = json!({"key": "k", "value": "b", "effect": "NoExecute"});
        let both = [other.clone(), old.clone()];
        let made = |change: &str, taints: &[Value]| change.parse::<TaintChange>().expect(change).made_to(taints);
        assert_eq!(made("k=a:NoExecute", &[]), Some(vec![old]));
        assert_eq!(made("k=a:NoExecute", &both), None);
        assert_eq!(made("k=b:NoExecute", &both), Some(vec![other.clone(), new]));
        assert_eq!(made("k:NoSchedule-", &both), None);
        assert_eq!(made("k-", &both), Some(vec![other]));
        assert_eq!(made("k-", &[]), None);
    }
}
