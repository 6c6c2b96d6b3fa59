//! Protobuf on the wire: a message as numbered fields, taken apart without being copied.

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("it ends within a field")]
    Truncated,
    #[error("a number is longer than 64 bits")]
    Varint,
    #[error("a field has number {0}")]
    Number(u64),
    #[error("a field has wire type {0}")]
    WireType(u64),
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    /// A varint: whole numbers and flags.
    Number(u64),
    /// A text, bytes, or a message.
    Bytes(&'a [u8]),
    /// Four or eight bytes, which no field that is read has.
    Fixed,
}

/// The fields of a message that are not read yet. What one holds is passed over by its length, not looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

/// The largest number that a field can have.
const MOST: u64 = (1 << 29) - 1;

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field. A function of its own would answer each by memory, and a renewal of a Lease has thirty.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, Broken> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = match key >> 3 {
            // It fits: it is below 2^29.
            number @ 1..=MOST => number as u32,
            number => return Err(Broken::Number(number)),
        };
        let payload = match key & 7 {
            0 => Payload::Number(self.varint()?),
            1 => self.take(8).map(|_| Payload::Fixed)?,
            2 => {
                let length = self.varint()?;
                Payload::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => self.take(4).map(|_| Payload::Fixed)?,
            other => return Err(Broken::WireType(other)),
        };
        Ok(Some((number, payload)))
    }

    /// Nearly all are of one byte, keys of the first fifteen fields, lengths of texts, flags; or of two.
    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Broken> {
        let (value, rest) = match self.rest {
            [byte @ ..0x80, rest @ ..] => (u64::from(*byte), rest),
            [low, high @ ..0x80, rest @ ..] => (u64::from(low & 0x7f) | u64::from(*high) << 7, rest),
            long => long_varint(long)?,
        };
        self.rest = rest;
        Ok(value)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Broken::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// A number, and what comes after it.
#[inline(never)]
fn long_varint(mut bytes: &[u8]) -> Result<(u64, &[u8]), Broken> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Broken::Truncated)?;
        bytes = rest;
        let bits = u64::from(byte & 0x7f);
        // Of the tenth byte only one bit has room.
        if shift == 63 && bits > 1 {
            return Err(Broken::Varint);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok((value, rest));
        }
    }
    Err(Broken::Varint)
}

/// What the first field of this number holds, whatever comes after it; `None` if it does not come before what is broken.
pub(crate) fn first(message: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut fields = Fields::of(message);
    while let Ok(Some((number, payload))) = fields.next() {
        if let (true, Payload::Bytes(bytes)) = (number == wanted, payload) {
            return Some(bytes);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, Payload<'_>)>, Broken> {
        let (mut fields, mut found) = (Fields::of(message), Vec::new());
        while let Some(field) = fields.next()? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn a_message_is_taken_apart() {
        let message = b"\x08\x96\x01\x12\x02ab\x1d1234\x2112345678\x80\x01\x01";
        let wanted = [
            (1, Payload::Number(150)),
            (2, Payload::Bytes(b"ab")),
            (3, Payload::Fixed),
            (4, Payload::Fixed),
            (16, Payload::Number(1)),
        ];
        assert_eq!(all(message).as_deref(), Ok(&wanted[..]));
        for (bytes, number) in [
            (&b"\x08\x7f"[..], 0x7f),
            (b"\x08\x80\x00", 0),
            (b"\x08\x80\x01", 0x80),
            (b"\x08\xff\x7f", 0x3fff),
            (b"\x08\x80\x80\x01", 0x4000),
            (b"\x08\xff\xff\x7f", 0x1f_ffff),
        ] {
            assert_eq!(all(bytes), Ok(vec![(1, Payload::Number(number))]), "{bytes:?}");
        }
        assert_eq!(first(message, 2), Some(&b"ab"[..]));
        assert_eq!(first(message, 1), None, "no bytes");
    }

    #[test]
    fn what_is_no_message_says_why() {
        let minus_one = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(all(minus_one), Ok(vec![(1, Payload::Number(u64::MAX))]));
        let cases: [(&[u8], Broken); 8] = [
            (b"\x0a\x02a", Broken::Truncated),
            (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Broken::Truncated),
            (b"\x08\x80", Broken::Truncated),
            (b"\x0d123", Broken::Truncated),
            (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", Broken::Varint),
            (b"\x02\x00", Broken::Number(0)),
            (b"\x82\x80\x80\x80\x10\x00", Broken::Number(1 << 29)),
            (b"\x0b", Broken::WireType(3)),
        ];
        for (message, wanted) in cases {
            assert_eq!(all(message), Err(wanted), "{message:?}");
        }
        assert_eq!(first(b"\x0a\x01a\x0b", 1), Some(&b"a"[..]), "before what is broken");
    }
}
