//! What names, label keys and label values may look like: the API's rules.

/// Longest DNS label, name of a label, and label value.
const LONGEST_PART: usize = 63;

/// Longest DNS subdomain.
const LONGEST_SUBDOMAIN: usize = 253;

/// `example.org/name`: a prefix that is a DNS subdomain, and a name of up to 63 characters.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name_part(name),
        None => is_name_part(text),
    }
}

/// Up to 63 characters, or nothing.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

/// A DNS subdomain (RFC 1123) of up to 253 characters, as most names of objects are.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_label_of_any_length)
}

/// A DNS label of up to 63 characters.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LONGEST_PART && is_label_of_any_length(text)
}

fn is_label_of_any_length(text: &str) -> bool {
    let lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bounded(text, lower, |byte| lower(byte) || *byte == b'-')
}

fn is_name_part(text: &str) -> bool {
    text.len() <= LONGEST_PART
        && bounded(text, u8::is_ascii_alphanumeric, |byte| {
            byte.is_ascii_alphanumeric() || b"-_.".contains(byte)
        })
}

fn bounded(text: &str, edge: impl Fn(&u8) -> bool, inner: impl Fn(&u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(&edge) && bytes.last().is_some_and(&edge) && bytes.iter().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_their_rules() {
        let (part, domain) = ("a".repeat(63), format!("{0}.{0}", "a".repeat(126)));
        let long_part = format!("{part}a");
        type Rule = fn(&str) -> bool;
        let cases: [(&str, Rule, &[&str], &[&str]); 4] = [
            (
                "qualified name",
                is_qualified_name,
                &["kubernetes.io/hostname", "My_Name.1", &part],
                &["", "a/b/c", "/b", "b/", "-x", "x-", "A/b", &long_part],
            ),
            (
                "label value",
                is_label_value,
                &["", "My_Value.1", &part],
                &["no spaces", "-x", "x_", &long_part],
            ),
            (
                "subdomain",
                is_subdomain,
                &["a-1.b", "1", &long_part, &domain],
                &["", "a..b", "a.", ".a", "-a", "a.b-", "Bad_Name", &format!("{domain}a")],
            ),
            (
                "DNS label",
                is_dns_label,
                &["a-1", &part],
                &["", "a.b", "-a", "a-", "A", &long_part],
            ),
        ];
        for (what, rule, good, bad) in cases {
            for text in good {
                assert!(rule(text), "{text:?} is a {what}");
            }
            for text in bad {
                assert!(!rule(text), "{text:?} is no {what}");
            }
        }
    }
}
