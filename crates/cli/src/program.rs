//! Programs that commands start.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bailiff_runtime::args::{Error as Invalid, exit_invalid};

/// Ends the process if the first word of this command names no program: said once, and before anything is begun for it.
pub fn require(command: &[OsString]) {
    let Some(program) = command.first() else { return };
    if let Err(error) = find(program, std::env::var_os("PATH").as_deref()) {
        let allowed = format!("{error}; allowed is a program, by its path or as it is found in $PATH, and its arguments");
        exit_invalid(&Invalid::new("COMMAND", program.to_string_lossy(), allowed));
    }
}

/// Looks for a program where the system would.
///
/// # Errors
/// There is no such file, or none that can be run.
fn find(program: &OsStr, path: Option<&OsStr>) -> io::Result<()> {
    let is_path = program.as_encoded_bytes().contains(&b'/');
    let places: Vec<PathBuf> = match path {
        // It would be each of the directories themselves.
        _ if program.is_empty() => Vec::new(),
        _ if is_path => vec![program.into()],
        Some(path) => std::env::split_paths(path).map(|directory| directory.join(program)).collect(),
        // The system knows some itself.
        None => return Ok(()),
    };
    let mut why = io::Error::new(ErrorKind::NotFound, "there is no such program");
    for place in places {
        match require_runnable(&place) {
            Ok(()) => return Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn require_runnable(file: &Path) -> io::Result<()> {
    let said = |kind, why: &dyn Display| io::Error::new(kind, format!("'{}' cannot be run{why}", file.display()));
    let found = file
        .metadata()
        .map_err(|error| said(error.kind(), &format_args!(": {error}")))?;
    if found.is_file() && found.permissions().mode() & 0o111 != 0 {
        Ok(())
    } else {
        Err(said(ErrorKind::PermissionDenied, &""))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};

    use super::*;

    #[test]
    fn a_program_is_found_as_the_system_finds_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let [runs, rests, turns] = ["runs", "rests", "turns"].map(|name| directory.path().join(name));
        for (file, mode) in [(&runs, 0o755), (&rests, 0o644)] {
            let file = File::create(file).expect("a file");
            file.set_permissions(Permissions::from_mode(mode)).expect("its mode");
        }
        std::os::unix::fs::symlink(&turns, &turns).expect("a link to itself");
        let path = std::env::join_paths([directory.path(), Path::new("/no/directory"), &rests]).expect("a path");
        let found = |program: &OsStr| find(program, Some(&path)).map_err(|error| error.kind());
        for (program, wanted) in [
            (runs.as_os_str(), Ok(())),
            ("runs".as_ref(), Ok(())),
            (rests.as_os_str(), Err(ErrorKind::PermissionDenied)),
            ("rests".as_ref(), Err(ErrorKind::PermissionDenied)),
            (directory.path().as_os_str(), Err(ErrorKind::PermissionDenied)),
            ("/no/such/program".as_ref(), Err(ErrorKind::NotFound)),
            ("no-such-program".as_ref(), Err(ErrorKind::NotFound)),
            (rests.join("below").as_os_str(), Err(ErrorKind::NotFound)),
            ("".as_ref(), Err(ErrorKind::NotFound)),
        ] {
            assert_eq!(found(program), wanted, "{}", program.display());
        }
        for (program, file) in [("rests", &rests), ("turns", &turns)] {
            let error = find(program.as_ref(), Some(&path)).expect_err(program).to_string();
            assert!(error.starts_with(&format!("'{}' cannot be run", file.display())), "{error}");
        }
        assert!(
            find("no-such-program".as_ref(), None).is_ok(),
            "it is not known where that would be"
        );
    }
}
