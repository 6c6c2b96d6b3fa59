//! Two sources, held against each other for as long as anybody listens.

use bailiff_model::Mono;
use bailiff_runtime::Clock;

use crate::answer::Side;
use crate::compare::{Comparison, Finding};
use crate::source::{News, Source};

/// Is told what is found.
pub trait Teller {
    /// Both sides are heard: it begins, or goes on.
    fn begins(&mut self, comparison: &Comparison);

    /// A side cannot be heard, and nothing is judged.
    fn waits(&mut self, side: Side, why: &str);

    /// Time passed, or something was heard.
    fn goes_on(&mut self, comparison: &Comparison);

    /// Something was found.
    fn found(&mut self, finding: &Finding);
}

/// Compares for ever; whoever has heard enough drops it. Cancel-safe: the score is the comparison's.
pub async fn run(
    incumbent: &mut impl Source,
    candidate: &mut impl Source,
    comparison: &mut Comparison,
    clock: &Clock,
    teller: &mut impl Teller,
) {
    loop {
        teller.goes_on(comparison);
        let due = clock.instant_of(comparison.next_due().unwrap_or(Mono::FAR_FUTURE));
        let (side, news) = tokio::select! {
            news = incumbent.next() => (Side::Incumbent, news),
            news = candidate.next() => (Side::Candidate, news),
            () = tokio::time::sleep_until(due) => {
                for finding in comparison.judge(clock.now().mono) {
                    teller.found(&finding);
                }
                continue;
            }
        };
        let now = clock.now().mono;
        for news in news {
            take(comparison, side, news, now, teller);
        }
    }
}

fn take(comparison: &mut Comparison, side: Side, news: News, now: Mono, teller: &mut impl Teller) {
    match news {
        News::All(questions, answers) => {
            let mut missing: std::collections::BTreeSet<_> = comparison.questions(side).cloned().collect();
            missing.retain(|key| questions.contains(&key.question));
            for (key, answer) in answers {
                missing.remove(&key);
                tell(&comparison.answer(side, key, Some(answer), now), teller);
            }
            for key in missing {
                tell(&comparison.answer(side, key, None, now), teller);
            }
        }
        News::Says(key, answer) => tell(&comparison.answer(side, key, answer, now), teller),
        News::Over(key) => comparison.over(side, &key),
        News::Heard(heard) => {
            let was = comparison.is_judging();
            comparison.heard(side, heard.is_ok(), now);
            match heard {
                Err(why) => teller.waits(side, &why),
                Ok(()) if !was && comparison.is_judging() => teller.begins(comparison),
                Ok(()) => {}
            }
        }
    }
}

fn tell(findings: &[Finding], teller: &mut impl Teller) {
    for finding in findings {
        teller.found(finding);
    }
}
