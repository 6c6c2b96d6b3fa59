//! What is drawn from a seed.

/// A small generator: what it draws depends on the seed alone.
pub(super) struct Dice(pub(super) u64);

// === impl Dice ===

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64: https://prng.di.unimi.it/splitmix64.c
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub(super) fn below(&mut self, length: usize) -> usize {
        self.roll(length.max(1) as u64) as usize
    }

    pub(super) fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }
}
