//! What becomes of pods.

use super::*;

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
fn what_is_listed_again_before_a_post_had_its_turn_is_no_news() {
    let mut bench = Bench::new(KubeletSettings::cluster());
    bench.set("lease_interval", "none");
    bench.apply(NodeFacts {
        allocatable: Allocatable::default(),
        ..mk_node(1, "u1")
    });
    bench.apply(mk_pod("a", 2));
    bench.millis = 10_000;
    // The addresses that are posted; nobody answers.
    let mut posts = |input: Input| {
        let effects = bench.core.apply(input, bench.now()).into_iter();
        let of_post = |effect| match effect {
            Effect::Send(request) if request.path.ends_with("/pods/a/status") => Some(request.body["status"]["podIP"].clone()),
            _ => None,
        };
        effects.filter_map(of_post).collect::<Vec<Value>>()
    };
    let first = posts(Input::Wake);
    assert_eq!((first.len(), first[0].is_string()), (1, true));
    assert_eq!(posts(mk_pod("a", 2).into()), [] as [Value; 0]);
    assert_eq!(posts(mk_pod("a", 3).into()), first, "somebody changed it");
    let key = mk_pod("a", 3).key;
    assert_eq!(posts(Input::PodPosted(key, None)), [] as [Value; 0]);
    assert_eq!(posts(mk_pod("a", 3).into()), first, "it was refused");
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
