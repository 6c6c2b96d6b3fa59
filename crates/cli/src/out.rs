//! What commands print, and the files that they write.
//!
//! Whoever reads what is printed may have seen enough, as `head` has: that stops nothing, and the exit code still tells what came of it.

use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What was to be printed is lost, such as on a full disk.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to the standard output")]
pub struct Unwritten(#[source] io::Error);

/// A file or a directory that was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct NoFile {
    path: PathBuf,
    source: io::Error,
}

/// What is wrong with writing this file or directory.
pub fn no_file(path: &Path) -> impl FnOnce(io::Error) -> NoFile {
    let path = path.to_owned();
    move |source| NoFile { path, source }
}

/// Whether anybody reads what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Somebody may.
    There,
    /// Nobody does any more.
    Gone,
}

/// Prints a text.
pub fn print(text: impl Display) -> Result<Reader, Unwritten> {
    write(&plain(&text.to_string()))
}

fn write(text: &str) -> Result<Reader, Unwritten> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Unwritten(error)),
    }
}

/// A text without what a terminal would obey: others wrote parts of it, such as the reason of a pause. Within JSON it means the same.
pub fn plain(text: &str) -> String {
    escaped(text, |character| character != '\n')
}

/// The same as a part of a line: what others wrote ends none, and so says nothing in a line of its own.
pub fn one_line(text: impl Display) -> String {
    escaped(&text.to_string(), |_| true)
}

fn escaped(text: &str, is_meant: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && is_meant(character) {
            // Written to a String.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Prints a line.
pub fn line(text: impl Display) -> Result<Reader, Unwritten> {
    print(format_args!("{text}\n"))
}

/// Says something beside, to standard error, which nobody may read.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", plain(&text.to_string()));
}

/// Prints lines for whoever goes on all the same when one is lost, and says so at the end.
#[derive(Debug, Default)]
pub struct Lines(Option<Unwritten>);

// === impl Lines ===

impl Lines {
    /// Prints a line.
    pub fn line(&mut self, text: impl Display) {
        self.keep(line(text));
    }

    /// Prints a line with colours in it. What others wrote of it is [`one_line`] already.
    pub fn painted(&mut self, text: impl Display) {
        self.keep(write(&format!("{text}\n")));
    }

    fn keep(&mut self, printed: Result<Reader, Unwritten>) {
        self.0 = self.0.take().or(printed.err());
    }

    /// Whether all of them were printed, or nobody reads them.
    pub fn end(self) -> Result<(), Unwritten> {
        self.0.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_of_what_is_printed_and_programs_read_the_same() {
        assert_eq!(plain("a\x1b[31mb\nc\u{9b}2J ünï"), "a\\u001b[31mb\nc\\u009b2J ünï");
        let object = serde_json::json!({"reason": "a\x1b\u{7f}\u{9b}\n"});
        let read: serde_json::Value = serde_json::from_str(&plain(&object.to_string())).expect("JSON");
        assert_eq!(read, object);
    }

    #[test]
    fn what_is_put_into_a_line_ends_none() {
        assert_eq!(
            one_line("a\x1b[31mb\nnothing is paused"),
            "a\\u001b[31mb\\u000anothing is paused"
        );
    }
}
