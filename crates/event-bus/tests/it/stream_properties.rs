//! Properties of the whole path, producer to subscriber, through client and server in virtual time.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bailiff_event_bus::{Draft, Publisher};
use bailiff_model::Topic;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::engines::Kind;
use crate::support::{Follower, World, mk_health, pass, soon};

const HEALTH: Topic = Topic::NodeHealth;
const NODES: u64 = 12;
const ZONES: [&str; 3] = ["a", "b", "c"];

/// One step; indices are taken modulo what there is.
#[derive(Clone, Debug)]
enum Op {
    /// The leader sets a node: node, zone.
    Set(u64, usize),
    /// The leader removes a node.
    Remove(u64),
    /// A new leader with a higher epoch takes over, with this many shards, and sets everything to its own number.
    TakeOver(u32),
    /// All streams break.
    Disconnect,
    /// The bus dies and comes back without memory.
    Restart,
    /// Time passes, and one follower reads meanwhile; the others do not.
    Read(usize, u64),
    /// Time passes, and nobody reads.
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..NODES, 0..ZONES.len()).prop_map(|(node, zone)| Op::Set(node, zone)),
        3 => (0..NODES).prop_map(Op::Remove),
        3 => (1..=3_u32).prop_map(Op::TakeOver),
        2 => Just(Op::Disconnect),
        1 => Just(Op::Restart),
        6 => (any::<usize>(), 1..6_u64).prop_map(|(follower, seconds)| Op::Read(follower, seconds)),
        2 => (1..40_u64).prop_map(Op::Pass),
    ]
}

#[derive(Debug, Default)]
struct Premises {
    take_overs: usize,
    layouts: usize,
    restarts: usize,
    disconnects: usize,
    snapshots: usize,
    losses: usize,
}

/// The leaders of all shards, and what they publish.
struct Leaders {
    publishers: Vec<Publisher>,
    held: BTreeMap<String, (u64, usize)>,
    generation: u64,
}

impl Leaders {
    fn take_over(world: &World, generation: u64, shards: u32) -> Self {
        let mut leaders = Self {
            publishers: Vec::new(),
            held: BTreeMap::new(),
            generation,
        };
        for shard in 0..shards {
            let publisher = world.publish(&format!("leader-{generation}"), HEALTH, (shard, shards), generation);
            leaders.publishers.push(publisher);
        }
        for node in 0..NODES {
            leaders.set(node, 0, generation);
        }
        for publisher in &leaders.publishers {
            publisher.complete();
        }
        leaders
    }

    fn publisher(&self, node: u64) -> &Publisher {
        let shards = self.publishers.len() as u64;
        &self.publishers[usize::try_from(node % shards).unwrap()]
    }

    fn set(&mut self, node: u64, zone: usize, content: u64) {
        let name = format!("n{node}");
        self.publisher(node).set(Draft::new(mk_health(&name, ZONES[zone], content)));
        self.held.insert(name, (content, zone));
    }

    fn remove(&mut self, node: u64) {
        let name = format!("n{node}");
        self.publisher(node).remove(&name);
        self.held.remove(&name);
    }

    async fn settled(&self) {
        for publisher in &self.publishers {
            publisher.settled().await;
        }
    }
}

fn mk_followers(world: &World) -> Vec<(Option<usize>, Follower)> {
    let filter = |zone: usize| bailiff_event_bus::RouteFilter {
        topic: HEALTH,
        routes: vec![format!("eu:{}", ZONES[zone])],
    };
    [None, Some(0), Some(1)]
        .into_iter()
        .map(|zone| {
            let options = bailiff_event_bus::SubscribeOptions {
                topics: vec![HEALTH],
                filters: zone.map(filter).into_iter().collect(),
                subscriber: format!("follower {zone:?}"),
            };
            let subscription = bailiff_event_bus::subscribe(&world.bus, options, &world.clock, &world.seed);
            (zone, Follower::new(subscription))
        })
        .collect()
}

/// Runs a test in virtual time.
fn in_virtual_time(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(test);
}

async fn converge(ops: &[Op], premises: &RefCell<Premises>) {
    let world = World::small(Kind::Memory);
    let mut followers = mk_followers(&world);
    let mut leaders = Leaders::take_over(&world, 1, 1);
    let mut content = 1_000;
    for op in ops {
        content += 1;
        match *op {
            Op::Set(node, zone) => leaders.set(node, zone, content),
            Op::Remove(node) => leaders.remove(node),
            Op::TakeOver(shards) => {
                let generation = leaders.generation + 1;
                premises.borrow_mut().take_overs += 1;
                if leaders.publishers.len() != shards as usize {
                    premises.borrow_mut().layouts += 1;
                    // The layout is fixed while a session of the old one is open.
                    leaders.publishers.clear();
                }
                leaders = Leaders::take_over(&world, generation, shards);
            }
            Op::Disconnect => {
                premises.borrow_mut().disconnects += 1;
                world.server.disconnect();
            }
            Op::Restart => {
                premises.borrow_mut().restarts += 1;
                world.server.kill();
                pass(1).await;
                world.server.restart();
            }
            Op::Read(follower, seconds) => {
                let index = follower % followers.len();
                followers[index].1.for_seconds(seconds).await;
            }
            Op::Pass(seconds) => pass(seconds).await,
        }
    }
    soon("everything is published", leaders.settled()).await;
    for (zone, follower) in &mut followers {
        // Longer than the longest backoff and two bookmarks.
        follower.for_seconds(15).await;
        let wanted = leaders.held.iter().filter(|(_, (_, at))| zone.is_none_or(|zone| zone == *at));
        let wanted: BTreeMap<String, u64> = wanted.map(|(name, (content, _))| (name.clone(), *content)).collect();
        assert_eq!(follower.contents(), wanted, "zone {zone:?}");
        assert!(follower.is_complete(HEALTH));
        assert_eq!(follower.shards.len(), leaders.publishers.len());
        assert_eq!(follower.subscription.malformed(), 0);
        let mut premises = premises.borrow_mut();
        premises.snapshots += follower.snapshots;
        premises.losses += follower.lost;
    }
}

#[test]
fn every_subscriber_ends_with_what_the_leaders_hold() {
    let premises = RefCell::new(Premises::default());
    let mut runner = TestRunner::new(Config {
        cases: 96,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&proptest::collection::vec(op(), 1..60), |ops| {
        in_virtual_time(converge(&ops, &premises));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    let premises = premises.into_inner();
    println!("{premises:?}");
    let Premises {
        take_overs,
        layouts,
        restarts,
        disconnects,
        snapshots,
        losses,
    } = premises;
    assert!(take_overs > 0 && layouts > 0 && restarts > 0 && disconnects > 0);
    assert!(losses > 0 && snapshots > 96 * 3, "some came back to another memory");
}

/// Leaders only replace: every set must show one leader's state whole.
async fn replace_whole(ops: &[Op], seen: &RefCell<BTreeMap<u64, usize>>) {
    let world = World::small(Kind::Memory);
    let mut followers: Vec<Follower> = (0..3).map(|_| world.follow(&[HEALTH])).collect();
    let mut leaders = Leaders::take_over(&world, 1, 1);
    let check = |follower: &Follower| {
        let contents = follower.contents();
        let generations: std::collections::BTreeSet<u64> = contents.values().copied().collect();
        assert!(generations.len() <= 1, "two leaders at once: {contents:?}");
        let is_whole = contents.is_empty() || contents.len() as u64 == NODES;
        assert!(is_whole, "half a replace: {contents:?}");
        assert!(
            !contents.is_empty() || !follower.is_complete(HEALTH),
            "complete without records"
        );
        for generation in generations {
            *seen.borrow_mut().entry(generation).or_default() += 1;
        }
    };
    for op in ops {
        match *op {
            Op::TakeOver(_) => leaders = Leaders::take_over(&world, leaders.generation + 1, 1),
            Op::Disconnect => world.server.disconnect(),
            Op::Restart => world.server.restart(),
            Op::Pass(seconds) => pass(seconds % 5).await,
            Op::Read(index, seconds) => {
                let index = index % followers.len();
                let end = tokio::time::Instant::now() + std::time::Duration::from_secs(seconds);
                while tokio::time::timeout_at(end, followers[index].step()).await.is_ok() {
                    check(&followers[index]);
                }
            }
            Op::Set(..) | Op::Remove(_) => tokio::task::yield_now().await,
        }
    }
    soon("everything is published", leaders.settled()).await;
    for follower in &mut followers {
        follower.for_seconds(15).await;
        check(follower);
        assert!(follower.contents().values().all(|content| *content == leaders.generation));
        assert_eq!(follower.held.len() as u64, NODES);
    }
}

#[test]
fn no_subscriber_ever_sees_half_a_replace() {
    let seen = RefCell::new(BTreeMap::new());
    let mut runner = TestRunner::new(Config {
        cases: 96,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&proptest::collection::vec(op(), 1..60), |ops| {
        in_virtual_time(replace_whole(&ops, &seen));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    let seen = seen.into_inner();
    println!("states seen whole, by leader: {seen:?}");
    assert!(seen.len() > 3 && seen.values().sum::<usize>() > 500, "{seen:?}");
}
