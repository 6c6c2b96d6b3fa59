//! The one source of randomness: backoff, jitter, identities, uids and span ids come from here.
//!
//! A source forks by name, so that what one part draws does not depend on how often another part draws.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A seeded source; cloning it gives the same source.
#[derive(Clone, Debug)]
pub struct Seed {
    seed: u64,
    generator: Arc<Mutex<ChaCha8Rng>>,
}

impl Seed {
    /// The source of this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            generator: Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))),
        }
    }

    /// A source that the operating system seeds: what a service uses unless it was given a seed.
    pub fn from_system() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // The standard library keys its hashers from the operating system's generator.
        Self::new(RandomState::new().hash_one(std::process::id()))
    }

    /// The source that belongs to `name`: always the same for the same seed and name.
    pub fn fork(&self, name: &str) -> Self {
        Self::new(fnv1a(self.seed ^ 0x9e37_79b9_7f4a_7c15, name.as_bytes()))
    }

    /// The next number.
    pub fn next_u64(&self) -> u64 {
        self.generator.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// The next number below `bound`, which must not be zero; zero is answered with zero.
    pub fn below(&self, bound: u64) -> u64 {
        // The bias of a modulus over 64 bits is below 2^-32 for every bound used here.
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }

    /// A duration in `[base, base * (1 + fraction))`.
    pub fn jitter(&self, base: Duration, fraction: f64) -> Duration {
        let unit = (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        base.saturating_add(base.mul_f64((unit * fraction).max(0.0)))
    }

    /// A version 4 UUID.
    pub fn uuid(&self) -> String {
        let (high, low) = (self.next_u64(), self.next_u64());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 48) & 0x3fff,
            low & 0xffff_ffff_ffff,
        )
    }
}

fn fnv1a(start: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_name_give_the_same_numbers() {
        let draw = |seed: u64, name: &str| Seed::new(seed).fork(name).uuid();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert_ne!(draw(1, "a"), draw(1, "b"));
        assert_ne!(draw(1, "a"), draw(2, "a"));
    }

    #[test]
    fn jitter_stays_in_its_range() {
        let seed = Seed::new(7);
        for _ in 0..1000 {
            let drawn = seed.jitter(Duration::from_secs(1), 0.5);
            assert!(
                (Duration::from_secs(1)..Duration::from_millis(1500)).contains(&drawn),
                "{drawn:?}"
            );
        }
    }
}
