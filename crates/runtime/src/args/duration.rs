//! Durations as Go writes them: `500ms`, `15s`, `1m30s`. KCM's flags are written so, and so are the deployments that carry them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const ALLOWED: &str = "allowed is a Go duration such as 500ms, 15s, 1m30s or 24h";

/// Units, their nanoseconds. Both code points for micro are in use, as in Go.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The longest duration that Go can express: an int64 of nanoseconds, about 292 years.
const LONGEST_NANOS: u128 = i64::MAX as u128;

/// A duration that is not negative, read and shown in Go's syntax.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(Duration);

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing, or a number is missing.
    #[error("no number before {0:?}; {ALLOWED}")]
    MissingNumber(String),
    /// A number without a unit.
    #[error("no unit after {0:?}; {ALLOWED}")]
    MissingUnit(String),
    /// A unit that Go does not know.
    #[error("unknown unit {0:?}; {ALLOWED}")]
    UnknownUnit(String),
    /// A sign.
    #[error("must not be negative; {ALLOWED}")]
    Negative,
    /// Longer than Go's longest.
    #[error("longer than 292 years; {ALLOWED}")]
    TooLong,
}

// === impl GoDuration ===

impl GoDuration {
    /// This duration.
    pub const fn new(duration: Duration) -> Self {
        Self(duration)
    }

    /// So many seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The duration.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// Is it no time at all?
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<GoDuration> for Duration {
    fn from(duration: GoDuration) -> Self {
        duration.0
    }
}

impl FromStr for GoDuration {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.starts_with('-') {
            return Err(Error::Negative);
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let mut nanos = 0_u128;
        loop {
            let (part, after) = leading_part(rest)?;
            nanos = nanos.saturating_add(part);
            if nanos > LONGEST_NANOS {
                return Err(Error::TooLong);
            }
            if after.is_empty() {
                let nanos = u64::try_from(nanos).map_err(|_| Error::TooLong)?;
                return Ok(Self(Duration::from_nanos(nanos)));
            }
            rest = after;
        }
    }
}

/// Nanoseconds of the first number and unit of `text`, and what follows them.
fn leading_part(text: &str) -> Result<(u128, &str), Error> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, after) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
    let (unit, rest) = after.split_at(after.find(is_number).unwrap_or(after.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(Error::MissingNumber(text.to_owned()));
    }
    if unit.is_empty() {
        return Err(Error::MissingUnit(number.to_owned()));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(Error::UnknownUnit(unit.to_owned()));
    };
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| Error::TooLong)?
    };
    let nanos = whole.checked_mul(*scale).ok_or(Error::TooLong)?;
    Ok((nanos.saturating_add(fraction_of(*scale, fraction)), rest))
}

/// The part of `scale` that these decimal places are.
fn fraction_of(scale: u128, digits: &str) -> u128 {
    // An hour has 3.6e12 nanoseconds: places after the fifteenth are below one of them.
    let (mut nanos, mut unit) = (0, scale * 1_000);
    for digit in digits.bytes().take(15) {
        unit /= 10;
        nanos += u128::from(digit - b'0') * unit;
    }
    nanos / 1_000
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => decimal(f, nanos, 3, "µs"),
            1_000_000..1_000_000_000 => decimal(f, nanos, 6, "ms"),
            _ => {
                let minutes = self.0.as_secs() / 60;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                decimal(f, nanos % 60_000_000_000, 9, "s")
            }
        }
    }
}

/// Writes `nanos / 10^places` without trailing zeros.
fn decimal(f: &mut fmt::Formatter<'_>, nanos: u128, places: u32, unit: &str) -> fmt::Result {
    let scale = 10_u128.pow(places);
    write!(f, "{}", nanos / scale)?;
    let fraction = format!("{:0width$}", nanos % scale, width = places as usize);
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        write!(f, ".{fraction}")?;
    }
    f.write_str(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read_and_shown_as_go_does() {
        for (text, nanos, shown) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("5s", 5_000_000_000, "5s"),
            ("+5s", 5_000_000_000, "5s"),
            ("1m30s", 90_000_000_000, "1m30s"),
            ("5m", 300_000_000_000, "5m0s"),
            ("24h", 86_400_000_000_000, "24h0m0s"),
            ("1h15m30.918s", 4_530_918_000_000, "1h15m30.918s"),
            ("500ms", 500_000_000, "500ms"),
            ("1.5s", 1_500_000_000, "1.5s"),
            (".5s", 500_000_000, "500ms"),
            ("5.s", 5_000_000_000, "5s"),
            ("1.5h", 5_400_000_000_000, "1h30m0s"),
            ("0.3333333333333333333h", 1_200_000_000_000 - 1, "19m59.999999999s"),
            ("100us", 100_000, "100µs"),
            ("1.5µs", 1_500, "1.5µs"),
            ("7μs", 7_000, "7µs"),
            ("7ns", 7, "7ns"),
            ("9223372036854775807ns", 9_223_372_036_854_775_807, "2562047h47m16.854775807s"),
        ] {
            let parsed: GoDuration = text.parse().expect(text);
            assert_eq!(parsed.get(), Duration::from_nanos(nanos), "{text}");
            assert_eq!(parsed.to_string(), shown, "{text}");
            assert_eq!(shown.parse(), Ok(parsed), "{shown}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_what_is_allowed() {
        for (text, error) in [
            ("", Error::MissingNumber(String::new())),
            ("s", Error::MissingNumber("s".into())),
            (".", Error::MissingNumber(".".into())),
            (".s", Error::MissingNumber(".s".into())),
            ("1.2.3s", Error::MissingNumber("1.2.3s".into())),
            ("5", Error::MissingUnit("5".into())),
            ("1m30", Error::MissingUnit("30".into())),
            ("5 s", Error::UnknownUnit(" s".into())),
            ("5d", Error::UnknownUnit("d".into())),
            ("-5s", Error::Negative),
            ("9223372036854775808ns", Error::TooLong),
            ("99999999999999999999999999999999999999999h", Error::TooLong),
        ] {
            let refused = text.parse::<GoDuration>().expect_err(text);
            assert_eq!(refused, error, "{text}");
            assert!(refused.to_string().contains("1m30s"), "{refused}");
        }
    }
}
