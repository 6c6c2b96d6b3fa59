//! What is going on, for whoever waits: a line that moves on a terminal, lines elsewhere.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Tells what is going on. It goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    program: String,
}

// === impl Progress ===

impl Progress {
    pub(crate) fn new(program: &str) -> Self {
        let bar = if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{spinner} {elapsed} {prefix}: {msg}");
            let bar = ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        } else {
            ProgressBar::hidden()
        };
        bar.set_prefix(program.to_owned());
        Self {
            bar,
            program: program.to_owned(),
        }
    }

    /// Something else begins.
    pub(crate) fn begin(&self, what: &str) {
        self.see(what);
        if self.bar.is_hidden() {
            let seconds = self.bar.elapsed().as_secs();
            eprintln!("{seconds:>5} s  {}: {what}", self.program);
        }
    }

    /// How far it is.
    pub(crate) fn see(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
