//! The terminal: an alternate screen in raw mode, given back as it was whatever ends it.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bailiff_model::Now;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::frame::{self, Line, Size, Tone};
use super::view::View;

/// Control sequences, as every terminal of today has them (xterm's): the alternate screen without a cursor, and back.
const TAKE: &str = "\x1b[?1049h\x1b[?25l";
const GIVE_BACK: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";
/// A frame is shown at once, where the terminal can do that.
const BEGIN: &str = "\x1b[?2026h\x1b[H";
const END: &str = "\x1b[J\x1b[?2026l";
/// Of a terminal that does not say its size.
const USUAL: Size = Size { width: 80, height: 24 };
/// Keys that were pressed and not looked at: more than anybody presses at a time.
const KEYS: usize = 16;

/// What somebody did at the terminal, or to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The terminal has another size.
    Resized,
    /// It is to end.
    Quit,
}

/// The terminal. Dropping it gives it back, and so does a panic, before it says what it is.
pub struct Screen {
    taken: Arc<Taken>,
    keys: mpsc::Receiver<Vec<u8>>,
    signals: Signals,
    is_coloured: bool,
}

/// A terminal that is to be given back once.
struct Taken {
    /// How it was, if keys come from it.
    before: Option<Termios>,
    is_taken: AtomicBool,
}

/// The signals that would end the process and leave the terminal as it is, and that of another size. Control-C is a key.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    quit: Signal,
    resize: Signal,
}

/// Columns of the terminal that is written to, if it is one.
pub fn width() -> Option<usize> {
    io::stdout().is_terminal().then(|| size().width)
}

fn size() -> Size {
    let told = tcgetwinsize(io::stdout()).map(|told| Size {
        width: told.ws_col.into(),
        height: told.ws_row.into(),
    });
    told.ok().filter(|size| size.width > 0 && size.height > 0).unwrap_or(USUAL)
}

// === impl Screen ===

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open() -> io::Result<Self> {
        let signals = Signals::listen()?;
        let has_keys = io::stdin().is_terminal();
        let before = has_keys.then(|| tcgetattr(io::stdin())).transpose()?;
        let taken = Arc::new(Taken {
            before,
            is_taken: AtomicBool::new(true),
        });
        let (of_hook, hook) = (Arc::clone(&taken), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            of_hook.give_back();
            hook(panic);
        }));
        let (sender, keys) = mpsc::channel(KEYS);
        // https://no-color.org
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let screen = Self {
            taken,
            keys,
            signals,
            is_coloured: !is_refused,
        };
        if let Some(before) = &screen.taken.before {
            let mut raw = before.clone();
            raw.make_raw();
            tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
            // It waits for keys as long as the process lives, and ends with it.
            std::thread::Builder::new()
                .name("keys".to_owned())
                .spawn(move || read_keys(&sender))?;
        }
        write(TAKE)?;
        Ok(screen)
    }

    /// Draws a frame of the size that the terminal has now.
    ///
    /// # Errors
    /// If nobody shows it.
    pub fn draw(&mut self, view: &View, now: Now) -> io::Result<()> {
        write(&drawn(&frame::frame(view, size(), now), self.is_coloured))
    }

    /// What happens next. Cancel-safe.
    pub async fn next(&mut self) -> Happened {
        loop {
            tokio::select! {
                biased;
                happened = self.signals.next() => return happened,
                // Where no keys come from, signals end it.
                Some(keys) = self.keys.recv() => if is_end(&keys) {
                    return Happened::Quit;
                }
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.taken.give_back();
    }
}

// === impl Taken ===

impl Taken {
    fn give_back(&self) {
        if !self.is_taken.swap(false, Ordering::SeqCst) {
            return;
        }
        // Whoever closed it needs nothing back.
        let _ = write(GIVE_BACK);
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

// === impl Signals ===

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    /// What the next of them means. Cancel-safe.
    async fn next(&mut self) -> Happened {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Happened::Quit,
            _ = self.interrupt.recv() => Happened::Quit,
            _ = self.hangup.recv() => Happened::Quit,
            _ = self.quit.recv() => Happened::Quit,
            _ = self.resize.recv() => Happened::Resized,
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Tells what comes from the keyboard, a read at a time, until nobody listens.
fn read_keys(sender: &mpsc::Sender<Vec<u8>>) {
    let mut bytes = [0; 64];
    while let Ok(read @ 1..) = io::stdin().read(&mut bytes) {
        if sender.blocking_send(bytes[..read].to_vec()).is_err() {
            return;
        }
    }
    // The terminal is gone, and nobody can press anything any more.
    let _ = sender.blocking_send(b"q".to_vec());
}

/// Is it q, Control-C, or Esc alone? With more behind it, it is another key.
fn is_end(keys: &[u8]) -> bool {
    const CONTROL_C: u8 = 3;
    match keys {
        [b'\x1b'] => true,
        [b'\x1b', ..] => false,
        _ => keys.iter().any(|key| matches!(*key, b'q' | b'Q' | CONTROL_C)),
    }
}

/// What is written to show these lines.
fn drawn(lines: &[Line], is_coloured: bool) -> String {
    let mut text = BEGIN.to_owned();
    for (row, line) in lines.iter().enumerate() {
        text.push_str(if row == 0 { "" } else { "\r\n" });
        for span in line.spans() {
            match code(span.tone(), is_coloured) {
                Some(code) => {
                    let _ = write!(text, "\x1b[{code}m{}\x1b[0m", span.text());
                }
                None => text.push_str(span.text()),
            }
        }
        text.push_str("\x1b[K");
    }
    text + END
}

const fn code(tone: Tone, is_coloured: bool) -> Option<u8> {
    match tone {
        Tone::Title => Some(1),
        Tone::Plain => None,
        _ if !is_coloured => None,
        Tone::Faint => Some(90),
        Tone::Good => Some(32),
        Tone::Odd => Some(33),
        Tone::Bad => Some(31),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::frame::Span;

    #[test]
    fn q_escape_and_control_c_end_it_and_nothing_else() {
        for keys in [&b"q"[..], b"Q", b"\x1b", b"\x03", b"xq"] {
            assert!(is_end(keys), "{keys:?}");
        }
        for keys in [&b"\x1b[A"[..], b"c", b"\r", b"", b"\x1bOq"] {
            assert!(!is_end(keys), "{keys:?}");
        }
    }

    #[test]
    fn a_frame_begins_at_the_top_and_leaves_nothing_of_the_last_one() {
        let lines = [
            Line::from(vec![Span::new("a", Tone::Title), Span::from("b")]),
            Line::from(Span::new("c", Tone::Bad)),
        ];
        let body = "\x1b[1ma\x1b[0mb\x1b[K\r\n\x1b[31mc\x1b[0m\x1b[K";
        assert_eq!(drawn(&lines, true), format!("{BEGIN}{body}{END}"));
        let body = "\x1b[1ma\x1b[0mb\x1b[K\r\nc\x1b[K";
        assert_eq!(drawn(&lines, false), format!("{BEGIN}{body}{END}"));
    }
}
