//! How well two sides agree, in figures.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::Side;

/// Distances in time that are remembered, the latest.
const REMEMBERED: usize = 10_000;

/// How well two sides agree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Score {
    /// Questions that both answered the same when the comparison began.
    pub standing: u64,
    /// Questions that they answered differently then, and for longer than the tolerance.
    pub standing_differing: u64,
    /// Decisions that both made within the tolerance.
    pub agreed: u64,
    /// Decisions that one made and the other did not for longer than that.
    pub differing: u64,
    /// How often questions that were answered differently came to be answered the same.
    pub settled: u64,
    /// Questions that are answered differently at the moment.
    pub still_differing: u64,
    /// Questions that are answered differently, and not for long enough to be judged.
    pub open: u64,
    /// Answers of one side that were taken back within the tolerance, and that the other side never gave.
    pub passing: u64,
    /// Answers that are acted on when their turn comes, which the other side did not give yet.
    pub waiting: u64,
    /// By how much the later side was later, in milliseconds: negative where that was the incumbent.
    pub(crate) lags: VecDeque<i64>,
}

impl Score {
    /// A decision that both made; `late` made it `lag` after the other.
    pub(crate) fn agree(&mut self, late: Side, lag: Duration) {
        self.agreed += 1;
        if self.lags.len() == REMEMBERED {
            self.lags.pop_front();
        }
        let millis = i64::try_from(lag.as_millis()).unwrap_or(i64::MAX);
        self.lags.push_back(match late {
            Side::Incumbent => -millis,
            Side::Candidate => millis,
        });
    }

    /// The share of decisions that both made, from 0 to 1; `None` if there were none.
    pub fn agreement(&self) -> Option<f64> {
        share(self.agreed, self.differing)
    }

    /// Enough is the same: of the decisions, and of what stood when it began. Where nothing was compared, nothing is known.
    pub fn suffices(&self, least: f64) -> bool {
        let shares = [self.agreement(), share(self.standing, self.standing_differing)];
        match shares {
            [None, None] => false,
            [None, Some(standing)] => standing >= least && self.open == 0,
            [Some(decisions), standing] => decisions >= least && standing.is_none_or(|standing| standing >= least),
        }
    }

    /// The `share` of decisions, from 0 to 1, that the candidate made at most so many milliseconds after the incumbent.
    pub fn lag(&self, share: f64) -> Option<i64> {
        let mut lags: Vec<i64> = self.lags.iter().copied().collect();
        lags.sort_unstable();
        let last = lags.len().checked_sub(1)?;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place below ten thousand"
        )]
        let place = (share.clamp(0.0, 1.0) * last as f64).round() as usize;
        lags.get(place).copied()
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        json!({
            "agreement": self.agreement(), "agreed": self.agreed, "differing": self.differing, "settled": self.settled,
            "stillDiffering": self.still_differing, "passing": self.passing, "waiting": self.waiting, "open": self.open,
            "standing": self.standing, "standingDiffering": self.standing_differing,
            "candidateLaterMillis": {"min": self.lag(0.0), "median": self.lag(0.5), "p99": self.lag(0.99), "max": self.lag(1.0)},
        })
    }

    /// The same for people.
    pub fn text(&self) -> String {
        let mut text = match self.agreement() {
            Some(share) => {
                let (agreed, all) = (self.agreed, self.agreed + self.differing);
                format!("agreement {:.1} %: {agreed} of {all} decisions\n", share * 100.0)
            }
            None => "nothing was decided\n".to_owned(),
        };
        text.push_str(&format!(
            "  {} of {} answers that stood when it began were the same\n",
            self.standing,
            self.standing + self.standing_differing
        ));
        let rows = [
            (
                self.differing,
                format!(
                    "differed for longer than the tolerance; {} questions came to be answered the same later",
                    self.settled
                ),
            ),
            (self.still_differing, "differ at the end".to_owned()),
            (
                self.passing,
                "of one side only, and taken back within the tolerance".to_owned(),
            ),
            (self.waiting, "wait for their turn, and are not compared yet".to_owned()),
        ];
        for (number, what) in rows.iter().filter(|(number, _)| *number > 0) {
            text.push_str(&format!("  {number} {what}\n"));
        }
        if let (Some(min), Some(median), Some(p99), Some(max)) = (self.lag(0.0), self.lag(0.5), self.lag(0.99), self.lag(1.0)) {
            text.push_str(&format!(
                "  the candidate decided {} after the incumbent in the median, {} to {} in all, 99 % within {}\n",
                seconds(median),
                seconds(min),
                seconds(max),
                seconds(p99)
            ));
        }
        text
    }
}

/// The share of `part` where `rest` is all else; `None` if there is nothing.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn share(part: u64, rest: u64) -> Option<f64> {
    let all = part + rest;
    (all > 0).then(|| part as f64 / all as f64)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn seconds(millis: i64) -> String {
    format!("{:.1}s", millis as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_and_the_lags_are_those_of_the_decisions() {
        let mut score = Score::default();
        assert_eq!((score.agreement(), score.lag(0.5)), (None, None));
        assert!(score.text().starts_with("nothing was decided"));
        for (side, millis) in [(Side::Candidate, 300), (Side::Incumbent, 100), (Side::Candidate, 200)] {
            score.agree(side, Duration::from_millis(millis));
        }
        score.differing = 1;
        assert_eq!(score.agreement(), Some(0.75));
        assert_eq!(
            [0.0, 0.5, 1.0].map(|share| score.lag(share)),
            [Some(-100), Some(200), Some(300)]
        );
        let text = score.text();
        assert!(text.starts_with("agreement 75.0 %: 3 of 4 decisions\n"), "{text}");
        assert!(
            text.contains("decided 0.2s after the incumbent in the median, -0.1s to 0.3s"),
            "{text}"
        );
        assert_eq!(score.json()["candidateLaterMillis"]["max"], 300);
    }

    #[test]
    fn only_the_latest_lags_are_kept() {
        let mut score = Score::default();
        for millis in 0..20_000 {
            score.agree(Side::Candidate, Duration::from_millis(millis));
        }
        assert_eq!(
            (score.agreed, score.lag(0.0), score.lag(1.0)),
            (20_000, Some(10_000), Some(19_999))
        );
    }
}
