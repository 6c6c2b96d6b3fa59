use proptest::prelude::*;

use super::*;
use crate::answer::Question;

const TOLERANCE: Tolerance = Tolerance {
    within: Duration::from_secs(10),
    turn: Duration::from_secs(300),
};

/// Seconds since the clock's origin.
fn at(seconds: u64) -> Mono {
    Mono::from_origin(Duration::from_secs(seconds))
}

fn mk_key() -> Key {
    Key::new(Question::Eviction, "pod default/web-1").of_uid("u")
}

fn mk_answer(says: &str) -> Option<Answer> {
    Some(Answer::new(says, format!("because of {says}")))
}

fn mk_comparison() -> Comparison {
    let mut comparison = Comparison::new(TOLERANCE);
    for side in Side::BOTH {
        comparison.heard(side, true, at(0));
    }
    comparison
}

/// What happens, when: each side answers a word, or with an empty one nothing.
fn play(comparison: &mut Comparison, acts: &[(u64, Side, &str)], until: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (seconds, side, says) in acts {
        findings.extend(comparison.judge(at(*seconds)));
        let answer = Some(*says).filter(|says| !says.is_empty()).and_then(mk_answer);
        findings.extend(comparison.answer(*side, mk_key(), answer, at(*seconds)));
    }
    findings.extend(comparison.judge(at(until)));
    findings
}

fn word(answer: Option<&Answer>) -> String {
    answer.map_or_else(String::new, |answer| answer.says.clone())
}

/// One word for each finding but agreements: `goes|` for a difference, `=goes` for its end.
fn words(findings: &[Finding]) -> Vec<String> {
    let one = |finding: &Finding| match finding {
        Finding::Differs {
            incumbent, candidate, ..
        } => format!("{}|{}", word(incumbent.as_ref()), word(candidate.as_ref())),
        Finding::Settled { answer, .. } => format!("={}", word(answer.as_ref())),
        Finding::Agrees { .. } => String::new(),
    };
    findings.iter().map(one).filter(|word| !word.is_empty()).collect()
}

#[test]
fn who_is_late_agrees_and_who_never_comes_differs() {
    use Side::{Candidate as C, Incumbent as I};
    /// Acts, the findings until a minute later, and how many agreed, differed and passed.
    type Case = (
        &'static str,
        &'static [(u64, Side, &'static str)],
        &'static [&'static str],
        [u64; 3],
    );
    let cases: &[Case] = &[
        ("at once", &[(20, I, "goes"), (20, C, "goes")], &[], [1, 0, 0]),
        ("within the tolerance", &[(20, C, "goes"), (29, I, "goes")], &[], [1, 0, 0]),
        ("one only", &[(20, C, "goes")], &["|goes"], [0, 1, 0]),
        (
            "too late",
            &[(20, C, "goes"), (31, I, "goes")],
            &["|goes", "=goes"],
            [0, 1, 0],
        ),
        ("taken back at once", &[(20, C, "goes"), (25, C, "")], &[], [0, 0, 1]),
        (
            "taken back later",
            &[(20, C, "goes"), (35, C, "")],
            &["|goes", "="],
            [0, 1, 0],
        ),
        (
            "both, one after the other, for a moment each",
            &[(20, C, "goes"), (21, C, ""), (25, I, "goes"), (26, I, "")],
            &[],
            [2, 0, 0],
        ),
        (
            "the other side comes to it when it is taken back, and stays",
            &[(20, C, "goes"), (21, C, ""), (22, I, "goes")],
            &["goes|"],
            [1, 1, 0],
        ),
        (
            "who changes its mind again and again, and who does not",
            &[(20, C, "1"), (28, C, "2"), (36, C, "3"), (44, C, "4"), (52, C, "")],
            &["|3", "="],
            [0, 1, 1],
        ),
        (
            "the same for a moment each, too far apart",
            &[(20, C, "goes"), (21, C, ""), (40, I, "goes"), (41, I, "")],
            &[],
            [0, 0, 2],
        ),
        (
            "by another way to the same",
            &[(20, C, "late"), (24, C, "goes"), (26, I, "goes")],
            &[],
            [1, 0, 1],
        ),
        (
            "different answers",
            &[(20, C, "goes"), (22, I, "stays")],
            &["stays|goes"],
            [0, 1, 0],
        ),
        (
            "a return that the other side never left",
            &[(20, I, "goes"), (20, C, "goes"), (40, C, "stays"), (44, C, "goes")],
            &[],
            [1, 0, 1],
        ),
        (
            "a difference that becomes another one",
            &[(20, C, "goes"), (40, C, "stays"), (60, I, "stays")],
            &["|goes", "|stays", "=stays"],
            [0, 2, 0],
        ),
        (
            "both take it back",
            &[(20, I, "goes"), (21, C, "goes"), (60, C, ""), (65, I, "")],
            &[],
            [2, 0, 0],
        ),
        (
            "one takes it back",
            &[(20, I, "goes"), (21, C, "goes"), (60, C, "")],
            &["goes|"],
            [1, 1, 0],
        ),
    ];
    for (name, acts, wanted, figures) in cases {
        let mut comparison = mk_comparison();
        let findings = play(&mut comparison, acts, 120);
        assert_eq!(words(&findings), *wanted, "{name}");
        let score = comparison.score();
        assert_eq!([score.agreed, score.differing, score.passing], *figures, "{name}");
    }
}

#[test]
fn what_waits_for_its_turn_has_longer() {
    let in_turn = |says| mk_answer(says).map(Answer::in_turn);
    let mut comparison = mk_comparison();
    comparison.answer(Side::Candidate, mk_key(), in_turn("goes"), at(20));
    assert_eq!(comparison.judge(at(300)), []);
    assert_eq!(comparison.score().waiting, 1);
    comparison.answer(Side::Incumbent, mk_key(), mk_answer("goes"), at(301));
    assert_eq!(comparison.score().agreed, 1);
    assert_eq!(comparison.judge(at(400)), []);

    // Its turn never comes, as far as the incumbent is concerned.
    let mut comparison = mk_comparison();
    comparison.answer(Side::Candidate, mk_key(), in_turn("goes"), at(20));
    assert_eq!(words(&comparison.judge(at(320))), ["|goes"]);

    // Its turn comes, and with it the tolerance.
    let mut comparison = mk_comparison();
    comparison.answer(Side::Candidate, mk_key(), in_turn("goes"), at(20));
    comparison.answer(Side::Candidate, mk_key(), mk_answer("goes"), at(100));
    assert_eq!(comparison.judge(at(109)), []);
    assert_eq!(words(&comparison.judge(at(110))), ["|goes"]);
}

#[test]
fn who_does_not_tell_how_agrees_with_either_way_until_that_is_told() {
    use Side::{Candidate as C, Incumbent as I};
    /// Acts, each with how it is done or in its turn; the findings; and how many agreed and differed.
    type Case = (
        &'static str,
        &'static [(u64, Side, &'static str)],
        &'static [&'static str],
        [u64; 2],
    );
    let cases: &[Case] = &[
        ("in the same way", &[(20, I, "isolated"), (21, C, "isolated")], &[], [1, 0]),
        (
            "in different ways",
            &[(20, I, "isolated"), (21, C, "emptied")],
            &["acted on|acted on"],
            [0, 1],
        ),
        (
            "one waits for ever",
            &[(20, I, ""), (20, C, ""), (50, I, "isolated")],
            &[],
            [1, 0],
        ),
        (
            "both wait, and do the same",
            &[(20, I, ""), (20, C, ""), (50, I, "isolated"), (90, C, "isolated")],
            &[],
            [1, 0],
        ),
        (
            "both wait, and do not",
            &[(20, I, ""), (20, C, ""), (50, I, "isolated"), (90, C, "emptied")],
            &["acted on|acted on"],
            [1, 1],
        ),
        (
            "one does not tell it any more",
            &[(20, I, "isolated"), (21, C, "emptied"), (60, C, "")],
            &["acted on|acted on", "=acted on"],
            [0, 1],
        ),
    ];
    for (name, acts, wanted, figures) in cases {
        let (mut comparison, mut findings) = (mk_comparison(), Vec::new());
        for (seconds, side, how) in *acts {
            findings.extend(comparison.judge(at(*seconds)));
            let answer = mk_answer("acted on").map(|answer| if how.is_empty() { answer.in_turn() } else { answer.by(how) });
            findings.extend(comparison.answer(*side, mk_key(), answer, at(*seconds)));
        }
        findings.extend(comparison.judge(at(150)));
        assert_eq!(words(&findings), *wanted, "{name}");
        let score = comparison.score();
        assert_eq!([score.agreed, score.differing], *figures, "{name}");
        assert_eq!(comparison.next_due(), None, "{name}");
    }
}

#[test]
fn moments_agree_within_the_tolerance() {
    let goes = |second| mk_answer("goes").map(|answer| answer.at(bailiff_model::Wall::from_second(second).expect("in range")));
    for (apart, differs) in [(0, false), (10, false), (11, true)] {
        let mut comparison = mk_comparison();
        comparison.answer(Side::Incumbent, mk_key(), goes(1_000), at(20));
        comparison.answer(Side::Candidate, mk_key(), goes(1_000 + apart), at(20));
        assert_eq!(!comparison.judge(at(60)).is_empty(), differs, "{apart} s apart");
    }
}

#[test]
fn silence_is_no_answer() {
    let mut comparison = mk_comparison();
    comparison.answer(Side::Candidate, mk_key(), mk_answer("goes"), at(20));
    comparison.heard(Side::Incumbent, false, at(25));
    assert_eq!(comparison.next_due(), None);
    assert_eq!(comparison.judge(at(1_000)), []);
    comparison.heard(Side::Incumbent, true, at(1_000));
    assert_eq!(comparison.judge(at(1_009)), [], "the tolerance begins anew");
    assert_eq!(words(&comparison.judge(at(1_010))), ["|goes"]);
}

#[test]
fn what_stood_already_is_counted_and_no_decision() {
    let mut comparison = Comparison::new(TOLERANCE);
    comparison.heard(Side::Incumbent, true, at(0));
    for (side, object, says) in [
        (Side::Incumbent, "node a", "ready"),
        (Side::Candidate, "node a", "ready"),
        (Side::Incumbent, "node b", "ready"),
        (Side::Candidate, "node b", "lost"),
    ] {
        comparison.answer(side, Key::new(Question::Health, object), mk_answer(says), at(1));
    }
    comparison.heard(Side::Candidate, true, at(2));
    assert_eq!(words(&comparison.judge(at(60))), ["ready|lost"]);
    let score = comparison.score();
    assert_eq!((score.standing, score.standing_differing), (1, 1));
    assert_eq!((score.agreed, score.differing), (0, 0), "nothing was decided since");
    assert!(!score.suffices(1.0) && score.suffices(0.5));
}

#[test]
fn what_cannot_be_taken_back_stays_decided() {
    let mut comparison = mk_comparison();
    comparison.answer(Side::Candidate, mk_key(), mk_answer("goes").map(Answer::for_good), at(20));
    comparison.answer(Side::Candidate, mk_key(), None, at(21));
    comparison.answer(Side::Incumbent, mk_key(), mk_answer("goes"), at(25));
    assert_eq!(comparison.judge(at(60)), []);
    assert_eq!((comparison.score().agreed, comparison.score().passing), (1, 0));

    // What the other side said of it until then is what is compared, and told once.
    let mut comparison = mk_comparison();
    comparison.answer(Side::Candidate, mk_key(), mk_answer("stays"), at(20));
    comparison.answer(Side::Incumbent, mk_key(), mk_answer("goes").map(Answer::for_good), at(20));
    comparison.answer(Side::Candidate, mk_key(), None, at(21));
    assert_eq!(words(&comparison.judge(at(90))), ["goes|stays"]);
}

#[test]
fn a_pod_that_is_gone_was_decided_by_what_was_said_last() {
    let mut comparison = mk_comparison();
    comparison.answer(Side::Candidate, mk_key(), mk_answer("goes"), at(20));
    comparison.over(Side::Candidate, &mk_key());
    assert_eq!(words(&comparison.judge(at(30))), ["|goes"], "being gone takes nothing back");
    comparison.over(Side::Incumbent, &mk_key());
    assert_eq!((comparison.pairs.len(), comparison.score().differing), (0, 1));

    let mut comparison = mk_comparison();
    comparison.heard(Side::Incumbent, false, at(10));
    comparison.answer(Side::Candidate, mk_key(), mk_answer("goes").map(Answer::for_good), at(20));
    comparison.heard(Side::Incumbent, true, at(30));
    assert_eq!(
        comparison.judge(at(90)),
        [],
        "it was decided while the other side could not be heard"
    );

    let mut comparison = mk_comparison();
    for side in Side::BOTH {
        comparison.answer(side, mk_key(), mk_answer("goes"), at(20));
        comparison.over(side, &mk_key());
    }
    assert_eq!(
        (comparison.pairs.len(), comparison.score().agreed),
        (0, 1),
        "nothing is kept of it"
    );
}

/// What a side answers over time: some seconds after the last answer, one of a few.
fn courses() -> impl Strategy<Value = Vec<(u64, Option<&'static str>)>> {
    let answer = prop_oneof![Just(None), Just(Some("goes")), Just(Some("stays")), Just(Some("late"))];
    prop::collection::vec((0_u64..60, answer), 0..12)
}

/// The acts of both sides in order of time, the candidate's each later by its delay.
fn acts(course: &[(u64, Option<&'static str>)], delays: &[u64]) -> Vec<(u64, Side, &'static str)> {
    let mut acts = Vec::new();
    let (mut now, mut follows) = (0, 0);
    for ((after, says), delay) in course.iter().zip(delays.iter().cycle()) {
        now += after;
        let says = says.unwrap_or("");
        acts.push((now, Side::Incumbent, says));
        // Whoever follows speaks in the same order.
        follows = follows.max(now + delay);
        acts.push((follows, Side::Candidate, says));
    }
    acts.sort_by_key(|(at, ..)| *at);
    acts
}

proptest! {
    #[test]
    fn who_follows_in_time_never_differs(course in courses(), delays in prop::collection::vec(0_u64..10, 1..12)) {
        let mut comparison = mk_comparison();
        let acts = acts(&course, &delays);
        let end = acts.last().map_or(0, |(at, ..)| *at) + 1_000;
        let findings = play(&mut comparison, &acts, end);
        prop_assert_eq!(words(&findings), Vec::<String>::new());
        prop_assert_eq!(comparison.score().differing, 0);
    }

    #[test]
    fn whoever_ends_differently_is_told(course in courses(), other in courses()) {
        let mut comparison = mk_comparison();
        let (mut acts, mut now) = (Vec::new(), 0);
        for (after, says) in &course {
            now += after;
            acts.push((now, Side::Incumbent, says.unwrap_or("")));
        }
        let mut now = 0;
        for (after, says) in &other {
            now += after;
            acts.push((now, Side::Candidate, says.unwrap_or("")));
        }
        acts.sort_by_key(|(at, ..)| *at);
        let end = acts.last().map_or(0, |(at, ..)| *at) + 1_000;
        let findings = play(&mut comparison, &acts, end);
        let last = |course: &[(u64, Option<&'static str>)]| course.last().and_then(|(_, says)| *says);
        let differs = last(&course) != last(&other);
        prop_assert_eq!(comparison.score().still_differing, u64::from(differs));
        prop_assert_eq!(comparison.next_due(), None, "nothing is left to be judged");
        // Each difference that was told and ended was told to have ended.
        let mut told = false;
        for finding in &findings {
            match finding {
                Finding::Differs { .. } => told = true,
                Finding::Settled { .. } => prop_assert!(std::mem::take(&mut told)),
                Finding::Agrees { .. } => {}
            }
        }
        prop_assert_eq!(told, differs);
    }
}
