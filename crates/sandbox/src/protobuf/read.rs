//! Protobuf to JSON.

use bailiff_model::Wall;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{Error, Paths, paths};
use crate::schema::Type;
use crate::schema::time::{micros, seconds};

/// How deep messages of declared types may nest, as the real server's libraries limit it.
const DEEPEST: usize = 100;

/// A field as it is on the wire.
pub(super) struct Field<'a> {
    /// Its number.
    pub number: u32,
    /// What it holds.
    pub payload: Payload<'a>,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    /// A number.
    Number(u64),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
}

/// Takes a message apart.
pub(super) fn fields(mut bytes: &[u8]) -> Result<Vec<Field<'_>>, Error> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let (key, rest) = varint(bytes)?;
        let number = u32::try_from(key >> 3).map_err(|_| Error::Malformed)?;
        let (payload, rest) = match key & 7 {
            0 => {
                let (value, rest) = varint(rest)?;
                (Payload::Number(value), rest)
            }
            1 => {
                let (value, rest) = rest.split_first_chunk::<8>().ok_or(Error::Malformed)?;
                (Payload::Number(u64::from_le_bytes(*value)), rest)
            }
            2 => {
                let (length, rest) = varint(rest)?;
                let length = usize::try_from(length).map_err(|_| Error::Malformed)?;
                let (value, rest) = rest.split_at_checked(length).ok_or(Error::Malformed)?;
                (Payload::Bytes(value), rest)
            }
            5 => {
                let (value, rest) = rest.split_first_chunk::<4>().ok_or(Error::Malformed)?;
                (Payload::Number(u64::from(u32::from_le_bytes(*value))), rest)
            }
            _ => return Err(Error::Malformed),
        };
        bytes = rest;
        if number == 0 {
            return Err(Error::Malformed);
        }
        fields.push(Field { number, payload });
    }
    Ok(fields)
}

fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), Error> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index).min(63);
        if byte & 0x80 == 0 {
            return Ok((value, bytes.get(index + 1..).unwrap_or_default()));
        }
    }
    Err(Error::Malformed)
}

/// The value of a message of a named type.
pub(super) fn structure(bytes: &[u8], schema: &str, depth: usize) -> Result<Value, Error> {
    let mut map = Map::new();
    fill(&mut map, bytes, &paths(schema), depth)?;
    Ok(Value::Object(map))
}

fn fill(map: &mut Map<String, Value>, bytes: &[u8], paths: &Paths<'_>, depth: usize) -> Result<(), Error> {
    if depth > DEEPEST {
        return Err(Error::Deep);
    }
    for field in fields(bytes)? {
        let here = paths.iter().filter(|(path, _, _)| path.first() == Some(&field.number));
        let embedded: Paths<'_> = here
            .clone()
            .filter(|(path, _, _)| path.len() > 1)
            .map(|(path, name, ty)| (path.get(1..).unwrap_or_default(), *name, *ty))
            .collect();
        if let (false, Payload::Bytes(inner)) = (embedded.is_empty(), field.payload) {
            fill(map, inner, &embedded, depth + 1)?;
        }
        for (_, name, ty) in here.filter(|(path, _, _)| path.len() == 1) {
            insert(map, name, ty, field.payload, depth)?;
        }
    }
    Ok(())
}

fn insert(map: &mut Map<String, Value>, name: &str, ty: &Type, payload: Payload<'_>, depth: usize) -> Result<(), Error> {
    match ty {
        Type::List(element, _) => {
            let item = value(element, payload, depth)?;
            let list = map.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(item);
            }
        }
        Type::Map(element, _) => {
            let Payload::Bytes(entry) = payload else {
                return Err(Error::Malformed);
            };
            let (mut key, mut held) = (String::new(), crate::schema::decode::zero(element));
            for part in fields(entry)? {
                match (part.number, part.payload) {
                    (1, Payload::Bytes(text)) => key = String::from_utf8_lossy(text).into_owned(),
                    (2, payload) => held = held_value(element, payload, depth)?,
                    _ => {}
                }
            }
            let table = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(table) = table {
                table.insert(key, held);
            }
        }
        ty => {
            let read = value(ty, payload, depth)?;
            map.insert(name.to_owned(), read);
        }
    }
    Ok(())
}

/// A map's value: a list is in a message of its own.
fn held_value(element: &Type, payload: Payload<'_>, depth: usize) -> Result<Value, Error> {
    let Type::List(inner, _) = element else {
        return value(element, payload, depth);
    };
    let Payload::Bytes(bytes) = payload else {
        return Err(Error::Malformed);
    };
    let items = fields(bytes)?.into_iter().filter(|part| part.number == 1);
    let list: Result<Vec<Value>, Error> = items.map(|part| value(inner, part.payload, depth)).collect();
    list.map(Value::Array)
}

fn value(ty: &Type, payload: Payload<'_>, depth: usize) -> Result<Value, Error> {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(match (ty, payload) {
        (Type::Bool, Payload::Number(number)) => (number != 0).into(),
        (Type::Int32 | Type::Int64, Payload::Number(number)) => number.cast_signed().into(),
        (Type::String, Payload::Bytes(bytes)) => lossy(bytes).into(),
        (Type::Bytes, Payload::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Type::Struct(name), Payload::Bytes(bytes)) => structure(bytes, name, depth + 1)?,
        (Type::Quantity, Payload::Bytes(bytes)) => lossy(first_bytes(bytes, 1)?).into(),
        (Type::Any, Payload::Bytes(bytes)) => serde_json::from_slice(first_bytes(bytes, 1)?).unwrap_or_default(),
        (Type::Time, Payload::Bytes(bytes)) => time(bytes)?.map_or(Value::Null, |at| seconds(at).into()),
        (Type::MicroTime, Payload::Bytes(bytes)) => time(bytes)?.map_or(Value::Null, |at| micros(at).into()),
        (Type::IntOrString, Payload::Bytes(bytes)) => int_or_string(bytes)?,
        _ => return Err(Error::Malformed),
    })
}

fn first_bytes(bytes: &[u8], number: u32) -> Result<&[u8], Error> {
    let found = fields(bytes)?.into_iter().find(|field| field.number == number);
    match found.map(|field| field.payload) {
        Some(Payload::Bytes(bytes)) => Ok(bytes),
        Some(Payload::Number(_)) => Err(Error::Malformed),
        None => Ok(&[]),
    }
}

fn time(bytes: &[u8]) -> Result<Option<Wall>, Error> {
    let (mut seconds, mut nanos) = (None, 0);
    for field in fields(bytes)? {
        match (field.number, field.payload) {
            (1, Payload::Number(number)) => seconds = Some(number.cast_signed()),
            (2, Payload::Number(number)) => nanos = i32::try_from(number).unwrap_or(0),
            _ => {}
        }
    }
    Ok(seconds.and_then(|seconds| Wall::new(seconds, nanos).ok()))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Error> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in fields(bytes)? {
        match (field.number, field.payload) {
            (1, Payload::Number(kind)) => is_text = kind == 1,
            (2, Payload::Number(value)) => number = value.cast_signed(),
            (3, Payload::Bytes(bytes)) => text = String::from_utf8_lossy(bytes).into_owned(),
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}
