//! The ConfigMap of pauses, read and written on condition of what was read; each change is said in Events.

use std::collections::{BTreeMap, BTreeSet};

use bailiff_cluster::error::Kind;
use bailiff_cluster::{Api, Decode, Error, Patch};
use bailiff_model::{HoldScope, Wall, Zone};
use bailiff_stage::brake::pauses::Pause;
use bailiff_stage::brake::{COLLECTION, NAME, NAMESPACE, entries};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::cluster::{nodes, of_write};
use crate::{Failure, out};

/// Attempts at a change that somebody else's came between. People pause by hand: five in a row are not met.
const ATTEMPTS: u32 = 5;

/// What the ConfigMap says.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Pauses, by key; those that are over too.
    pub(super) readable: BTreeMap<String, Pause>,
    /// What is wrong with the other entries, by key.
    pub(super) unreadable: BTreeMap<String, String>,
}

impl Pauses {
    /// What the ConfigMap says; `Err` if its data is no map of texts.
    fn of(found: &ConfigMap) -> Result<Self, String> {
        let mut pauses = Self::default();
        for (key, text) in entries(&found.data)? {
            match Pause::parse(&text) {
                Ok(pause) => drop(pauses.readable.insert(key, pause)),
                Err(error) => drop(pauses.unreadable.insert(key, error.to_string())),
            }
        }
        for key in found.binary_keys() {
            let why = "it is in binaryData, where nothing is read".to_owned();
            pauses.unreadable.insert(key.clone(), why);
        }
        Ok(pauses)
    }

    /// Those that are not over.
    pub(super) fn standing(&self, now: Wall) -> impl Iterator<Item = (&String, &Pause)> {
        self.readable.iter().filter(move |(_, pause)| pause.until > now)
    }
}

#[derive(Deserialize)]
struct ConfigMap {
    metadata: Meta,
    #[serde(default)]
    data: Value,
    #[serde(default, rename = "binaryData")]
    binary_data: Value,
}

impl Decode for ConfigMap {}

impl ConfigMap {
    fn binary_keys(&self) -> impl Iterator<Item = &String> {
        self.binary_data.as_object().into_iter().flat_map(serde_json::Map::keys)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    uid: String,
    resource_version: String,
}

#[derive(Deserialize)]
struct Node {
    metadata: Meta,
}

impl Decode for Node {}

/// Entries to be set, or (`None`) removed.
type Change = BTreeMap<String, Option<String>>;

/// The ConfigMap.
#[derive(Debug)]
pub(super) struct Store {
    api: Api,
}

impl Store {
    pub(super) fn new(api: Api) -> Self {
        Self { api }
    }

    /// What it says; nothing if it is not there.
    pub(super) async fn read(&self) -> Result<Pauses, Failure> {
        let Some(found) = self.get().await? else {
            return Ok(Pauses::default());
        };
        Ok(Pauses::of(&found)?)
    }

    /// Pauses. Entries that are over, or mean the same, go with the same write.
    pub(super) async fn pause(&self, pause: &Pause, now: Wall) -> Result<(), Failure> {
        let uid = self
            .change(|pauses| {
                let over = pauses
                    .readable
                    .iter()
                    .filter(|(_, old)| old.until <= now || old.scope == pause.scope);
                let mut change: Change = over.map(|(key, _)| (key.clone(), None)).collect();
                change.insert(pause.key(), Some(pause.to_entry()));
                change
            })
            .await?;
        let by = if pause.by.is_empty() { "somebody" } else { &pause.by };
        let note = format!("{} is paused by {by} until {:.0}: {}", pause.scope, pause.until, pause.reason);
        self.audit("Paused", &note, &pause.scope, uid.as_deref(), now).await;
        Ok(())
    }

    /// Ends the pauses of exactly this scope; false if there was none.
    pub(super) async fn resume(&self, scope: &HoldScope, by: &str, now: Wall) -> Result<bool, Failure> {
        let of_scope = |pauses: &Pauses| {
            let meant = pauses.readable.iter().filter(|(_, pause)| pause.scope == *scope);
            meant.map(|(key, _)| (key.clone(), None)).collect::<Change>()
        };
        let Some(uid) = self.change(of_scope).await? else {
            return Ok(false);
        };
        self.audit("Resumed", &format!("{scope} is resumed by {by}"), scope, Some(&uid), now)
            .await;
        Ok(true)
    }

    /// Removes an entry, whatever it says; false if there was none.
    pub(super) async fn remove(&self, key: &str, by: &str, now: Wall) -> Result<bool, Failure> {
        let of_key = |pauses: &Pauses| {
            let exists = pauses.readable.contains_key(key) || pauses.unreadable.contains_key(key);
            exists.then(|| (key.to_owned(), None)).into_iter().collect::<Change>()
        };
        let Some(uid) = self.change(of_key).await? else {
            return Ok(false);
        };
        self.audit(
            "Resumed",
            &format!("entry {key} is removed by {by}"),
            &HoldScope::All,
            Some(&uid),
            now,
        )
        .await;
        Ok(true)
    }

    /// Makes a change on condition that nobody else's comes between; answers the ConfigMap's uid, `None` if there is nothing to change.
    async fn change(&self, change: impl Fn(&Pauses) -> Change) -> Result<Option<String>, Failure> {
        let mut attempt = 1;
        loop {
            let found = self.get().await?;
            let known = found.as_ref().map(Pauses::of).transpose()?.unwrap_or_default();
            let data = change(&known);
            if data.is_empty() {
                return Ok(None);
            }
            match self.write(found.as_ref(), data).await {
                Ok(uid) => return Ok(Some(uid)),
                Err(error) if is_overtaken(error.kind) && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(of_write(error)),
            }
        }
    }

    async fn write(&self, found: Option<&ConfigMap>, data: Change) -> Result<String, Error> {
        let written: ConfigMap = match found {
            Some(found) => {
                let metadata = json!({"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version});
                // A key is in one of both: what is set or removed is not in the other one afterwards.
                let binary = found.binary_keys().filter(|key| data.contains_key(*key));
                let binary: BTreeMap<&String, Value> = binary.map(|key| (key, Value::Null)).collect();
                let patch = Patch::Merge(json!({"metadata": metadata, "data": data, "binaryData": binary}));
                self.api.patch(&path(), &patch).await?
            }
            None => {
                let data: BTreeMap<String, String> = data.into_iter().filter_map(|(key, text)| Some((key, text?))).collect();
                let labels = json!({"app.kubernetes.io/part-of": "bailiff"});
                let metadata = json!({"name": NAME, "namespace": NAMESPACE, "labels": labels});
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
                self.api.create(COLLECTION, &object).await?
            }
        };
        Ok(written.metadata.uid)
    }

    async fn get(&self) -> Result<Option<ConfigMap>, Error> {
        match self.api.get(&path()).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says in Events what was done: about the ConfigMap, and about the node that is meant. It is done already, so a failure is a
    /// warning.
    async fn audit(&self, reason: &str, note: &str, scope: &HoldScope, uid: Option<&str>, now: Wall) {
        let about = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": NAMESPACE, "name": NAME, "uid": uid});
        let mut objects = vec![(NAMESPACE, about)];
        if let HoldScope::Node(name) = scope {
            let uid = self
                .api
                .get::<Node>(&format!("/api/v1/nodes/{name}"))
                .await
                .map(|node| node.metadata.uid);
            objects.push((
                "default",
                json!({"apiVersion": "v1", "kind": "Node", "name": name.as_str(), "uid": uid.ok()}),
            ));
        }
        for (namespace, regarding) in objects {
            let event = json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "type": "Normal", "reason": reason, "action": reason, "note": note,
                "metadata": {"generateName": "bailiff-", "namespace": namespace}, "regarding": regarding,
                "eventTime": format!("{now:.6}"), "reportingController": "bailiff", "reportingInstance": "bailiff-cli",
            });
            let collection = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
            if let Err(error) = self.api.create::<IgnoredAny>(&collection, &event).await {
                out::note(format_args!(
                    "warning: it is done, but the Event that says so was not written: {error}"
                ));
            }
        }
    }

    pub(super) async fn has_node(&self, name: &str) -> Result<bool, Failure> {
        match self.api.get::<IgnoredAny>(&format!("/api/v1/nodes/{name}")).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind == Kind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The zones that nodes are in.
    pub(super) async fn zones(&self) -> Result<Vec<Zone>, Failure> {
        let nodes = nodes(&self.api).await?;
        let zones: BTreeSet<Zone> = nodes.into_iter().map(|node| node.zone).collect();
        Ok(zones.into_iter().collect())
    }
}

/// Somebody else wrote, created or deleted it in between.
const fn is_overtaken(kind: Kind) -> bool {
    matches!(kind, Kind::Conflict | Kind::AlreadyExists | Kind::NotFound)
}

fn path() -> String {
    format!("{COLLECTION}/{NAME}")
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::{Clock, Seed, client};
    use bailiff_sandbox::{Config, Sandbox, User, Verb};

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn mk() -> (Sandbox, Store) {
        let clock = Clock::virtual_from(at(0));
        let sandbox = Sandbox::new(Config::default(), clock.clone(), &Seed::new(1));
        let client = client::from_service(sandbox.service(User::admin()));
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {
            "topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "a"}}});
        sandbox
            .request(&User::admin(), Verb::Create, "/api/v1/nodes", &node)
            .expect("a node");
        (
            sandbox,
            Store::new(Api::new(client, clock, bailiff_cluster::Metrics::default())),
        )
    }

    fn at(second: i64) -> Wall {
        Wall::from_second(NOW + second).expect("in range")
    }

    fn mk_pause(scope: HoldScope, until: i64) -> Pause {
        Pause {
            scope,
            since: Some(at(0)),
            until: at(until),
            reason: "maintenance".to_owned(),
            by: "ada".to_owned(),
        }
    }

    async fn keys(store: &Store) -> Vec<String> {
        store.read().await.expect("readable").readable.into_keys().collect()
    }

    async fn events(store: &Store, namespace: &str) -> Vec<(String, String)> {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let list: Value = store.api.get(&path).await.expect("a list");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items
            .iter()
            .map(|event| (text(&event["reason"]), text(&event["regarding"]["kind"])))
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_written_replaced_said_and_ended() {
        let (_sandbox, store) = mk();
        assert_eq!(store.zones().await.expect("a list"), [Zone::new("eu", "a")]);
        let node = HoldScope::Node("n1".into());
        store.pause(&mk_pause(node.clone(), 60), at(0)).await.expect("written");
        store.pause(&mk_pause(HoldScope::All, 60), at(0)).await.expect("written");
        store.pause(&mk_pause(HoldScope::All, 90), at(0)).await.expect("replaced");
        assert_eq!(keys(&store).await, ["all", "node.n1"]);
        assert!(store.resume(&HoldScope::All, "ada", at(1)).await.expect("ended"));
        assert!(!store.resume(&HoldScope::All, "ada", at(1)).await.expect("there is none"));
        assert_eq!(keys(&store).await, ["node.n1"]);
        let (paused, resumed) = (("Paused", "ConfigMap"), ("Resumed", "ConfigMap"));
        let wanted = [paused, paused, paused, resumed].map(|(reason, kind)| (reason.to_owned(), kind.to_owned()));
        let mut said = events(&store, NAMESPACE).await;
        said.sort();
        assert_eq!(said, wanted);
        assert_eq!(events(&store, "default").await, [("Paused".to_owned(), "Node".to_owned())]);
        // What is over goes with the next write.
        store
            .pause(&mk_pause(HoldScope::Zone(Zone::new("eu", "a")), 600), at(100))
            .await
            .expect("written");
        assert_eq!(keys(&store).await, ["zone.2.eu.a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_entry_that_cannot_be_read_is_listed_and_removed_by_its_key() {
        let (_sandbox, store) = mk();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"x": "until tomorrow"}});
        store.api.create::<IgnoredAny>(COLLECTION, &object).await.expect("created");
        let found = store.read().await.expect("readable");
        assert!(found.readable.is_empty() && found.unreadable.contains_key("x"), "{found:?}");
        assert!(store.remove("x", "ada", at(0)).await.expect("removed"));
        assert!(!store.remove("x", "ada", at(0)).await.expect("there is none"));
        assert!(store.read().await.expect("readable").unreadable.is_empty());
    }

    /// What stages take for a pause of everything is told as one, and ended by its key; the rest stays.
    #[tokio::test(start_paused = true)]
    async fn binary_data_is_listed_and_removed_by_its_key() {
        let (_sandbox, store) = mk();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME},
            "binaryData": {"all": "AA==", "x": "AA=="}});
        store.api.create::<IgnoredAny>(COLLECTION, &object).await.expect("created");
        let unreadable = async || {
            let found = store.read().await.expect("readable");
            found.unreadable.into_keys().collect::<Vec<String>>()
        };
        assert_eq!(unreadable().await, ["all", "x"]);
        assert!(!store.resume(&HoldScope::All, "ada", at(0)).await.expect("there is none"));
        // A pause takes the place of what is under its key.
        store.pause(&mk_pause(HoldScope::All, 60), at(0)).await.expect("written");
        assert_eq!(
            (unreadable().await, keys(&store).await),
            (vec!["x".to_owned()], vec!["all".to_owned()])
        );
        assert!(store.remove("x", "ada", at(0)).await.expect("removed"));
        assert_eq!((unreadable().await, keys(&store).await), (Vec::new(), vec!["all".to_owned()]));
    }

    /// Two people at once: neither pause is lost.
    #[tokio::test(start_paused = true)]
    async fn changes_made_at_the_same_time_are_all_kept() {
        let (_sandbox, store) = mk();
        let (first, second) = (mk_pause(HoldScope::All, 60), mk_pause(HoldScope::Node("n1".into()), 60));
        let (one, other) = tokio::join!(store.pause(&first, at(0)), store.pause(&second, at(0)));
        one.expect("written");
        other.expect("written");
        assert_eq!(keys(&store).await, ["all", "node.n1"]);
        let (one, other) = tokio::join!(
            store.resume(&first.scope, "a", at(0)),
            store.resume(&second.scope, "b", at(0))
        );
        assert!(one.expect("written") && other.expect("written"));
        assert_eq!(keys(&store).await, Vec::<String>::new());
    }
}
