//! Kubelets, in virtual time, without an API server: a table of inputs and what they lead to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bailiff_model::{Mono, NodeName, Now, ReadyStatus, Wall, wellknown};
use serde_json::{Value, json};

use super::settings::{Change, KubeletSettings};
use super::{Core, Input, Target};
use crate::Verb;
use crate::effect::{Answer, Effect};
use crate::facts::{Container, NodeFacts, Phase, PodFacts, PodKey};
use crate::resources::{Allocatable, Resources};

/// Drives a core through virtual time and keeps what it wanted done, with the time in milliseconds.
struct Bench {
    core: Core,
    millis: u64,
    revision: u64,
    log: Vec<(u64, Effect)>,
}

impl Bench {
    fn new(settings: KubeletSettings) -> Self {
        Self {
            core: Core::new(settings, 7),
            millis: 0,
            revision: 100,
            log: Vec::new(),
        }
    }

    fn now(&self) -> Now {
        let since = Duration::from_millis(self.millis);
        Now {
            mono: Mono::from_origin(since),
            wall: Wall::UNIX_EPOCH + since,
        }
    }

    fn apply(&mut self, input: impl Into<Input>) {
        let effects = self.core.apply(input.into(), self.now());
        for effect in effects {
            self.log.push((self.millis, effect.clone()));
            self.answer(effect);
        }
    }

    /// Every request is granted.
    fn answer(&mut self, effect: Effect) {
        let Effect::Send(request) = effect else { return };
        self.revision += 1;
        match request.answer {
            Answer::NodePosted(node) => self.apply(Input::NodePosted(node, Some(self.revision))),
            Answer::PodPosted(key) => self.apply(Input::PodPosted(key, Some(self.revision))),
            _ => {}
        }
    }

    /// Lets time pass up to `seconds`, stopping at each deadline.
    fn until(&mut self, seconds: f64) {
        let end = (seconds * 1000.0) as u64;
        while let Some(next) = self.core.next_deadline() {
            let next = u64::try_from(next.since_origin().as_nanos().div_ceil(1_000_000)).unwrap();
            if next > end {
                break;
            }
            self.millis = next.max(self.millis);
            self.apply(Input::Wake);
        }
        self.millis = end;
    }

    fn set(&mut self, name: &str, text: &str) {
        let change = Change::new().with(name, text).unwrap();
        self.apply(Input::Change {
            target: Target::All,
            change,
        });
    }

    /// What happened since the last call, in short.
    fn said(&mut self) -> Vec<(u64, String)> {
        self.log.drain(..).map(|(at, effect)| (at, brief(&effect))).collect()
    }

    fn texts(&mut self) -> Vec<String> {
        self.said()
            .into_iter()
            .map(|(_, text)| text)
            .filter(|text| !text.starts_with("binding"))
            .collect()
    }
}

fn brief(effect: &Effect) -> String {
    match effect {
        Effect::Renew { node, ensure, .. } => format!("lease {node}{}", if *ensure { " ensured" } else { "" }),
        Effect::Binding { node, delay } => format!("binding {node} {delay:?}"),
        Effect::Send(request) => match (request.verb, request.path.as_str()) {
            (Verb::StrategicMergePatch, path) if path.starts_with("/api/v1/nodes") => format!("node {}", conditions(&request.body)),
            (Verb::StrategicMergePatch, _) => pod_brief(&request.body["status"]),
            (Verb::Delete, path) => format!("delete {path}"),
            (Verb::Create, _) => format!("event {} {}", request.body["reason"], request.body["message"]),
            (verb, path) => format!("{verb:?} {path}"),
        },
    }
}

fn conditions(body: &Value) -> String {
    let list = body["status"]["conditions"].as_array().unwrap().iter();
    let texts: Vec<String> = list
        .filter(|condition| condition["type"] != "Ready" && condition["status"] == "True" || condition["type"] == "Ready")
        .map(|condition| {
            format!(
                "{}={}",
                condition["type"].as_str().unwrap(),
                condition["status"].as_str().unwrap()
            )
        })
        .collect();
    texts.join(" ")
}

fn pod_brief(status: &Value) -> String {
    let list = status["conditions"].as_array().unwrap();
    let ready = list.iter().find(|condition| condition["type"] == "Ready").unwrap();
    let container = &status["containerStatuses"][0];
    let waiting = container["state"]["waiting"]["reason"].as_str().unwrap_or("-");
    format!(
        "{} ready={} restarts={} {waiting}",
        status["phase"].as_str().unwrap(),
        ready["status"].as_str().unwrap(),
        container["restartCount"]
    )
}

fn mk_node(revision: u64, uid: &str) -> NodeFacts {
    NodeFacts {
        name: NodeName::from("n1"),
        uid: uid.into(),
        revision,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        unschedulable: false,
        taints: Vec::new(),
        conditions: BTreeMap::from([(Arc::from("Ready"), ReadyStatus::True)]),
        allocatable: Allocatable::default(),
        internal_ip: None,
        boot_id: "first".to_owned(),
        is_terminating: false,
    }
}

fn mk_annotated(revision: u64, annotations: &[(&str, &str)]) -> NodeFacts {
    let annotations = annotations
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    NodeFacts {
        annotations: annotations.collect(),
        ..mk_node(revision, "u1")
    }
}

fn mk_pod(name: &str, revision: u64) -> PodFacts {
    PodFacts {
        key: PodKey::new("default", name),
        uid: format!("uid-{name}").into(),
        revision,
        node: Some(NodeName::from("n1")),
        phase: Phase::Pending,
        ready: ReadyStatus::Absent,
        scheduled: ReadyStatus::True,
        terminating: None,
        annotations: BTreeMap::new(),
        containers: Arc::from([Container {
            name: "main".to_owned(),
            image: "example.org/app:1".to_owned(),
        }]),
        restarts_always: true,
        host_network: false,
        requests: Resources::of_pod(100, 0),
        controller: None,
        has_started: false,
        placement: None,
    }
}

fn mk_running(name: &str, revision: u64, ready: ReadyStatus) -> PodFacts {
    PodFacts {
        phase: Phase::Running,
        ready,
        has_started: true,
        ..mk_pod(name, revision)
    }
}

#[test]
fn a_recorded_kubelet_renews_every_second_and_posts_nothing() {
    let mut bench = Bench::new(KubeletSettings::oracle());
    bench.apply(mk_node(1, "u1"));
    bench.until(3.5);
    let said: Vec<_> = bench
        .said()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("binding"))
        .collect();
    let wanted = [
        (0, "lease n1 ensured"),
        (1000, "lease n1"),
        (2000, "lease n1"),
        (3000, "lease n1"),
    ];
    assert_eq!(said, wanted.map(|(at, text)| (at, text.to_owned())));
}

#[test]
fn a_recorded_pod_starts_and_is_finalised_after_its_delays() {
    let mut bench = Bench::new(KubeletSettings::oracle());
    bench.apply(mk_pod("a", 1));
    bench.until(2.0);
    let terminating = PodFacts {
        terminating: Some(30),
        ..mk_running("a", 200, ReadyStatus::True)
    };
    bench.apply(terminating.clone());
    bench.until(5.0);
    // One attempt: a finalizer may keep the pod.
    bench.apply(PodFacts {
        revision: 300,
        terminating: Some(0),
        ..terminating
    });
    bench.until(9.0);
    let wanted = [
        (400, "Running ready=True restarts=0 -"),
        (2600, "delete /api/v1/namespaces/default/pods/a"),
    ];
    assert_eq!(bench.said(), wanted.map(|(at, text)| (at, text.to_owned())));
}

#[test]
fn a_recorded_kubelet_never_sets_conditions_a_second_time() {
    let mut bench = Bench::new(KubeletSettings::oracle());
    bench.apply(mk_node(1, "u1"));
    bench.set("lease_interval", "none");
    bench.apply(mk_pod("a", 1));
    bench.until(1.0);
    bench.said();
    bench.apply(mk_running("a", 900, ReadyStatus::False));
    bench.apply(NodeFacts {
        conditions: BTreeMap::from([(Arc::from("Ready"), ReadyStatus::Unknown)]),
        ..mk_node(901, "u1")
    });
    bench.set("pods", "notready");
    bench.until(60.0);
    assert_eq!(bench.texts(), Vec::<String>::new());
}

#[test]
fn pods_become_what_the_mode_says() {
    let cases = [
        ("ready", vec!["Running ready=True restarts=0 -"]),
        ("notready", vec!["Running ready=False restarts=0 -"]),
        ("fail", vec!["Failed ready=False restarts=0 -"]),
        ("succeed", vec!["Succeeded ready=False restarts=0 -"]),
        ("none", vec![]),
    ];
    for settings in [KubeletSettings::oracle(), KubeletSettings::cluster()] {
        for (mode, wanted) in &cases {
            let mut bench = Bench::new(settings.clone());
            bench.set("lease_interval", "none");
            bench.apply(NodeFacts {
                allocatable: Allocatable::default(),
                ..mk_node(1, "u1")
            });
            bench.set("pods", mode);
            bench.apply(mk_pod("a", 2));
            bench.until(1.0);
            let said: Vec<_> = bench
                .texts()
                .into_iter()
                .filter(|text| !text.starts_with("node ") && !text.starts_with("lease"))
                .collect();
            assert_eq!(said, *wanted, "{mode}");
        }
    }
}

#[test]
fn silence_stops_everything_and_resuming_posts_once() {
    let mut bench = Bench::new(KubeletSettings::oracle());
    bench.apply(mk_node(1, "u1"));
    bench.until(2.5);
    bench.set("alive", "false");
    bench.said();
    bench.apply(mk_pod("late", 5));
    bench.apply(PodFacts {
        terminating: Some(30),
        ..mk_running("going", 6, ReadyStatus::True)
    });
    bench.until(60.0);
    assert_eq!(bench.said(), []);
    bench.set("alive", "true");
    bench.until(60.0);
    let wanted = [
        "node Ready=True",
        "lease n1",
        "delete /api/v1/namespaces/default/pods/going",
        "Running ready=True restarts=0 -",
    ];
    let mut said = bench.texts();
    said.sort();
    let mut wanted = wanted.map(str::to_owned);
    wanted.sort();
    assert_eq!(said, wanted);
}

#[test]
fn without_status_on_resume_only_the_lease_resumes() {
    let mut bench = Bench::new(KubeletSettings::oracle());
    bench.apply(mk_node(1, "u1"));
    bench.set("alive", "false");
    bench.set("status_on_resume", "false");
    bench.until(10.0);
    bench.said();
    bench.set("alive", "true");
    bench.until(10.5);
    assert_eq!(bench.texts(), ["lease n1 ensured"]);
    bench.set("status_interval", "1.0");
    bench.until(12.2);
    let posts = bench.texts().into_iter().filter(|text| text.starts_with("node")).count();
    assert_eq!(posts, 2);
}

#[test]
fn a_change_of_readiness_or_pressure_is_posted_at_once() {
    for settings in [KubeletSettings::oracle(), KubeletSettings::cluster()] {
        let mut bench = Bench::new(settings);
        bench.apply(mk_node(1, "u1"));
        bench.set("lease_interval", "none");
        bench.until(1.0);
        bench.said();
        bench.set("ready", "False");
        bench.set("memory_pressure", "true");
        bench.set("ready", "True");
        let wanted = [
            "node Ready=False",
            "node MemoryPressure=True Ready=False",
            "node MemoryPressure=True Ready=True",
        ];
        assert_eq!(bench.texts(), wanted);
    }
}

#[test]
fn posts_say_when_a_condition_changed_and_nothing_about_one_that_did_not() {
    let mut bench = Bench::new(KubeletSettings::oracle());
    bench.apply(mk_node(1, "u1"));
    bench.until(5.0);
    bench.log.clear();
    bench.set("ready", "False");
    let (_, effect) = bench.log.last().unwrap().clone();
    let Effect::Send(request) = effect else { panic!("{effect:?}") };
    let ready = &request.body["status"]["conditions"][3];
    let wanted = json!({
        "type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "container runtime is down",
        "lastHeartbeatTime": "1970-01-01T00:00:05Z", "lastTransitionTime": "1970-01-01T00:00:05Z",
    });
    assert_eq!(*ready, wanted);
    assert_eq!(request.body["metadata"]["uid"], "u1");
    bench.set("disk_pressure", "true");
    let (_, Effect::Send(request)) = bench.log.last().unwrap().clone() else {
        panic!("no post")
    };
    assert_eq!(request.body["status"]["conditions"][3].get("lastTransitionTime"), None);
}

#[test]
fn kubelets_spread_their_renewals_and_keep_their_interval() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    for nth in 0..50 {
        bench.apply(NodeFacts {
            name: format!("n{nth}").into(),
            ..mk_node(1, "u1")
        });
    }
    bench.until(10.0);
    let mut first: BTreeMap<String, u64> = BTreeMap::new();
    for (at, text) in bench.said() {
        if text.starts_with("lease") && !text.ends_with("ensured") {
            first.insert(text, at);
        }
    }
    let distinct: std::collections::BTreeSet<u64> = first.values().copied().collect();
    assert!(distinct.len() > 30, "{distinct:?}");
    bench.until(30.0);
    for (at, text) in bench.said() {
        if text.starts_with("lease") {
            assert_eq!((at - first[&text]) % 10_000, 0, "{text}");
        }
    }
}

#[test]
fn a_live_kubelet_puts_right_what_others_changed() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_node(1, "u1"));
    bench.apply(mk_pod("a", 2));
    bench.until(1.0);
    bench.said();
    bench.apply(mk_running("a", 900, ReadyStatus::False));
    assert_eq!(bench.texts(), ["Running ready=True restarts=0 -"]);
    bench.apply(NodeFacts {
        conditions: BTreeMap::from([(Arc::from("Ready"), ReadyStatus::Unknown)]),
        ..mk_node(950, "u1")
    });
    bench.until(11.1);
    assert!(bench.texts().contains(&"node Ready=True".to_owned()));
}

#[test]
fn a_state_older_than_the_last_post_is_not_put_right() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_annotated(1, &[("lease-interval", "none"), ("status-interval", "none")]));
    bench.apply(mk_pod("a", 2));
    bench.until(1.0);
    bench.said();
    bench.apply(mk_pod("a", 3));
    bench.until(1.5);
    assert_eq!(bench.texts(), Vec::<String>::new());
}

#[test]
fn readiness_follows_the_mode_of_node_and_pod() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_node(1, "u1"));
    bench.apply(mk_pod("a", 2));
    bench.until(1.0);
    bench.said();
    bench.set("pods", "notready");
    assert_eq!(bench.texts(), ["Running ready=False restarts=0 -"]);
    let mine = PodFacts {
        annotations: BTreeMap::from([("pods".to_owned(), "ready".to_owned())]),
        ..mk_running("a", 900, ReadyStatus::False)
    };
    bench.apply(mine);
    assert_eq!(bench.texts(), ["Running ready=True restarts=0 -"]);
}

#[test]
fn a_crash_loop_restarts_with_growing_waits_and_ends_when_told() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_annotated(
        1,
        &[
            ("pods", "crash-loop"),
            ("lease-interval", "none"),
            ("status-interval", "none"),
        ],
    ));
    bench.apply(mk_pod("a", 2));
    bench.until(40.0);
    let event = "event \"BackOff\" \"Back-off restarting failed container\"";
    let wanted = [
        (400, "Running ready=True restarts=0 -"),
        (2400, event),
        (2400, "Running ready=False restarts=1 CrashLoopBackOff"),
        (12400, "Running ready=True restarts=1 -"),
        (14400, event),
        (14400, "Running ready=False restarts=2 CrashLoopBackOff"),
        (34400, "Running ready=True restarts=2 -"),
        (36400, event),
        (36400, "Running ready=False restarts=3 CrashLoopBackOff"),
    ];
    let said: Vec<_> = bench
        .said()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("binding"))
        .collect();
    assert_eq!(said, wanted.map(|(at, text)| (at, text.to_owned())));
    bench.apply(mk_annotated(3, &[("lease-interval", "none"), ("status-interval", "none")]));
    bench.until(500.0);
    assert_eq!(bench.texts(), ["Running ready=True restarts=3 -"]);
}

#[test]
fn an_image_that_cannot_be_pulled_keeps_a_pod_pending_until_it_can() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_annotated(
        1,
        &[
            ("pods", "image-pull-failure"),
            ("lease-interval", "none"),
            ("status-interval", "none"),
        ],
    ));
    bench.apply(mk_pod("a", 2));
    bench.until(15.0);
    bench.apply(mk_annotated(3, &[("lease-interval", "none"), ("status-interval", "none")]));
    bench.until(60.0);
    let event = "event \"Failed\" \"Failed to pull image\"";
    let wanted = [
        event,
        "Pending ready=False restarts=0 ErrImagePull",
        event,
        "Pending ready=False restarts=0 ImagePullBackOff",
        "Running ready=True restarts=0 -",
    ];
    assert_eq!(bench.texts(), wanted);
}

#[test]
fn a_partition_stops_words_but_not_pods() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_annotated(1, &[("pods", "crash-loop")]));
    bench.apply(mk_pod("a", 2));
    bench.until(1.0);
    bench.said();
    bench.apply(mk_annotated(3, &[("pods", "crash-loop"), ("partitioned", "true")]));
    bench.apply(mk_pod("late", 4));
    bench.until(13.0);
    assert_eq!(bench.texts(), Vec::<String>::new());
    bench.apply(mk_annotated(5, &[]));
    bench.until(14.0);
    let said = bench.texts();
    assert!(said.contains(&"lease n1".to_owned()), "{said:?}");
    assert!(said.contains(&"node Ready=True".to_owned()), "{said:?}");
    // It crashed and was restarted while nobody could see it.
    assert!(said.contains(&"Running ready=True restarts=1 -".to_owned()), "{said:?}");
    assert!(said.contains(&"Running ready=True restarts=0 -".to_owned()), "{said:?}");
}

#[test]
fn a_reboot_is_silent_then_shows_a_new_boot_and_restarted_containers() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_node(1, "u1"));
    bench.apply(mk_pod("a", 2));
    bench.apply(PodFacts {
        restarts_always: false,
        ..mk_running("job", 3, ReadyStatus::True)
    });
    bench.until(1.0);
    bench.said();
    bench.apply(mk_annotated(900, &[("reboot", "1"), ("reboot-delay", "5s")]));
    bench.until(5.9);
    assert_eq!(bench.texts(), Vec::<String>::new());
    bench.until(7.0);
    let posts: Vec<&Effect> = bench
        .log
        .iter()
        .map(|(_, effect)| effect)
        .filter(|effect| brief(effect).starts_with("node"))
        .collect();
    let [Effect::Send(post)] = posts.as_slice() else {
        panic!("{posts:?}")
    };
    let boot = post.body["status"]["nodeInfo"]["bootID"].as_str().unwrap();
    assert!(!boot.is_empty() && boot != "first", "{boot}");
    let said = bench.texts();
    for wanted in [
        "lease n1",
        "Running ready=False restarts=1 ContainerCreating",
        "Running ready=True restarts=1 -",
        "Failed ready=False restarts=0 -",
    ] {
        assert!(said.contains(&wanted.to_owned()), "{wanted}: {said:?}");
    }
    assert!(said.iter().any(|text| text.starts_with("event \"Rebooted\"")), "{said:?}");
}

#[test]
fn a_node_that_comes_with_a_reboot_annotation_does_not_reboot() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_annotated(1, &[("reboot", "1")]));
    bench.until(60.0);
    assert!(!bench.texts().iter().any(|text| text.contains("Rebooted")));
}

#[test]
fn a_node_that_is_created_again_gets_its_lease_with_its_new_uid() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_node(1, "u1"));
    bench.until(5.0);
    bench.apply(Input::NodeGone(NodeName::from("n1")));
    bench.said();
    bench.until(60.0);
    assert_eq!(bench.texts(), Vec::<String>::new());
    bench.apply(NodeFacts {
        conditions: BTreeMap::new(),
        boot_id: String::new(),
        ..mk_node(9, "u2")
    });
    bench.until(60.1);
    let renewals = bench.log.iter().filter_map(|(_, effect)| match effect {
        Effect::Renew { uid, ensure, .. } => Some((uid.as_str().to_owned(), *ensure)),
        _ => None,
    });
    let renewals: Vec<_> = renewals.collect();
    assert_eq!(renewals.first(), Some(&("u2".to_owned(), true)));
    assert!(bench.texts().contains(&"node Ready=True".to_owned()));
}

#[test]
fn a_lease_that_is_missing_is_created() {
    let mut bench = Bench::new(KubeletSettings::oracle());
    bench.apply(mk_node(1, "u1"));
    bench.until(1.5);
    bench.said();
    bench.apply(Input::LeaseMissing(NodeName::from("n1")));
    assert_eq!(bench.texts(), ["lease n1 ensured"]);
}

#[test]
fn pods_beyond_what_a_node_offers_are_rejected() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    let offered = Allocatable {
        pods: Some(1),
        ..Allocatable::default()
    };
    bench.apply(NodeFacts {
        allocatable: offered,
        ..mk_annotated(1, &[("lease-interval", "none"), ("status-interval", "none")])
    });
    bench.apply(mk_pod("a", 2));
    bench.apply(mk_pod("b", 3));
    bench.until(1.0);
    let message = "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1";
    let wanted = [
        "Running ready=True restarts=0 -".to_owned(),
        format!("event \"OutOfpods\" \"{message}\""),
        "Failed ready=False restarts=0 -".to_owned(),
    ];
    assert_eq!(bench.texts(), wanted);
    // A pod that goes makes room.
    bench.apply(Input::PodGone(PodKey::new("default", "a")));
    bench.apply(mk_pod("c", 4));
    bench.until(2.0);
    assert_eq!(bench.texts(), ["Running ready=True restarts=0 -"]);
}

#[test]
fn a_shorter_grace_period_wins_over_the_delay() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_annotated(
        1,
        &[
            ("finalize-delay", "60s"),
            ("lease-interval", "none"),
            ("status-interval", "none"),
        ],
    ));
    bench.apply(PodFacts {
        terminating: Some(5),
        ..mk_running("a", 2, ReadyStatus::True)
    });
    bench.until(30.0);
    let said: Vec<_> = bench
        .said()
        .into_iter()
        .filter(|(_, text)| text.starts_with("delete"))
        .collect();
    assert_eq!(said, [(5000, "delete /api/v1/namespaces/default/pods/a".to_owned())]);
}

#[test]
fn annotations_switch_settings_and_malformed_ones_are_told_to_the_node() {
    type Check = fn(&KubeletSettings) -> bool;
    let cases: [(&str, &str, Check); 17] = [
        ("alive", "false", |settings| !settings.alive),
        ("lease-interval", "3s", |settings| {
            settings.lease_interval == Some(Duration::from_secs(3))
        }),
        ("status-interval", "none", |settings| settings.status_interval.is_none()),
        ("status-on-resume", "false", |settings| !settings.status_on_resume),
        ("ready", "Unknown", |settings| settings.ready == ReadyStatus::Unknown),
        ("pods", "fail", |settings| settings.pods == super::PodMode::Fail),
        ("bind", "false", |settings| !settings.bind),
        ("finalize", "false", |settings| !settings.finalize),
        ("bind-delay", "1", |settings| settings.bind_delay == Duration::from_secs(1)),
        ("run-delay", "2", |settings| settings.run_delay == Duration::from_secs(2)),
        ("finalize-delay", "1m", |settings| {
            settings.finalize_delay == Duration::from_secs(60)
        }),
        ("partitioned", "true", |settings| settings.partitioned),
        ("memory-pressure", "true", |settings| settings.memory_pressure),
        ("disk-pressure", "true", |settings| settings.disk_pressure),
        ("pid-pressure", "true", |settings| settings.pid_pressure),
        ("reboot", "x", |settings| settings.reboot.is_some()),
        ("reboot-delay", "1h", |settings| {
            settings.reboot_delay == Duration::from_secs(3600)
        }),
    ];
    for (name, text, is_set) in cases {
        let mut bench = Bench::new(KubeletSettings::cluster());
        let node = NodeName::from("n1");
        bench.apply(mk_node(1, "u1"));
        assert!(!is_set(bench.core.settings(&node)), "{name}");
        bench.apply(mk_annotated(2, &[(name, text)]));
        assert!(is_set(bench.core.settings(&node)), "{name}={text}");
        bench.said();
        // The empty text is a value of no setting: what was good keeps holding, and the node is told.
        bench.apply(mk_annotated(3, &[(name, "")]));
        assert!(is_set(bench.core.settings(&node)), "{name} after a malformed value");
        let warnings: Vec<String> = bench.texts().into_iter().filter(|text| text.starts_with("event")).collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with("event \"InvalidSandboxSetting\"") && warnings[0].contains(name),
            "{warnings:?}"
        );
        bench.apply(mk_annotated(4, &[]));
        assert!(!is_set(bench.core.settings(&node)), "{name} removed");
    }
}

#[test]
fn settings_of_a_name_hold_for_a_node_that_comes_later() {
    let mut bench = Bench::new(KubeletSettings::oracle());
    let change = Change::new().with("alive", "false").unwrap();
    bench.apply(Input::Change {
        target: Target::Node(NodeName::from("n1")),
        change,
    });
    bench.apply(mk_node(1, "u1"));
    bench.until(10.0);
    assert_eq!(bench.texts(), Vec::<String>::new());
}

#[test]
fn a_kubelet_that_follows_a_real_one_needs_a_machine() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(mk_pod("a", 1));
    bench.until(10.0);
    assert_eq!(bench.texts(), Vec::<String>::new());
    bench.apply(mk_node(2, "u1"));
    bench.until(10.5);
    assert!(bench.texts().contains(&"Running ready=True restarts=0 -".to_owned()));
}

#[test]
fn a_node_that_says_nothing_about_itself_is_described() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.apply(NodeFacts {
        boot_id: String::new(),
        conditions: BTreeMap::new(),
        ..mk_node(1, "u1")
    });
    bench.until(0.1);
    let posts: Vec<Effect> = bench
        .log
        .iter()
        .map(|(_, effect)| effect.clone())
        .filter(|effect| brief(effect).starts_with("node"))
        .collect();
    let [Effect::Send(post)] = posts.as_slice() else {
        panic!("{posts:?}")
    };
    let status = &post.body["status"];
    assert_eq!(
        status["allocatable"],
        json!({"cpu": "16000m", "memory": "68719476736", "pods": "110"})
    );
    assert_eq!(status["addresses"], json!([{"type": "InternalIP", "address": "172.16.0.1"}]));
    assert_eq!(status["nodeInfo"]["kubeletVersion"], "v1.36.2");
    assert_eq!(wellknown::CONDITION_READY, status["conditions"][3]["type"]);
}
