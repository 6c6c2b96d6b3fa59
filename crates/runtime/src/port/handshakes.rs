//! Handshakes under way: a pool of their own, in which a new one takes the place of an old one.
//!
//! Whoever shakes hands is not known yet, and may never end. If strangers took the places of connections with it, a few of them could
//! close a port. So they wait here, and whoever passes takes a place. There is always room for one more: if there is none, the oldest
//! handshake of the address that has most of them is cut off. One that is in earnest takes milliseconds, and is among the youngest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::Bounds;

/// The handshakes of one port; cloning gives the same ones.
#[derive(Clone, Debug)]
pub(super) struct Handshakes {
    most: usize,
    most_per_address: usize,
    waiting: Arc<Mutex<Waiting>>,
}

/// Oldest first.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    by_number: BTreeMap<u64, (IpAddr, CancellationToken)>,
}

/// One handshake; leaving is dropping it.
#[derive(Debug)]
pub(super) struct Handshake {
    number: u64,
    cut: CancellationToken,
    waiting: Arc<Mutex<Waiting>>,
}

// === impl Handshakes ===

impl Handshakes {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self {
            most: bounds.handshakes,
            most_per_address: bounds.connections_per_address,
            waiting: Arc::default(),
        }
    }

    pub(super) fn begin(&self, address: IpAddr) -> Handshake {
        let address = address.to_canonical();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.count(address) >= self.most_per_address {
            waiting.cut_oldest_of(address);
        } else if waiting.by_number.len() >= self.most
            && let Some(crowd) = waiting.crowd()
        {
            waiting.cut_oldest_of(crowd);
        }
        waiting.last += 1;
        let (number, cut) = (waiting.last, CancellationToken::new());
        waiting.by_number.insert(number, (address, cut.clone()));
        Handshake {
            number,
            cut,
            waiting: Arc::clone(&self.waiting),
        }
    }
}

// === impl Waiting ===

impl Waiting {
    fn count(&self, address: IpAddr) -> usize {
        self.by_number.values().filter(|(of, _)| *of == address).count()
    }

    /// The address that has most.
    fn crowd(&self) -> Option<IpAddr> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (address, _) in self.by_number.values() {
            *counts.entry(*address).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(address, _)| address)
    }

    fn cut_oldest_of(&mut self, address: IpAddr) {
        let oldest = self.by_number.iter().find(|(_, (of, _))| *of == address);
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return;
        };
        if let Some((_, cut)) = self.by_number.remove(&number) {
            cut.cancel();
        }
    }
}

// === impl Handshake ===

impl Handshake {
    /// Resolves when it has to make room.
    pub(super) async fn is_cut(&self) {
        self.cut.cancelled().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_room_and_whoever_has_most_makes_it() {
        let handshakes = Handshakes::new(&Bounds {
            handshakes: 3,
            connections_per_address: 2,
            ..Bounds::BUS
        });
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let is_cut = |handshakes: &[&Handshake]| -> Vec<bool> { handshakes.iter().map(|one| one.cut.is_cancelled()).collect() };
        let first = handshakes.begin(address(1));
        let second = handshakes.begin(address(1));
        let third = handshakes.begin("::ffff:10.0.0.1".parse().expect("an address"));
        assert_eq!(is_cut(&[&first, &second, &third]), [true, false, false], "two of one address");
        let other = handshakes.begin(address(2));
        let last = handshakes.begin(address(3));
        assert_eq!(is_cut(&[&second, &third, &other, &last]), [true, false, false, false]);
        drop((second, third));
        let again = handshakes.begin(address(4));
        assert_eq!(is_cut(&[&other, &last, &again]), [false, false, false], "who left makes room");
        drop((first, other, last, again));
        let waiting = handshakes.waiting.lock().expect("nobody panicked");
        assert!(waiting.by_number.is_empty(), "nobody is remembered who left");
    }
}
