//! Nodes that are served in no particular order get letters in the order in which they were.

use super::Observed;
use crate::oracle::file::Interchangeable;

/// Renames the nodes of a set everywhere.
pub fn rename(observed: &mut Observed, set: &Interchangeable) {
    let ranked = rank(observed, set);
    let public = |nth: usize| {
        let letter = u8::try_from(nth)
            .ok()
            .and_then(|nth| b'a'.checked_add(nth))
            .map_or('?', char::from);
        format!("<{}-{letter}>", set.name)
    };
    let names: Vec<(String, String)> = ranked
        .into_iter()
        .enumerate()
        .map(|(nth, node)| (node, public(nth)))
        .collect();
    observed.rename(|text| replaced(text, &names));
}

/// The nodes in the order of the first transition that counts; those without one follow in the order of the set.
fn rank(observed: &Observed, set: &Interchangeable) -> Vec<String> {
    let first = |node: &String| {
        let theirs = observed.transitions.iter().filter(|(object, _)| belongs(object, node));
        let steps = theirs.flat_map(|(_, steps)| steps);
        let counts = steps.filter(|step| {
            step.t >= set.rank_after && set.rank_by.iter().all(|(field, value)| step.fields.get(field) == Some(value))
        });
        counts.map(|step| step.seq).min().unwrap_or(usize::MAX)
    };
    let mut ranked: Vec<(usize, String)> = set.nodes.iter().map(|node| (first(node), node.clone())).collect();
    // Stable: equal ranks keep the order of the set.
    ranked.sort_by_key(|(seq, _)| *seq);
    ranked.into_iter().map(|(_, node)| node).collect()
}

/// Whether an object is the node, a daemon pod for it, or named after it.
fn belongs(object: &str, node: &str) -> bool {
    let mut parts = object.splitn(3, '/');
    let (kind, second, third) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
        parts.next(),
    );
    if kind == "node" {
        return second == node;
    }
    let name = third.unwrap_or(second);
    let name = name.split("/recreated-").next().unwrap_or(name);
    match name.rsplit_once('@') {
        Some((_, target)) => target.rsplit_once('#').is_some_and(|(target, _)| target == node),
        None => name.ends_with(&format!("-{node}")),
    }
}

/// Replaces names wherever they stand as words of their own.
fn replaced(text: &str, names: &[(String, String)]) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(next) = rest.chars().next() {
        let is_start = !before.is_some_and(|before: char| before.is_ascii_alphanumeric());
        let is_here = |name: &str| {
            let after = rest.strip_prefix(name).map(|after| after.chars().next());
            is_start && after.is_some_and(|after| !after.is_some_and(|after| after.is_ascii_alphanumeric()))
        };
        // The longest: one name may start with another.
        let found = names
            .iter()
            .filter(|(name, _)| is_here(name))
            .max_by_key(|(name, _)| name.len());
        let length = match found {
            Some((name, public)) => {
                result.push_str(public);
                name.len()
            }
            None => {
                result.push(next);
                next.len_utf8()
            }
        };
        before = rest[..length].chars().next_back();
        rest = &rest[length..];
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_as_words() {
        let names = [("n1", "<a>"), ("n1-x", "<b>"), ("a", "<c>")].map(|(name, public)| (name.to_owned(), public.to_owned()));
        for (text, wanted) in [
            ("Node n1 event: Registered Node n1.", "Node <a> event: Registered Node <a>."),
            ("pod/default/ds@n1#1 n11 xn1 p-n1", "pod/default/ds@<a>#1 n11 xn1 p-<a>"),
            ("p-n1-x", "p-<b>"),
            ("", ""),
        ] {
            assert_eq!(replaced(text, &names), wanted);
        }
    }

    #[test]
    fn objects_belong_to_the_node_they_are_named_after() {
        for (object, wanted) in [
            ("node/n1", true),
            ("node/n11", false),
            ("node/n1/recreated-1", true),
            ("pod/default/ds@n1#2", true),
            ("pod/default/ds@n2#1", false),
            ("pod/default/p-x-n1", true),
            ("pod/default/pn1", false),
            ("pod/default/p-n1/recreated-1", true),
        ] {
            assert_eq!(belongs(object, "n1"), wanted, "{object}");
        }
    }
}
