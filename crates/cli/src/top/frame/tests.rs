use super::*;
use crate::top::sample;

/// Set to have the frames written instead of compared.
const UPDATE: &str = "BAILIFF_UPDATE_DOCS";

fn shown(width: usize, height: usize) -> String {
    text(&frame(&sample::view(), Size { width, height }, sample::now()))
}

/// Compares with a file beside this one.
fn assert_kept(name: &str, text: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/top/frame/tests")
        .join(name);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, text).expect("it can be written");
        return;
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        text, kept,
        "{name} is out of date: run this test with {UPDATE}=1 and look at what it wrote"
    );
}

#[test]
fn a_frame_shows_everything_where_there_is_room() {
    assert_kept("large.txt", &shown(132, 48));
}

#[test]
fn lists_share_what_room_there_is_and_say_what_they_leave_out() {
    assert_kept("small.txt", &shown(80, 24));
}

#[test]
fn any_size_will_do() {
    for (width, height) in [(0, 0), (1, 1), (3, 200), (500, 2), (10, 8), (40, 12)] {
        let lines = frame(&sample::view(), Size { width, height }, sample::now());
        assert_eq!(lines.len(), height);
        let widest = lines.iter().map(|line| line.text().chars().count()).max().unwrap_or(0);
        assert!(widest <= width, "{widest} in {width}");
    }
}

#[test]
fn plain_text_is_as_high_as_what_is_in_it_and_lists_no_more_than_a_few_pods() {
    let text = plain(&sample::view(), None, sample::now());
    assert_kept("plain.txt", &text);
    let idle = plain(&View::default(), None, sample::now());
    assert_eq!(idle.matches("nobody has published yet").count(), 4, "{idle}");
    assert!(!idle.contains("ZONES") && !idle.contains("TIMERS"), "{idle}");
}

#[test]
fn a_lost_bus_is_told_first() {
    let mut view = sample::view();
    view.lost_since = Some(sample::now().mono.saturating_sub(Duration::from_secs(75)));
    let text = plain(&view, Some(100), sample::now());
    let first = text.lines().next().expect("a line");
    assert!(first.ends_with("the bus is lost, its last word is 1m15s old"), "{first}");
}

#[test]
fn room_is_shared_so_that_the_modest_get_what_they_want() {
    let cases: [(&[usize], usize, &[usize]); 6] = [
        (&[], 10, &[]),
        (&[3, 4], 10, &[3, 4]),
        (&[9, 3, 9], 15, &[6, 3, 6]),
        (&[9, 9], 9, &[4, 5]),
        (&[5, 5, 5], 2, &[0, 1, 1]),
        (&[1_000_000, 1], 3, &[2, 1]),
    ];
    for (wanted, room, given) in cases {
        assert_eq!(share(wanted, room), given, "{wanted:?} in {room}");
    }
}

#[test]
fn durations_are_told_in_their_two_largest_units() {
    let cases = [
        (0, "0s"),
        (59, "59s"),
        (60, "1m00s"),
        (3_599, "59m59s"),
        (3_600, "1h00m"),
        (86_399, "23h59m"),
        (90_000, "1d01h"),
    ];
    for (seconds, wanted) in cases {
        assert_eq!(for_people(Duration::from_secs(seconds)), wanted);
    }
    let now = sample::now();
    let other = |seconds: i64| Wall::from_second(now.wall.as_second() + seconds).expect("in range");
    assert_eq!((age(now, other(-5)), age(now, other(5))), ("5s".to_owned(), "0s".to_owned()));
    assert_eq!(
        (ahead(now, other(5)), ahead(now, other(-5))),
        ("in 5s".to_owned(), "now".to_owned())
    );
}
