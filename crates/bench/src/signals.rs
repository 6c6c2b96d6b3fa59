//! How the benchmark and its kubelets are told to end.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGTERM or SIGINT. From now on neither ends the process, and those that come later do nothing: what was started is being
/// ended then, and what was made is being removed. Must be called inside a runtime.
///
/// # Errors
/// When the system refuses.
pub(crate) fn told_to_end() -> Result<impl Future<Output = ()>, String> {
    let listen = |kind| signal(kind).map_err(|error| format!("cannot listen to signals: {error}"));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
