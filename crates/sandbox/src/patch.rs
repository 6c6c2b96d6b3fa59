//! The three patch formats that need no field ownership: JSON patch, JSON merge patch, strategic merge patch.

pub mod json;
pub mod merge;
pub mod strategic;

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch itself is malformed: 400.
    #[error("{0}")]
    Malformed(String),
    /// It does not fit the object: 422.
    #[error("{0}")]
    Unfit(String),
    /// It misuses a directive: 500, as the real server answers.
    #[error("{0}")]
    Directive(String),
    /// It has more operations than are carried out.
    #[error("{0}")]
    TooMany(String),
}
