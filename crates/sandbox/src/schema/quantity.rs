//! Amounts such as `100m`, `1.5` or `64Gi`: reading them, and the one form they are written in.

/// A unit of a quantity: decimal or binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

const NANO: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Reads an amount and writes it in its one form; nothing if it is none.
pub fn normal(text: &str) -> Option<String> {
    let (nanos, format) = parse(text.trim())?;
    Some(match format {
        Format::Binary if nanos % NANO == 0 && (nanos / NANO).abs() >= 1024 => binary(nanos / NANO),
        Format::Exponent => exponent(nanos),
        Format::Binary | Format::Decimal => decimal(nanos),
    })
}

/// The amount in thousandths, rounded up.
pub fn millis(text: &str) -> Option<i128> {
    let (nanos, _) = parse(text.trim())?;
    Some(-((-nanos).div_euclid(1_000_000)))
}

fn parse(text: &str) -> Option<(i128, Format)> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 20 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole * NANO;
    let mut unit = NANO;
    for digit in fraction.bytes().take(9) {
        unit /= 10;
        nanos += i128::from(digit - b'0') * unit;
    }
    let (nanos, format) = scale(nanos, suffix)?;
    Some((if negative { -nanos } else { nanos }, format))
}

fn scale(nanos: i128, suffix: &str) -> Option<(i128, Format)> {
    if let Some(power) = BINARY.iter().skip(1).position(|&one| one == suffix) {
        let factor = 1024_i128.checked_pow(u32::try_from(power).ok()? + 1)?;
        return Some((nanos.checked_mul(factor)?, Format::Binary));
    }
    if let Some(&(_, power)) = DECIMAL.iter().find(|(one, _)| *one == suffix) {
        return Some((shift(nanos, power)?, Format::Decimal));
    }
    let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((shift(nanos, power)?, Format::Exponent))
}

fn shift(nanos: i128, power: i32) -> Option<i128> {
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    if power >= 0 {
        nanos.checked_mul(factor)
    } else {
        // Rounded away from zero, as amounts below a nano are.
        let quotient = nanos / factor;
        Some(if nanos % factor == 0 {
            quotient
        } else {
            quotient + nanos.signum()
        })
    }
}

fn binary(whole: i128) -> String {
    let mut value = whole;
    let mut unit = 0;
    while value % 1024 == 0 && value != 0 && unit + 1 < BINARY.len() {
        value /= 1024;
        unit += 1;
    }
    format!("{value}{}", BINARY.get(unit).copied().unwrap_or_default())
}

fn decimal(nanos: i128) -> String {
    let (value, power) = reduce(nanos);
    let suffix = DECIMAL.iter().find(|(_, one)| *one == power).map_or("", |(suffix, _)| suffix);
    format!("{value}{suffix}")
}

fn exponent(nanos: i128) -> String {
    match reduce(nanos) {
        (value, 0) => value.to_string(),
        (value, power) => format!("{value}e{power}"),
    }
}

fn reduce(nanos: i128) -> (i128, i32) {
    let (mut value, mut power) = (nanos, -9);
    while value != 0 && value % 1000 == 0 && power < 18 {
        value /= 1000;
        power += 3;
    }
    if value == 0 { (0, 0) } else { (value, power) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_in_one_form() {
        for (text, expected) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("64Gi", "64Gi"),
            ("0", "0"),
            ("100", "100"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("-2000m", "-2"),
            ("0.1Ki", "102400m"),
            ("1.5Gi", "1536Mi"),
        ] {
            assert_eq!(normal(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in ["", "x", "1x", "1.2.3", "Gi", ".", "1 Gi", "1e99999"] {
            assert_eq!(normal(text), None, "{text}");
        }
    }
}
