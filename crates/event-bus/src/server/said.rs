//! How often a refusal is worth a line in the log.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::Mono;

/// At most one line of each kind in this time: enough to see who and why, not enough to fill a disk.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// What was said lately, by kind of refusal, which are a closed set.
#[derive(Debug, Default)]
pub(super) struct Said(BTreeMap<String, Line>);

#[derive(Debug)]
struct Line {
    at: Mono,
    unsaid: u64,
}

// === impl Said ===

impl Said {
    /// Of a refusal that is to be said now: how many of its kind were not, since the last that was.
    pub(super) fn due(&mut self, kind: &str, now: Mono) -> Option<u64> {
        let Some(line) = self.0.get_mut(kind) else {
            self.0.insert(kind.to_owned(), Line { at: now, unsaid: 0 });
            return Some(0);
        };
        if now.saturating_since(line.at) < SAY_EVERY {
            line.unsaid += 1;
            return None;
        }
        line.at = now;
        Some(std::mem::take(&mut line.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_said_now_and_then() {
        let mut said = Said::default();
        for (seconds, kind, wanted) in [
            (0, "layout", Some(0)),
            (1, "layout", None),
            (2, "keys", Some(0)),
            (9, "layout", None),
            (10, "layout", Some(2)),
            (11, "layout", None),
            (60, "layout", Some(1)),
            (60, "keys", Some(0)),
        ] {
            let now = Mono::from_origin(Duration::from_secs(seconds));
            assert_eq!(said.due(kind, now), wanted, "{kind} after {seconds} s");
        }
    }
}
