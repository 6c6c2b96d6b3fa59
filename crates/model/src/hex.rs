//! Bytes as two lower case hex digits each: of uids and of trace contexts, where no other form is allowed.

/// What each digit stands for; [`NONE`]: it is none.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < 16 {
        values[DIGITS[value as usize] as usize] = value;
        value += 1;
    }
    values
};

const NONE: u8 = 0xff;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The two digits of a byte.
pub(crate) const fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[(byte >> 4) as usize], DIGITS[(byte & 0xf) as usize]]
}

/// The byte of two digits, if both are.
pub(crate) const fn byte(digits: [u8; 2]) -> Option<u8> {
    let (high, low) = (VALUES[digits[0] as usize], VALUES[digits[1] as usize]);
    if high == NONE || low == NONE {
        return None;
    }
    Some(high << 4 | low)
}

/// The bytes of `N` times two digits, if all of the text is.
pub(crate) fn bytes<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    let pairs: &[[u8; 2]; N] = pairs.try_into().ok()?;
    let mut bytes = [0; N];
    for (place, pair) in bytes.iter_mut().zip(pairs) {
        *place = byte(*pair)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_digits_and_nothing_else_has_a_byte() {
        for value in 0..=u8::MAX {
            let text = format!("{value:02x}");
            assert_eq!(digits(value), text.as_bytes());
            assert_eq!(bytes(text.as_bytes()), Some([value]));
            for other in 0..=u8::MAX {
                let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
                assert_eq!(byte([value, other]).is_some(), is_digit(value) && is_digit(other));
            }
        }
    }

    #[test]
    fn a_text_of_another_length_has_no_bytes() {
        for text in ["", "0", "000", "0000"] {
            assert_eq!(bytes::<1>(text.as_bytes()), None, "{text}");
        }
    }
}
