//! What a plugin answers who is to be asked for credentials (`exec` of a user in a kubeconfig).
//!
//! kube would run it twice for each reading, for a certificate and for a token, and once more by the request that finds a token about to end,
//! while all others wait. Here it is run once, by who reads, and what it answers stands where a kubeconfig has it.

use std::borrow::Cow;
use std::io::{IsTerminal as _, stdin};
use std::process::{Command, Stdio};

use bailiff_model::Wall;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use kube::Config;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;

use super::flaw::{Flaw, place};

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
pub(super) fn ask(config: &Config) -> Result<(Cow<'_, Config>, Option<Wall>), Flaw> {
    let (config, ends) = match plugin(&config.auth_info) {
        Some(plugin) => {
            let mut config = config.clone();
            let ends = answered(plugin, &mut config.auth_info)?;
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
fn answered(plugin: &ExecConfig, user: &mut AuthInfo) -> Result<Option<Wall>, Flaw> {
    let Some(name) = &plugin.command else {
        return Err(Flaw::new("the credential plugin has no 'command'"));
    };
    let flaw = |what: &str| Flaw::new(format!("the credential plugin '{name}' {what}"));
    let status = understood(&run(plugin, name)?, name)?.ok_or_else(|| flaw("answers no status"))?;
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
fn run(plugin: &ExecConfig, name: &str) -> Result<Vec<u8>, Flaw> {
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
    command.stdin(if is_interactive { Stdio::inherit() } else { Stdio::null() });
    if mode != Some(&ExecInteractiveMode::Never) {
        command.stderr(Stdio::inherit());
    }
    let output = command
        .output()
        .map_err(|error| Flaw::new(format!("the credential plugin '{name}' cannot be run: {error}")))?;
    // What it wrote may be secret.
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Flaw::new(format!("the credential plugin '{name}' failed: {}", output.status)))
    }
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
