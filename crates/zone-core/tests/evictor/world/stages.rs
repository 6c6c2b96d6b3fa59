//! The stages before the evictor, as far as it notices them: their records on the bus.

use super::*;

impl World {
    /// The monitor's word about one node.
    pub fn health(&mut self, name: &str, verdict: Verdict) {
        self.judge(&[name], verdict);
    }

    /// The monitor's word about several nodes, in one set.
    pub fn judge(&mut self, names: &[&str], verdict: Verdict) {
        let records = names.iter().map(|name| self.mk_health(name, verdict)).collect();
        self.publish(records);
    }

    pub fn mk_health(&mut self, name: &str, verdict: Verdict) -> Record {
        let facts = self.node(name).clone();
        let health = NodeHealth {
            node: facts.reference(),
            zone: facts.zone.clone(),
            excluded_from_disruption: facts.excluded_from_disruption,
            ready: Ready {
                status: facts.ready,
                reason: String::new(),
                since: Some(self.now.wall),
            },
            verdict,
            last_sign_of_life: (!self.unheard.contains(&facts.name)).then_some(SignOfLife {
                time: self.now.wall,
                signal: Signal::Lease,
                renew_time: None,
            }),
            late_since: None,
            counted_from: self.now.wall,
            grace: secs(50),
            decided_at: self.now.wall,
            held: None,
        };
        self.mk_record(Topic::NodeHealth, name.to_owned(), Some(Body::Health(Box::new(health))))
    }

    /// The monitor holds what would follow from these nodes' silence.
    pub fn hold_by_monitor(&mut self, names: &[&str], reason: HoldReason) {
        self.hold_by_monitor_until(names, reason, None);
    }

    /// The same, for a time.
    pub fn hold_by_monitor_until(&mut self, names: &[&str], reason: HoldReason, until: Option<Wall>) {
        let mut records: Vec<Record> = names.iter().map(|name| self.mk_health(name, Verdict::Late)).collect();
        for record in &mut records {
            if let Some(Body::Health(health)) = &mut record.body {
                health.held = Some(Hold {
                    reason,
                    detail: "as the test wanted".to_owned(),
                    since: self.now.wall,
                    until,
                });
            }
        }
        self.publish(records);
    }

    /// The taint-manager wishes the node isolated.
    pub fn wish(&mut self, name: &str, taint: HealthTaint) {
        let record = self.mk_wish(name, taint);
        self.publish(vec![record]);
    }

    pub fn mk_wish(&mut self, name: &str, taint: HealthTaint) -> Record {
        let facts = self.node(name);
        let wish = NodeIsolation {
            node: facts.reference(),
            zone: facts.zone.clone(),
            taint,
            cause: String::new(),
            decided_at: self.now.wall,
        };
        self.mk_record(
            Topic::EvictionIntents,
            format!("node/{name}"),
            Some(Body::Intent(Intent::Isolation(Box::new(wish)))),
        )
    }

    pub fn unwish(&mut self, name: &str) {
        let record = self.mk_record(Topic::EvictionIntents, format!("node/{name}"), None);
        self.publish(vec![record]);
    }

    /// Node mode: the taint-manager wishes the node evicted.
    pub fn wish_evicted(&mut self, name: &str) {
        let now = self.now.wall;
        self.wish_evicted_at(name, now, true);
    }

    /// The same, by the taint-manager's clock.
    pub fn wish_evicted_at(&mut self, name: &str, not_before: Wall, due: bool) {
        let record = self.mk_wish_evicted(name, not_before, due);
        self.publish(vec![record]);
    }

    pub fn mk_wish_evicted(&mut self, name: &str, not_before: Wall, due: bool) -> Record {
        let facts = self.node(name);
        let wish = NodeEviction {
            node: facts.reference(),
            zone: facts.zone.clone(),
            not_before,
            due,
            cause: String::new(),
            decided_at: self.now.wall,
        };
        self.mk_record(
            Topic::EvictionIntents,
            format!("node/{name}"),
            Some(Body::Intent(Intent::NodeEviction(Box::new(wish)))),
        )
    }

    /// The taint-manager says that the pod is due, for the taints that stand on its node.
    pub fn due(&mut self, uid: &PodUid) {
        let record = self.mk_due(uid, false);
        self.publish(vec![record]);
    }

    /// Node mode: due because its node is.
    pub fn due_with_node(&mut self, uid: &PodUid) {
        let record = self.mk_due(uid, true);
        self.publish(vec![record]);
    }

    pub fn mk_due(&mut self, uid: &PodUid, with_node: bool) -> Record {
        let pod = self.pods[uid].clone();
        let node = self.nodes.get(&pod.node);
        let taints = node.map(NodeFacts::no_execute).unwrap_or_default();
        let tolerations: Vec<Toleration> = taints
            .iter()
            .filter_map(|taint| used(taint, &pod.tolerations).cloned())
            .collect();
        let trigger = if with_node {
            Trigger::Node
        } else if tolerations.len() < taints.len() {
            Trigger::Untolerated
        } else {
            Trigger::Expired
        };
        let cause = if with_node {
            EvictionCause::Node
        } else {
            EvictionCause::Taints { taints, tolerations }
        };
        let node = node.map_or_else(
            || NodeRef {
                name: pod.node.clone(),
                ..NodeRef::default()
            },
            NodeFacts::reference,
        );
        self.mk_pod_record(pod.reference(), node, cause, IntentState::Due, trigger)
    }

    pub fn mk_pod_record(
        &mut self,
        pod: PodRef,
        node: NodeRef,
        cause: impl Into<Arc<EvictionCause>>,
        state: IntentState,
        trigger: Trigger,
    ) -> Record {
        let key = format!("pod/{}", pod.uid);
        let intent = PodEviction {
            pod,
            zone: self
                .nodes
                .get(&node.name)
                .map_or_else(Zone::default, |facts| facts.zone.clone()),
            node,
            cause: cause.into(),
            state,
            trigger,
            due_at: self.now.wall,
            decided_at: self.now.wall,
        };
        self.mk_record(Topic::EvictionIntents, key, Some(Body::Intent(Intent::Pod(Box::new(intent)))))
    }

    pub fn withdraw(&mut self, uid: &PodUid) {
        let record = self.mk_record(Topic::EvictionIntents, format!("pod/{uid}"), None);
        self.publish(vec![record]);
    }

    pub fn mk_record(&mut self, topic: Topic, key: String, body: Option<Body>) -> Record {
        self.revision += 1;
        let newest = self
            .bus
            .values()
            .filter(|record| record.topic == Topic::NodeHealth)
            .map(|record| record.origin.revision)
            .max();
        let incarnation = bailiff_model::Incarnation::from(self.incarnation);
        self.made_at.insert(Revision(self.revision), self.now.mono);
        Record {
            topic,
            key,
            produced_at: self.now.wall,
            age: Some(Duration::ZERO),
            is_echo: false,
            derived_from: newest.map_or_else(Origin::default, |newest| Origin::new(incarnation.clone(), newest)),
            origin: Origin::new(incarnation, Revision(self.revision)),
            trace: None,
            body,
        }
    }

    /// Puts records on the bus; the evictor gets them as one set.
    pub fn publish(&mut self, records: Vec<Record>) {
        for record in &records {
            let key = (record.topic, record.key.clone());
            if record.body.is_some() {
                self.bus.insert(key, record.clone());
            } else {
                self.bus.remove(&key);
            }
        }
        if self.published_to() {
            self.late.bus.push_back(Input::Changes {
                records,
                shards: Vec::new(),
            });
            self.catch_up();
        }
    }

    fn published_to(&self) -> bool {
        self.completed
    }

    pub fn shards(&self) -> Vec<ShardStatus> {
        let one = |(topic, (complete, live)): (&Topic, &(bool, bool))| ShardStatus {
            topic: *topic,
            shard: 0,
            shard_count: 1,
            complete: *complete,
            live: *live,
            detail: String::new(),
        };
        self.shards.iter().map(one).collect()
    }

    pub fn set_shard(&mut self, topic: Topic, complete: bool, live: bool) {
        self.shards.insert(topic, (complete, live));
        self.tell(Input::Status(self.shards()));
    }
}
