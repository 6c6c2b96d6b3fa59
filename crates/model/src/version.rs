//! Versions of Kubernetes objects.

use std::fmt;
use std::sync::Arc;

/// `metadata.resourceVersion`: sent back as a precondition, and compared with another one of the same kind of object.
///
/// It is a number in every cluster that keeps to Kubernetes' promise of comparable versions (KEP-5504), and then costs no memory of its
/// own. Any other text is kept as it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVersion(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    Number(u64),
    Text(Arc<str>),
}

impl ResourceVersion {
    /// Its number, if it is one.
    pub fn number(&self) -> Option<u64> {
        match &self.0 {
            Form::Number(number) => Some(*number),
            Form::Text(_) => None,
        }
    }

    /// True if it is surely of an earlier state than the other one: nothing is known of texts that are no numbers.
    pub fn is_older_than(&self, other: &Self) -> bool {
        let numbers = self.number().zip(other.number());
        numbers.is_some_and(|(own, other)| own < other)
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Text(text) if text.is_empty())
    }
}

impl Default for ResourceVersion {
    fn default() -> Self {
        Self::from("")
    }
}

impl From<u64> for ResourceVersion {
    fn from(number: u64) -> Self {
        Self(Form::Number(number))
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        // What is sent back has to be the same text: `+1` and `01` are none that a number is written as.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        match text.parse() {
            Ok(number) if is_number => Self(Form::Number(number)),
            _ => Self(Form::Text(Arc::from(text))),
        }
    }
}

impl From<String> for ResourceVersion {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Number(number) => fmt::Display::fmt(number, f),
            Form::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_stays_the_same() {
        for text in [
            "",
            "0",
            "7",
            "18446744073709551615",
            "18446744073709551616",
            "007",
            "+7",
            "-7",
            "7a",
            "a",
            " 7",
        ] {
            let version = ResourceVersion::from(text);
            assert_eq!((version.to_string().as_str(), version.is_empty()), (text, text.is_empty()));
            assert_eq!(format!("{version:?}"), format!("{text:?}"));
        }
    }

    #[test]
    fn only_numbers_are_older_or_newer() {
        let cases = [
            ("9", "10", true),
            ("10", "9", false),
            ("9", "9", false),
            ("", "9", false),
            ("9", "", false),
            ("a", "b", false),
            ("9", "b", false),
            ("09", "10", false),
        ];
        for (one, other, expected) in cases {
            let is_older = ResourceVersion::from(one).is_older_than(&ResourceVersion::from(other));
            assert_eq!(is_older, expected, "{one:?} and {other:?}");
        }
    }

    #[test]
    fn it_is_two_words_long() {
        assert_eq!(size_of::<ResourceVersion>(), 2 * size_of::<usize>());
    }
}
