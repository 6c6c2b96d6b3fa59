//! A list in columns, under a line of titles: each column as wide as what is in it.

use super::line::{Line, Span, Tone};

/// Columns between two columns.
const SPACING: usize = 2;

/// A list in columns.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    titles: &'static [&'static str],
    rows: Vec<Vec<Span>>,
    /// Of which `rows` are the first.
    total: usize,
    /// An empty line follows the last row.
    has_gap: bool,
}

// === impl Grid ===

impl Grid {
    /// A list that begins with these rows.
    pub(super) fn new(titles: &'static [&'static str], rows: Vec<Vec<Span>>, total: usize) -> Self {
        Self {
            titles,
            rows,
            total,
            has_gap: true,
        }
    }

    /// Does without the empty line: for a screen that is too small.
    pub(super) fn without_gap(mut self) -> Self {
        self.has_gap = false;
        self
    }

    /// How many lines it takes.
    pub(super) fn height(&self) -> usize {
        let left_out = usize::from(self.total > self.rows.len());
        1 + self.rows.len() + left_out + usize::from(self.has_gap)
    }

    /// As much of it as `height` lines have room for.
    pub(super) fn lines(&self, height: usize) -> Vec<Line> {
        let room = height.saturating_sub(1 + usize::from(self.has_gap));
        let shown = if self.total <= room { room } else { room.saturating_sub(1) };
        let shown = &self.rows[..shown.min(self.rows.len())];
        let widths = self.widths();
        let titles: Vec<Span> = self.titles.iter().map(|title| Span::new(*title, Tone::Title)).collect();
        let mut lines = vec![in_columns(&titles, &widths)];
        lines.extend(shown.iter().map(|row| in_columns(row, &widths)));
        if room > shown.len() && self.total > shown.len() {
            let left_out = format!("and {} more", self.total - shown.len());
            lines.push(Line::from(Span::new(left_out, Tone::Faint)));
        }
        lines.extend(self.has_gap.then(Line::default));
        lines.truncate(height);
        lines
    }

    /// As wide as what is in them, shown or not, so that columns do not dance with the height of the list.
    fn widths(&self) -> Vec<usize> {
        let widest = |(index, title): (usize, &&str)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(Span::width).max().unwrap_or(0).max(title.len())
        };
        self.titles.iter().enumerate().map(widest).collect()
    }
}

fn in_columns(cells: &[Span], widths: &[usize]) -> Line {
    let mut line = Line::default();
    for (cell, width) in cells.iter().zip(widths) {
        let blank = width.saturating_sub(cell.width()) + SPACING;
        line.push(cell.clone());
        line.push(Span::from(" ".repeat(blank)));
    }
    line
}
