//! What a plugin answers who is to be asked for credentials (`exec` of a user in a kubeconfig).
//!
//! kube would run it twice for each reading, for a certificate and for a token, and once more by the request that finds a token about to
//! end, while all others wait. Here it is run once, by who reads, and what it answers stands where a kubeconfig has it.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Read as _, stdin};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bailiff_model::Wall;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use kube::Config;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::Deserialize;
use serde_json::json;

use super::flaw::{Flaw, place};

/// How long one may take that asks nobody at a terminal: far longer than those of the clouds do, who ask a server and may try again; and
/// what it answered before lasts for longer than that from when it is asked again, as a rule.
const WITHIN: Duration = Duration::from_secs(60);

/// How long it may take, before it is ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    /// So long, or as long as it likes if there is a terminal, at which somebody may have to log in and can end it.
    Start(Duration),
    /// So long: nothing else is read meanwhile, and nobody expects to be asked.
    Again(Duration),
}

/// What it writes (`client.authentication.k8s.io`).
#[derive(Deserialize)]
struct ExecCredential {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// The configuration, with what its plugin answers, if it has one; and when that ends, if it does. Waits for the plugin.
///
/// # Errors
/// When the plugin is of no use, or there is a token that cannot be sent, on which kube panics.
pub(super) fn ask(config: &Config, patience: Patience) -> Result<(Cow<'_, Config>, Option<Wall>), Flaw> {
    let (config, ends) = match plugin(&config.auth_info) {
        Some(plugin) => {
            let mut config = config.clone();
            let ends = answered(plugin, &mut config.auth_info, patience)?;
            (Cow::Owned(config), ends)
        }
        None => (Cow::Borrowed(config), None),
    };
    require_sendable(&config.auth_info)?;
    Ok((config, ends))
}

/// The plugin, unless something goes before it, as with kube.
fn plugin(user: &AuthInfo) -> Option<&ExecConfig> {
    let is_told = user.auth_provider.is_some()
        || (user.username.is_some() && user.password.is_some())
        || user.token.is_some()
        || user.token_file.is_some();
    user.exec.as_ref().filter(|_| !is_told)
}

/// Asks the plugin, and puts what it answers in its place. Answers when that ends.
fn answered(plugin: &ExecConfig, user: &mut AuthInfo, patience: Patience) -> Result<Option<Wall>, Flaw> {
    let Some(name) = &plugin.command else {
        return Err(Flaw::new("the credential plugin has no 'command'"));
    };
    let flaw = |what: &str| Flaw::new(format!("the credential plugin '{name}' {what}"));
    let status = understood(&run(plugin, name, patience)?, name)?.ok_or_else(|| flaw("answers no status"))?;
    let is_full = |text: &String| !text.is_empty();
    let token = status.token.filter(is_full);
    let pair = status
        .client_certificate_data
        .filter(is_full)
        .zip(status.client_key_data.filter(is_full));
    if token.is_none() && pair.is_none() {
        return Err(flaw("answers neither a token nor a certificate with its key"));
    }
    if let Some((certificate, key)) = pair {
        user.client_certificate_data = Some(STANDARD.encode(certificate));
        user.client_key_data = Some(STANDARD.encode(key).into());
    }
    user.token = token.map(Into::into);
    user.exec = None;
    let ends = status.expiration_timestamp.map(|ends| ends.parse::<Wall>());
    ends.transpose().map_err(|_| flaw("answers a time of expiry that is none"))
}

/// What it writes. What it complains about is shown where ours is, unless it has nothing to do with who runs it.
fn run(plugin: &ExecConfig, name: &str, patience: Patience) -> Result<Vec<u8>, Flaw> {
    let mode = plugin.interactive_mode.as_ref();
    let is_interactive = match mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) => true,
        Some(ExecInteractiveMode::IfAvailable) | None => stdin().is_terminal(),
    };
    let mut command = Command::new(name);
    command.args(plugin.args.iter().flatten());
    for variable in plugin.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    command.env("KUBERNETES_EXEC_INFO", told(plugin, is_interactive));
    if is_interactive {
        command.stdin(Stdio::inherit());
    } else {
        // What it begins itself is ended with it. Whoever reads from a terminal has to be of the group that has it.
        command.stdin(Stdio::null()).process_group(0);
    }
    if mode == Some(&ExecInteractiveMode::Never) {
        command.stderr(Stdio::null());
    }
    let within = patience.bound(is_interactive);
    let child = command.stdout(Stdio::piped()).spawn();
    let child = child.map_err(|error| {
        Flaw::new(format!(
            "the credential plugin '{name}' cannot be run: {error}{}",
            hint(plugin, &error)
        ))
    })?;
    let ended = end(child, within, is_interactive)
        .map_err(|error| Flaw::new(format!("the credential plugin '{name}' cannot be waited for: {error}")))?;
    let Some((status, written)) = ended else {
        let seconds = within.unwrap_or_default().as_secs();
        return Err(Flaw::new(format!(
            "the credential plugin '{name}' was ended, as it did not answer within {seconds} s"
        )));
    };
    // What it wrote may be secret.
    if status.success() {
        Ok(written)
    } else {
        Err(Flaw::new(format!("the credential plugin '{name}' failed: {status}")))
    }
}

/// What the kubeconfig says of where to find one that is not there, on one line.
fn hint(plugin: &ExecConfig, error: &io::Error) -> String {
    let hint = plugin
        .install_hint
        .as_deref()
        .filter(|_| error.kind() == io::ErrorKind::NotFound);
    let words = hint.unwrap_or_default().split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        String::new()
    } else {
        format!("; {}", words.join(" "))
    }
}

/// How it ends, and what it wrote until then. Nothing if it takes longer than this: then it is ended.
fn end(mut child: Child, within: Option<Duration>, is_interactive: bool) -> io::Result<Option<(ExitStatus, Vec<u8>)>> {
    let (pid, stdout) = (Pid::from_child(&child), child.stdout.take());
    let (done, ended) = mpsc::channel();
    let read = move || {
        let mut written = Vec::new();
        let read = stdout.map_or(Ok(0), |mut stdout| stdout.read_to_end(&mut written));
        // It is left to be waited for once more, so that its number is nobody else's if it is to be ended.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _ = done.send(read.map(|_| written));
    };
    let reading = thread::Builder::new().name("plugin".to_owned()).spawn(read);
    let written = match within {
        Some(within) => ended.recv_timeout(within).ok(),
        None => ended.recv().ok(),
    };
    if written.is_none() {
        // If that fails it has ended just now.
        let _ = if is_interactive {
            child.kill()
        } else {
            kill_process_group(pid, Signal::KILL).map_err(io::Error::from)
        };
    }
    let status = child.wait()?;
    reading?;
    written.map(|written| Ok((status, written?))).transpose()
}

/// What it is told of who asks.
fn told(plugin: &ExecConfig, is_interactive: bool) -> String {
    let mut spec = json!({"interactive": is_interactive});
    if plugin.provide_cluster_info {
        spec["cluster"] = serde_json::to_value(&plugin.cluster).unwrap_or_default();
    }
    json!({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}).to_string()
}

/// Some write YAML, which JSON is, too.
fn understood(answer: &[u8], name: &str) -> Result<Option<Status>, Flaw> {
    match serde_saphyr::from_slice(answer) {
        Ok(ExecCredential { status }) => Ok(status),
        Err(error) => {
            let place = place(&error);
            Err(Flaw::new(format!(
                "what the credential plugin '{name}' answers is no ExecCredential{place}"
            )))
        }
    }
}

fn require_sendable(user: &AuthInfo) -> Result<(), Flaw> {
    // Whoever writes a kubeconfig may see it.
    let shown = serde_json::to_value(user).unwrap_or_default();
    let provider = user.auth_provider.as_ref();
    let of_provider = provider
        .and_then(|provider| provider.config.get("id-token"))
        .map(String::as_str);
    match shown["token"].as_str().or(of_provider).map(HeaderValue::from_str) {
        Some(Err(_)) => Err(Flaw::new(
            "the token has a character that none can have, such as the end of a line",
        )),
        _ => Ok(()),
    }
}

// === impl Patience ===

impl Patience {
    pub(super) const START: Self = Self::Start(WITHIN);
    pub(super) const AGAIN: Self = Self::Again(WITHIN);

    const fn bound(self, is_interactive: bool) -> Option<Duration> {
        match self {
            Self::Start(_) if is_interactive => None,
            Self::Start(within) | Self::Again(within) => Some(within),
        }
    }
}
