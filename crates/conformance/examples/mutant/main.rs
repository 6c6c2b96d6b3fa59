//! Runs a stage and makes it break its contract: what it says and hears on the bus, and what it and the API server tell each other, is
//! changed on the way. To see that `bailiff conformance` finds out.
//!
//! ```console
//! $ bailiff conformance zone-evictor -- mutant evicts-early -- zone-evictor
//! ```

mod api;
mod bus;
mod mutations;

use std::ffi::OsString;
use std::process::ExitCode;

use tokio::process::Command;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments
        .next()
        .and_then(|name| name.into_string().ok())
        .ok_or("wanted: mutant NAME -- COMMAND")?;
    let mutation = mutations::of(&name).ok_or_else(|| format!("there is no mutation {name}"))?;
    let command: Vec<OsString> = arguments.skip_while(|word| word == "--").collect();
    let (program, rest) = command.split_first().ok_or("there is no command")?;

    let bus = bus::serve(&std::env::var("BAILIFF_BUS")?, mutation).await?;
    let kubeconfig = std::fs::read_to_string(std::env::var("KUBECONFIG")?)?;
    let flags = match mutation.first {
        Some((path, patch)) if api::patch(&kubeconfig, path, patch).await? => mutation.flags_again,
        _ => mutation.flags,
    };
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, api::serve(&kubeconfig, mutation).await?)?;
    let status = Command::new(program)
        .args(rest)
        .args(flags)
        .env("BAILIFF_BUS", bus.to_string())
        .env("KUBECONFIG", &path)
        .env("BAILIFF_KUBECONFIG", &path)
        .status()
        .await?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
