//! A line of a terminal: pieces of text, each with how it is to be taken.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a text is to be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As any other.
    #[default]
    Plain,
    /// A title.
    Title,
    /// Of no interest at the moment.
    Faint,
    /// As it should be.
    Good,
    /// Not as it is most of the time.
    Odd,
    /// As it should not be.
    Bad,
}

/// A piece of text without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    text: String,
    tone: Tone,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(Vec<Span>);

// === impl Span ===

impl Span {
    /// A text. What a terminal would not show but obey is left out: some of it was written by others.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        let mut text: String = text.into();
        if text.chars().any(char::is_control) {
            text = text.replace(char::is_control, " ");
        }
        Self { text, tone }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How it is to be taken.
    pub const fn tone(&self) -> Tone {
        self.tone
    }

    /// How many columns it takes.
    pub fn width(&self) -> usize {
        self.text.width()
    }

    /// Leaves out what is beyond so many columns.
    fn clip(&mut self, width: usize) {
        let mut left = width;
        let end = self.text.char_indices().find(|(_, one)| {
            let taken = one.width().unwrap_or(0);
            let is_beyond = taken > left;
            left = left.saturating_sub(taken);
            is_beyond
        });
        if let Some((end, _)) = end {
            self.text.truncate(end);
        }
    }
}

impl<T: Into<String>> From<T> for Span {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

// === impl Line ===

impl Line {
    /// Adds a piece.
    pub fn push(&mut self, span: Span) {
        self.0.push(span);
    }

    /// Its pieces, from the left.
    pub fn spans(&self) -> &[Span] {
        &self.0
    }

    /// All of it.
    pub fn text(&self) -> String {
        self.0.iter().map(Span::text).collect()
    }

    /// Leaves out what is beyond so many columns, and says so by the last of them.
    pub fn clip(&mut self, width: usize) {
        let is_cut = self.text().trim_end().width() > width;
        let mut left = width.saturating_sub(usize::from(is_cut));
        for span in &mut self.0 {
            span.clip(left);
            left -= span.width().min(left);
        }
        if is_cut && width > 0 {
            self.push(Span::new("…", Tone::Faint));
        }
    }
}

impl From<Span> for Line {
    fn from(span: Span) -> Self {
        Self(vec![span])
    }
}

impl From<Vec<Span>> for Line {
    fn from(spans: Vec<Span>) -> Self {
        Self(spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_where_the_terminal_does() {
        let cases = [
            ("abc", 5, "abc"),
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("abc ", 3, "abc"),
            ("a日本", 4, "a日…"),
            ("日本語", 4, "日…"),
            ("日本", 0, ""),
        ];
        for (text, width, wanted) in cases {
            let mut line = Line::from(Span::from(text));
            line.clip(width);
            assert_eq!(line.text(), wanted, "{text} in {width}");
        }
        let mut line = Line::from(vec![Span::from("ab"), Span::from("cd"), Span::from("ef")]);
        line.clip(3);
        assert_eq!(line.text(), "ab…");
    }

    #[test]
    fn what_a_terminal_would_obey_is_left_out() {
        assert_eq!(Span::from("a\x1b[31mb\nc").text(), "a [31mb c");
    }
}
