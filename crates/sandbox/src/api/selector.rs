//! Label and field selectors.

use std::fmt;

use serde_json::json;

use crate::Status;
use crate::status::Cause;
use crate::store::Object;

/// Which objects are meant: all whose labels and fields fulfil every requirement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    field: String,
    value: String,
    equal: bool,
}

// === impl Selector ===

impl Selector {
    /// Parses both selectors of a request. `known` are the fields that the resource can select by, beside name and namespace.
    ///
    /// # Errors
    /// 400 for what cannot be parsed or is not selectable.
    pub fn parse(labels: &str, fields: &str, known: &dyn Fn(&str) -> bool) -> Result<Self, Status> {
        Ok(Self {
            labels: parse_labels(labels)?,
            fields: parse_fields(fields, known)?,
        })
    }

    /// A selector from an object's `matchLabels` and `matchExpressions`. Absent parts select everything.
    pub fn of_object(selector: &serde_json::Value) -> Self {
        let mut labels = Vec::new();
        if let Some(exact) = selector.get("matchLabels").and_then(|value| value.as_object()) {
            for (key, value) in exact {
                labels.push(Requirement {
                    key: key.clone(),
                    test: Test::In(vec![value.as_str().unwrap_or_default().to_owned()]),
                });
            }
        }
        let expressions = selector.get("matchExpressions").and_then(|value| value.as_array());
        for expression in expressions.into_iter().flatten() {
            let values = || {
                let values = expression.get("values").and_then(|value| value.as_array());
                values
                    .into_iter()
                    .flatten()
                    .filter_map(|value| value.as_str().map(str::to_owned))
                    .collect()
            };
            let test = match expression.get("operator").and_then(|value| value.as_str()) {
                Some("In") => Test::In(values()),
                Some("NotIn") => Test::NotIn(values()),
                Some("Exists") => Test::Exists,
                _ => Test::Absent,
            };
            let key = expression.get("key").and_then(|value| value.as_str()).unwrap_or_default();
            labels.push(Requirement {
                key: key.to_owned(),
                test,
            });
        }
        Self {
            labels,
            fields: Vec::new(),
        }
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is meant.
    pub fn matches(&self, object: &Object) -> bool {
        self.matches_labels(&|key| object.label(key)) && self.fields.iter().all(|one| one.matches(object))
    }

    /// Whether labels are meant.
    pub fn matches_labels<'a>(&self, label: &dyn Fn(&str) -> Option<&'a str>) -> bool {
        self.labels.iter().all(|one| one.test.holds(label(&one.key)))
    }

    /// The same for the object of one name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.fields.push(FieldRequirement {
            field: "metadata.name".to_owned(),
            value: name.to_owned(),
            equal: true,
        });
        self
    }

    /// The one name that is meant, if the selector says so.
    pub fn only_name(&self) -> Option<&str> {
        self.only("metadata.name")
    }

    /// The one value of a field that is meant, if the selector says so.
    pub fn only(&self, field: &str) -> Option<&str> {
        let named = self.fields.iter().find(|one| one.field == field && one.equal)?;
        Some(&named.value)
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
            Self::NotIn(values) => !value.is_some_and(|value| values.iter().any(|one| one == value)),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::Greater(bound) => number().is_some_and(|number| number > *bound),
            Self::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl FieldRequirement {
    fn matches(&self, object: &Object) -> bool {
        let value = match self.field.as_str() {
            "metadata.name" => object.name(),
            "metadata.namespace" => object.namespace(),
            field => object.field(field).unwrap_or_default(),
        };
        (value == self.value) == self.equal
    }
}

// === label selectors ===

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
        })
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, Status> {
    let tokens = tokens(text);
    let mut rest = tokens.as_slice();
    let mut requirements = Vec::new();
    if rest.is_empty() {
        return Ok(requirements);
    }
    if !may_begin(rest) {
        return Err(unexpected(rest, "!, identifier, or 'end of string'"));
    }
    loop {
        let (requirement, after) =
            requirement(rest).map_err(|why| Status::bad_request(format!("unable to parse requirement: {why}")))?;
        requirements.push(requirement);
        rest = match after {
            [] => return Ok(requirements),
            [Token::Symbol(","), after @ ..] if may_begin(after) => after,
            [Token::Symbol(","), after @ ..] => return Err(unexpected(after, "identifier after ','")),
            _ => return Err(unexpected(after, "',' or 'end of string'")),
        };
    }
}

/// Whether a requirement may begin like this.
fn may_begin(tokens: &[Token]) -> bool {
    matches!(tokens, [Token::Word(_) | Token::Symbol("!"), ..])
}

fn unexpected(tokens: &[Token], wanted: &str) -> Status {
    Status::bad_request(format!("found '{}', expected: {wanted}", first(tokens)))
}

/// The first token as it was written, nothing at the end.
fn first(tokens: &[Token]) -> String {
    tokens.first().map(Token::to_string).unwrap_or_default()
}

fn tokens(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.iter().find(|&&symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = rest[symbol.len()..].trim_start();
        } else {
            let end = rest
                .find(|c: char| c.is_whitespace() || "=!(),><".contains(c))
                .unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = rest[end..].trim_start();
        }
    }
    tokens
}

fn requirement(tokens: &[Token]) -> Result<(Requirement, &[Token]), String> {
    let made = |key: &str, test: Test, rest| {
        check_key(key)?;
        let key = key.to_owned();
        Ok((Requirement { key, test }, rest))
    };
    match tokens {
        [Token::Symbol("!"), Token::Word(key), rest @ ..] => made(key, Test::Absent, rest),
        [Token::Word(key), Token::Word(operator), rest @ ..] if operator == "in" || operator == "notin" => {
            let (values, rest) = values(rest)?;
            let test = if operator == "in" {
                Test::In(values)
            } else {
                Test::NotIn(values)
            };
            made(key, test, rest)
        }
        [Token::Word(key), Token::Symbol(operator @ ("=" | "==" | "!=")), rest @ ..] => {
            let (value, rest) = match rest {
                [Token::Word(value), rest @ ..] => (value.clone(), rest),
                rest => (String::new(), rest),
            };
            check_value(&value)?;
            let values = vec![value];
            let test = if *operator == "!=" {
                Test::NotIn(values)
            } else {
                Test::In(values)
            };
            made(key, test, rest)
        }
        [
            Token::Word(key),
            Token::Symbol(operator @ (">" | "<")),
            Token::Word(value),
            rest @ ..,
        ] => {
            let bound = value.parse().map_err(|_| {
                format!("values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer")
            })?;
            let test = if *operator == ">" {
                Test::Greater(bound)
            } else {
                Test::Less(bound)
            };
            made(key, test, rest)
        }
        [Token::Word(key), rest @ ..] => made(key, Test::Exists, rest),
        [_, rest @ ..] => Err(format!("found '{}', expected: identifier", first(rest))),
        [] => Err("found '', expected: identifier".to_owned()),
    }
}

fn values(tokens: &[Token]) -> Result<(Vec<String>, &[Token]), String> {
    let Some((Token::Symbol("("), mut rest)) = tokens.split_first() else {
        return Err(format!("found '{}' expected: '('", first(tokens)));
    };
    let mut values = Vec::new();
    loop {
        match rest.split_first() {
            Some((Token::Word(value), after)) => {
                check_value(value)?;
                values.push(value.clone());
                rest = after;
            }
            _ => values.push(String::new()),
        }
        match rest.split_first() {
            Some((Token::Symbol(","), after)) => rest = after,
            Some((Token::Symbol(")"), after)) => return Ok((values, after)),
            _ => return Err(format!("found '{}', expected: ',', or ')'", first(rest))),
        }
    }
}

fn check_key(key: &str) -> Result<(), String> {
    if super::names::is_qualified_name(key) {
        return Ok(());
    }
    Err(format!(
        "<nil>: Invalid value: \"{key}\": {}",
        super::names::QUALIFIED_NAME_COMPLAINT
    ))
}

fn check_value(value: &str) -> Result<(), String> {
    if super::names::is_label_value(value) {
        return Ok(());
    }
    Err(format!(
        "values[0]: Invalid value: \"{value}\": {}",
        super::names::LABEL_VALUE_COMPLAINT
    ))
}

// === field selectors ===

fn parse_fields(text: &str, known: &dyn Fn(&str) -> bool) -> Result<Vec<FieldRequirement>, Status> {
    let mut requirements = Vec::new();
    let mut terms = split_terms(text);
    // Of several that are wrong, the first in this order is told.
    terms.sort();
    for term in terms {
        let (field, operator, value) = split_term(&term)
            .ok_or_else(|| Status::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'")))?;
        if !known(field) {
            return Err(Status::bad_request(format!("field label not supported: {field}")));
        }
        requirements.push(FieldRequirement {
            field: field.to_owned(),
            value: unescape(value).ok_or_else(|| Status::bad_request(format!("invalid field selector: {value}")))?,
            equal: operator != "!=",
        });
    }
    Ok(requirements)
}

/// Splits at commas that no backslash escapes.
fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
        } else if let Some(term) = terms.last_mut() {
            term.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    terms.retain(|term| !term.is_empty());
    terms
}

fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    for (index, _) in term.char_indices() {
        for operator in ["!=", "==", "="] {
            if let Some(value) = term[index..].strip_prefix(operator) {
                return Some((&term[..index], operator, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Option<String> {
    let mut result = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next()? {
                c @ ('\\' | ',' | '=') => result.push(c),
                _ => return None,
            },
            ',' | '=' => return None,
            c => result.push(c),
        }
    }
    Some(result)
}

/// What validation says about a malformed label selector inside an object.
pub fn check_object(selector: &serde_json::Value, path: &str, causes: &mut Vec<Cause>) {
    let expressions = selector.get("matchExpressions").and_then(|value| value.as_array());
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        let at = format!("{path}.matchExpressions[{index}]");
        let values = expression
            .get("values")
            .and_then(|value| value.as_array())
            .map_or(0, Vec::len);
        match expression
            .get("operator")
            .and_then(|value| value.as_str())
            .unwrap_or_default()
        {
            "In" | "NotIn" if values == 0 => causes.push(Cause::required(
                format!("{at}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if values > 0 => causes.push(Cause::forbidden(
                format!("{at}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => causes.push(Cause::invalid(
                format!("{at}.operator"),
                &json!(other),
                "not a valid selector operator",
            )),
        }
    }
    let exact = selector.get("matchLabels").and_then(|value| value.as_object());
    for (key, value) in exact.into_iter().flatten() {
        if !super::names::is_qualified_name(key) {
            causes.push(Cause::invalid(
                format!("{path}.matchLabels"),
                &json!(key),
                super::names::QUALIFIED_NAME_COMPLAINT,
            ));
        }
        if !super::names::is_label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(
                format!("{path}.matchLabels"),
                value,
                super::names::LABEL_VALUE_COMPLAINT,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(selector: &str, labels: &[(&str, &str)]) -> Option<bool> {
        let parsed = Selector::parse(selector, "", &|_| true).ok()?;
        let find = |key: &str| labels.iter().find(|(one, _)| *one == key).map(|(_, value)| *value);
        Some(parsed.matches_labels(&find))
    }

    #[test]
    fn label_selectors_select() {
        let set = [("a", "1"), ("b.c/d", "x")];
        for (selector, expected) in [
            ("", Some(true)),
            ("a", Some(true)),
            ("!a", Some(false)),
            ("a=1", Some(true)),
            ("a==1,b.c/d=x", Some(true)),
            ("a!=1", Some(false)),
            ("z!=1", Some(true)),
            ("a in (0, 1)", Some(true)),
            ("a notin (0,1)", Some(false)),
            ("z notin (0,1)", Some(true)),
            ("a>0", Some(true)),
            ("a<1", Some(false)),
            ("a=", Some(false)),
            ("a in", None),
            ("a in (1", None),
            ("a~b", None),
            ("a,", None),
            (",", None),
            ("a=b=c", None),
        ] {
            assert_eq!(labels(selector, &set), expected, "{selector}");
        }
    }

    #[test]
    fn field_selectors_are_limited_to_known_fields() {
        let parse = |text: &str| Selector::parse("", text, &|field| matches!(field, "spec.nodeName" | "metadata.name"));
        assert!(parse("spec.nodeName=n1,metadata.name!=x").is_ok());
        assert!(parse("spec.nodeName").is_err());
        assert!(parse("status.x=y").is_err());
        assert_eq!(parse("metadata.name=a").expect("it parses").only_name(), Some("a"));
    }
}
