//! What a field holds, as serde reads it.

use std::borrow::Cow;

use bailiff_model::Wall;
use serde::de::value::{CowStrDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, Visitor};

use super::object::{Held, Items, Object};
use super::wire::{Fields, Payload};
use super::{Kind, ScanError};

/// What a field holds.
pub(super) enum Value<'de> {
    Text(&'de [u8]),
    Flag(bool),
    Number(i64),
    /// Seconds and nanoseconds.
    Time(i64, i64),
    Map(Items<'de>),
    One(Object<'de>),
    List(Items<'de>, Kind),
}

/// What a field holds, while it is not known whether anybody reads it.
pub(super) struct Unread<'de>(pub(super) Kind, pub(super) Held<'de>);

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
            tuple_struct map struct identifier
        }
    };
}
pub(super) use alike;

impl<'de> Value<'de> {
    #[inline]
    fn of(kind: Kind, held: Held<'de>) -> Result<Self, ScanError> {
        Ok(match (kind, held) {
            (Kind::Map, Held::All(items)) => Self::Map(items),
            (Kind::Texts | Kind::Many(_), Held::All(items)) => Self::List(items, kind),
            (Kind::Text, Held::One(Payload::Bytes(bytes))) => Self::Text(bytes),
            (Kind::Flag, Held::One(Payload::Number(number))) => Self::Flag(number != 0),
            (Kind::Number, Held::One(Payload::Number(number))) => Self::Number(number.cast_signed()),
            (Kind::Time, Held::One(Payload::Bytes(bytes))) => Self::Time(time(bytes)?.0, 0),
            (Kind::Micros, Held::One(Payload::Bytes(bytes))) => {
                let (seconds, nanos) = time(bytes)?;
                Self::Time(seconds, nanos - nanos % 1000)
            }
            (Kind::Json, Held::One(Payload::Bytes(bytes))) => Self::Text(json(bytes)?),
            (Kind::One(message), Held::One(Payload::Bytes(bytes))) => Self::One(Object::new(message, bytes)),
            _ => return Err(ScanError::custom("it has another wire type")),
        })
    }
}

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

impl<'de> Unread<'de> {
    #[inline]
    fn read(self) -> Result<Value<'de>, ScanError> {
        Value::of(self.0, self.1)
    }
}

impl<'de> Deserializer<'de> for Unread<'de> {
    type Error = ScanError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScanError> {
        self.read()?.deserialize_any(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, ScanError> {
        self.read()?.deserialize_tuple(length, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScanError> {
        self.read()?.deserialize_enum(name, variants, visitor)
    }

    alike!();
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = ScanError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScanError> {
        match self {
            Self::Text(bytes) => match utf8(bytes) {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            Self::Flag(flag) => visitor.visit_bool(flag),
            Self::Number(number) => visitor.visit_i64(number),
            Self::Time(seconds, nanos) => visitor.visit_string(text(seconds, nanos)?),
            Self::Map(items) => items.visit_map(visitor),
            Self::One(object) => object.deserialize_any(visitor),
            Self::List(items, kind) => items.visit_list(kind, visitor),
        }
    }

    /// A time in numbers, which costs no text.
    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ScanError> {
        match self {
            Self::Time(seconds, nanos) => visitor.visit_seq(SeqDeserializer::new([seconds, nanos].into_iter())),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScanError> {
        match self {
            Self::Text(bytes) => visitor.visit_enum(CowStrDeserializer::new(utf8(bytes))),
            other => other.deserialize_any(visitor),
        }
    }

    alike!();
}

impl<'de> Deserializer<'de> for Name {
    type Error = ScanError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScanError> {
        visitor.visit_borrowed_str(self.0)
    }

    alike!();
    serde::forward_to_deserialize_any! { tuple enum }
}
