//! How much is asked of an API server at once.

use crate::Shard;

/// `--kube-api-qps` by default.
const DEFAULT_QPS: f64 = 20.0;

/// How many times as much with a client that is limited little, or not at all.
const MOST_TIMES: f64 = 8.0;

/// How many requests of a kind a shard may have under way with a client that makes so many a second (`None`: any number), if
/// `by_default` are with one that makes 20.
///
/// They are in proportion to what the client lets through, for more would only wait there, before what is asked for later and matters
/// more. They are never fewer, and eight times as many at most. A server that takes a second for an answer, as one does whose CPUs are all
/// in use, answers so many a second; it serves who has many requests under way before who has few. The client is one for all shards of a
/// process.
pub fn under_way(by_default: usize, per_second: Option<f64>, shard: Shard) -> usize {
    let times = per_second.map_or(MOST_TIMES, |rate| rate / f64::from(shard.count.max(1)) / DEFAULT_QPS);
    (by_default as f64 * times.clamp(1.0, MOST_TIMES)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_follows_the_clients_limit() {
        let halves = Shard { index: 1, count: 2 };
        for (per_second, of_whole, of_half) in [
            (Some(0.0), 10, 10),
            (Some(20.0), 10, 10),
            (Some(50.0), 25, 12),
            (Some(160.0), 80, 40),
            (Some(5e3), 80, 80),
            (None, 80, 80),
        ] {
            let under_way = |shard| under_way(10, per_second, shard);
            assert_eq!(
                (under_way(Shard::WHOLE), under_way(halves)),
                (of_whole, of_half),
                "{per_second:?}"
            );
        }
    }
}
