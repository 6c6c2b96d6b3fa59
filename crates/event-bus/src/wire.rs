//! Conversion between the wire form (`bailiff.v1`) and domain values.
//!
//! On the way in everything is checked: what the contract forbids is an [`Error`] that names the field, the value and what is
//! allowed, and becomes `invalid_argument` at the edge. On the way out `to_*` functions cannot fail; sentences for people are
//! clipped to what the way in accepts. Whether a record fits its topic and key is checked in [`envelope`].

use std::fmt;

pub mod envelope;
mod health;
mod intent;
mod outcome;
mod rollout;
pub mod scalar;
mod values;

pub use health::to_node_health;
pub use intent::{to_node_eviction, to_node_isolation, to_pod_eviction};
pub use outcome::{to_node_outcome, to_pod_outcome, to_zone_status};
pub use rollout::to_daemon_set_sync;
pub use values::{to_hold, to_node_ref, to_pod_ref, to_taint, to_toleration, to_zone};

/// A value as it came over the wire, not checked yet.
#[derive(Clone, Debug)]
pub struct Wire<T>(pub T);

/// A value that the contract does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value} is not allowed, wanted {allowed}")]
pub struct Error {
    /// Path of the field, such as `node_health.node.uid`.
    pub field: String,
    /// The value found, clipped.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

/// An enum of the domain with a twin on the wire.
pub(crate) trait Twin: Sized {
    /// The domain value of a wire number; UNSPECIFIED and unknown numbers are refused.
    fn from_wire(field: &str, number: i32) -> Result<Self, Error>;

    /// The wire number.
    fn to_wire(self) -> i32;
}

/// Declares that two enums have the same variants, but for the wire's UNSPECIFIED.
macro_rules! twins {
    ($wire:ty, $domain:ty, [$($variant:ident),+ $(,)?]) => {
        impl crate::wire::Twin for $domain {
            fn from_wire(field: &str, number: i32) -> Result<Self, crate::wire::Error> {
                match <$wire>::try_from(number) {
                    $(Ok(<$wire>::$variant) => Ok(Self::$variant),)+
                    Ok(<$wire>::Unspecified) | Err(_) => {
                        let allowed = [$(<$wire>::$variant.as_str_name()),+].join(", ");
                        Err(crate::wire::Error::new(field, number, allowed))
                    }
                }
            }

            fn to_wire(self) -> i32 {
                match self {
                    $(Self::$variant => <$wire>::$variant.into(),)+
                }
            }
        }
    };
}
pub(crate) use twins;

// === impl Error ===

impl Error {
    /// The refusal of `value` in `field`.
    pub fn new(field: &str, value: impl fmt::Debug, allowed: impl Into<String>) -> Self {
        // Long enough to recognise the value, short enough for one log line.
        const LONGEST: usize = 120;
        let mut value = format!("{value:?}");
        if value.len() > LONGEST {
            value.truncate(value.floor_char_boundary(LONGEST));
            value.push('…');
        }
        Self {
            field: field.to_owned(),
            value,
            allowed: allowed.into(),
        }
    }

    /// The refusal of a message that is not there.
    pub fn absent(field: &str) -> Self {
        Self {
            field: field.to_owned(),
            value: "absent".to_owned(),
            allowed: "a value".to_owned(),
        }
    }

    /// The same refusal, seen from the message that holds `parent`.
    pub fn under(mut self, parent: &str) -> Self {
        self.field = format!("{parent}.{}", self.field);
        self
    }
}

/// Converts a message that may be absent.
pub(crate) fn optional<W, T>(field: &str, value: Option<W>) -> Result<Option<T>, Error>
where
    T: TryFrom<Wire<W>, Error = Error>,
{
    value
        .map(|value| T::try_from(Wire(value)).map_err(|error| error.under(field)))
        .transpose()
}

/// Converts a message that must be there.
pub(crate) fn required<W, T>(field: &str, value: Option<W>) -> Result<T, Error>
where
    T: TryFrom<Wire<W>, Error = Error>,
{
    optional(field, value)?.ok_or_else(|| Error::absent(field))
}

/// Converts a list of at most `most` messages.
pub(crate) fn list<W, T>(field: &str, values: Vec<W>, most: usize) -> Result<Vec<T>, Error>
where
    T: TryFrom<Wire<W>, Error = Error>,
{
    if values.len() > most {
        return Err(Error::new(
            field,
            format_args!("{} entries", values.len()),
            format!("at most {most}"),
        ));
    }
    let mut converted = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        converted.push(T::try_from(Wire(value)).map_err(|error| error.under(&format!("{field}[{index}]")))?);
    }
    Ok(converted)
}
