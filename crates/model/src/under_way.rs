//! How much is asked of an API server at once.

use crate::Shard;

/// `--kube-api-qps` by default.
const DEFAULT_QPS: f64 = 20.0;

/// How many times as much with a client that is limited little, or not at all: 256 evictions instead of 32, which a stage's connections
/// have room for.
const MOST_TIMES: f64 = 8.0;

/// How many fewer may be under way after each that was not answered in time. Each answer makes it one more, so a window opens while
/// fewer than one in nine of them is late, however many they are, and closes while more are: what is late is made again, after a read.
/// Half of what there was, for each, would keep a window closed that a few of a hundred are late in.
const PER_LATE: usize = 8;

/// How many requests of a kind a shard may have under way with a client that makes so many a second (`None`: any number), if
/// `by_default` are with one that makes 20.
///
/// There are as many as that, or more in proportion to what the client lets through, up to eight times: more would only wait there, before
/// what is asked for later and matters more. A server that takes a second for an answer, as one does whose CPUs are all in use, answers no
/// more a second than are under way. Shards of a process have one client together.
pub fn under_way(by_default: usize, per_second: Option<f64>, shard: Shard) -> usize {
    let all = per_second.map_or(MOST_TIMES, |rate| rate / DEFAULT_QPS).min(MOST_TIMES);
    let times = all / f64::from(shard.count.max(1));
    (by_default as f64 * times.max(1.0)) as usize
}

/// What became of a request, as far as it says how busy the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It was answered, whatever the answer is.
    Answered,
    /// It was not answered in time, waited too long to be sent, or was one too many.
    Overloaded,
    /// It was not made.
    None,
}

/// How many may be under way just now: few at first, one more for each that is answered, and eight fewer for each that is not, or that the
/// server says is one too many. So the number doubles while all is well, each time that an answer takes; it stays while a few are late, as
/// they are with a server whose CPUs are all in use; and a server in trouble is asked for little.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    fewest: usize,
    most: usize,
    now: usize,
}

impl Window {
    /// `most`, at least one, and `fewest` of them at first, and always.
    pub fn new(fewest: usize, most: usize) -> Self {
        let most = most.max(1);
        let fewest = fewest.clamp(1, most);
        Self {
            fewest,
            most,
            now: fewest,
        }
    }

    /// How many may be under way.
    pub fn size(&self) -> usize {
        self.now
    }

    /// One ended.
    pub fn ended(&mut self, load: Load) {
        match load {
            Load::Answered => self.now = (self.now + 1).min(self.most),
            Load::Overloaded => self.now = self.now.saturating_sub(PER_LATE).max(self.fewest),
            Load::None => {}
        }
    }
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
            (Some(5e3), 80, 40),
            (None, 80, 40),
        ] {
            let under_way = |shard| under_way(10, per_second, shard);
            assert_eq!(
                (under_way(Shard::WHOLE), under_way(halves)),
                (of_whole, of_half),
                "{per_second:?}"
            );
        }
    }

    #[test]
    fn a_window_opens_with_answers_and_closes_without() {
        let mut window = Window::new(4, 10);
        let sizes: Vec<usize> = std::iter::repeat_with(|| {
            window.ended(Load::Answered);
            window.size()
        })
        .take(7)
        .collect();
        assert_eq!(sizes, [5, 6, 7, 8, 9, 10, 10]);
        window.ended(Load::None);
        let mut wide = Window::new(4, 24);
        (0..24).for_each(|_| wide.ended(Load::Answered));
        let sizes = [(); 4].map(|()| {
            wide.ended(Load::Overloaded);
            wide.size()
        });
        assert_eq!((window.size(), sizes), (10, [16, 8, 4, 4]));
        assert_eq!(
            (Window::new(4, 2).size(), Window::new(4, 0).size(), Window::new(0, 3).size()),
            (2, 1, 1)
        );
    }

    #[test]
    fn a_window_is_open_while_few_are_late_and_closed_while_many_are() {
        for (one_in, wanted) in [(100, 248..=256), (10, 248..=256), (8, 32..=40), (2, 32..=40)] {
            let mut window = Window::new(32, 256);
            (0..256).for_each(|_| window.ended(Load::Answered));
            for nth in 0..20_000 {
                window.ended(if nth % one_in == 0 { Load::Overloaded } else { Load::Answered });
            }
            assert!(wanted.contains(&window.size()), "one in {one_in}: {}", window.size());
        }
    }
}
