//! A message as a map of fields, and what is many in it.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::value::{Name, Text, Unread, alike};
use super::wire::{Fields, Payload, first};
use super::{Field, Kind, Message, ScanError};

/// A message.
#[derive(Clone, Copy)]
pub(super) struct Object<'de> {
    message: &'static Message,
    bytes: &'de [u8],
}

/// The fields of a message that a table has.
struct Known<'de> {
    message: &'static Message,
    fields: Fields<'de>,
    /// The place in the table where the last field is, or would be.
    place: usize,
    /// Lists and maps that were handed over, as bits by their place in the table.
    given: u64,
    /// What the last key stands for, until its value was read.
    field: Option<&'static Field>,
    /// What that holds.
    held: Held<'de>,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Held<'de> {
    /// This.
    One(Payload<'de>),
    /// This, and what later fields of its number hold.
    All(Items<'de>),
}

/// The fields of one number.
#[derive(Clone, Copy)]
pub(super) struct Items<'de> {
    number: u32,
    fields: Fields<'de>,
}

/// The items of a list.
struct List<'de> {
    items: Items<'de>,
    kind: Kind,
}

/// Those items of a list whose first field is one of these names.
struct Named<'de> {
    items: Items<'de>,
    message: &'static Message,
    names: &'static [&'static str],
}

/// The entries of a map.
struct Entries<'de> {
    items: Items<'de>,
    value: &'de [u8],
}

impl<'de> Object<'de> {
    pub(super) fn new(message: &'static Message, bytes: &'de [u8]) -> Self {
        debug_assert!(message.fields.is_sorted_by_key(|field| field.number), "{}", message.name);
        Self { message, bytes }
    }
}

impl<'de> Deserializer<'de> for Object<'de> {
    type Error = ScanError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScanError> {
        visitor.visit_map(Known {
            message: self.message,
            fields: Fields::of(self.bytes),
            place: 0,
            given: 0,
            field: None,
            held: Held::One(Payload::Fixed),
        })
    }

    alike!();
    serde::forward_to_deserialize_any! { tuple struct enum }
}

impl<'de> Known<'de> {
    /// Holds the next field that is in the table, and there in JSON too.
    fn next(&mut self) -> Result<Option<&'static Field>, ScanError> {
        // Not in place, where each step would be written down.
        let mut fields = self.fields;
        loop {
            let here = fields;
            let Some((number, payload)) = fields.next()? else {
                return Ok(None);
            };
            let Some((place, field)) = self.find(number) else { continue };
            let held = if field.kind.is_many() {
                let bit = 1 << place;
                if self.given & bit != 0 {
                    continue;
                }
                self.given |= bit;
                Held::All(Items { number, fields: here })
            } else if field.when_empty || !matches!(payload, Payload::Number(0) | Payload::Bytes(b"")) {
                Held::One(payload)
            } else {
                continue;
            };
            (self.fields, self.field, self.held) = (fields, Some(field), held);
            return Ok(Some(field));
        }
    }

    /// Fields mostly come in the order of their numbers, which is that of the table: each is looked for from where the last one was.
    fn find(&mut self, number: u32) -> Option<(usize, &'static Field)> {
        let table = self.message.fields;
        if self.place > 0 && table[self.place - 1].number >= number {
            self.place = 0;
        }
        loop {
            let field = table.get(self.place)?;
            if field.number >= number {
                return (field.number == number).then_some((self.place, field));
            }
            self.place += 1;
        }
    }
}

impl<'de> MapAccess<'de> for Known<'de> {
    type Error = ScanError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ScanError> {
        match self.next()? {
            Some(field) => seed.deserialize(Name(field.name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ScanError> {
        let Some(field) = self.field.take() else {
            return Err(serde::de::Error::custom("a value without a key"));
        };
        seed.deserialize(Unread(&field.kind, &self.held))
            .map_err(|error| error.within(field.name))
    }
}

impl Kind {
    fn is_many(self) -> bool {
        matches!(self, Self::Texts | Self::Map | Self::Many(_))
    }
}

// === impl Items ===

impl<'de> Items<'de> {
    fn next(&mut self) -> Result<Option<&'de [u8]>, ScanError> {
        while let Some((number, payload)) = self.fields.next()? {
            match payload {
                Payload::Bytes(bytes) if number == self.number => return Ok(Some(bytes)),
                _ if number == self.number => return Err(serde::de::Error::custom("an item is a number")),
                _ => {}
            }
        }
        Ok(None)
    }

    /// How many come one after the other, from the first on; what is broken ends them, and is an error once it is read.
    fn run(mut self) -> usize {
        let mut run = 0;
        while let Ok(Some((number, _))) = self.fields.next() {
            if number == self.number {
                run += 1;
            } else if run > 0 {
                break;
            }
        }
        run
    }

    /// As a list of what `kind` is many of.
    pub(super) fn visit_list<V: Visitor<'de>>(self, kind: Kind, visitor: V) -> Result<V::Value, ScanError> {
        visitor.visit_seq(List { items: self, kind })
    }

    /// As a list of those messages whose first field is one of `names`.
    pub(super) fn visit_named<V: Visitor<'de>>(
        self,
        message: &'static Message,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ScanError> {
        visitor.visit_seq(Named {
            items: self,
            message,
            names,
        })
    }

    /// As a map.
    pub(super) fn visit_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ScanError> {
        visitor.visit_map(Entries { items: self, value: b"" })
    }
}

impl<'de> SeqAccess<'de> for List<'de> {
    type Error = ScanError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ScanError> {
        let Some(bytes) = self.items.next()? else {
            return Ok(None);
        };
        match self.kind {
            Kind::Many(message) => seed.deserialize(Object::new(message, bytes)).map(Some),
            _ => seed.deserialize(Text(bytes)).map(Some),
        }
    }

    /// Room is made once for those that stand together, which mostly are all.
    fn size_hint(&self) -> Option<usize> {
        Some(self.items.run())
    }
}

impl<'de> SeqAccess<'de> for Named<'de> {
    type Error = ScanError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ScanError> {
        while let Some(bytes) = self.items.next()? {
            let name = first(bytes, 1).unwrap_or_default();
            if self.names.iter().any(|wanted| wanted.as_bytes() == name) {
                return seed.deserialize(Object::new(self.message, bytes)).map(Some);
            }
        }
        Ok(None)
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ScanError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ScanError> {
        let Some(entry) = self.items.next()? else {
            return Ok(None);
        };
        let mut key = &b""[..];
        self.value = b"";
        let mut fields = Fields::of(entry);
        while let Some(field) = fields.next()? {
            match field {
                (1, Payload::Bytes(bytes)) => key = bytes,
                (2, Payload::Bytes(bytes)) => self.value = bytes,
                _ => {}
            }
        }
        seed.deserialize(Text(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ScanError> {
        seed.deserialize(Text(self.value))
    }
}
