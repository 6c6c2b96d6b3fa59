//! What a frame looks like: a pure function of what is known, the size, and the time.
//!
//! Counts of everything are at the top. Below are lists, which share what room there is and say what they leave out.

mod grid;
mod line;
mod lists;

use std::time::Duration;

use bailiff_model::{Now, Verdict, Wall};

use self::grid::Grid;
pub use self::line::{Line, Span, Tone};
use super::view::View;
use crate::status::{isolation, pods};

/// Single nodes and pods in a frame that is as high as it has to be: what is read at a glance.
const LISTED: usize = 10;

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// A frame of this size: at most so many lines, each at most so wide.
pub fn frame(view: &View, size: Size, now: Now) -> Vec<Line> {
    let mut lines = head(view, now);
    let room = size.height.saturating_sub(lines.len() + 1);
    let mut grids = lists::all(view, now, room);
    if grids.iter().map(Grid::height).sum::<usize>() > room {
        grids = grids.into_iter().map(Grid::without_gap).collect();
    }
    let wanted: Vec<usize> = grids.iter().map(Grid::height).collect();
    for (grid, height) in grids.iter().zip(share(&wanted, room)) {
        lines.extend(grid.lines(height));
    }
    // The last row says how to leave.
    lines.resize(size.height.saturating_sub(1), Line::default());
    lines.push(Line::from(Span::new("q: quit", Tone::Faint)));
    lines.truncate(size.height);
    lines.iter_mut().for_each(|line| line.clip(size.width));
    lines
}

/// A frame as plain text: as wide as that, if anything limits it, and as high as it has to be.
pub fn plain(view: &View, width: Option<usize>, now: Now) -> String {
    let mut lines = head(view, now);
    for grid in lists::all(view, now, LISTED) {
        lines.extend(grid.lines(grid.height()));
    }
    if let Some(width) = width {
        lines.iter_mut().for_each(|line| line.clip(width));
    }
    format!("{}\n", text(&lines).trim_end())
}

/// The text of a frame, without what is empty at the ends of lines.
pub fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{}\n", line.text().trim_end())).collect()
}

/// What each of them gets of `room`: all that it wants where that is enough for all, and else no more than what the others get.
fn share(wanted: &[usize], mut room: usize) -> Vec<usize> {
    let mut given = vec![0; wanted.len()];
    let mut modest_first: Vec<usize> = (0..wanted.len()).collect();
    modest_first.sort_by_key(|index| wanted[*index]);
    for (place, index) in modest_first.into_iter().enumerate() {
        given[index] = wanted[index].min(room / (wanted.len() - place));
        room -= given[index];
    }
    given
}

/// The counts of everything.
fn head(view: &View, now: Now) -> Vec<Line> {
    let overview = &view.overview;
    let judged = Verdict::ALL.map(|verdict| (verdict.as_str(), overview.nodes_judged(verdict)));
    let mut first = vec![
        Span::new("bailiff top", Tone::Title),
        Span::from(format!("  {:.0}", now.wall)),
    ];
    if let Some(since) = view.lost_since {
        let silence = for_people(now.mono.saturating_since(since));
        let lost = format!("  the bus is lost, its last word is {silence} old");
        first.push(Span::new(lost, Tone::Bad));
    }
    vec![
        Line::from(first),
        counts("nodes", &judged),
        counts("isolation", &isolation(overview)),
        counts("pods", &pods(overview)),
        Line::default(),
    ]
}

fn counts(title: &str, counts: &[(&str, usize)]) -> Line {
    let mut spans = vec![Span::new(format!("{title:<11}"), Tone::Title)];
    for (index, (word, count)) in counts.iter().enumerate() {
        let tone = if *count == 0 { Tone::Faint } else { tone_of(word) };
        let word = word.replace('_', " ");
        let comma = if index == 0 { "" } else { ", " };
        spans.push(Span::from(comma));
        spans.push(Span::new(format!("{count} {word}"), tone));
    }
    Line::from(spans)
}

/// How a count of these is to be taken.
fn tone_of(word: &str) -> Tone {
    match word {
        "healthy" => Tone::Good,
        "unreachable" | "isolated" | "refused" => Tone::Bad,
        "scheduled" | "evicting" => Tone::Plain,
        _ => Tone::Odd,
    }
}

/// How long ago that was.
fn age(now: Now, since: Wall) -> String {
    for_people(Duration::try_from(now.wall.duration_since(since)).unwrap_or_default())
}

/// How long it takes until then.
fn ahead(now: Now, at: Wall) -> String {
    match Duration::try_from(at.duration_since(now.wall)) {
        Ok(left) if left >= Duration::from_secs(1) => format!("in {}", for_people(left)),
        _ => "now".to_owned(),
    }
}

/// A duration in the two largest units that it has.
fn for_people(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, ..) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests;
