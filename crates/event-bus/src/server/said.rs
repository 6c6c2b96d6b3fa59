//! How often a refusal is worth a line in the log.

use std::collections::BTreeMap;
use std::time::Duration;

use bailiff_model::Mono;

/// At most one line of each kind and party in this time: enough to see who and why, and nobody hides behind whoever is refused more often.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// Most lines that are remembered, and so said in that time: more than there are roles, and not enough to fill a disk.
const MOST: usize = 64;

/// What was said lately, by kind of refusal, which are a closed set, and by party.
#[derive(Debug, Default)]
pub(super) struct Said(BTreeMap<(String, String), Line>);

#[derive(Debug)]
struct Line {
    at: Mono,
    unsaid: u64,
}

// === impl Said ===

impl Said {
    /// Of a refusal that is to be said now: how many of its kind and party were not, since the last that was. Where there is no room for
    /// one more party, those that come are one, and what was not said of those that make room is not told.
    pub(super) fn due(&mut self, kind: &str, party: &str, now: Mono) -> Option<u64> {
        let mut about = (kind.to_owned(), party.to_owned());
        if self.0.len() >= MOST && !self.0.contains_key(&about) {
            self.0.retain(|_, line| !line.is_over(now));
            if self.0.len() >= MOST {
                about.1.clear();
            }
        }
        let Some(line) = self.0.get_mut(&about) else {
            self.0.insert(about, Line { at: now, unsaid: 0 });
            return Some(0);
        };
        if !line.is_over(now) {
            line.unsaid += 1;
            return None;
        }
        line.at = now;
        Some(std::mem::take(&mut line.unsaid))
    }
}

// === impl Line ===

impl Line {
    fn is_over(&self, now: Mono) -> bool {
        now.saturating_since(self.at) >= SAY_EVERY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn each_kind_and_party_is_said_now_and_then() {
        let mut said = Said::default();
        for (seconds, kind, party, wanted) in [
            (0, "layout", "viewer", Some(0)),
            (1, "layout", "viewer", None),
            (2, "keys", "viewer", Some(0)),
            (3, "layout", "zone-evictor", Some(0)),
            (9, "layout", "viewer", None),
            (10, "layout", "viewer", Some(2)),
            (11, "layout", "viewer", None),
            (13, "layout", "zone-evictor", Some(0)),
            (60, "layout", "viewer", Some(1)),
            (60, "keys", "viewer", Some(0)),
        ] {
            assert_eq!(
                said.due(kind, party, at(seconds)),
                wanted,
                "{kind} of {party} after {seconds} s"
            );
        }
    }

    #[test]
    fn parties_without_end_are_one_until_there_is_room_again() {
        let mut said = Said::default();
        let lines = (0..1_000).filter_map(|party| said.due("layout", &format!("10.0.0.{party}"), at(0)));
        assert_eq!(lines.count(), MOST + 1, "one for the rest of them");
        assert_eq!(said.0.len(), MOST + 1);
        assert_eq!(said.due("layout", "10.0.0.0", at(9)), None, "it is still known");
        assert_eq!(said.due("layout", "another", at(10)), Some(0), "what is over is forgotten");
        assert_eq!(said.0.len(), 1);
    }
}
