//! Texts of several registries as one: OpenMetrics allows each family once, with all its samples.

const END: &str = "# EOF";
const FIRST: &str = "# HELP ";

/// The families of all texts, in the order in which they first appear.
pub(super) fn merge(texts: impl IntoIterator<Item = String>) -> String {
    let mut families: Vec<Family> = Vec::new();
    for text in texts {
        let mut current = None;
        for line in text.lines().filter(|line| *line != END) {
            if line.starts_with(FIRST) {
                let known = families.iter().position(|family| family.help == line);
                current = Some(known.unwrap_or(families.len()));
                if known.is_none() {
                    families.push(Family::new(line));
                }
            } else if let Some(family) = current.and_then(|nth: usize| families.get_mut(nth)) {
                family.take(line);
            }
        }
    }
    let lines = families.into_iter().flat_map(Family::into_lines);
    lines
        .chain([END.to_owned()])
        .flat_map(|line| [line, "\n".to_owned()])
        .collect()
}

/// A family: what it is, and its samples.
struct Family {
    help: String,
    about: Vec<String>,
    samples: Vec<String>,
}

// === impl Family ===

impl Family {
    fn new(help: &str) -> Self {
        Self {
            help: help.to_owned(),
            about: Vec::new(),
            samples: Vec::new(),
        }
    }

    fn take(&mut self, line: &str) {
        let lines = if line.starts_with('#') {
            &mut self.about
        } else {
            &mut self.samples
        };
        if !(line.starts_with('#') && lines.iter().any(|known| known == line)) {
            lines.push(line.to_owned());
        }
    }

    fn into_lines(self) -> impl Iterator<Item = String> {
        [self.help].into_iter().chain(self.about).chain(self.samples)
    }
}
