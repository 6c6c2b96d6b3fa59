//! What was found: for people, for programs, for a pipeline.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::item::{Item, Level};

/// What was seen of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was put to the test, and is kept.
    Kept,
    /// It is not kept; what was seen instead.
    Broken(String),
    /// No situation came so far as to test it; why.
    Untested(String),
}

/// What was found, by item.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    verdicts: BTreeMap<&'static str, Verdict>,
}

/// The judgement of a program as a stage.
#[derive(Clone, Debug)]
pub struct Report {
    /// The stage.
    pub stage: &'static str,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Every item of the stage, and what was found of it.
    pub items: Vec<(&'static Item, Verdict)>,
}

// === impl Findings ===

impl Findings {
    /// The item was tested and is kept, unless it was seen broken before.
    pub fn keep(&mut self, item: &'static Item) {
        let verdict = self.verdicts.entry(item.id).or_insert(Verdict::Kept);
        if matches!(verdict, Verdict::Untested(_)) {
            *verdict = Verdict::Kept;
        }
    }

    /// The item is not kept. What was seen first stays.
    pub fn fail(&mut self, item: &'static Item, seen: String) {
        let verdict = self.verdicts.entry(item.id).or_insert(Verdict::Kept);
        if !matches!(verdict, Verdict::Broken(_)) {
            *verdict = Verdict::Broken(seen);
        }
    }

    /// The item could not be tested here. What another situation found of it stays.
    pub fn miss(&mut self, item: &'static Item, why: &str) {
        self.verdicts
            .entry(item.id)
            .or_insert_with(|| Verdict::Untested(why.to_owned()));
    }

    /// What several situations found.
    pub fn join(&mut self, other: Self) {
        for (id, verdict) in other.verdicts {
            let known = self.verdicts.entry(id).or_insert_with(|| verdict.clone());
            let is_worse = match (&*known, &verdict) {
                (Verdict::Broken(_), _) | (_, Verdict::Untested(_)) => false,
                (_, Verdict::Broken(_)) | (Verdict::Untested(_), Verdict::Kept) => true,
                (Verdict::Kept, Verdict::Kept) => false,
            };
            if is_worse {
                *known = verdict;
            }
        }
    }

    /// What was found of each of `items`.
    pub fn of(mut self, items: &[&'static Item]) -> Vec<(&'static Item, Verdict)> {
        let unseen = || Verdict::Untested("no situation tests it".to_owned());
        let verdict = |item: &&'static Item| (*item, self.verdicts.remove(item.id).unwrap_or_else(unseen));
        items.iter().map(verdict).collect()
    }
}

// === impl Report ===

impl Report {
    /// True if nothing that is required was missed, and nothing that is forbidden was done.
    pub fn conforms(&self) -> bool {
        let is_missed = |(item, verdict): &(&Item, Verdict)| item.level != Level::Optional && *verdict != Verdict::Kept;
        !self.items.iter().any(is_missed)
    }

    /// The items that are not kept, optional ones included.
    pub fn broken(&self) -> impl Iterator<Item = &'static Item> {
        let broken = self.items.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Broken(_)));
        broken.map(|(item, _)| *item)
    }

    fn count(&self, level: Level, kept: bool) -> usize {
        let is_meant = |(item, verdict): &&(&Item, Verdict)| item.level == level && (*verdict == Verdict::Kept) == kept;
        self.items.iter().filter(is_meant).count()
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{} as {}\n\n", self.command.join(" "), self.stage);
        for level in [Level::Required, Level::Forbidden, Level::Optional] {
            for (item, verdict) in self.items.iter().filter(|(item, _)| item.level == level) {
                let mark = match verdict {
                    Verdict::Kept => "kept",
                    Verdict::Broken(_) => "BROKEN",
                    Verdict::Untested(_) => "untested",
                };
                // Writing to a String does not fail.
                let _ = writeln!(text, "{mark:<9} {level:<10} {:<28} {}", item.id, item.says);
                match verdict {
                    Verdict::Kept => {}
                    Verdict::Broken(seen) => {
                        let _ = writeln!(text, "{:21}seen: {}", "", seen.replace('\n', "\n                           "));
                        let _ = writeln!(text, "{:21}why it matters: {}", "", item.because);
                    }
                    Verdict::Untested(why) => {
                        let _ = writeln!(text, "{:21}{why}", "");
                    }
                }
            }
        }
        let (required, forbidden) = (self.count(Level::Required, true), self.count(Level::Forbidden, true));
        let missed = self.count(Level::Required, false) + self.count(Level::Forbidden, false);
        let _ = writeln!(
            text,
            "\n{}: {required} required and {forbidden} forbidden items are kept, {missed} are not; {} of {} optional ones.",
            if self.conforms() { "conforms" } else { "DOES NOT CONFORM" },
            self.count(Level::Optional, true),
            self.count(Level::Optional, true) + self.count(Level::Optional, false),
        );
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let item = |(item, verdict): &(&Item, Verdict)| {
            let (verdict, detail) = match verdict {
                Verdict::Kept => ("kept", None),
                Verdict::Broken(seen) => ("broken", Some(seen)),
                Verdict::Untested(why) => ("untested", Some(why)),
            };
            json!({
                "id": item.id,
                "level": item.level.as_str(),
                "says": item.says,
                "because": item.because,
                "verdict": verdict,
                "detail": detail,
            })
        };
        json!({
            "stage": self.stage,
            "command": self.command,
            "conforms": self.conforms(),
            "items": self.items.iter().map(item).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static KEEPS: Item = Item::required("keeps", "keeps it", "otherwise it is lost");
    static HARMS: Item = Item::forbidden("harms", "harms", "it hurts");
    static HELPS: Item = Item::optional("helps", "helps", "others have it easier");

    fn report(findings: Findings) -> Report {
        Report {
            stage: "zone-evictor",
            command: vec!["./mine".to_owned(), "--fast".to_owned()],
            items: findings.of(&[&KEEPS, &HARMS, &HELPS]),
        }
    }

    #[test]
    fn a_report_conforms_if_all_that_binds_was_tested_and_kept() {
        let mut nothing_broken = Findings::default();
        nothing_broken.keep(&KEEPS);
        nothing_broken.keep(&HARMS);
        nothing_broken.fail(&HELPS, "it did not help".to_owned());
        assert!(report(nothing_broken.clone()).conforms(), "an optional item binds nobody");

        let mut harmed = nothing_broken.clone();
        harmed.fail(&HARMS, "it did harm".to_owned());
        assert!(!report(harmed).conforms());

        let mut idle = Findings::default();
        idle.miss(&KEEPS, "it never began");
        idle.miss(&HARMS, "it never began");
        assert!(!report(idle).conforms(), "who does nothing has shown nothing");
        assert!(!report(Findings::default()).conforms(), "what no situation tests is not kept");
    }

    #[test]
    fn of_what_several_situations_found_the_worst_stays() {
        let broken = |seen: &str| {
            let mut findings = Findings::default();
            findings.fail(&KEEPS, seen.to_owned());
            findings
        };
        let kept = || {
            let mut findings = Findings::default();
            findings.keep(&KEEPS);
            findings
        };
        let missed = || {
            let mut findings = Findings::default();
            findings.miss(&KEEPS, "it ended");
            findings
        };
        let cases = [
            (kept(), broken("b"), Verdict::Broken("b".to_owned())),
            (broken("a"), kept(), Verdict::Broken("a".to_owned())),
            (broken("a"), broken("b"), Verdict::Broken("a".to_owned())),
            (missed(), kept(), Verdict::Kept),
            (kept(), missed(), Verdict::Kept),
            (missed(), broken("b"), Verdict::Broken("b".to_owned())),
            (missed(), missed(), Verdict::Untested("it ended".to_owned())),
        ];
        for (mut first, second, wanted) in cases {
            first.join(second);
            assert_eq!(first.of(&[&KEEPS]), [(&KEEPS, wanted)]);
        }
    }

    #[test]
    fn a_report_says_what_was_seen_and_why_it_matters() {
        let mut findings = Findings::default();
        findings.fail(&KEEPS, "pod default/web-1 was gone".to_owned());
        findings.keep(&HARMS);
        findings.keep(&HELPS);
        let report = report(findings);
        let text = report.text();
        for wanted in [
            "./mine --fast as zone-evictor",
            "seen: pod default/web-1 was gone",
            "why it matters: otherwise it is lost",
            "DOES NOT CONFORM: 0 required and 1 forbidden items are kept, 1 are not; 1 of 1 optional ones.",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in:\n{text}");
        }
        let json = report.json();
        assert_eq!(json["conforms"], false);
        assert_eq!(json["items"][0]["verdict"], "broken");
        assert_eq!(json["items"][0]["detail"], "pod default/web-1 was gone");
        assert_eq!(report.broken().map(|item| item.id).collect::<Vec<_>>(), ["keeps"]);
    }
}
