//! Which form of an answer a client accepts.

use crate::Status;

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// What an answer's objects are turned into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Objects as they are.
    #[default]
    Whole,
    /// `meta.k8s.io` Table of this version.
    Table(&'static str),
    /// Metadata of one object.
    Partial(&'static str),
    /// Metadata of a list.
    PartialList(&'static str),
}

/// The accepted form that the server chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// How it is encoded.
    pub encoding: Encoding,
    /// What objects become.
    pub shape: Shape,
    /// Whether the client asked for a stream by media type.
    pub stream: bool,
}

#[derive(Debug)]
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

/// Chooses among what `accept` lists, best first. Nothing accepted at all means JSON.
///
/// # Errors
/// 406 when nothing that is accepted can be served.
pub fn choose(accept: &str, protobuf: bool) -> Result<Accepted, Status> {
    if accept.trim().is_empty() {
        return Ok(Accepted::default());
    }
    let clauses = clauses(accept);
    if let Some(accepted) = clauses.iter().find_map(|clause| clause.served(protobuf)) {
        return Ok(accepted);
    }
    let available = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    // Whoever names none of them is refused before it is looked at what else is asked for.
    let is_known = |clause: &Clause<'_>| clause.media == "*/*" || available.split(", ").any(|media| media == clause.media);
    if clauses.iter().any(is_known) {
        let message = format!("only the following media types are accepted: {available}");
        return Err(Status::new(406, "NotAcceptable", message));
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
    Err(Status::new(406, "NotAcceptable", message).about("", "", ""))
}

/// The parameters `g`, `v`, `as` of the first accepted discovery form, if that is what comes first.
pub fn aggregated_discovery(accept: &str) -> Option<&'static str> {
    for clause in clauses(accept) {
        if !matches!(clause.media, "application/json" | "*/*" | "application/*") {
            continue;
        }
        if clause.parameter("as") == Some("APIGroupDiscoveryList") && clause.parameter("g") == Some("apidiscovery.k8s.io") {
            match clause.parameter("v") {
                Some("v2") => return Some("v2"),
                // v2beta1 is served no more.
                _ => continue,
            }
        }
        // Plain JSON comes first.
        clause.parameter("as")?;
    }
    None
}

fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<(i64, Clause<'_>)> = accept
        .split(',')
        .filter(|part| !part.trim().is_empty())
        .map(|part| {
            let mut pieces = part.split(';').map(str::trim);
            let media = pieces.next().unwrap_or_default();
            let parameters: Vec<(&str, &str)> = pieces.filter_map(|piece| piece.split_once('=')).collect();
            let quality = parameters
                .iter()
                .find(|(key, _)| *key == "q")
                .and_then(|(_, value)| value.parse::<f64>().ok())
                .map_or(1000, |quality| (quality.clamp(0.0, 1.0) * 1000.0).round() as i64);
            (quality, Clause { media, parameters })
        })
        .collect();
    clauses.sort_by_key(|(quality, _)| -quality);
    clauses.into_iter().map(|(_, clause)| clause).collect()
}

impl Clause<'_> {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn served(&self, protobuf: bool) -> Option<Accepted> {
        let encoding = match self.media {
            "application/json" | "*/*" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            "application/vnd.kubernetes.protobuf" if protobuf => Encoding::Protobuf,
            _ => return None,
        };
        let shape = match (self.parameter("as"), self.parameter("g"), self.parameter("v")) {
            (None, None, None) => Shape::Whole,
            (Some("Table"), Some("meta.k8s.io"), version) if encoding != Encoding::Protobuf => Shape::Table(version_of(version)?),
            (Some("PartialObjectMetadata"), Some("meta.k8s.io"), version) => Shape::Partial(version_of(version)?),
            (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), version) => Shape::PartialList(version_of(version)?),
            _ => return None,
        };
        Some(Accepted {
            encoding,
            shape,
            stream: self.parameter("stream") == Some("watch"),
        })
    }
}

fn version_of(version: Option<&str>) -> Option<&'static str> {
    match version {
        Some("v1") => Some("meta.k8s.io/v1"),
        Some("v1beta1") => Some("meta.k8s.io/v1beta1"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_form_that_can_be_served_is_chosen() {
        let shape = |accept: &str| choose(accept, true).map(|accepted| (accepted.encoding, accepted.shape)).ok();
        assert_eq!(shape(""), Some((Encoding::Json, Shape::Whole)));
        assert_eq!(shape("*/*"), Some((Encoding::Json, Shape::Whole)));
        assert_eq!(shape("text/html"), None);
        assert_eq!(
            shape("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            Some((Encoding::Json, Shape::Table("meta.k8s.io/v1")))
        );
        assert_eq!(
            shape("application/vnd.kubernetes.protobuf;q=0.1,application/json;q=0.9"),
            Some((Encoding::Json, Shape::Whole))
        );
        assert_eq!(shape("application/json;as=Chart;g=meta.k8s.io;v=v1"), None);
    }
}
