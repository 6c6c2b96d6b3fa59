//! The scan of protobuf against the API's own types.
//!
//! `objects` holds objects as an API server writes them, in JSON and, by the encoder of `k8s.io/api` itself, in protobuf. Beside them, any
//! object that the sandbox's table of types allows is written by the sandbox's encoder, which shares nothing with the tables here.

mod generate;
mod prune;

use bailiff_cluster::Encoded;
use bailiff_cluster::scan::schema::{KINDS, LEASE, NODE, POD};
use bailiff_cluster::scan::{Kind, Message, read};
use bailiff_sandbox::protobuf::message;
use bailiff_sandbox::schema::decode::{Oddities, normal};
use bailiff_sandbox::schema::{Presence, Type, lookup};
use generate::Tape;
use proptest::prelude::*;
use prune::pruned;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

struct Recorded {
    message: &'static Message,
    json: &'static str,
    protobuf: &'static [u8],
}

macro_rules! recorded {
    ($message:expr, $name:literal) => {
        Recorded {
            message: $message,
            json: include_str!(concat!("objects/", $name, ".json")),
            protobuf: include_bytes!(concat!("objects/", $name, ".pb")),
        }
    };
}

const RECORDED: [Recorded; 4] = [
    recorded!(&POD, "pod"),
    recorded!(&NODE, "node"),
    recorded!(&NODE, "bare-node"),
    recorded!(&LEASE, "lease"),
];

/// The same object after it was a value of the API's own type.
fn typed(kind: &str, object: &Value) -> Value {
    fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
        let typed: T = serde_json::from_value(object.clone()).expect("it is of the type");
        serde_json::to_value(typed).expect("it can be written")
    }
    match kind {
        "Pod" => through::<k8s_openapi::api::core::v1::Pod>(object),
        "Node" => through::<k8s_openapi::api::core::v1::Node>(object),
        "DaemonSet" => through::<k8s_openapi::api::apps::v1::DaemonSet>(object),
        "Event" => through::<k8s_openapi::api::core::v1::Event>(object),
        "Lease" => through::<k8s_openapi::api::coordination::v1::Lease>(object),
        other => unreachable!("{other} is in no table"),
    }
}

#[test]
fn what_the_api_server_writes_is_read_alike_from_both_encodings() {
    for Recorded { message, json, protobuf } in RECORDED {
        let object: Value = serde_json::from_str(json).expect("it is JSON");
        let scanned: Value = read(message, protobuf).expect("it is a message");
        assert_eq!(scanned, pruned(message, &object), "{}", message.name);
        assert_eq!(
            scanned,
            pruned(message, &typed(message.name, &object)),
            "{} by its type",
            message.name
        );
    }
}

/// Of every field that is read: its number, and whether JSON leaves it out when it is empty.
#[test]
fn the_tables_agree_with_the_types_of_the_api() {
    fn check(message: &'static Message) {
        let of_the_api = lookup(message.name).unwrap_or_else(|| panic!("no type {}", message.name));
        for field in message.fields {
            let at = format!("{}.{}", message.name, field.name);
            let declared = of_the_api.field(field.name).unwrap_or_else(|| panic!("no field {at}"));
            assert_eq!(declared.number, [field.number], "{at}");
            let list = |wanted: &dyn Fn(&Type) -> bool| matches!(&declared.ty, Type::List(item, _) if wanted(item));
            let of = |message: &'static Message| move |ty: &Type| *ty == Type::Struct(message.name);
            let is_alike = match field.kind {
                Kind::Text => declared.ty == Type::String,
                Kind::Texts => list(&|item| *item == Type::String),
                Kind::Flag => declared.ty == Type::Bool,
                Kind::Number => matches!(declared.ty, Type::Int32 | Type::Int64),
                Kind::Time => declared.ty == Type::Time,
                Kind::Micros => declared.ty == Type::MicroTime,
                Kind::Json => declared.ty == Type::Any,
                Kind::Map => matches!(&declared.ty, Type::Map(item, _) if **item == Type::String),
                Kind::One(inner) => of(inner)(&declared.ty),
                Kind::Many(inner) => list(&of(inner)),
            };
            assert!(is_alike, "{at} is {:?}", declared.ty);
            if matches!(field.kind, Kind::Text | Kind::Flag | Kind::Number) {
                assert_eq!(field.when_empty, declared.presence != Presence::Filled, "{at}");
            }
            if let Kind::One(inner) | Kind::Many(inner) = field.kind {
                check(inner);
            }
        }
    }
    for kind in KINDS {
        check(kind);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The scan against the full typed decode.
    #[test]
    fn any_object_is_read_as_its_type_reads_it(which in 0..KINDS.len(), tape in prop::collection::vec(any::<u8>(), 0..2000)) {
        let kind = KINDS[which];
        let object = Tape::new(&tape).object(kind);
        let object = normal(object, kind.name, &mut Oddities::default()).expect("it is of the type");
        let scanned: Value = read(kind, &message(&object, kind.name)).expect("it is a message");
        prop_assert_eq!(&scanned, &pruned(kind, &object));
        prop_assert_eq!(&scanned, &pruned(kind, &typed(kind.name, &object)));
    }

    #[test]
    fn no_bytes_make_it_panic(which in 0..KINDS.len(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read::<Value>(KINDS[which], &bytes);
        let _ = Encoded::of_answer(&[b"k8s\0", &*bytes].concat().into());
    }

    /// Nor objects that were touched; what is cut off is an error, and says where.
    #[test]
    fn no_broken_object_makes_it_panic(
        which in 0..RECORDED.len(),
        touched in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let Recorded { message, protobuf, .. } = RECORDED[which];
        let mut bytes = protobuf.to_vec();
        for (at, byte) in touched {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = read::<Value>(message, &bytes);
        bytes.truncate(end.index(bytes.len()));
        if let Err(error) = read::<Value>(message, &bytes) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn an_object_that_is_cut_off_says_where() {
    let recorded = &RECORDED[0];
    for end in 1..recorded.protobuf.len() {
        match read::<Value>(recorded.message, &recorded.protobuf[..end]) {
            Err(error) => assert!(error.to_string().ends_with("it ends within a field"), "{error}"),
            // Between two fields.
            Ok(object) => assert!(object["status"].is_null(), "{object}"),
        }
    }
}
