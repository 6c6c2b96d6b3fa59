//! `bailiff certs`: a CA and a certificate for each role, to try mutual TLS with.
//!
//! For trying: the CA's key lies beside the certificates. docs/security.md says how to do it in earnest.

mod make;

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bailiff_model::Wall;
use bailiff_runtime::Clock;
use bailiff_runtime::args::{Error as Invalid, exit_invalid};
use clap::ValueEnum;
use serde_json::json;

use crate::out::no_file;
use crate::{Failure, out};
use make::{Hosts, Made};

/// Flags of `bailiff certs`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  bailiff certs certs
  bailiff certs certs --days 7 --host bus.example.com --host 10.0.0.7
  bailiff certs certs --etcd-host etcd.bailiff-system.svc --etcd-host '*.etcd.bailiff-system.svc'
  bailiff event-bus --tls-cert-file certs/event-bus.crt \\
    --tls-private-key-file certs/event-bus.key --tls-ca-file certs/ca.crt
  bailiff bus status --tls-cert-file certs/viewer.crt \\
    --tls-private-key-file certs/viewer.key --tls-ca-file certs/ca.crt

The CA's key is in the directory as well: these are certificates to try with.")]
pub struct Args {
    /// Directory to write to; it is made if there is none
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// For how many days the certificates hold
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3650), value_name = "DAYS")]
    days: u16,

    /// Another name or address that the bus is reached by; may be given more than once
    #[arg(long, value_parser = host, value_name = "NAME")]
    host: Vec<String>,

    /// Name or address that members of an etcd for the bus are reached by; may be given more than once. With one they get a certificate too
    #[arg(long, value_parser = host, value_name = "NAME")]
    etcd_host: Vec<String>,

    /// Write over files that are there
    #[arg(long)]
    force: bool,

    /// How what was done is written
    #[arg(long, short, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One JSON object
    Json,
}

fn host(text: &str) -> Result<String, String> {
    let is_name = make::is_name(text);
    is_name
        .then(|| text.to_owned())
        .ok_or_else(|| "allowed is a DNS name or an IP address".to_owned())
}

/// Runs the command.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let Args {
        dir,
        days,
        host,
        etcd_host,
        force,
        output,
    } = args;
    let hosts = Hosts {
        bus: &host,
        etcd: &etcd_host,
    };
    let made = make::all(Clock::system().wall(), days, hosts)?;
    if !force && let Some(there) = made.iter().flat_map(|made| made.paths(&dir)).find(|path| path.exists()) {
        let allowed = format!(
            "'{}' is there; allowed is a directory without it, or --force",
            there.display()
        );
        exit_invalid(&Invalid::new("DIR", dir.display(), allowed));
    }
    std::fs::create_dir_all(&dir).map_err(no_file(&dir))?;
    for made in &made {
        let [certificate, key] = made.paths(&dir);
        write(&certificate, &made.certificate, 0o644).map_err(no_file(&certificate))?;
        write(&key, &made.key, 0o600).map_err(no_file(&key))?;
    }
    out::print(say(&dir, &made, output))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a file that was never readable for anybody it is not for.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    // One that is there keeps its mode when it is opened.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?
        .write_all(text.as_bytes())
}

fn say(dir: &Path, made: &[Made], output: Output) -> String {
    if output == Output::Json {
        let files: Vec<_> = made
            .iter()
            .map(|made| {
                let [certificate, key] = made.paths(dir);
                json!({
                    "name": made.name, "certificate": certificate, "key": key, "identity": made.identity,
                    "expires": made.expires.to_string(),
                })
            })
            .collect();
        return json!({ "directory": dir, "certificates": files }).to_string() + "\n";
    }
    let shown = dir.display();
    let mut text = String::new();
    for made in made {
        let identity = made.identity.as_deref().unwrap_or("the CA that signed the others");
        text += &format!("{shown}/{0}.crt, {0}.key: {identity}\n", made.name);
    }
    let expires: Wall = made.iter().map(|made| made.expires).min().unwrap_or(Wall::MAX);
    let files = |name: &str| {
        format!("--tls-cert-file {shown}/{name}.crt --tls-private-key-file {shown}/{name}.key --tls-ca-file {shown}/ca.crt")
    };
    text += &format!("They expire at {expires:.0}. Next, for example:\n");
    text += &format!("  bailiff event-bus {}\n", files("event-bus"));
    text += &format!("  bailiff taint-manager {}\n", files("taint-manager"));
    text += &format!("  bailiff bus status {}\n", files("viewer"));
    text + &format!("Keep {shown}/ca.key away from where the others go: it can make any of them.\n")
}

#[cfg(test)]
mod tests;
