//! What is said of malformed names, label keys and label values. How they may look is the API's rule, which others go by too.

pub use bailiff_model::names::{is_dns_label, is_label_value, is_qualified_name, is_subdomain};

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

/// What is wrong with a text that is no DNS label.
pub fn dns_label_complaint(text: &str) -> &'static str {
    if is_subdomain(text) {
        "must not contain dots"
    } else {
        DNS_LABEL_COMPLAINT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_what_is_wrong() {
        assert_eq!(dns_label_complaint("a.b"), "must not contain dots");
        assert_eq!(dns_label_complaint("A"), DNS_LABEL_COMPLAINT);
    }
}
