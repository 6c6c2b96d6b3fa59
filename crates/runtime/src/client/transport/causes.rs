//! What is behind the error of a request.

use std::error::Error;
use std::io;
use std::iter::successors;

use hyper_util::client::legacy;
use tokio_rustls::rustls::{self, CertificateError};

use super::SendError;
use super::content::Kept;
use super::shared::Unconnected;
use crate::client::Flaw;

/// True if a server was turned away because nobody who is trusted vouches for it.
pub(super) fn is_distrust(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| {
        // A new CA of the old name has another key, which may be of another kind.
        let is_of_ca = |flaw: &CertificateError| {
            matches!(
                flaw,
                CertificateError::UnknownIssuer
                    | CertificateError::BadSignature
                    | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
                    | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. }
            )
        };
        matches!(cause.downcast_ref(), Some(rustls::Error::InvalidCertificate(flaw)) if is_of_ca(flaw))
            || matches!(cause.downcast_ref(), Some(Unconnected { is_distrust: true, .. }))
    })
}

/// The error, and what is behind it, down to the last cause.
pub(super) fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |error| cause(*error))
}

/// As [`Error::source`], by which an error of I/O passes over the one in it, and one that shows itself as another over that.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(SendError(inner)) = error.downcast_ref() {
        return Some(&**inner);
    }
    match error.downcast_ref().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

// === impl SendError ===

impl SendError {
    /// True if the request was not sent because it might not be any more ([`super::Content::only_while`]).
    pub fn was_kept(&self) -> bool {
        causes(&*self.0).any(|cause| cause.is::<Kept>())
    }

    /// True if there was no connection to send it over, so that nobody did what was asked.
    pub fn is_unconnected(&self) -> bool {
        let is_connect = |cause: &(dyn Error + 'static)| cause.downcast_ref().is_some_and(legacy::Error::is_connect);
        causes(&*self.0).any(|cause| cause.is::<Unconnected>() || is_connect(cause))
    }

    /// True if other ways may be of use: there were no credentials to send it with, or the server is not trusted.
    pub(super) fn is_of_ways(&self) -> bool {
        self.0.is::<Flaw>() || is_distrust(&*self.0)
    }
}
