//! By how many requests silent nodes are read.

use super::*;

fn mk_names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("n{n:02}")).collect()
}

/// A zone that falls silent together is read by two lists, not by two reads per node.
#[tokio::test(start_paused = true)]
async fn many_are_read_by_one_list() {
    let names = mk_names(30);
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::start(&nodes).await;
    world.pass(60).await;
    let requests = world.api.requests();
    let lists = [NODES, LEASES].map(|path| format!("GET {path}"));
    let reads: Vec<&String> = requests.iter().filter(|request| request.starts_with("GET")).collect();
    assert_eq!(reads, [&lists[0], &lists[1]], "{requests:?}");
    assert_eq!(requests.iter().filter(|request| request.starts_with("PATCH")).count(), 30);
    assert!(nodes.iter().all(|node| world.ready(node)["status"] == "Unknown"));
}

/// A server that refuses whole lists may answer all else.
#[tokio::test(start_paused = true)]
async fn while_lists_are_refused_many_are_read_one_by_one() {
    let names = mk_names(60);
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::start(&nodes).await;
    world.api.refuse_lists();
    world.pass(120).await;
    assert!(nodes.iter().all(|node| world.ready(node)["status"] == "Unknown"));
    let requests = world.api.requests();
    let read = |node: &&str| requests.contains(&format!("GET {NODES}/{node}"));
    assert!(nodes.iter().all(read), "{requests:?}");
}
