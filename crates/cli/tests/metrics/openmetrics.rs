//! The text that `/metrics` answers, read as strictly as OpenMetrics 1.0 has it.
//!
//! Of the crates that read such texts `prometheus-parse` knows the older format only, whose counters are named otherwise.

use std::collections::{BTreeMap, BTreeSet};

pub type Labels = BTreeMap<String, String>;

/// A metric: what it is, and its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    pub name: String,
    pub kind: String,
    pub unit: Option<String>,
    pub help: String,
    pub samples: Vec<Sample>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: Labels,
    pub value: f64,
}

impl Family {
    /// What a query asks for: samples of counters have a suffix.
    pub fn queried(&self) -> String {
        let suffix = if self.kind == "counter" { "_total" } else { "" };
        format!("{}{suffix}", self.name)
    }

    /// What may follow the name in a sample's.
    fn suffixes(&self) -> &'static [&'static str] {
        match self.kind.as_str() {
            "gauge" => &[""],
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            kind => panic!("{} is a {kind}", self.name),
        }
    }
}

/// The families of a text.
pub fn parse(text: &str) -> Vec<Family> {
    let body = text.strip_suffix("# EOF\n").expect("an end");
    let mut families: Vec<Family> = Vec::new();
    let mut seen = BTreeSet::new();
    for line in body.lines() {
        if let Some(about) = line.strip_prefix("# ") {
            describe(&mut families, about);
            continue;
        }
        let family = families.last_mut().expect("a description before the first sample");
        let sample = sample(line);
        let suffix = sample.name.strip_prefix(&family.name);
        assert!(suffix.is_some_and(|suffix| family.suffixes().contains(&suffix)), "{line}");
        assert!(seen.insert((sample.name.clone(), sample.labels.clone())), "twice: {line}");
        family.samples.push(sample);
    }
    let names: BTreeSet<&str> = families.iter().map(|family| family.name.as_str()).collect();
    assert_eq!(names.len(), families.len(), "a family stands in one place");
    families
}

/// Takes in a line about a family, of which HELP is the first.
fn describe(families: &mut Vec<Family>, about: &str) {
    let (what, rest) = about.split_once(' ').unwrap();
    let (name, text) = rest.split_once(' ').unwrap_or_else(|| panic!("nothing is said in {about}"));
    if what == "HELP" {
        families.push(Family {
            name: name.to_owned(),
            kind: String::new(),
            unit: None,
            help: text.to_owned(),
            samples: Vec::new(),
        });
        return;
    }
    let family = families.last_mut().expect("HELP comes first");
    assert!(family.name == name && family.samples.is_empty(), "{about}");
    match what {
        "TYPE" => family.kind = text.to_owned(),
        "UNIT" => family.unit = Some(text.to_owned()),
        _ => panic!("{about}"),
    }
}

/// A line with a value and nothing after it: no process here writes timestamps or exemplars.
fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    Sample {
        name: name.to_owned(),
        labels: labels_of(labels),
        value: value.parse().unwrap_or_else(|error| panic!("{error}: {line}")),
    }
}

/// Labels up to the closing brace.
fn labels_of(mut text: &str) -> Labels {
    let mut labels = Labels::new();
    while text != "}" {
        let (name, rest) = text.split_once("=\"").unwrap_or_else(|| panic!("no label: {text}"));
        let (value, rest) = quoted(rest);
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} twice");
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    labels
}

/// A text up to its closing quote, and what follows that.
fn quoted(text: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), text.chars());
    loop {
        match chars.next().expect("a closing quote") {
            '"' => return (value, chars.as_str()),
            '\\' => value.push(match chars.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => panic!("nothing follows a backslash"),
            }),
            other => value.push(other),
        }
    }
}

#[test]
fn families_have_their_samples_with_labels() {
    let text = "# HELP a A thing.\n# TYPE a counter\na_total{x=\"1, \\\"2\\\"\",y=\"\"} 3\n\
        # HELP b_seconds B.\n# TYPE b_seconds gauge\n# UNIT b_seconds seconds\nb_seconds 1.5\n# EOF\n";
    let families = parse(text);
    let labels = [("x", "1, \"2\""), ("y", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let wanted = Sample {
        name: "a_total".to_owned(),
        labels: labels.into(),
        value: 3.0,
    };
    assert_eq!(families[0].samples, [wanted]);
    assert_eq!(
        (families[0].queried(), families[1].queried()),
        ("a_total".to_owned(), "b_seconds".to_owned())
    );
    assert_eq!(
        (families[1].unit.as_deref(), families[1].samples[0].value),
        (Some("seconds"), 1.5)
    );
}
