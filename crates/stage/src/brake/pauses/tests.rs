use super::*;

const HOUR: u64 = 3600;

/// Monotonic and wall seconds since an arbitrary moment.
fn at(mono: u64, wall: i64) -> Now {
    Now {
        mono: Mono::from_origin(Duration::from_secs(mono)),
        wall: wall_at(wall),
    }
}

fn wall_at(second: i64) -> Wall {
    Wall::from_second(1_700_000_000 + second).expect("in range")
}

fn mk_pause(scope: HoldScope, since: i64, until: i64) -> Pause {
    Pause {
        scope,
        since: Some(wall_at(since)),
        until: wall_at(until),
        reason: "maintenance".to_owned(),
        by: "ada@desk".to_owned(),
    }
}

fn mk_entries(pauses: &[Pause]) -> BTreeMap<String, String> {
    pauses.iter().map(|pause| (pause.key(), pause.to_entry())).collect()
}

fn is_held(book: &Book, now: Now) -> bool {
    book.holds(now).on_everything().is_some()
}

#[test]
fn entries_are_read_back_as_written() {
    let scopes = [
        HoldScope::All,
        HoldScope::Zone(Zone::new("eu", "a")),
        HoldScope::Zone(Zone::new("", "a.b-c_d")),
        HoldScope::Node("n1.example".into()),
    ];
    for scope in scopes {
        let pause = mk_pause(scope, 0, 60);
        assert_eq!(Pause::parse(&pause.to_entry()).expect("as written"), pause);
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        assert!(pause.key().chars().all(allowed), "{} is a key", pause.key());
    }
}

#[test]
fn what_is_no_entry_is_refused_and_pauses_everything() {
    let texts = [
        "",
        "{}",
        "until tomorrow",
        r#"{"until":"2024-01-01T00:00:00Z","reason":"r"}"#,
        r#"{"all":true,"reason":"r"}"#,
        r#"{"all":true,"until":"2024-01-01T00:00:00Z","reason":" "}"#,
        r#"{"all":false,"until":"2024-01-01T00:00:00Z","reason":"r"}"#,
        r#"{"all":true,"node":"n","until":"2024-01-01T00:00:00Z","reason":"r"}"#,
        r#"{"zone":"a","until":"2024-01-01T00:00:00Z","reason":"r"}"#,
        r#"{"node":"","until":"2024-01-01T00:00:00Z","reason":"r"}"#,
        r#"{"all":true,"until":"tomorrow","reason":"r"}"#,
        r#"{"all":true,"until":"2024-01-01T00:00:00Z","reason":"r","for":"2h"}"#,
    ];
    for text in texts {
        assert!(Pause::parse(text).is_err(), "{text}");
        let mut book = Book::default();
        book.set(&[("x".to_owned(), text.to_owned())].into(), true, at(0, 0));
        let holds = book.holds(at(0, 0));
        let hold = holds.on_everything().expect("paused");
        assert!(
            hold.reason == HoldReason::Paused && hold.detail.contains(r#"entry "x""#),
            "{hold:?}"
        );
        book.set(&BTreeMap::new(), true, at(1, 1));
        assert!(book.holds(at(1, 1)).is_empty());
    }
}

/// A pause that was seen to appear lasts as long as asked for, whatever the wall clock does.
#[test]
fn a_wall_clock_step_ends_no_pause_early() {
    let steps = [-400_000_000, -86_400, -10, 0, 10, 3_600, 86_400, 400_000_000];
    for (step, skew) in steps.into_iter().flat_map(|step| steps.map(|skew| (step, skew))) {
        let mut book = Book::default();
        // The writer's clock is ahead of ours by `skew`.
        book.set(&mk_entries(&[mk_pause(HoldScope::All, skew, skew + 7200)]), true, at(1000, 0));
        assert!(is_held(&book, at(1000, 0)));
        for seconds in [1, HOUR, 2 * HOUR - 1] {
            let wall = i64::try_from(seconds).expect("small") + step;
            assert!(
                is_held(&book, at(1000 + seconds, wall)),
                "step {step}, skew {skew}, after {seconds} s"
            );
        }
        assert!(
            !is_held(&book, at(1000 + 2 * HOUR, 7200 + step)),
            "step {step}, skew {skew}: it ends"
        );
    }
}

/// A pause found at the start lasts at least what is left by the wall clock then, and at most what was asked for.
#[test]
fn a_pause_that_is_found_lasts_what_is_left_of_it() {
    // Clock steps after the start at 0, with one of two hours left; held until, in seconds since the start.
    let cases = [(0, 3600), (5, 3600), (86_400, 3600), (-600, 4200), (-86_400, 7200)];
    for (step, ends) in cases {
        let mut book = Book::default();
        book.set(&mk_entries(&[mk_pause(HoldScope::All, -3600, 3600)]), false, at(0, 0));
        let held = |second: i64| is_held(&book, at(second.unsigned_abs(), second + step));
        assert!(held(ends - 1), "step {step}");
        assert!(!held(ends), "step {step}");
    }
}

#[test]
fn a_pause_that_seemed_over_holds_again_once_the_clock_is_right() {
    let mut book = Book::default();
    book.set(&mk_entries(&[mk_pause(HoldScope::All, 0, 7200)]), false, at(0, 9000));
    assert!(!is_held(&book, at(0, 9000)));
    assert!(is_held(&book, at(5, 605)));
    assert!(!is_held(&book, at(6600, 7200)));
}

#[test]
fn an_entry_that_says_no_beginning_counts_from_when_it_was_seen() {
    let pause = Pause {
        since: None,
        ..mk_pause(HoldScope::All, 0, 60)
    };
    for live in [false, true] {
        let mut book = Book::default();
        book.set(&mk_entries(std::slice::from_ref(&pause)), live, at(0, 0));
        assert!(is_held(&book, at(59, 59)) && !is_held(&book, at(60, 60)));
    }
}

/// The same entry shown again, by a list or a change of another one, does not begin again; a changed one does.
#[test]
fn what_is_known_goes_on_and_what_changed_begins_anew() {
    let (first, other) = (mk_pause(HoldScope::All, 0, 60), mk_pause(HoldScope::Node("n".into()), 30, 90));
    let mut book = Book::default();
    book.set(&mk_entries(std::slice::from_ref(&first)), true, at(0, 0));
    book.set(&mk_entries(&[first, other]), true, at(30, 30));
    assert!(!is_held(&book, at(60, 60)));
    book.set(&mk_entries(&[mk_pause(HoldScope::All, 50, 110)]), true, at(50, 50));
    assert!(is_held(&book, at(109, 109)) && !is_held(&book, at(110, 110)));
}

#[test]
fn what_cannot_be_read_does_not_undo_what_was() {
    let mut book = Book::default();
    let node = mk_pause(HoldScope::Node("n".into()), 0, 60);
    book.set(&mk_entries(&[node]), true, at(0, 0));
    book.set_unreadable("broken".to_owned(), at(1, 1));
    let holds = book.holds(at(2, 2));
    assert_eq!(holds.iter().count(), 2);
    assert_eq!(holds.on_everything().map(|hold| hold.since), Some(wall_at(1)));
}

/// Each end is said once; one that nobody saw standing is not said, nor one that a person ended.
#[test]
fn a_pause_that_ends_by_itself_is_said_once() {
    let mut book = Book::default();
    let (zone, node) = (HoldScope::Zone(Zone::new("eu", "a")), HoldScope::Node("n".into()));
    let stands = mk_pause(HoldScope::All, 0, 60);
    let entries = mk_entries(&[stands.clone(), mk_pause(zone, -90, -30), mk_pause(node, 0, 90)]);
    book.set(&entries, false, at(0, 0));
    assert_eq!(book.ended(at(59, 59)), []);
    assert_eq!(book.ended(at(60, 60)), std::slice::from_ref(&stands));
    assert_eq!(book.ended(at(61, 61)), []);
    book.set(&mk_entries(&[stands]), true, at(70, 70));
    assert_eq!(book.ended(at(100, 100)), [], "resumed by hand");
}

/// Nobody is woken for an entry that is over for good, nor each second for one that stands whatever the wall clock shows.
#[test]
fn entries_are_looked_at_when_time_may_change_them() {
    let looked_at = |since: Option<i64>, live: bool, now: Now| {
        let pause = Pause {
            since: since.map(wall_at),
            ..mk_pause(HoldScope::All, 0, 7200)
        };
        let mut book = Book::default();
        // Seen at 0 by the monotonic clock, and at 3600 by the wall clock.
        book.set(&mk_entries(&[pause]), live, at(0, 3600));
        book.looked_at(now).map(|at| at.since_origin().as_secs())
    };
    let cases = [
        // Seen to appear: it lasts two hours, exactly.
        (Some(0), true, at(0, 3600), Some(7200)),
        (Some(0), true, at(7199, 99_999), Some(7200)),
        (Some(0), true, at(7200, 3600), None),
        // Found with an hour left: from then on the wall clock decides, for another hour.
        (Some(0), false, at(0, 3600), Some(3600)),
        (Some(0), false, at(3600, 7200), Some(3601)),
        (Some(0), false, at(7199, 0), Some(7200)),
        (Some(0), false, at(7200, 0), None),
        (None, false, at(0, 3600), Some(3600)),
        (None, false, at(3600, 0), None),
    ];
    for (since, live, now, wanted) in cases {
        assert_eq!(
            looked_at(since, live, now),
            wanted,
            "since {since:?}, live: {live}, at {now:?}"
        );
    }
    assert_eq!(Book::default().looked_at(at(0, 0)), None);
}
