//! Leases, node status, silence, partition, reboot, annotations.

use super::*;

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
        Effect::Renew { uid, ensure, .. } => Some((uid.to_string(), *ensure)),
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
        ("pods", "fail", |settings| settings.pods == crate::kubelet::PodMode::Fail),
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
