//! Numbers that look random and depend on nothing but a salt and a name: phases and identities.
//!
//! A state machine draws no random numbers; with these, what one node gets does not depend on which other nodes there are.

/// A number for `name`, different for each `purpose`.
pub fn number(salt: u64, purpose: &str, name: &str) -> u64 {
    let bytes = purpose.bytes().chain([0]).chain(name.bytes());
    let hash = bytes.fold(salt ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(hash)
}

/// A number in `(0, 1]`.
pub fn fraction(salt: u64, purpose: &str, name: &str) -> f64 {
    ((number(salt, purpose, name) >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// A version 4 UUID.
pub fn uuid(salt: u64, purpose: &str, name: &str) -> String {
    let high = number(salt, purpose, name);
    let low = mix(high);
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48) & 0x3fff,
        low & 0xffff_ffff_ffff,
    )
}

/// The finaliser of SplitMix64: names that differ in one letter must not get neighbouring phases.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
