//! What a field holds, as serde reads it.

use std::borrow::Cow;

use bailiff_model::Wall;
use serde::de::value::{CowStrDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, Visitor};

use super::object::{Held, Object};
use super::wire::{Fields, Payload};
use super::{Kind, ScanError};

/// What a field holds, while it is not known whether anybody reads it. Lent: each of serde's layers would move it.
#[derive(Clone, Copy)]
pub(super) struct Unread<'a, 'de>(pub(super) &'a Kind, pub(super) &'a Held<'de>);

/// A text.
pub(super) struct Text<'de>(pub(super) &'de [u8]);

/// The name of a field.
pub(super) struct Name(pub(super) &'static str);

/// What serde may ask for and is answered alike: a null is not there, and a name around something changes nothing.
macro_rules! alike {
    () => {
        fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScanError> {
            visitor.visit_some(self)
        }

        fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, ScanError> {
            visitor.visit_newtype_struct(self)
        }

        fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScanError> {
            visitor.visit_unit()
        }

        fn is_human_readable(&self) -> bool {
            false
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
            tuple_struct map identifier
        }
    };
}
pub(super) use alike;

/// Text; what is no UTF-8 in it is replaced. The look whether there is such, for which ASCII is quick, comes first: there hardly ever is.
fn utf8(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Seconds and nanoseconds of a time.
fn time(bytes: &[u8]) -> Result<(i64, i64), ScanError> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = Fields::of(bytes);
    while let Some(field) = fields.next()? {
        match field {
            (1, Payload::Number(number)) => seconds = number.cast_signed(),
            (2, Payload::Number(number)) => nanos = number.cast_signed(),
            _ => {}
        }
    }
    Ok((seconds, nanos))
}

/// The bytes that a `RawExtension` or `FieldsV1` holds.
fn json(bytes: &[u8]) -> Result<&[u8], ScanError> {
    let mut raw = &b""[..];
    let mut fields = Fields::of(bytes);
    while let Some(field) = fields.next()? {
        if let (1, Payload::Bytes(bytes)) = field {
            raw = bytes;
        }
    }
    Ok(raw)
}

/// The text that JSON has for a time.
fn text(seconds: i64, nanos: i64) -> Result<String, ScanError> {
    let nanos = i32::try_from(nanos).map_err(ScanError::custom)?;
    let wall = Wall::new(seconds, nanos).map_err(ScanError::custom)?;
    Ok(wall.to_string())
}

/// Something whose payload is none of its kind.
fn mistyped() -> ScanError {
    ScanError::custom("it has another wire type")
}

impl Unread<'_, '_> {
    /// Seconds and nanoseconds of a time; `None` if it is none.
    #[inline]
    fn time(self) -> Result<Option<(i64, i64)>, ScanError> {
        let Held::One(Payload::Bytes(bytes)) = self.1 else {
            return Ok(None);
        };
        Ok(match self.0 {
            Kind::Time => Some((time(bytes)?.0, 0)),
            Kind::Micros => {
                let (seconds, nanos) = time(bytes)?;
                Some((seconds, nanos - nanos % 1000))
            }
            _ => None,
        })
    }
}

impl<'de> Deserializer<'de> for Unread<'_, 'de> {
    type Error = ScanError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScanError> {
        match (*self.0, *self.1) {
            (Kind::Text, Held::One(Payload::Bytes(bytes))) => Text(bytes).deserialize_any(visitor),
            (Kind::One(message), Held::One(Payload::Bytes(bytes))) => Object::new(message, bytes).deserialize_any(visitor),
            (Kind::Flag, Held::One(Payload::Number(number))) => visitor.visit_bool(number != 0),
            (Kind::Number, Held::One(Payload::Number(number))) => visitor.visit_i64(number.cast_signed()),
            (Kind::Json, Held::One(Payload::Bytes(bytes))) => Text(json(bytes)?).deserialize_any(visitor),
            (Kind::Map, Held::All(items)) => items.visit_map(visitor),
            (Kind::Texts | Kind::Many(_), Held::All(items)) => items.visit_list(*self.0, visitor),
            _ => {
                let (seconds, nanos) = self.time()?.ok_or_else(mistyped)?;
                visitor.visit_string(text(seconds, nanos)?)
            }
        }
    }

    /// A time in numbers, which costs no text.
    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ScanError> {
        match self.time()? {
            Some((seconds, nanos)) => visitor.visit_seq(SeqDeserializer::new([seconds, nanos].into_iter())),
            None => self.deserialize_any(visitor),
        }
    }

    /// Of a list those items whose first field is one of the names ([`bailiff_model::decode::named`]).
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScanError> {
        match (*self.0, *self.1) {
            (Kind::Many(message), Held::All(items)) => items.visit_named(message, names, visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScanError> {
        match (self.0, self.1) {
            (Kind::Text, Held::One(Payload::Bytes(bytes))) => Text(bytes).deserialize_enum(name, variants, visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    alike!();
}

impl<'de> Deserializer<'de> for Text<'de> {
    type Error = ScanError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScanError> {
        match utf8(self.0) {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScanError> {
        visitor.visit_enum(CowStrDeserializer::new(utf8(self.0)))
    }

    alike!();
    serde::forward_to_deserialize_any! { tuple struct }
}

impl<'de> Deserializer<'de> for Name {
    type Error = ScanError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScanError> {
        visitor.visit_borrowed_str(self.0)
    }

    alike!();
    serde::forward_to_deserialize_any! { tuple struct enum }
}
