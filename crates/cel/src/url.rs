//! Addresses of the Web: absolute ones, and absolute paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::EvalError;
use crate::eval::Outcome;
use crate::value::{Key, Map, Value};

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Url {
    fn parse(text: &str) -> Option<Self> {
        if text.chars().any(|c| c.is_ascii_control() || c == ' ') {
            return None;
        }
        // A fragment is not part of a request's address.
        let (rest, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = match rest.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), rest),
        };
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        if scheme.is_empty() && !rest.starts_with('/') {
            return None;
        }
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let url = Self {
            scheme,
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        };
        let port = url.port();
        port.chars().all(|c| c.is_ascii_digit()).then_some(url)
    }

    fn port(&self) -> &str {
        let after = self.host.rsplit_once(']').map_or(self.host.as_str(), |(_, after)| after);
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    fn hostname(&self) -> &str {
        if let Some((inside, _)) = self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return inside;
        }
        self.host.rsplit_once(':').map_or(&self.host, |(name, _)| name)
    }

    fn query(&self) -> Result<Value, EvalError> {
        let mut values: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(key), Some(value)) = (decoded(key), decoded(value)) else {
                continue;
            };
            let entry = values.entry(Key::String(key.into())).or_default();
            entry.push(Value::String(value.into()));
        }
        let entries: Result<_, EvalError> = values
            .into_iter()
            .map(|(key, values)| Ok((key, Value::list(values)?)))
            .collect();
        Map::new(entries?).map(Value::Map)
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                bytes.push(digit(*high)? << 4 | digit(*low)?);
                rest = tail;
            }
            (b'%', _) => return None,
            (byte, _) => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// What texts become here.
pub fn of_text(name: &str, args: &[Value]) -> Option<Outcome> {
    let text = args.first()?.as_str()?;
    match name {
        "url" => Some(Url::parse(text).map(|url| Value::Url(Arc::new(url))).ok_or_else(|| {
            let why = format!("URL parse error during conversion from string: parse \"{text}\": invalid URI for request");
            EvalError::value(why)
        })),
        "isURL" => Some(Ok(Value::Bool(Url::parse(text).is_some()))),
        _ => None,
    }
}

/// The value of a function of an address, if it is one of these.
pub fn call(name: &str, args: &[Value]) -> Option<Outcome> {
    let [Value::Url(url)] = args else { return None };
    Some(match name {
        "getScheme" => Ok(Value::text(&url.scheme)),
        "getHost" => Ok(Value::text(&url.host)),
        "getHostname" => Ok(Value::text(url.hostname())),
        "getPort" => Ok(Value::text(url.port())),
        "getEscapedPath" => Ok(Value::text(&url.path)),
        "getQuery" => url.query(),
        _ => return None,
    })
}
