use bailiff_model::{Holds, Mono, Now, Profile, Wall};
use serde_json::json;

use super::*;
use crate::effect::Answer;
use crate::facts::DaemonSet;

/// A DaemonSet with one pod, which it wants to be rid of.
struct Story {
    set: Set,
    world: World,
    out: Out,
    now: Now,
}

fn decode<T: serde::de::DeserializeOwned>(object: &serde_json::Value) -> T {
    serde_json::from_str(&object.to_string()).expect("a valid object")
}

fn mk_pod(version: u64, owner: &str) -> Pod {
    decode(&json!({"metadata": {
        "name": "p", "namespace": "ns", "uid": "p", "resourceVersion": version.to_string(), "labels": {"app": "ds"},
        "ownerReferences": [{"kind": "DaemonSet", "name": owner, "uid": owner, "controller": true}],
    }}))
}

impl Story {
    fn new() -> Self {
        let ds: DaemonSet = decode(&json!({
            "metadata": {"name": "ds", "namespace": "ns", "uid": "ds"},
            "spec": {"selector": {"matchLabels": {"app": "ds"}}, "template": {"metadata": {"labels": {"app": "ds"}}}},
        }));
        let world = World::default();
        let mut story = Self {
            set: Set::new(ds, &world),
            world,
            out: Out::default(),
            now: Now {
                mono: Mono::from_origin(Duration::from_secs(1)),
                wall: Wall::UNIX_EPOCH,
            },
        };
        story.show(mk_pod(1, "ds"));
        story
    }

    fn show(&mut self, pod: Pod) {
        let shown = self.world.apply_pod(pod);
        self.set.pod_changed(&shown, &self.world);
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut Set, &mut Cx<'_>) -> T) -> T {
        let mut cx = Cx {
            now: self.now,
            world: &self.world,
            profile: Profile::Bailiff,
            held: None,
            holds: &Holds::NONE,
            out: &mut self.out,
        };
        act(&mut self.set, &mut cx)
    }

    fn ask(&mut self) {
        self.with(|set, cx| {
            let (pod, uid) = (cx.world.pod(&"p".into()).expect("it is there"), "p".into());
            let name = pod.name.clone();
            set.work_on(pod, Kind::Delete, Request::DeletePod { name, uid }, cx);
        });
    }

    fn fail(&mut self, kind: FailureKind) {
        self.answer(&Answer::Failed(Failure {
            kind,
            message: String::new(),
            retry_after: None,
        }));
    }

    fn answer(&mut self, answer: &Answer) {
        self.with(|set, cx| {
            let pod = (&"p".into(), &"p".into(), &About::default());
            set.pod_answered(pod, Kind::Delete, answer, cx);
        });
    }

    fn pass_an_hour(&mut self) {
        self.now.mono = self.now.mono + Duration::from_secs(3600);
        self.with(|set, cx| set.fire_timers(cx));
    }
}

/// Of a pod that somebody else has taken over nothing is remembered, whenever that happened: however many such pods there were, what is
/// kept of them does not grow.
#[test]
fn nothing_is_remembered_of_a_pod_that_somebody_else_has_taken() {
    type Act = fn(&mut Story);
    let take: Act = |story| story.show(mk_pod(2, "other"));
    let acts: [(&str, &[Act]); 7] = [
        (
            "after a pause",
            &[|story| story.fail(FailureKind::Other), Story::pass_an_hour, take],
        ),
        ("in a pause", &[|story| story.fail(FailureKind::Other), take]),
        ("before a failure", &[take, |story| story.fail(FailureKind::Other)]),
        (
            "before an answer that was lost",
            &[take, |story| story.fail(FailureKind::Unknown)],
        ),
        (
            "before it was taken back",
            &[take, |story| story.fail(FailureKind::CalledOff)],
        ),
        ("before it was done", &[take, |story| story.answer(&Answer::Done)]),
        (
            "before it turned out to be needless",
            &[take, |story| story.fail(FailureKind::NotFound)],
        ),
    ];
    for (when, acts) in acts {
        let mut story = Story::new();
        story.ask();
        for act in acts {
            act(&mut story);
        }
        assert!(story.set.claims.works.is_empty(), "{when}: {:?}", story.set.claims.works);
        assert_eq!((story.set.deletes.outstanding, story.set.deletes.in_flight), (0, 0), "{when}");
    }
}

/// Of one that stays ours the failures are remembered, so that the next pause is longer.
#[test]
fn failures_are_remembered_of_a_pod_that_stays() {
    let mut story = Story::new();
    story.ask();
    story.fail(FailureKind::Other);
    story.pass_an_hour();
    let works: Vec<&PodWork> = story.set.claims.works.values().collect();
    assert!(works.len() == 1 && works[0].retry.has_failed(), "{works:?}");
}
