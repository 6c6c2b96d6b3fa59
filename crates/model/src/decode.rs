//! How objects of the Kubernetes API are decoded, from whichever encoding: what serde's own ways lack for them.
//!
//! It is lenient where the API is: null and absent are the same.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::Wall;

/// Decodes null like an absent field.
///
/// # Errors
/// When it is no `T`.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Decodes a time: the text that JSON has, or the numbers of protobuf, which cost less. Null is an absent one.
///
/// # Errors
/// When it is none.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Wall>, D::Error> {
    struct Time(Wall);

    impl<'de> Deserialize<'de> for Time {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            if deserializer.is_human_readable() {
                return Wall::deserialize(deserializer).map(Self);
            }
            let (seconds, nanos) = <(i64, i32)>::deserialize(deserializer)?;
            Wall::new(seconds, nanos).map(Self).map_err(D::Error::custom)
        }
    }

    Ok(Option::<Time>::deserialize(deserializer)?.map(|Time(wall)| wall))
}

/// Decodes a list that the API merges by a name in each item, as it does conditions by their types; null is an empty one.
///
/// Only items of these `names` are wanted: it is asked for like a struct that has them as its fields. Protobuf passes over the others;
/// JSON has them all the same.
///
/// # Errors
/// When it is no list, or an item is no `T`.
pub fn named<'de, T, D>(deserializer: D, names: &'static [&'static str]) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct List<T>(&'static [&'static str], PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_none<E>(self) -> Result<Vec<T>, E> {
            Ok(Vec::new())
        }

        fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
            deserializer.deserialize_struct("list", self.0, self)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Vec<T>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }

    deserializer.deserialize_option(List(names, PhantomData))
}
