//! A place for what processes are told in files.

use std::path::{Path, PathBuf};

/// A directory that goes when it is dropped.
#[derive(Debug)]
pub struct Directory(PathBuf);

// === impl Directory ===

impl Directory {
    /// Makes one, among the temporary ones of this machine, for the process that runs.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make(name: &str) -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // It is in the directory for such things, and small.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
