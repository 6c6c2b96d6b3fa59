//! Looks on: watches nodes and pods as anybody may, and writes into the ledger what is seen and when.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bailiff_cluster::views::Meta;
use bailiff_cluster::watch::{Event, Source, Watch};
use bailiff_cluster::{Api, Snapshot, View};
use bailiff_model::Wall;
use bailiff_runtime::Seed;
use tokio::task::JoinSet;

use crate::ledger::{Ledger, PodSeen};
use crate::views::{NodeView, PodView};

/// Two watches and what they told. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Observer {
    ledger: Arc<Mutex<Ledger>>,
    _tasks: JoinSet<()>,
}

/// What is made of a change.
trait Told: View {
    fn applied(self, ledger: &mut Ledger, now: Wall);

    fn gone(ledger: &mut Ledger, name: &str, uid: &str, now: Wall);

    /// What names it in the ledger.
    fn key(meta: &Meta) -> &str;

    /// These are there, and no others.
    fn are(ledger: &mut Ledger, keys: &BTreeSet<String>);
}

// === impl Observer ===

impl Observer {
    pub(crate) fn start(api: &Api, seed: &Seed) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(follow::<NodeView>(
            api.clone(),
            "/api/v1/nodes",
            seed.fork("nodes"),
            Arc::clone(&ledger),
        ));
        tasks.spawn(follow::<PodView>(
            api.clone(),
            "/api/v1/pods",
            seed.fork("pods"),
            Arc::clone(&ledger),
        ));
        Self { ledger, _tasks: tasks }
    }

    /// What is known by now. It is held only while it is looked at.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }
}

/// Ends with the observer, never by itself.
async fn follow<T: Told>(api: Api, path: &'static str, seed: Seed, ledger: Arc<Mutex<Ledger>>) {
    let mut watch: Watch<T> = Watch::start(&api, Source::all(path), &seed);
    loop {
        let event = watch.next().await;
        let now = api.clock().wall();
        let mut ledger = lock(&ledger);
        match event {
            Event::Snapshot(snapshot) => listed(&mut ledger, snapshot, now),
            Event::Applied(object) => object.applied(&mut ledger, now),
            Event::Deleted(meta) => T::gone(&mut ledger, &meta.name, &meta.uid, now),
            Event::Stale { .. } | Event::Fresh => {}
        }
    }
}

/// What went while the watch was broken is gone, and when is not known.
fn listed<T: Told>(ledger: &mut Ledger, snapshot: Snapshot<T>, now: Wall) {
    // One that cannot be decoded is there all the same.
    let there = snapshot.objects.iter().map(View::meta).chain(&snapshot.malformed);
    let keys = there.map(|meta| T::key(meta).to_owned()).collect();
    snapshot.objects.into_iter().for_each(|object| object.applied(ledger, now));
    T::are(ledger, &keys);
}

impl Told for NodeView {
    fn applied(self, ledger: &mut Ledger, now: Wall) {
        let name = &self.meta().name;
        let is_post = self.posted().is_some_and(|said| ledger.posted(now, name, said));
        if !is_post {
            ledger.node_changed();
        }
        ledger.node(now, name, self.ready(), self.evicting_taints());
    }

    fn gone(ledger: &mut Ledger, name: &str, _: &str, _: Wall) {
        ledger.node_gone(name);
    }

    fn key(meta: &Meta) -> &str {
        &meta.name
    }

    fn are(ledger: &mut Ledger, keys: &BTreeSet<String>) {
        ledger.nodes_are(keys);
    }
}

impl Told for PodView {
    fn applied(self, ledger: &mut Ledger, now: Wall) {
        let seen = PodSeen {
            uid: &self.meta.uid,
            node: &self.node,
            tolerations: &self.tolerations,
            is_started: self.phase == "Running",
            is_leaving: self.is_leaving,
            is_daemon: self.is_daemon,
        };
        ledger.pod(now, &seen);
    }

    fn gone(ledger: &mut Ledger, _: &str, uid: &str, now: Wall) {
        ledger.pod_gone(now, uid);
    }

    fn key(meta: &Meta) -> &str {
        &meta.uid
    }

    fn are(ledger: &mut Ledger, keys: &BTreeSet<String>) {
        ledger.pods_are(keys);
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_of_a_list_is_gone_and_what_cannot_be_decoded_is_not() {
        let mut ledger = Ledger::default();
        let view = |name: &&str| serde_json::from_value::<NodeView>(json!({"metadata": {"name": name}})).expect("a node");
        let mut list = |objects: &[&str], malformed: &[&str]| {
            let meta = |name: &&str| Meta {
                name: (*name).into(),
                ..Meta::default()
            };
            let snapshot = Snapshot {
                objects: objects.iter().map(view).collect(),
                malformed: malformed.iter().map(meta).collect(),
            };
            listed(&mut ledger, snapshot, Wall::UNIX_EPOCH);
            ledger.names()
        };
        assert_eq!(list(&["a", "b", "c"], &[]), ["a", "b", "c"]);
        assert_eq!(list(&["a"], &["b"]), ["a", "b"]);
        assert_eq!(list(&["b"], &[]), ["b"]);
    }
}
