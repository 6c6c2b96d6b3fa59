//! A program that runs as a process, and what its log says.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::files::FilePages;
use crate::http::Server;
use crate::usage::Usage;

/// Lines that are kept of a log: it ends with why a process ended.
const LINES: usize = 20;

/// Between two looks whether a process that was asked to end did.
const LOOK: Duration = Duration::from_millis(20);

/// Ports that are given: none of those that Linux chooses from by itself (`ip_local_port_range`: from 32768, unless it was told otherwise),
/// which anybody may be given who listens on every address of this machine.
const PORTS: Range<u16> = 20_000..32_000;

/// Where nobody listens Linux says so at once; who does not answer in this time has too much to do, and is there.
const ANSWER: Duration = Duration::from_secs(1);

/// So many ports are looked at for a free one: few in a row are taken. Where nobody answers at all, that is told within a minute.
const TRIES: usize = 50;

/// How many were given by now, counted from anywhere: two containers that share a network may have processes of the same number, and so
/// of the same IP, which hardly begin at the same port.
static GIVEN: LazyLock<AtomicUsize> = LazyLock::new(|| {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    AtomicUsize::new(usize::try_from(now.subsec_micros()).unwrap_or_default())
});

/// A process. Dropping it kills it.
#[derive(Debug)]
pub struct Program {
    /// What it is called in figures.
    pub name: String,
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
    ///
    /// # Errors
    /// When it cannot be started; that it ends later is told by [`check`](Self::check).
    pub fn start(binary: &Path, name: String, flags: &[String]) -> Result<Self, String> {
        Self::spawn(command(binary, flags), name, Stdio::null())
    }

    /// Starts `binary` and keeps its standard input, for [`tell`](Self::tell): it is closed when this process ends, however it ends.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn converse(binary: &Path, name: String, flags: &[String]) -> Result<Self, String> {
        Self::spawn(command(binary, flags), name, Stdio::piped())
    }

    /// Starts a program of somebody else, found as a shell would find it, with the environment of this process but for the flags of
    /// ours in it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn foreign(program: &str, name: String, arguments: &[String]) -> Result<Self, String> {
        let mut command = Command::new(program);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("BAILIFF_") {
                command.env_remove(variable);
            }
        }
        command.args(arguments);
        Self::spawn(command, name, Stdio::null())
    }

    fn spawn(mut command: Command, name: String, input: Stdio) -> Result<Self, String> {
        let child = command.stdin(input).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let program = || command.get_program().to_string_lossy().into_owned();
        let mut child = child.map_err(|error| format!("cannot start {}: {error}", program()))?;
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

    /// Starts `binary` with an admin port and a log in JSON.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn serve(binary: &Path, name: String, mut flags: Vec<String>) -> Result<Self, String> {
        let admin = free_address()?;
        flags.extend([format!("--admin-listen={admin}"), "--log-format=json".to_owned()]);
        let mut program = Self::spawn(command(binary, &flags), name, Stdio::null())?;
        program.admin = Some(Server::at(admin));
        Ok(program)
    }

    /// Its metrics.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn metrics(&self) -> Result<String, String> {
        self.admin("/metrics")
    }

    /// This check on its readiness is there, and is well. A process that does not answer yet is not ready.
    pub fn is_ready(&self, check: &str) -> bool {
        let text = self.admin("/readyz?verbose").unwrap_or_default();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("[+]"));
        lines.any(|line| line.contains(&format!("{check} ok")))
    }

    /// Every check on its readiness is well. A process that does not answer yet is not ready.
    pub fn is_at_work(&self) -> bool {
        let text = self.admin("/readyz?verbose").unwrap_or_default();
        text.contains("[+]") && !text.contains("[-]")
    }

    fn admin(&self, path: &str) -> Result<String, String> {
        let admin = self.admin.as_ref().ok_or("it has no admin port")?;
        admin.get(path).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Leases it leads.
    pub fn leads(&self) -> BTreeSet<String> {
        lock(&self.said).leads.clone()
    }

    /// When it began to lead the last of them.
    pub fn led_last(&self) -> Option<Instant> {
        lock(&self.said).led_last
    }

    /// One of its last lines has this in it.
    pub fn has_said(&self, text: &str) -> bool {
        lock(&self.said).last.iter().any(|line| line.contains(text))
    }

    /// The line it wrote last.
    pub fn last_line(&self) -> Option<String> {
        lock(&self.said).last.last().cloned()
    }

    /// Writes a line to its standard input.
    ///
    /// # Errors
    /// When it does not read it.
    pub fn tell(&mut self, line: &str) -> Result<(), String> {
        let input = self
            .child
            .stdin
            .as_mut()
            .ok_or_else(|| format!("{} listens to nobody", self.name))?;
        let told = input.write_all(format!("{line}\n").as_bytes()).and_then(|()| input.flush());
        told.map_err(|error| format!("{} cannot be told anything: {error}", self.name))
    }

    /// From here on the most memory it has is counted anew; where that cannot be, it is counted from its start.
    pub fn forget_peak(&self) {
        // Linux 4.0; what this process may not write, it may go without.
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5");
    }

    /// Asks it to end, closes its standard input, and waits for at most `within`, after which it is killed. True if it ended by itself
    /// and well.
    pub fn end(&mut self, within: Duration) -> bool {
        drop(self.child.stdin.take());
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let (Ok(None), Some(pid)) = (self.child.try_wait(), pid) {
            // It may have ended in between.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let began = Instant::now();
        while began.elapsed() < within && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        let ended = self.child.try_wait();
        self.kill();
        ended.is_ok_and(|status| status.is_some_and(|status| status.success()))
    }

    /// What it used.
    ///
    /// # Errors
    /// When it ended: what it said last.
    pub fn usage(&self) -> Result<Usage, String> {
        Usage::of(self.child.id()).map_err(|error| self.ended(&error))
    }

    fn ended(&self, error: &str) -> String {
        format!("{} ended ({error}): {:#?}", self.name, lock(&self.said).last)
    }

    /// Pages of files that it has in memory.
    ///
    /// # Errors
    /// As [`usage`](Self::usage).
    pub fn file_pages(&self) -> Result<FilePages, String> {
        FilePages::of(self.child.id()).map_err(|error| self.ended(&error))
    }

    /// Complains if it ended.
    ///
    /// # Errors
    /// What it said last.
    pub fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            ended => Err(format!("{} ended, {ended:?}: {:#?}", self.name, lock(&self.said).last)),
        }
    }

    /// Kills it, as a machine that is gone would.
    pub fn kill(&mut self) {
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

/// Every flag is an environment variable too: those of whoever measures mean nothing here.
fn command(binary: &Path, flags: &[String]) -> Command {
    let mut command = Command::new(binary);
    command.env_clear().args(flags);
    command
}

fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The IP on loopback that this process has for itself and for what it starts, and no other process of its PID namespace has.
pub fn own_ip() -> Ipv4Addr {
    ip_of(std::process::id())
}

/// An address on loopback that nobody has, and that nobody takes before it is used: this process alone is given ports of
/// [its IP](own_ip), each of them once. They begin anew when there are no more.
///
/// # Errors
/// When there is none.
pub fn free_address() -> Result<SocketAddr, String> {
    let ports = std::iter::repeat_with(|| port(GIVEN.fetch_add(1, Ordering::Relaxed)));
    first_free(own_ip(), ports.take(TRIES))
}

/// The first of these ports on which nobody listens, such as on every address of this machine. It is looked at from outside: who listened
/// there himself to find out might hold it for longer than he means to, by a child that was being started just then.
fn first_free(ip: Ipv4Addr, ports: impl Iterator<Item = u16>) -> Result<SocketAddr, String> {
    for port in ports {
        let address = SocketAddr::from((ip, port));
        let Err(error) = TcpStream::connect_timeout(&address, ANSWER) else {
            continue;
        };
        match error.kind() {
            ErrorKind::ConnectionRefused => return Ok(address),
            // Somebody is there, who says nothing, or ends just now.
            ErrorKind::TimedOut | ErrorKind::ConnectionReset => {}
            _ => return Err(format!("whether {address} is free cannot be told: {error}")),
        }
    }
    Err(format!("no port of {ip} was free of those that were looked at"))
}

/// The IP of a process. All of 127.0.0.0/8 is loopback; numbers of processes have at most 22 bits, proc(5), and fill the part of it from
/// 127.64.0.0 to 127.127.255.255.
fn ip_of(pid: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x7f40_0000 | (pid & 0x003f_ffff))
}

/// The nth port that is given, from 0.
fn port(nth: usize) -> u16 {
    let offset = nth % PORTS.len();
    // It is less than a u16 was.
    PORTS.start + u16::try_from(offset).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

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

    #[test]
    fn addresses_that_are_given_are_free_and_nobody_else_s() {
        let addresses = [(); 3].map(|()| free_address().unwrap());
        let bound = addresses.map(|address| TcpListener::bind(address).unwrap());
        for (address, listener) in addresses.iter().zip(&bound) {
            assert!(address.ip().is_loopback(), "{address}");
            assert_eq!(listener.local_addr().unwrap(), *address);
        }
        let ips = [1, 0x1_0001, 0x003f_ffff].map(ip_of);
        assert_eq!(ips.map(|ip| ip.to_string()), ["127.64.0.1", "127.65.0.1", "127.127.255.255"]);
        assert_eq!([0, 1, 11_999, 12_000].map(port), [20_000, 20_001, 31_999, 20_000]);
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_passed_over() {
        let (taken, free) = (free_address().unwrap(), free_address().unwrap());
        let ip = own_ip();
        let _listener = TcpListener::bind(taken).unwrap();
        assert_eq!(first_free(ip, [taken.port(), free.port()].into_iter()), Ok(free));
        let refusal = first_free(ip, [taken.port()].into_iter());
        assert_eq!(refusal, Err(format!("no port of {ip} was free of those that were looked at")));
    }

    #[test]
    fn a_port_that_cannot_be_looked_at_is_not_given_and_says_why() {
        // Linux connects nobody to all.
        let refusal = first_free(Ipv4Addr::BROADCAST, PORTS).unwrap_err();
        assert!(
            refusal.starts_with("whether 255.255.255.255:20000 is free cannot be told: "),
            "{refusal}"
        );
        assert!(refusal.contains("os error"), "{refusal}");
    }
}
