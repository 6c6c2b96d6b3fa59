//! A program of Bailiff that runs as a process, and what its log says.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::SyncSender;

use serde_json::Value;

/// What a process says or does.
#[derive(Clone, Debug)]
pub enum Word {
    /// A line of its log.
    Logged(Value),
    /// It is gone.
    Ended,
}

/// A process. Dropping it kills it.
#[derive(Debug)]
pub struct Program {
    /// Number of this start: whoever is started again is another.
    pub start: u64,
    child: Child,
}

impl Program {
    /// Starts `name` with these flags; what it says is sent to `news` with `start`.
    pub fn start(name: &str, flags: &[String], start: u64, news: SyncSender<(u64, Word)>) -> Self {
        let mut child = Command::new(path_of(name))
            .env_clear()
            .args(flags)
            .arg("--log-format=json")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                let Ok(line) = serde_json::from_str(&line) else { continue };
                // Nobody listens any more once the test is over.
                if news.send((start, Word::Logged(line))).is_err() {
                    return;
                }
            }
            let _ = news.send((start, Word::Ended));
        });
        Self { start, child }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it as the kubelet would.
    pub fn stop(mut self) -> Option<i32> {
        self.signal("-TERM");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Programs of other packages stand beside ours.
pub fn path_of(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_bailiff")).with_file_name(name);
    assert!(path.exists(), "{name} was not built: cargo build --workspace --bins");
    path
}
