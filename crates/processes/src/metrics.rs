//! Metrics in their text form.

/// What the samples of metric `name` that have all of these labels add up to; nothing if there is none.
pub fn sum(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let samples = text.lines().filter_map(|line| value(line, name, labels));
    samples.sum()
}

fn value(line: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let rest = line.strip_prefix(name)?;
    let (set, value) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once("} ")?,
        None => ("", rest.strip_prefix(' ')?),
    };
    // No label of ours has a comma or a quote in it.
    let has = |&(label, value): &(&str, &str)| set.split(',').any(|pair| pair == format!("{label}=\"{value}\""));
    labels.iter().all(has).then(|| value.trim().parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_all_shards_are_added_and_others_are_not() {
        let text = "# HELP a_nodes Nodes.\n# TYPE a_nodes gauge\n\
            a_nodes{verdict=\"late\",shard=\"0\"} 3\na_nodes{verdict=\"late\",shard=\"1\"} 4\na_nodes{verdict=\"later\",shard=\"1\"} 50\n\
            a_nodes_total 1000\nb 7\n# EOF\n";
        let check = |name, labels: &[_], wanted: f64| {
            let found = sum(text, name, labels);
            assert!((found - wanted).abs() < f64::EPSILON, "{name} {labels:?}: {found}");
        };
        check("a_nodes", &[("verdict", "late")], 7.0);
        check("a_nodes", &[("verdict", "late"), ("shard", "1")], 4.0);
        check("a_nodes", &[], 57.0);
        check("b", &[], 7.0);
        check("b", &[("x", "y")], 0.0);
    }
}
