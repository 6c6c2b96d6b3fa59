//! Wall clocks of processes, stepped by libfaketime while they run. Monotonic clocks are left alone, as by a step of the system's clock.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;

/// The wall clock of a process, or of several.
#[derive(Clone, Debug)]
pub struct WallClock {
    library: PathBuf,
    file: PathBuf,
}

impl WallClock {
    /// A clock that is right; `None` where libfaketime is not installed.
    pub fn new(file: &Path) -> Option<Self> {
        let clock = Self {
            library: library()?,
            file: file.to_owned(),
        };
        clock.step(SignedDuration::ZERO);
        Some(clock)
    }

    /// So far it is off from now on.
    pub fn step(&self, by: SignedDuration) {
        // It is read with every look at the clock: it must never be there by half.
        let whole = self.file.with_extension("next");
        std::fs::write(&whole, format!("{:+}\n", by.as_secs())).unwrap();
        std::fs::rename(&whole, &self.file).unwrap();
    }

    /// What a process needs in its environment to have this clock.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }
}

/// True if libfaketime is installed.
pub fn is_installed() -> bool {
    library().is_some()
}

/// Removes what it leaves of a process that was killed.
pub fn tidy(pid: u32) {
    for kind in ["faketime_shm_", "sem.faketime_sem_"] {
        // Where it was not loaded there is none.
        let _ = std::fs::remove_file(format!("/dev/shm/{kind}{pid}"));
    }
}

/// Debian has it in the directory of the architecture.
fn library() -> Option<PathBuf> {
    let directories = std::fs::read_dir("/usr/lib").ok()?;
    let mut paths = directories
        .flatten()
        .map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    paths.find(|path| path.exists())
}
