//! What is told of a comparison: lines for people, or an object on each line for programs.

use std::io::IsTerminal as _;
use std::time::Duration;

use bailiff_diff::{Answer, Comparison, Finding, Key, Score, Side, run};
use bailiff_model::{Mono, Wall};
use bailiff_runtime::{Clock, GoDuration};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::bus::Output;
use crate::out::{Lines, Unwritten, one_line};

/// How often the figures are shown anew: people cannot read them faster.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// Tells it.
pub struct Told {
    output: Output,
    incumbent: &'static str,
    candidate: &'static str,
    clock: Clock,
    bar: ProgressBar,
    lines: Lines,
    waits: [Option<String>; 2],
    /// When the figures were shown last: adding them up costs as much as there are questions.
    shown: Mono,
}

impl Told {
    /// To whoever reads the output; incumbent and candidate are called so.
    pub fn new(output: Output, (incumbent, candidate): (&'static str, &'static str), clock: &Clock) -> Self {
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            output,
            incumbent,
            candidate,
            clock: clock.clone(),
            bar,
            lines: Lines::default(),
            waits: [const { None }; 2],
            shown: Mono::ORIGIN,
        }
    }

    fn name(&self, side: Side) -> &'static str {
        match side {
            Side::Incumbent => self.incumbent,
            Side::Candidate => self.candidate,
        }
    }

    fn say(&mut self, text: &str, object: &Value) {
        let lines = &mut self.lines;
        self.bar.suspend(|| match self.output {
            Output::Text => lines.line(text),
            Output::Json => lines.line(object),
        });
    }

    /// It is over; fails if something of it could not be told.
    pub fn ends(mut self, score: &Score) -> Result<(), Unwritten> {
        self.bar.finish_and_clear();
        self.say(score.text().trim_end(), &json!({"found": "score", "score": score.json()}));
        self.lines.end()
    }
}

impl run::Teller for Told {
    fn begins(&mut self, comparison: &Comparison) {
        self.waits = [const { None }; 2];
        let standing = comparison.score().standing;
        let now = self.clock.now().wall;
        self.say(
            &format!("{now:.0} both are heard; {standing} answers stood when it began"),
            &json!({"found": "begins", "at": now.to_string(), "standing": standing}),
        );
    }

    fn waits(&mut self, side: Side, why: &str) {
        if self.waits[side as usize].as_deref() == Some(why) {
            return;
        }
        self.waits[side as usize] = Some(why.to_owned());
        let (now, name) = (self.clock.now().wall, self.name(side));
        self.say(
            &format!("{now:.0} nothing is judged while {name} is not heard: {}", one_line(why)),
            &json!({"found": "waits", "at": now.to_string(), "side": word(side), "why": why}),
        );
    }

    fn goes_on(&mut self, comparison: &Comparison) {
        let now = self.clock.now().mono;
        if !self.bar.is_hidden() && now.saturating_since(self.shown) >= SHOW_EVERY {
            self.shown = now;
            let score = comparison.score();
            self.bar.set_message(format!(
                "{} agreed, {} differed, {} of them still do; {} wait for their turn",
                score.agreed, score.differing, score.still_differing, score.waiting
            ));
        }
    }

    fn found(&mut self, finding: &Finding) {
        let (found, key, text, more) = match finding {
            Finding::Differs {
                key,
                incumbent,
                candidate,
            } => {
                let (one, other) = (incumbent.as_ref(), candidate.as_ref());
                let lines = [line(self.incumbent, one), line(self.candidate, other)].join("\n");
                let more = json!({"incumbent": one.map(of_answer), "candidate": other.map(of_answer)});
                ("differs", key, format!("differs: {}\n{lines}", one_line(key)), more)
            }
            // Of interest to programs; people are told how many.
            Finding::Agrees { .. } if self.output == Output::Text => return,
            Finding::Agrees { key, answer, late, lag } => {
                let answer = answer.as_ref().map(of_answer);
                let more = json!({"answer": answer, "late": word(*late), "lagSeconds": lag.as_secs_f64()});
                ("agrees", key, String::new(), more)
            }
            Finding::Settled { key, answer, after } => {
                let says = answer.as_ref().map_or_else(|| "nothing is wanted".to_owned(), Answer::words);
                let text = one_line(format_args!("settled: {key}, after {}: {says}", GoDuration::new(*after)));
                let more = json!({"answer": answer.as_ref().map(of_answer), "afterSeconds": after.as_secs_f64()});
                ("settled", key, text, more)
            }
        };
        let now = self.clock.now().wall;
        self.say(&format!("{now:.0} {text}"), &object(found, now, key, &more));
    }
}

const fn word(side: Side) -> &'static str {
    match side {
        Side::Incumbent => "incumbent",
        Side::Candidate => "candidate",
    }
}

fn line(name: &str, answer: Option<&Answer>) -> String {
    let Some(answer) = answer else {
        return format!("    {name} says nothing of it: nothing is wanted");
    };
    let at = answer.at.map_or_else(String::new, |at| format!(" at {at:.0}"));
    format!(
        "    {name}: {}{at}\n        {}",
        one_line(answer.words()),
        one_line(&answer.why)
    )
}

fn of_answer(answer: &Answer) -> Value {
    json!({
        "says": answer.words(), "at": answer.at.map(|at| at.to_string()), "why": answer.why, "inTurn": answer.in_turn,
    })
}

fn object(found: &str, at: Wall, key: &Key, more: &Value) -> Value {
    let mut object = json!({
        "found": found, "at": at.to_string(), "question": key.question.as_str(), "object": key.object, "uid": key.uid,
    });
    if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
        object.extend(more.clone());
    }
    object
}
