//! The program that is judged, or compared: how it is started, what it is told, how it is killed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// How much of the end of its log is told.
const TAIL_BYTES: u64 = 2_000;

/// The program, whether it runs or not. Dropping it kills it, and whatever it started.
#[derive(Debug)]
pub struct Candidate {
    command: Vec<OsString>,
    environment: Vec<(String, OsString)>,
    log: PathBuf,
    child: Option<Child>,
}

/// Why the program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such program, or it may not be run.
    #[error("cannot start {command}")]
    Start {
        /// The program and its arguments.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// There is no place for what it says.
    #[error("cannot write what the program says to {}", log.display())]
    Log {
        /// The file.
        log: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Candidate {
    /// A program that does not run yet. It inherits the environment of this process, but for what leads to its cluster and is its
    /// certificate, with `environment` added; what it says goes to the file `log`.
    pub fn new(command: &[OsString], environment: Vec<(String, OsString)>, log: &Path) -> Self {
        Self {
            command: command.to_vec(),
            environment,
            log: log.to_owned(),
            child: None,
        }
    }

    /// Starts it, in a process group of its own, so that killing it kills what it started as well.
    ///
    /// # Errors
    /// When there is no such program, or its log cannot be written.
    pub fn start(&mut self) -> Result<(), Error> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(self.error(io::Error::new(io::ErrorKind::InvalidInput, "the command is empty")));
        };
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.and_then(|log| Ok((log.try_clone()?, log)));
        let (out, err) = log.map_err(|source| Error::Log {
            log: self.log.clone(),
            source,
        })?;
        let child = Command::new(program)
            .args(arguments)
            // Of ours: it would find another cluster, or another way to the bus, than those that it is told.
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("KUBERNETES_SERVICE_PORT")
            .env_remove("BAILIFF_TLS_CERT_FILE")
            .env_remove("BAILIFF_TLS_PRIVATE_KEY_FILE")
            .env_remove("BAILIFF_TLS_CA_FILE")
            .env_remove("BAILIFF_TLS_SERVER_NAME")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        self.child = Some(child.map_err(|source| self.error(source))?);
        Ok(())
    }

    fn error(&self, source: io::Error) -> Error {
        let words = self.command.iter().map(|word| word.to_string_lossy().into_owned());
        Error::Start {
            command: words.collect::<Vec<_>>().join(" "),
            source,
        }
    }

    /// How it ended, if it did by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// Kills it, as a node that dies would, and waits until it is gone.
    pub async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_group(&child);
            // It is gone either way.
            let _ = child.wait().await;
        }
    }

    /// The end of what it said.
    pub fn tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut log = File::open(&self.log)?;
            let length = log.metadata()?.len();
            log.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            log.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        read().unwrap_or_default()
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if let Some(child) = &self.child {
            kill_group(child);
        }
    }
}

fn kill_group(child: &Child) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended already.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::shutdown::chain;

    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[tokio::test]
    async fn a_program_is_told_its_environment_and_killed_with_what_it_started() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("log");
        let environment = vec![("GREETING".to_owned(), OsString::from("hello"))];
        // The shell ends only with its child, which outlives any test.
        let mut candidate = Candidate::new(
            &words(&["sh", "-c", "echo $GREETING; echo to stderr >&2; sleep 3600 & wait"]),
            environment,
            &log,
        );
        candidate.start().expect("a shell");
        while candidate.tail() != "hello\nto stderr" {
            tokio::task::yield_now().await;
        }
        assert_eq!(candidate.ended(), None);
        candidate.kill().await;
        assert_eq!(candidate.ended(), None, "what was killed did not end by itself");
    }

    #[tokio::test]
    async fn who_ends_by_itself_is_found_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut candidate = Candidate::new(&words(&["sh", "-c", "exit 3"]), Vec::new(), &directory.path().join("log"));
        candidate.start().expect("a shell");
        let status = loop {
            if let Some(status) = candidate.ended() {
                break status;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(status.code(), Some(3));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut candidate = Candidate::new(
            &words(&["/no/such/program", "--flag"]),
            Vec::new(),
            &directory.path().join("log"),
        );
        let error = candidate.start().expect_err("it is not there");
        assert_eq!(error.to_string(), "cannot start /no/such/program --flag");
        assert_eq!(chain(&error).matches("No such file").count(), 1, "{}", chain(&error));
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_written_is_not_taken_for_a_program_that_is_not_there() {
        let mut candidate = Candidate::new(&words(&["sh", "-c", "exit 3"]), Vec::new(), Path::new("/no/such/log"));
        let error = candidate.start().expect_err("it has no place").to_string();
        assert_eq!(error, "cannot write what the program says to /no/such/log");
    }
}
