//! From a path to what it means: a resource request, or something else.

use super::request::decode;

/// What a path names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// API group, `""` for the core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace, `""` if the path names none.
    pub namespace: String,
    /// Plural resource name.
    pub resource: String,
    /// Object name, `""` for a collection.
    pub name: String,
    /// Subresource, `""` for none.
    pub subresource: String,
    /// Whether it is the deprecated `/watch/` form.
    pub watch: bool,
}

/// Parses a resource path; nothing if it is not one.
pub fn parse(path: &str) -> Option<Target> {
    // What is escaped counts as it reads: a slash in a name parts it.
    let path = decode(path, false);
    let segments: Vec<&str> = path
        .strip_prefix('/')
        .unwrap_or_default()
        .trim_end_matches('/')
        .split('/')
        .collect();
    let mut rest = segments;
    let (group, version, taken) = match rest.as_slice() {
        ["api", version, _, ..] => ("", *version, 2),
        ["apis", group, version, _, ..] => (*group, *version, 3),
        _ => return None,
    };
    rest.drain(..taken);
    let mut target = Target {
        group: group.to_owned(),
        version: version.to_owned(),
        ..Target::default()
    };
    if rest.len() > 1 && rest.first() == Some(&"watch") {
        target.watch = true;
        rest.remove(0);
    }
    match rest.as_slice() {
        // Subresources of a namespace; everything else under it is a resource in it.
        ["namespaces", name, sub @ ("status" | "finalize")] => target.fill("namespaces", name, sub, name),
        ["namespaces"] => target.fill("namespaces", "", "", ""),
        ["namespaces", name] => target.fill("namespaces", name, "", name),
        ["namespaces", namespace, resource] => target.fill(resource, "", "", namespace),
        ["namespaces", namespace, resource, name] => target.fill(resource, name, "", namespace),
        ["namespaces", namespace, resource, name, sub @ ..] => target.fill(resource, name, &sub.join("/"), namespace),
        [resource] => target.fill(resource, "", "", ""),
        [resource, name] => target.fill(resource, name, "", ""),
        [resource, name, sub @ ..] => target.fill(resource, name, &sub.join("/"), ""),
        [] => return None,
    }
    Some(target)
}

impl Target {
    fn fill(&mut self, resource: &str, name: &str, subresource: &str, namespace: &str) {
        resource.clone_into(&mut self.resource);
        name.clone_into(&mut self.name);
        subresource.clone_into(&mut self.subresource);
        namespace.clone_into(&mut self.namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_resources() {
        for (path, expected) in [
            ("/api/v1/nodes", Some(("", "nodes", "", "", ""))),
            ("/api/v1/namespaces/a", Some(("", "namespaces", "a", "", "a"))),
            (
                "/api/v1/namespaces/a/finalize",
                Some(("", "namespaces", "a", "finalize", "a")),
            ),
            ("/api/v1/namespaces/a/pods/b/status", Some(("", "pods", "b", "status", "a"))),
            ("/apis/apps/v1/daemonsets", Some(("apps", "daemonsets", "", "", ""))),
            ("/apis/apps/v1", None),
            ("/healthz", None),
            ("/api", None),
        ] {
            let found = parse(path);
            let found = found.as_ref().map(|t| {
                (
                    t.group.as_str(),
                    t.resource.as_str(),
                    t.name.as_str(),
                    t.subresource.as_str(),
                    t.namespace.as_str(),
                )
            });
            assert_eq!(found, expected, "{path}");
        }
    }
}
