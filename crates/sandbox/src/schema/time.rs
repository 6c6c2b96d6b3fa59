//! Times as the API reads and writes them: RFC 3339 in UTC, whole seconds or exactly six digits of fraction.

use bailiff_model::Wall;

/// Seconds only, as `metav1.Time` is written.
pub fn seconds(at: Wall) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Six digits of fraction, as `metav1.MicroTime` is written.
pub fn micros(at: Wall) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Reads a time and writes it in its one form.
///
/// # Errors
/// What is wrong with it, in the words of Go's parser.
pub fn normal(text: &str) -> Result<String, String> {
    let layout = "2006-01-02T15:04:05Z07:00";
    parse(text, layout).map(seconds)
}

/// The same for a time with a fraction, which must have exactly six digits.
///
/// # Errors
/// What is wrong with it, in the words of Go's parser.
pub fn normal_micro(text: &str) -> Result<String, String> {
    let layout = "2006-01-02T15:04:05.000000Z07:00";
    let at = parse(text, layout)?;
    let fraction = text.get(19..).unwrap_or_default();
    let digits = fraction
        .strip_prefix('.')
        .map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    if digits < 6 {
        return Err(complaint(text, layout, fraction, ".000000"));
    }
    if digits > 6 {
        return Err(complaint(text, layout, fraction.get(7..).unwrap_or_default(), "Z07:00"));
    }
    Ok(micros(at))
}

/// Whether a time is in its one form for sure.
pub fn is_normal(text: &str) -> bool {
    has_form(text, "0000-00-00T00:00:00Z")
}

/// The same for a time with a fraction.
pub fn is_normal_micro(text: &str) -> bool {
    has_form(text, "0000-00-00T00:00:00.000000Z")
}

/// Whether a time has this form and is one that every calendar has.
fn has_form(text: &str, form: &str) -> bool {
    let bytes = text.as_bytes();
    let number = |from: usize| {
        bytes
            .get(from..from + 2)
            .map_or(u8::MAX, |pair| (pair[0] & 15) * 10 + (pair[1] & 15))
    };
    let is_alike = |(one, wanted): (&u8, &u8)| {
        if *wanted == b'0' {
            one.is_ascii_digit()
        } else {
            one == wanted
        }
    };
    bytes.len() == form.len()
        && bytes.iter().zip(form.as_bytes()).all(is_alike)
        && (1..=12).contains(&number(5))
        && (1..=28).contains(&number(8))
        && number(11) < 24
        && number(14) < 60
        && number(17) < 60
}

fn parse(text: &str, layout: &str) -> Result<Wall, String> {
    // Go wants a capital T and Z and two digits everywhere; jiff is more generous.
    let strict = text.len() >= 20 && text.as_bytes().get(10) == Some(&b'T') && text.as_bytes().get(4) == Some(&b'-');
    if !strict {
        return Err(complaint(text, layout, text, "2006"));
    }
    text.parse::<Wall>().map_err(|_| complaint(text, layout, text, "2006"))
}

fn complaint(text: &str, layout: &str, rest: &str, expected: &str) -> String {
    format!("parsing time \"{text}\" as \"{layout}\": cannot parse \"{rest}\" as \"{expected}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_one_form() {
        assert_eq!(normal("2024-03-01T12:00:20+02:00").as_deref(), Ok("2024-03-01T10:00:20Z"));
        assert_eq!(normal("2024-03-01T12:00:20.9Z").as_deref(), Ok("2024-03-01T12:00:20Z"));
        assert_eq!(
            normal_micro("2024-03-01T12:00:20.000001+02:00").as_deref(),
            Ok("2024-03-01T10:00:20.000001Z")
        );
    }

    #[test]
    fn what_needs_no_parsing_stays_as_it_is() {
        for text in ["2024-03-01T10:00:20Z", "0001-12-28T23:59:59Z"] {
            assert!(is_normal(text), "{text}");
            assert_eq!(normal(text).as_deref(), Ok(text));
        }
        let text = "2024-03-01T10:00:20.000001Z";
        assert!(is_normal_micro(text));
        assert_eq!(normal_micro(text).as_deref(), Ok(text));
        for text in [
            "2024-02-29T10:00:20Z",
            "2024-13-01T10:00:20Z",
            "2024-00-01T10:00:20Z",
            "2024-03-01T24:00:20Z",
            "2024-03-01T10:00:60Z",
            "2024-03-01t10:00:20Z",
            "2024-03-01T10:00:2:Z",
            "2024-03-01T10:00:20.000001Z",
        ] {
            assert!(!is_normal(text), "{text}");
        }
    }

    #[test]
    fn a_fraction_has_six_digits() {
        for text in [
            "2024-03-01T10:00:20Z",
            "2024-03-01T10:00:20.5Z",
            "2024-03-01T10:00:20.123456789Z",
            "yesterday",
        ] {
            assert!(normal_micro(text).is_err(), "{text}");
        }
    }
}
