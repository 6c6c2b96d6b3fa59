//! A program of Bailiff that runs as a process, and what its log says.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::SyncSender;

use serde_json::Value;

use super::faketime;
use super::support::BAILIFF;

/// A directory for the logs of all processes. Without it they are lost.
const LOGS: &str = "BAILIFF_FAULTS_LOGS";

/// What a process says or does.
#[derive(Clone, Debug)]
pub enum Word {
    /// A line of its log.
    Logged(Value),
    /// It is gone.
    Ended,
}

/// How a program is started.
#[derive(Clone, Debug)]
pub struct How {
    /// What it is called.
    pub name: &'static str,
    /// Its program.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// All of its environment.
    pub environment: Vec<(&'static str, String)>,
}

impl How {
    /// A command of [`BAILIFF`], whose log is read.
    pub fn ours(name: &'static str, flags: Vec<String>, environment: Vec<(&'static str, String)>) -> Self {
        let command = [name, "--log-format=json"].map(str::to_owned);
        Self {
            name,
            program: BAILIFF.into(),
            arguments: [command.to_vec(), flags].concat(),
            environment,
        }
    }
}

/// A process. Dropping it kills it.
#[derive(Debug)]
pub struct Program {
    /// Number of this start: whoever is started again is another.
    pub start: u64,
    child: Child,
}

impl Program {
    /// Starts it; what it says is sent to `news` with `start`.
    pub fn start(how: &How, start: u64, news: SyncSender<(u64, Word)>) -> Self {
        let mut child = Command::new(&how.program)
            .env_clear()
            .envs(how.environment.iter().map(|(name, value)| (name, value)))
            .args(&how.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let name = how.name;
        let mut kept = kept_log(how.name, start);
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                if let Some(kept) = &mut kept {
                    writeln!(kept, "{line}").unwrap();
                }
                let Ok(line) = serde_json::from_str(&line) else {
                    println!("{name} {start}: {line}");
                    continue;
                };
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
        faketime::tidy(self.child.id());
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

/// Where the log of a start is kept for people, if they want it.
fn kept_log(name: &str, start: u64) -> Option<File> {
    let directory = PathBuf::from(std::env::var_os(LOGS)?);
    let system = std::thread::current().name().unwrap_or_default().to_owned();
    Some(File::create(directory.join(format!("{system}-{name}-{start}.log"))).unwrap())
}
