//! Names of new revisions and pods.
//!
//! Upstream's hash is taken over Go's reflective dump of a struct and cannot be made outside Go (DS-156, DS-205). Nothing ever
//! recomputes a hash, so a new revision only needs one that is stable, spread, and made of the same letters: ours is taken over
//! the canonical bytes. The hash of a revision that exists is read from its label, whoever made it.

/// Letters of a hash: no vowels and nothing that looks like one, so that no words appear.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash for a new revision of `data`, told apart from others by `collision_count` (DS-158).
pub(crate) fn of(data: &[u8], collision_count: Option<i32>) -> String {
    let mut sum = fnv1a(0x811c_9dc5, data);
    if let Some(count) = collision_count {
        let mut suffix = [0_u8; 8];
        suffix[..4].copy_from_slice(&count.to_le_bytes());
        sum = fnv1a(sum, &suffix);
    }
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    sum.to_string().bytes().map(letter).collect()
}

/// Letters that the API server adds to `generateName`.
const SUFFIX: usize = 5;

/// What tells pods of one prefix apart, as the API server's own suffixes do: five letters (DS-095). Whoever asks for the same twice gets
/// the same.
pub(crate) fn suffix(seed: &[u8]) -> String {
    let mut sum = seed.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The low bits of FNV follow those of the input; the high ones do not.
    sum ^= sum >> 32;
    let letter = |_| {
        let digit = usize::try_from(sum % 27).expect("less than 27");
        sum /= 27;
        char::from(ALPHABET[digit])
    };
    (0..SUFFIX).map(letter).collect()
}

/// How the built-in admission plugins that run before a name is made of `generateName` begin what they say of a pod they refuse:
/// ServiceAccount, Priority (twice) and RuntimeClass. There `generateName` stands for the name.
const REFUSED_UNNAMED: [&str; 5] = [
    "error looking up service account ",
    "no PriorityClass with name ",
    "the integer value of priority ",
    "the string value of PreemptionPolicy ",
    "pod rejected: RuntimeClass ",
];

/// What the API server would have said of the pod called `name` had it made that name itself (DS-095): the same for every pod of the
/// DaemonSet, so that it is one Event.
pub(crate) fn as_if_generated(message: &str, name: &str) -> String {
    let prefix = name.len().checked_sub(SUFFIX).and_then(|end| name.get(..end));
    let why = message
        .strip_prefix("pods \"")
        .and_then(|rest| rest.strip_prefix(name)?.strip_prefix("\" is forbidden: "));
    match (prefix, why) {
        (Some(prefix), Some(why)) if REFUSED_UNNAMED.iter().any(|start| why.starts_with(start)) => {
            format!("pods \"{prefix}\" is forbidden: {why}")
        }
        _ => message.to_owned(),
    }
}

fn fnv1a(start: u32, bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(start, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DS-156, DS-158, DS-205
    #[test]
    fn a_hash_is_stable_and_a_collision_count_changes_it() {
        let plain = of(b"data", None);
        assert_eq!(plain, of(b"data", None));
        assert_ne!(plain, of(b"datb", None));
        assert_ne!(plain, of(b"data", Some(1)));
        assert_ne!(of(b"data", Some(1)), of(b"data", Some(2)));
        // The empty input gives FNV-1a's offset basis, 2166136261.
        assert_eq!(of(b"", None), "65bb57b6b5");
        assert!(
            plain.len() <= 10 && plain.bytes().all(|byte| ALPHABET.contains(&byte)),
            "{plain}"
        );
    }

    /// DS-095
    #[test]
    fn suffixes_are_five_letters_and_rarely_the_same() {
        let all: std::collections::BTreeSet<String> = (0..10_000_u32).map(|number| suffix(&number.to_le_bytes())).collect();
        // Of 27^5 drawn at random, three or four pairs would be the same.
        assert!(all.len() > 9_980, "{}", all.len());
        assert!(all.iter().all(|text| text.len() == 5));
        assert_eq!(suffix(b"x"), suffix(b"x"));
    }

    /// DS-095, DS-112
    #[test]
    fn what_is_refused_before_it_would_have_a_name_is_told_without_one() {
        let told = |why: &str| as_if_generated(&format!("pods \"ds-x2b4c\" is forbidden: {why}"), "ds-x2b4c");
        for why in [
            "no PriorityClass with name missing was found",
            "error looking up service account default/x: serviceaccount \"x\" not found",
            "pod rejected: RuntimeClass \"x\" not found",
        ] {
            assert_eq!(told(why), format!("pods \"ds-\" is forbidden: {why}"));
        }
        for message in [
            "pods \"ds-x2b4c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
            "pods \"other\" is forbidden: no PriorityClass with name missing was found",
            "pods \"ds-x2b4c",
            "",
        ] {
            assert_eq!(as_if_generated(message, "ds-x2b4c"), message);
        }
        assert_eq!(as_if_generated("pods \"é\" is forbidden: ", "é"), "pods \"é\" is forbidden: ");
    }
}
