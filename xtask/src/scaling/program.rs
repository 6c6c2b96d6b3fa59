//! A program that runs as a process, and what its log says.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;

use super::http::Server;
use super::usage::Usage;

/// Lines that are kept of a log: it ends with why a process ended.
const LINES: usize = 20;

/// A process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    child: Child,
    admin: Option<Server>,
    said: Arc<Mutex<Said>>,
}

/// What its log came to.
#[derive(Debug, Default)]
struct Said {
    /// Leases it leads, and since when.
    leads: BTreeSet<String>,
    led_last: Option<Instant>,
    last: Vec<String>,
}

impl Program {
    /// Starts `binary`, which serves no metrics.
    pub(crate) fn start(binary: &Path, name: String, flags: &[String]) -> Result<Self, String> {
        let mut command = Command::new(binary);
        // Every flag is an environment variable too: those of whoever measures mean nothing here.
        let command = command.env_clear().args(flags).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
        let said = Arc::new(Mutex::new(Said::default()));
        if let Some(log) = child.stderr.take() {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in BufReader::new(log).lines().map_while(Result::ok) {
                    lock(&said).take(line);
                }
            });
        }
        Ok(Self {
            name,
            child,
            admin: None,
            said,
        })
    }

    /// Starts `binary` with an admin port, and a log in JSON.
    pub(crate) fn serve(binary: &Path, name: String, mut flags: Vec<String>) -> Result<Self, String> {
        let admin = free_address()?;
        flags.extend([format!("--admin-listen={admin}"), "--log-format=json".to_owned()]);
        let mut program = Self::start(binary, name, &flags)?;
        program.admin = Some(Server::at(admin));
        Ok(program)
    }

    /// Its metrics.
    pub(crate) fn metrics(&self) -> Result<String, String> {
        self.admin("/metrics")
    }

    /// This check on its readiness is there, and is well. A process that does not answer yet is not ready.
    pub(crate) fn is_ready(&self, check: &str) -> bool {
        let text = self.admin("/readyz?verbose").unwrap_or_default();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("[+]"));
        lines.any(|line| line.contains(&format!("{check} ok")))
    }

    fn admin(&self, path: &str) -> Result<String, String> {
        let admin = self.admin.as_ref().ok_or("it has no admin port")?;
        admin.get(path).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Leases it leads.
    pub(crate) fn leads(&self) -> BTreeSet<String> {
        lock(&self.said).leads.clone()
    }

    /// When it began to lead the last of them.
    pub(crate) fn led_last(&self) -> Option<Instant> {
        lock(&self.said).led_last
    }

    /// What it used.
    pub(crate) fn usage(&self) -> Result<Usage, String> {
        Usage::of(self.child.id()).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Complains if it ended.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            ended => Err(format!("{} ended, {ended:?}: {:#?}", self.name, lock(&self.said).last)),
        }
    }

    /// Kills it, as a machine that is gone would.
    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Said {
    fn take(&mut self, line: String) {
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        let lease = told["lease"].as_str().unwrap_or_default();
        match told["message"].as_str() {
            Some("leading") => {
                self.leads.insert(lease.to_owned());
                self.led_last = Some(Instant::now());
            }
            Some("leading no more") => drop(self.leads.remove(lease)),
            _ => {}
        }
        if self.last.len() == LINES {
            self.last.remove(0);
        }
        self.last.push(line);
    }
}

fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An address that nobody has at this moment.
pub(crate) fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener.map_err(|error| format!("no port is free: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_tells_who_leads() {
        let mut said = Said::default();
        let say = |said: &mut Said, message: &str, lease: &str| {
            said.take(format!(
                r#"{{"level":"INFO","message":"{message}","lease":"{lease}","epoch":7}}"#
            ));
        };
        say(&mut said, "leading", "a-0");
        say(&mut said, "leading", "a-1");
        say(&mut said, "leading no more", "a-0");
        said.take("no JSON".to_owned());
        assert_eq!(said.leads, ["a-1".to_owned()].into());
        (0..2 * LINES).for_each(|_| say(&mut said, "standing by", "a-0"));
        assert_eq!(said.last.len(), LINES);
    }
}
