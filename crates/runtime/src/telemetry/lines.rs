//! Lines of the log, which leave together.
//!
//! To write a line is a system call that wakes whoever reads, and a stage says one for each pod that it evicts. What the thread of a
//! [`OneThread`](crate::OneThread) says therefore leaves when that has nothing else to do, before it waits: nobody waits for it, and what
//! is lost when the process is killed is what it said since it woke up. A warning leaves at once, with all that was said before it. So
//! does what other threads say, and other processes, which have nobody who would send it later.

use std::cell::RefCell;
use std::io::{self, Write};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// What is kept at most: so much leaves at once.
const MUCH: usize = 16 << 10;

thread_local! {
    /// None if nobody will send it.
    static KEPT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// What keeps lines until it is dropped; then they leave.
#[derive(Debug)]
pub(crate) struct Keeping(());

/// Whoever writes lines of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines;

/// Writes one line.
#[derive(Debug)]
pub(super) struct Line {
    leaves_at_once: bool,
}

/// From here on what this thread says is kept, until it is [sent](send).
pub(crate) fn keep() -> Keeping {
    KEPT.with_borrow_mut(|kept| {
        kept.get_or_insert_default();
    });
    Keeping(())
}

/// Sends what this thread said.
pub(crate) fn send() {
    // Who is in the middle of it, or at the very end of the thread, says nothing.
    let _ = KEPT.try_with(|kept| {
        if let Ok(mut kept) = kept.try_borrow_mut()
            && let Some(lines) = &mut *kept
        {
            // There is nobody to whom it could be told that there is no log.
            let _ = leave(lines, &mut io::stderr());
        }
    });
}

fn leave(lines: &mut Vec<u8>, out: &mut impl Write) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let written = out.write_all(lines);
    // Where many were said at once few are as a rule.
    *lines = Vec::new();
    written
}

fn say(line: &[u8], leaves_at_once: bool, kept: &mut Option<Vec<u8>>, out: &mut impl Write) -> io::Result<()> {
    let Some(lines) = kept else {
        return out.write_all(line);
    };
    lines.extend_from_slice(line);
    if leaves_at_once || lines.len() >= MUCH {
        return leave(lines, out);
    }
    Ok(())
}

impl Drop for Keeping {
    fn drop(&mut self) {
        send();
        let _ = KEPT.try_with(|kept| kept.try_borrow_mut().map(|mut kept| kept.take()));
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { leaves_at_once: true }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line {
        Line {
            leaves_at_once: *metadata.level() <= Level::WARN,
        }
    }
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let said = KEPT.try_with(|kept| match kept.try_borrow_mut() {
            Ok(mut kept) => say(line, self.leaves_at_once, &mut kept, &mut io::stderr()),
            Err(_) => io::stderr().write_all(line),
        });
        said.unwrap_or_else(|_| io::stderr().write_all(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has left after each line.
    fn play(mut kept: Option<Vec<u8>>, lines: &[(&str, bool)]) -> Vec<String> {
        let mut out = Vec::new();
        let after = lines.iter().map(|(line, leaves_at_once)| {
            say(line.as_bytes(), *leaves_at_once, &mut kept, &mut out).unwrap();
            String::from_utf8(out.clone()).unwrap()
        });
        after.collect()
    }

    #[test]
    fn lines_are_kept_in_order_until_one_may_not_wait() {
        let lines = [("a\n", false), ("b\n", false), ("c\n", true), ("d\n", false)];
        assert_eq!(play(Some(Vec::new()), &lines), ["", "", "a\nb\nc\n", "a\nb\nc\n"]);
        assert_eq!(play(None, &lines), ["a\n", "a\nb\n", "a\nb\nc\n", "a\nb\nc\nd\n"]);
        let long = "x".repeat(MUCH);
        assert_eq!(
            play(Some(Vec::new()), &[("a\n", false), (&long, false)]),
            [String::new(), format!("a\n{long}")]
        );
    }

    #[test]
    fn who_keeps_none_any_more_has_none() {
        let is_kept = || KEPT.with_borrow(Option::is_some);
        let keeping = keep();
        assert!(is_kept());
        Line { leaves_at_once: false }.write_all(b"a line of a test\n").unwrap();
        assert_eq!(KEPT.with_borrow(Clone::clone), Some(b"a line of a test\n".to_vec()));
        send();
        assert_eq!(KEPT.with_borrow(Clone::clone), Some(Vec::new()));
        drop(keeping);
        assert!(!is_kept());
    }
}
