//! What a process used, as Linux counts it.

use std::fs;

/// Ticks a second in `/proc/<pid>/stat`: the same on every machine Linux tells this to programs of.
const TICKS: f64 = 100.0;

/// What a process used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Seconds of a processor, of the process and of the kernel for it.
    pub cpu: f64,
    /// Memory it has, MiB.
    pub memory: f64,
    /// The most it ever had, MiB.
    pub peak: f64,
}

impl Usage {
    /// Of a process that runs.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(pid: u32) -> Result<Self, String> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
        };
        let (stat, status) = (read("stat")?, read("status")?);
        Self::parse(&stat, &status).ok_or_else(|| format!("/proc/{pid} cannot be understood"))
    }

    /// Seconds of a processor that the calling thread used so far.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn cpu_of_this_thread() -> Result<f64, String> {
        const PATH: &str = "/proc/thread-self/stat";
        let stat = fs::read_to_string(PATH).map_err(|error| format!("{PATH}: {error}"))?;
        cpu(&stat).ok_or_else(|| format!("{PATH} cannot be understood"))
    }

    fn parse(stat: &str, status: &str) -> Option<Self> {
        let size = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
            Some(kib / 1024.0)
        };
        Some(Self {
            cpu: cpu(stat)?,
            memory: size("VmRSS")?,
            peak: size("VmHWM")?,
        })
    }
}

/// What the system tells of a process or a thread, in seconds of a processor.
fn cpu(stat: &str) -> Option<f64> {
    // The name, which may have anything in it, ends with the last parenthesis; after it come the state and ten other fields.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_tells_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 1234 66 0 0 20 0 3 0 1 2 3";
        let status = "Name:\ta\nVmPeak:\t 99 kB\nVmHWM:\t    3072 kB\nVmRSS:\t    2048 kB\n";
        let wanted = Usage {
            cpu: 13.0,
            memory: 2.0,
            peak: 3.0,
        };
        assert_eq!(Usage::parse(stat, status), Some(wanted));
        assert_eq!(Usage::parse("7 (a) S 1", status), None);
        assert_eq!(Usage::parse(stat, "Name:\ta\n"), None, "a process that ended");
    }
}
