//! What the store promises, without an API.

use std::task::Waker;
use std::time::Duration;

use bailiff_model::{Mono, Now, Wall};
use serde_json::{Value, json};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const NOW: Now = Now {
    mono: Mono::from_origin(Duration::ZERO),
    wall: Wall::UNIX_EPOCH,
};

fn mk_store(window: usize) -> Store {
    let mut store = Store::new(Limits { window, history: 0 });
    store.register("pods", crate::rules::fields_of("pods"));
    store
}

fn mk_pod(name: &str, node: &str, labels: &Value) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": name, "labels": labels}, "spec": {"nodeName": node}})
}

fn put(store: &mut Store, name: &str, node: &str) -> u64 {
    store.put("pods", mk_pod(name, node, &json!({})), NOW).unwrap().revision()
}

fn on_node(store: &Store, node: &str) -> String {
    let objects = store.table("pods").unwrap().on_node(node).unwrap();
    objects.map(|object| object.name().to_owned()).collect::<Vec<_>>().join(" ")
}

#[test]
fn pods_are_found_by_their_node_as_it_changes() {
    let mut store = mk_store(10);
    put(&mut store, "a", "");
    put(&mut store, "b", "n1");
    put(&mut store, "a", "n1");
    assert_eq!((on_node(&store, "n1").as_str(), on_node(&store, "").as_str()), ("a b", ""));
    put(&mut store, "b", "n2");
    store.remove("pods", &Key::new("ns", "a"), None, NOW);
    assert_eq!((on_node(&store, "n1").as_str(), on_node(&store, "n2").as_str()), ("", "b"));
}

#[test]
fn the_past_is_seen_as_it_was_from_any_key_on() {
    let mut store = mk_store(100);
    for name in ["b", "d", "f"] {
        put(&mut store, name, "n1");
    }
    let then = store.revision();
    put(&mut store, "a", "n1");
    put(&mut store, "d", "n2");
    put(&mut store, "e", "n1");
    store.remove("pods", &Key::new("ns", "b"), None, NOW);
    store.remove("pods", &Key::new("ns", "e"), None, NOW);
    let past = store.table("pods").unwrap().at(then).unwrap();
    let show = |after: Option<Key>| {
        let objects = past.beyond(after.as_ref());
        let shown = objects.map(|object| format!("{}@{}", object.name(), object.field(NODE).unwrap()));
        shown.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(show(None), "b@n1 d@n1 f@n1");
    assert_eq!(show(Some(Key::new("ns", "b"))), "d@n1 f@n1");
    assert_eq!(show(Some(Key::new("ns", "f"))), "");
    store.compact();
    assert!(store.table("pods").unwrap().at(then).is_none());
}

fn show_past(store: &Store, revision: u64, after: Option<&Key>) -> Vec<String> {
    let past = store.table("pods").unwrap().at(revision).unwrap();
    let shown = past
        .beyond(after)
        .map(|object| format!("{} {}", object.name(), object.revision()));
    shown.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happened since, from any revision and any key on.
    #[test]
    fn the_past_is_what_was_there(steps in vec((0..5_usize, any::<bool>()), 1..40), from in 0..5_usize) {
        let names = ["a", "b", "c", "d", "e"];
        let mut store = mk_store(100);
        let mut seen = Vec::new();
        for (name, is_there) in steps {
            if is_there {
                put(&mut store, names[name], "n1");
            } else {
                store.remove("pods", &Key::new("ns", names[name]), None, NOW);
            }
            let now = store.table("pods").unwrap().iter();
            seen.push((store.revision(), now.map(|object| format!("{} {}", object.name(), object.revision())).collect::<Vec<_>>()));
        }
        let after = Key::new("ns", names[from]);
        for (revision, then) in seen {
            prop_assert_eq!(&show_past(&store, revision, None), &then);
            let behind: Vec<String> = then.into_iter().filter(|shown| &shown[..1] > names[from]).collect();
            prop_assert_eq!(show_past(&store, revision, Some(&after)), behind);
        }
    }
}

#[test]
fn an_event_is_encoded_once_in_the_memory_of_its_object() {
    let mut store = mk_store(10);
    put(&mut store, "a", "n1");
    put(&mut store, "a", "n2");
    store.remove("pods", &Key::new("ns", "a"), None, NOW);
    let table = store.table("pods").unwrap();
    let mut after = 0;
    for change in ["ADDED", "MODIFIED", "DELETED"] {
        let event = table.after(after).unwrap();
        after = event.revision;
        let line: Value = serde_json::from_slice(event.line()).unwrap();
        assert_eq!((&line["type"], &line["object"]), (&json!(change), &event.object.value()));
        let (line, json) = (event.line().as_ptr_range(), event.object.json().as_ptr_range());
        assert!(line.start < json.start && json.end < line.end, "one allocation");
    }
}

#[test]
fn a_heavy_past_is_forgotten_before_its_window_is_full() {
    let mut store = mk_store(65_536);
    let heavy = json!({"text": "x".repeat(1024 * 1024)});
    let mut revisions = Vec::new();
    for _ in 0..200 {
        revisions.push(store.put("pods", mk_pod("a", "n1", &heavy), NOW).unwrap().revision());
    }
    let table = store.table("pods").unwrap();
    assert!(
        table.compacted() > revisions[0] && table.compacted() < revisions[199],
        "{}",
        table.compacted()
    );
    let (first, last) = (revisions[0], revisions[198]);
    let mut poll = |after| store.poll("pods", 1, &Interest::All, after, Waker::noop());
    assert!(matches!(poll(first), Lookup::Behind));
    assert!(matches!(poll(last), Lookup::Found(_)));
}

/// A waker that counts.
#[derive(Debug, Default)]
struct Bell(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_change_wakes_only_watchers_that_it_may_concern() {
    let mut store = mk_store(10);
    let interests = [
        ("everything", Interest::All),
        ("the namespace", Interest::Namespace("ns".into())),
        ("another namespace", Interest::Namespace("elsewhere".into())),
        ("its node", Interest::Node("n1".into())),
        ("another node", Interest::Node("n2".into())),
        ("its name", Interest::Name(Key::new("ns", "a"))),
        ("its name anywhere", Interest::Name(Key::new("", "a"))),
        ("another name", Interest::Name(Key::new("ns", "b"))),
    ];
    let mut waiting = Vec::new();
    for (watcher, (what, interest)) in (1..).zip(interests) {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        assert!(matches!(
            store.poll("pods", watcher, &interest, 1, &waker),
            Lookup::Waiting(_)
        ));
        waiting.push((what, bell));
    }
    let woken = |store: &mut Store, name: &str, node: &str| {
        put(store, name, node);
        let rung = waiting
            .iter()
            .filter(|(_, bell)| bell.0.swap(0, std::sync::atomic::Ordering::Relaxed) > 0);
        rung.map(|(what, _)| *what).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        woken(&mut store, "a", "n1"),
        "everything, the namespace, its node, its name, its name anywhere"
    );
    // Who was woken and did not look yet is not woken again; the pod leaves one node for another.
    assert_eq!(woken(&mut store, "a", "n2"), "another node");
    assert_eq!(woken(&mut store, "b", "n3"), "another name");
}

#[test]
fn a_watcher_that_nothing_concerns_never_falls_behind() {
    let mut store = mk_store(3);
    let interest = Interest::Node("n1".into());
    let poll = |store: &mut Store, after| store.poll("pods", 1, &interest, after, Waker::noop());
    assert!(matches!(poll(&mut store, 1), Lookup::Waiting(1)));
    for _ in 0..10 {
        put(&mut store, "a", "n2");
    }
    let last = store.revision();
    assert!(matches!(poll(&mut store, 1), Lookup::Waiting(seen) if seen == last));
    for _ in 0..10 {
        put(&mut store, "a", "n2");
    }
    let wanted = put(&mut store, "b", "n1");
    put(&mut store, "a", "n2");
    assert!(matches!(poll(&mut store, 1), Lookup::Found(event) if event.revision == wanted));
    assert!(
        matches!(poll(&mut store, wanted), Lookup::Found(_)),
        "what its selector will pass over"
    );
    assert!(matches!(poll(&mut store, wanted + 1), Lookup::Waiting(_)));
    // It does not look, though much concerns it.
    for _ in 0..10 {
        put(&mut store, "b", "n1");
    }
    assert!(matches!(poll(&mut store, wanted + 1), Lookup::Behind));
}
