//! What names, label keys and label values may look like.

/// What a malformed qualified name is told.
pub const QUALIFIED_NAME_COMPLAINT: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
/// What a malformed label value is told.
pub const LABEL_VALUE_COMPLAINT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
/// What a malformed subdomain is told.
pub const SUBDOMAIN_COMPLAINT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
/// What a malformed label (in the sense of DNS) is told.
const DNS_LABEL_COMPLAINT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
    must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

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

/// A DNS subdomain of up to 253 characters.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_of_any_length)
}

/// What is wrong with a text that is no DNS label.
pub fn dns_label_complaint(text: &str) -> &'static str {
    if is_subdomain(text) {
        "must not contain dots"
    } else {
        DNS_LABEL_COMPLAINT
    }
}

/// A DNS label of up to 63 characters.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

fn is_label_of_any_length(text: &str) -> bool {
    let lower = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bounded(text, lower, |byte| lower(byte) || *byte == b'-')
}

fn is_name_part(text: &str) -> bool {
    text.len() <= 63
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
        assert!(is_qualified_name("kubernetes.io/hostname"));
        assert!(is_qualified_name("My_Name.1"));
        assert!(!is_qualified_name("a/b/c"));
        assert!(!is_qualified_name("/b"));
        assert!(!is_qualified_name("-x"));
        assert!(is_label_value(""));
        assert!(!is_label_value("no spaces"));
        assert!(is_subdomain("a-1.b"));
        assert!(!is_subdomain("a..b"));
        assert!(!is_subdomain("Bad_Name"));
        assert!(!is_dns_label("a.b"));
    }
}
