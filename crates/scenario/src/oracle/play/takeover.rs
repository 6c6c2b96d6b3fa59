//! A change of hands in the middle of a recorded scenario.
//!
//! Up to some moment what upstream's daemonset controller wrote is written as it was recorded, in its order and at its times; then the
//! daemonset-syncer starts on what is there, and goes on by itself. The other controllers of the scenario are ours from the beginning.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use bailiff_model::Mono;
use bailiff_runtime::{Clock, Seed};
use bailiff_sandbox::{User, Verb};
use serde_json::{Map, Value, json};

use super::rig::Rig;
use super::{Error, Played, set_up, sleep_until, watch_to_the_end};
use crate::oracle::differences::{self, Profile};
use crate::oracle::file::{Activation, Scenario};
use crate::oracle::lines::{Fields, change, text};
use crate::oracle::observe::Observed;
use crate::oracle::sut::{Controllers, Setup, USER};
use crate::oracle::{compare, placeholders};
use crate::{StageName, parallel, world};

/// Recordings begin with writes that came before all that marks time zero was visible.
const BEFORE_ZERO: f64 = 0.1;
/// From the last write of the one to the start of the other.
const GAP: f64 = 0.002;
/// How long it may take until time zero.
const PATIENCE: Duration = Duration::from_secs(60);

/// A write of upstream's daemonset controller.
#[derive(Clone, Debug)]
struct Recorded {
    t: f64,
    /// As the recording names it.
    object: String,
    /// Of a status, all fields that were written together.
    fields: Fields,
}

/// Whatever happens at a time.
enum Turn<'a> {
    Step(usize),
    Write(&'a Recorded),
    Start,
}

/// How many writes of upstream's daemonset controller a scenario records.
pub fn writes(scenario: &Scenario) -> usize {
    script(scenario).len()
}

/// Plays a scenario in which ours takes over after so many writes, and compares. Events are not judged: those of the time before are
/// nobody's.
///
/// # Errors
/// It could not be played to its end.
pub fn take_over(scenario: &Scenario, profile: Profile, after: usize, seed: u64) -> Result<Played, Error> {
    let (mut expected, accepted) = differences::expected(scenario, profile)?;
    expected.events = None;
    let observed = world::run(async |clock| run(scenario, profile, after, clock, Seed::new(seed)).await)?;
    Ok(Played {
        differences: compare(&expected, &observed),
        observed,
        accepted,
    })
}

/// As [`take_over`], for many moments, at most `jobs` at a time; tells what came of each, in their order.
pub fn take_over_all(
    moments: &[(&Scenario, usize)],
    profile: Profile,
    seed: u64,
    jobs: NonZeroUsize,
    done: impl FnMut(usize, Result<Played, Error>),
) {
    let work = |(scenario, after): &(&Scenario, usize)| take_over(scenario, profile, *after, seed);
    parallel::each(moments, jobs, work, done);
}

async fn run(scenario: &Scenario, profile: Profile, after: usize, clock: Clock, seed: Seed) -> Result<Observed, Error> {
    let (mut rig, options) = set_up(scenario, profile, &clock, &seed).await?;
    let (syncer, others): (Vec<_>, Vec<_>) = scenario
        .stages()
        .into_iter()
        .partition(|stage| *stage == StageName::DaemonsetSyncer);
    let setup = |stages| Setup {
        sandbox: rig.sandbox.clone(),
        clock: clock.clone(),
        seed: seed.clone(),
        stages,
        options: options.clone(),
    };
    let (syncer, others) = (setup(syncer), setup(others));
    rig.controllers.push(Controllers::start(&others, 1));
    let zero = zero(scenario, &rig).await?;
    let script = script(scenario);
    let mut upstream = Upstream::new(scenario);
    let begin = clock.now().mono;
    for (at, turn) in turns(scenario, script.get(..after).unwrap_or(&script)) {
        sleep_until(&clock, begin, at + BEFORE_ZERO).await;
        let done = match turn {
            Turn::Step(nth) => rig.step(&scenario.steps[nth].action, &syncer).await,
            Turn::Write(write) => upstream.write(write, &rig),
            Turn::Start => {
                rig.controllers.push(Controllers::start(&syncer, 2));
                Ok(())
            }
        };
        let source = |error| Error::Step {
            at,
            source: Box::new(error),
        };
        done.map_err(source)?;
    }
    watch_to_the_end(scenario, &mut rig, zero).await
}

/// Waits until only the daemonset controller is missing, and leaves room for what it wrote before it was seen to work.
async fn zero(scenario: &Scenario, rig: &Rig) -> Result<Mono, Error> {
    let start = rig.clock.now().mono;
    loop {
        let now = rig.clock.now().mono;
        let needs_labels = scenario.activation.contains(&Activation::NodeLabel);
        let missing = needs_labels.then(|| rig.label_missing(&scenario.objects)).flatten();
        match missing {
            None => return Ok(now + Duration::from_secs_f64(BEFORE_ZERO)),
            Some(what) if now.saturating_since(start) >= PATIENCE => return Err(Error::Inactive { what }),
            Some(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

/// What happens, in order. Of what happens at the same time steps come first: writes follow from them.
fn turns<'a>(scenario: &Scenario, script: &'a [Recorded]) -> Vec<(f64, Turn<'a>)> {
    let start = script.last().map_or(-BEFORE_ZERO, |write| write.t) + GAP;
    let steps = scenario
        .steps
        .iter()
        .enumerate()
        .map(|(nth, step)| (step.at, Turn::Step(nth)));
    let mut turns: Vec<(f64, Turn<'a>)> = steps.collect();
    turns.extend(script.iter().map(|write| (write.t, Turn::Write(write))));
    turns.push((start, Turn::Start));
    turns.sort_by(|a, b| a.0.total_cmp(&b.0));
    turns
}

/// The writes of upstream's daemonset controller, in order. Of those at the same time revisions come first, and the status last.
fn script(scenario: &Scenario) -> Vec<Recorded> {
    let mut script: Vec<Recorded> = Vec::new();
    for (object, lines) in scenario.observed.iter().flatten() {
        let first = script.len();
        for line in lines {
            let t = line.t.middle().max(-BEFORE_ZERO);
            if object.starts_with("node/") || change(&line.fields) == "condition" {
                // Another controller's.
                continue;
            }
            let is_status = change(&line.fields) == "status";
            let mut fields = line.fields.clone();
            if is_status {
                fields = Map::new();
                fields.insert("change".to_owned(), "status".into());
                fields.insert(text(&line.fields, "field").to_owned(), line.fields["to"].clone());
            }
            match script[first..].iter_mut().find(|known| is_status && known.t == t) {
                Some(together) => together.fields.extend(fields),
                None => script.push(Recorded {
                    t,
                    object: object.clone(),
                    fields,
                }),
            }
        }
    }
    let rank = |object: &str| ["controllerrevision/", "pod/", "daemonset/"].map(|kind| !object.starts_with(kind));
    script.sort_by(|a, b| a.t.total_cmp(&b.t).then_with(|| rank(&a.object).cmp(&rank(&b.object))));
    script
}

/// Upstream's daemonset controller, as far as it was recorded.
struct Upstream {
    /// Nodes and hashes by the names that recordings have for them.
    names: BTreeMap<String, String>,
    /// Names of objects that it created, by identifier.
    created: BTreeMap<String, String>,
}

// === impl Upstream ===

impl Upstream {
    fn new(scenario: &Scenario) -> Self {
        let letters = scenario.interchangeable.iter().flat_map(|set| {
            let letters = ('a'..='z').map(move |letter| format!("<{}-{letter}>", set.name));
            letters.zip(set.nodes.iter().cloned())
        });
        Self {
            names: letters.collect(),
            created: BTreeMap::new(),
        }
    }

    fn write(&mut self, recorded: &Recorded, rig: &Rig) -> Result<(), Error> {
        let fields = self.real(&Value::Object(recorded.fields.clone()));
        let mut parts = recorded.object.split('/');
        let (kind, namespace, name) = (parts.next(), parts.next(), parts.next());
        let (kind, namespace, name) = (
            kind.unwrap_or_default(),
            namespace.unwrap_or_default(),
            name.unwrap_or_default(),
        );
        let collection = rig.collection(&format!("{kind}s"), namespace)?;
        let name = match self.created.get(&recorded.object) {
            Some(name) => name.clone(),
            None => self.real_text(name),
        };
        let path = format!("{collection}/{name}");
        let owner = |field: &str| owner(&fields[field], namespace, rig);
        let (verb, path, body) = match change(&recorded.fields) {
            "created" if kind == "pod" => (Verb::Create, collection, pod(&fields, owner("owner")?)),
            "created" => (Verb::Create, collection, revision(&fields, owner("owner")?)),
            "delete" => (Verb::Delete, path, Value::Null),
            "owner" => (Verb::StrategicMergePatch, path, claim(owner("from")?, owner("to")?)),
            "label" => {
                let label = BTreeMap::from([(text_of(&fields, "key"), &fields["to"])]);
                (Verb::MergePatch, path, json!({"metadata": {"labels": label}}))
            }
            "revision" => (Verb::MergePatch, path, json!({"revision": fields["to"]})),
            _ => {
                let mut status = fields.clone();
                status.as_object_mut().and_then(|status| status.shift_remove("change"));
                (Verb::MergePatch, format!("{path}/status"), json!({"status": status}))
            }
        };
        let user = User::new(USER, &["system:masters", "system:authenticated"]);
        let answer = rig.sandbox.request(&user, verb, &path, &body);
        let answer = answer.map_err(|status| Error::Refused {
            what: format!("{verb:?} {path}"),
            code: status.code,
            message: status.to_string(),
        })?;
        if verb == Verb::Create {
            let name = answer["metadata"]["name"].as_str().unwrap_or_default();
            self.created.insert(recorded.object.clone(), name.to_owned());
        }
        Ok(())
    }

    /// A value with names as they are in the cluster.
    fn real(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.real_text(text)),
            Value::Array(items) => items.iter().map(|item| self.real(item)).collect(),
            Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), self.real(value))).collect(),
            other => other.clone(),
        }
    }

    /// A hash is not recorded; any will do, as long as ours would make another one.
    fn real_text(&self, text: &str) -> String {
        let mut result = String::new();
        let mut rest = text;
        while let Some((before, name, after)) = bracketed(rest) {
            result.push_str(before);
            match self.names.get(&format!("<{name}>")) {
                Some(node) => result.push_str(node),
                None => result.extend(name.chars().filter(char::is_ascii_alphanumeric)),
            }
            rest = after;
        }
        result.push_str(rest);
        result
    }
}

/// What stands before, in, and behind the first angle brackets.
fn bracketed(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('<')?;
    let (name, after) = rest.split_once('>')?;
    Some((before, name, after))
}

fn text_of<'a>(fields: &'a Value, name: &str) -> &'a str {
    fields[name].as_str().unwrap_or_default()
}

/// The owner reference that a list of owners, as recordings have it, says.
fn owner(owners: &Value, namespace: &str, rig: &Rig) -> Result<Option<Value>, Error> {
    let Some(recorded) = owners[0].as_str() else { return Ok(None) };
    let name = recorded.split([' ', '/']).nth(3).unwrap_or_default();
    let uid = placeholders::resolve(&format!("${{uid:daemonsets/{namespace}/{name}}}"), rig)?;
    Ok(Some(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true,
    })))
}

/// DS-064, DS-065
fn claim(from: Option<Value>, to: Option<Value>) -> Value {
    let owner = to.or_else(|| Some(json!({"$patch": "delete", "uid": from?["uid"]})));
    json!({"metadata": {"ownerReferences": [owner]}})
}

fn pod(fields: &Value, owner: Option<Value>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": fields["generateName"], "labels": fields["labels"], "annotations": fields["annotations"],
            "finalizers": fields["finalizers"], "ownerReferences": [owner],
        },
        "spec": {
            "affinity": fields["affinity"], "nodeSelector": fields["nodeSelector"], "tolerations": fields["tolerations"],
            "hostNetwork": fields["hostNetwork"], "schedulingGates": fields["schedulingGates"], "containers": fields["containers"],
        },
    });
    if fields["bound"] == true {
        pod["spec"]["nodeName"] = fields["node"].clone();
    }
    pod
}

fn revision(fields: &Value, owner: Option<Value>) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": {
            "name": fields["name"], "labels": fields["labels"], "annotations": fields["annotations"], "ownerReferences": [owner],
        },
        "data": fields["data"], "revision": fields["revision"],
    })
}
