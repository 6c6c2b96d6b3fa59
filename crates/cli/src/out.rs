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

/// Prints a text.
pub fn print(text: impl Display) -> Result<(), Unwritten> {
    let mut out = io::stdout().lock();
    let written = out.write_all(plain(&text.to_string()).as_bytes());
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Unwritten(error)),
        _ => Ok(()),
    }
}

/// A text without what a terminal would obey: others wrote parts of it, such as the reason of a pause. Within JSON it means the same.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => plain.push(character),
            // Written to a String.
            _ if character.is_control() => drop(write!(plain, "\\u{:04x}", u32::from(character))),
            _ => plain.push(character),
        }
    }
    plain
}

/// Prints a line.
pub fn line(text: impl Display) -> Result<(), Unwritten> {
    print(format_args!("{text}\n"))
}

/// Says something beside, to standard error, which nobody may read.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
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
}
