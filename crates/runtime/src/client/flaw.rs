//! What is wrong with how a client asks, without what is secret: a kubeconfig holds tokens and keys, and so does what a plugin says.

use std::sync::Arc;

use kube::Config;
use kube::client::AuthError;
use kube::config::{InClusterError, KubeconfigError};
use tower::BoxError;

/// In kube's words, which have those of their causes in them, but for those that quote.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Flaw(String);

/// Who is asked for credentials by kube, by the name that the configuration has for it (`auth-provider`).
#[derive(Clone, Debug)]
pub(super) struct Provider(Arc<str>);

// === impl Flaw ===

impl Flaw {
    pub(super) fn new(flaw: impl Into<String>) -> Self {
        Self(flaw.into())
    }
}

impl From<InClusterError> for Flaw {
    fn from(error: InClusterError) -> Self {
        Self(match error {
            // It does not say which: those that are in every pod.
            InClusterError::ReadEnvironmentVariable(_) => "KUBERNETES_SERVICE_HOST is not set, so this is none".to_owned(),
            error => error.to_string(),
        })
    }
}

impl From<KubeconfigError> for Flaw {
    fn from(error: KubeconfigError) -> Self {
        Self(match error {
            // It shows the lines around, and what stands where something else is expected.
            KubeconfigError::ReadConfig(error, file) => format!("cannot read '{}': {error}", file.display()),
            KubeconfigError::Parse(error) => format!("failed to parse kubeconfig YAML{}", place(&error)),
            error => error.to_string(),
        })
    }
}

// === impl Provider ===

impl Provider {
    pub(super) fn of(config: &Config) -> Self {
        let provider = config.auth_info.auth_provider.as_ref();
        Self(provider.map_or("", |provider| &provider.name).into())
    }

    /// What keeps a client from being.
    pub(super) fn flaw(&self, error: kube::Error) -> Flaw {
        match error {
            kube::Error::Auth(error) => self.failed(&error),
            kube::Error::InferKubeconfig(error) => Flaw::from(error),
            error => Flaw(error.to_string()),
        }
    }

    /// The error of a request: a [`Flaw`] if there were no credentials to send it with.
    pub(super) fn told(&self, error: BoxError) -> BoxError {
        match error.downcast::<AuthError>() {
            Ok(error) => self.failed(&error).into(),
            Err(error) => error,
        }
    }

    fn failed(&self, error: &AuthError) -> Flaw {
        let Self(name) = self;
        Flaw(match error {
            // It shows the program's arguments, and what it wrote.
            AuthError::AuthExecRun { out, .. } => format!("the program of the auth-provider '{name}' failed: {}", out.status),
            error => error.to_string(),
        })
    }
}

pub(super) fn place(error: &serde_saphyr::Error) -> String {
    let place = error.location();
    place.map_or_else(String::new, |at| format!(" at line {}, column {}", at.line(), at.column()))
}
