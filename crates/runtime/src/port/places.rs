//! Who may be connected at the same time: so many in total, so many strangers among them, and so many from one address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::Bounds;
use super::metrics::Refusal;

/// The places of one port; cloning gives the same ones.
#[derive(Clone, Debug)]
pub(super) struct Places {
    most: usize,
    most_strangers: usize,
    most_per_address: usize,
    taken: Arc<Mutex<Taken>>,
}

/// Addresses without a connection are not in it, so it is as large as the port's bound allows.
#[derive(Debug, Default)]
struct Taken {
    total: usize,
    strangers: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// One place; leaving it is dropping it.
#[derive(Debug)]
pub(super) struct Place {
    address: IpAddr,
    is_stranger: bool,
    taken: Arc<Mutex<Taken>>,
}

// === impl Places ===

impl Places {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self {
            most: bounds.connections,
            most_strangers: bounds.strangers,
            most_per_address: bounds.connections_per_address,
            taken: Arc::default(),
        }
    }

    pub(super) fn take(&self, address: IpAddr, is_stranger: bool) -> Result<Place, Refusal> {
        let address = address.to_canonical();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.total >= self.most || is_stranger && taken.strangers >= self.most_strangers {
            return Err(Refusal::Full);
        }
        let of_address = taken.by_address.entry(address).or_default();
        // It may be 0 only if nothing is allowed at all.
        if *of_address >= self.most_per_address {
            return Err(Refusal::FullForAddress);
        }
        *of_address += 1;
        taken.total += 1;
        taken.strangers += usize::from(is_stranger);
        Ok(Place {
            address,
            is_stranger,
            taken: Arc::clone(&self.taken),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.total = taken.total.saturating_sub(1);
        taken.strangers = taken.strangers.saturating_sub(usize::from(self.is_stranger));
        if let Some(of_address) = taken.by_address.get_mut(&self.address) {
            *of_address = of_address.saturating_sub(1);
            if *of_address == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_can_take_every_place_and_places_come_back() {
        let places = Places::new(&Bounds {
            connections: 3,
            connections_per_address: 2,
            ..Bounds::BUS
        });
        let (one, other): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let first = places.take(one, false).expect("a place");
        let _second = places.take(one, false).expect("a place");
        assert_eq!(places.take(one, false).expect_err("two are taken"), Refusal::FullForAddress);
        let mapped = "::ffff:10.0.0.1".parse().expect("an address");
        assert_eq!(
            places.take(mapped, false).expect_err("the same address"),
            Refusal::FullForAddress
        );
        let third = places.take(other, false).expect("a place for others");
        assert_eq!(places.take(other, false).expect_err("all are taken"), Refusal::Full);
        drop(first);
        let _again = places.take(one, false).expect("its place came back");
        drop(third);
        let taken = places.taken.lock().expect("nobody panicked");
        assert_eq!((taken.total, taken.by_address.len()), (2, 1), "nobody is remembered who left");
    }

    #[test]
    fn strangers_leave_places_for_whoever_is_known() {
        let places = Places::new(&Bounds {
            connections: 3,
            strangers: 2,
            connections_per_address: 3,
            ..Bounds::ADMIN
        });
        let address = IpAddr::from([10, 0, 0, 1]);
        let first = places.take(address, true).expect("a place");
        let _second = places.take(address, true).expect("a place");
        assert_eq!(places.take(address, true).expect_err("two are taken"), Refusal::Full);
        let known = places.take(address, false).expect("a place");
        assert_eq!(places.take(address, false).expect_err("all are taken"), Refusal::Full);
        drop((first, known));
        assert!(places.take(address, true).is_ok());
    }
}
