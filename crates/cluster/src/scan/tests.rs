use std::borrow::Cow;
use std::collections::BTreeMap;

use bailiff_model::Wall;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::schema::{KINDS, LEASE, NODE, OBJECT_META, POD, POD_SPEC, POD_STATUS, TAINT};
use super::*;
use crate::views::{named, time};

/// A field that holds bytes; all lengths here are below 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    let key = u16::from(number) << 3 | 2;
    if key < 0x80 {
        field.push(u8::try_from(key).unwrap());
    } else {
        field.extend([u8::try_from(key & 0x7f).unwrap() | 0x80, u8::try_from(key >> 7).unwrap()]);
    }
    field.push(u8::try_from(bytes.len()).unwrap());
    field.extend_from_slice(bytes);
    field
}

fn value(message: &'static Message, bytes: &[u8]) -> Result<Value, String> {
    read(message, bytes).map_err(|error| error.to_string())
}

#[test]
fn a_message_is_the_map_that_its_json_would_be() {
    let label = |key: &[u8], value: &[u8]| field(11, &[field(1, key), field(2, value)].concat());
    let metadata = [
        field(1, b"n"),
        field(6, b""),
        vec![7 << 3, 3],
        field(8, b"\x08\x05"),
        label(b"a", b"b"),
        label(b"empty", b""),
        field(13, &[field(4, b"u"), vec![6 << 3, 1]].concat()),
        field(14, b"a finalizer"),
        field(17, &[field(1, b"m"), field(7, &field(1, b"{\"f:spec\":{}}"))].concat()),
    ];
    let message = [field(1, &metadata.concat()), field(2, b""), field(9, b"unknown")].concat();
    let wanted = json!({
        "metadata": {
            "name": "n", "generation": 3, "creationTimestamp": "1970-01-01T00:00:05Z", "labels": {"a": "b", "empty": ""},
            "ownerReferences": [{"uid": "u", "controller": true}],
            "managedFields": [{"manager": "m", "fieldsV1": "{\"f:spec\":{}}"}],
        },
        "spec": {},
    });
    assert_eq!(value(&NODE, &message), Ok(wanted));
}

#[test]
fn what_json_leaves_out_is_not_there() {
    let empty = [field(1, b""), field(2, b""), field(3, b""), field(4, b"")].concat();
    assert_eq!(value(&TAINT, &empty), Ok(json!({"key": "", "effect": ""})));
    let toleration = [field(1, b""), vec![5 << 3, 0]].concat();
    let spec = [field(10, b""), field(22, &toleration)].concat();
    assert_eq!(
        value(&POD_SPEC, &spec),
        Ok(json!({"tolerations": [{"tolerationSeconds": 0}]}))
    );
    assert_eq!(value(&OBJECT_META, &[field(8, b""), field(9, b"")].concat()), Ok(json!({})));
}

#[test]
fn a_list_is_whole_wherever_its_items_are() {
    let condition = |kind: &[u8]| field(2, &field(1, kind));
    let status = [
        condition(b"A"),
        field(4, b"why"),
        condition(b"B"),
        field(1, b"Running"),
        condition(b"C"),
    ]
    .concat();
    let wanted = json!({"conditions": [{"type": "A"}, {"type": "B"}, {"type": "C"}], "reason": "why", "phase": "Running"});
    assert_eq!(value(&POD_STATUS, &status), Ok(wanted));
}

/// The others are passed over, even one that is broken; JSON has them all.
#[test]
fn of_a_list_only_items_of_some_names_are_read() {
    #[derive(Debug, Deserialize)]
    struct Status {
        #[serde(deserialize_with = "conditions")]
        conditions: Vec<BTreeMap<String, String>>,
    }
    fn conditions<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<BTreeMap<String, String>>, D::Error> {
        named(deserializer, &["B", "A"])
    }
    let condition = |kind: &[u8], status: &[u8]| field(2, &[field(1, kind), field(2, status)].concat());
    let (another, nameless) = (field(2, &[&*field(1, b"C"), b"\x0b"].concat()), field(2, &field(2, b"5")));
    let status = [
        condition(b"A", b"1"),
        another,
        condition(b"B", b"2"),
        field(4, b"why"),
        nameless,
        condition(b"A", b"3"),
    ]
    .concat();
    let read = |status: Result<Status, ScanError>| {
        let conditions = status.expect("a status").conditions;
        conditions
            .iter()
            .map(|one| [&*one["type"], &*one["status"]].concat())
            .collect::<Vec<_>>()
    };
    assert_eq!(read(super::read(&POD_STATUS, &status)), ["A1", "B2", "A3"]);
    let json: Status = serde_json::from_value(json!({"conditions": [
        {"type": "A", "status": "1"}, {"type": "C"}, {"type": "B", "status": "2"},
    ]}))
    .expect("a status");
    assert_eq!(json.conditions.len(), 3);
    let null: Status = serde_json::from_value(json!({"conditions": null})).expect("a status");
    assert!(null.conditions.is_empty());
    let broken = [condition(b"A", b"1"), field(2, &[&*field(1, b"B"), b"\x0b"].concat())].concat();
    let error = super::read::<Status>(&POD_STATUS, &broken).expect_err("a broken one that is wanted");
    assert!(error.to_string().starts_with("conditions: "), "{error}");
}

/// How many items a list says it has, before the first is read, and how many come.
#[test]
fn room_is_made_for_the_items_that_stand_together() {
    struct Counted(Option<usize>, usize);

    impl<'de> Deserialize<'de> for Counted {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Counting;

            impl<'de> serde::de::Visitor<'de> for Counting {
                type Value = Counted;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a list")
                }

                fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Counted, A::Error> {
                    let (hint, mut count) = (items.size_hint(), 0);
                    while items.next_element::<IgnoredAny>()?.is_some() {
                        count += 1;
                    }
                    Ok(Counted(hint, count))
                }
            }

            deserializer.deserialize_seq(Counting)
        }
    }
    #[derive(Deserialize)]
    struct Status {
        conditions: Counted,
    }
    let (condition, other) = (field(2, b""), field(4, b"why"));
    let cases = [
        ([&*other, &condition, &condition, &other].concat(), (2, 2)),
        ([&*condition, &other, &condition, &condition].concat(), (1, 3)),
        (condition.clone(), (1, 1)),
    ];
    for (status, (hint, count)) in cases {
        let Status { conditions } = read(&POD_STATUS, &status).expect("a status");
        assert_eq!((conditions.0, conditions.1), (Some(hint), count), "{status:?}");
    }
    let broken = [&*condition, &condition, b"\x0b"].concat();
    assert!(read::<Status>(&POD_STATUS, &broken).is_err());
}

#[test]
fn times_come_as_numbers_and_as_texts() {
    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        #[serde(default, deserialize_with = "time")]
        acquire_time: Option<Wall>,
        renew_time: Wall,
    }
    #[derive(Debug, Deserialize)]
    struct Lease {
        spec: Spec,
    }
    // 5 s and 2,023,456 ns.
    let at = b"\x08\x05\x10\xa0\xc0\x7b";
    let spec = |acquired: &[u8]| field(2, &[field(3, acquired), field(4, at)].concat());
    let Lease { spec: set } = read(&LEASE, &spec(at)).expect("a lease");
    let wanted = "1970-01-01T00:00:05.002023Z".parse::<Wall>().expect("a time");
    assert_eq!(
        (set.acquire_time, set.renew_time),
        (Some(wanted), wanted),
        "to the microsecond"
    );
    let Lease { spec: unset } = read(&LEASE, &spec(b"")).expect("a lease");
    assert_eq!(unset.acquire_time, None);
    let error = read::<Lease>(&LEASE, &spec(b"\x08\xff\xff\xff\xff\xff\xff\xff\x7f")).expect_err("beyond all calendars");
    assert!(error.to_string().starts_with("spec.acquireTime: "), "{error}");
}

#[test]
fn what_a_type_does_not_read_is_not_looked_at_and_what_it_borrows_is_lent() {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
        status: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Metadata<'a> {
        name: &'a str,
        #[serde(borrow)]
        labels: BTreeMap<&'a str, Cow<'a, str>>,
    }
    let label = field(11, &[field(1, b"k"), field(2, b"\xff")].concat());
    let metadata = field(1, &[field(1, b"pod"), label].concat());
    // What is passed over may be anything, and of any wire type.
    for spec in [field(2, b"\xff\xff"), vec![2 << 3, 7]] {
        let message = [&*metadata, &spec, &field(3, b"\x07")].concat();
        let Object { metadata, status } = read(&POD, &message).expect("a pod");
        assert!(message.as_ptr_range().contains(&metadata.name.as_ptr()));
        assert_eq!(metadata.labels["k"], "\u{fffd}", "as JSON shows it");
        assert!(status.is_some());
    }
}

/// Each field is found, whichever was before it.
#[test]
fn fields_come_in_any_order() {
    let fields = [
        (1, "name", "n"),
        (3, "namespace", "s"),
        (5, "uid", "u"),
        (6, "resourceVersion", "7"),
    ];
    let unknown = [field(2, b"x"), field(18, b"y")].concat();
    for turn in 0..fields.len() {
        for is_backwards in [false, true] {
            let mut order = fields;
            order.rotate_left(turn);
            if is_backwards {
                order.reverse();
            }
            let parts = order.map(|(number, _, text)| [field(number, text.as_bytes()), unknown.clone()].concat());
            let wanted: Value = fields.iter().map(|(_, name, text)| (*name, *text)).collect();
            assert_eq!(value(&OBJECT_META, &parts.concat()), Ok(wanted), "{order:?}");
        }
    }
}

#[test]
fn an_error_names_the_field() {
    let cases: [(Vec<u8>, &str); 5] = [
        (b"\x0a".to_vec(), "it ends within a field"),
        (field(1, b"\x0a\x09"), "metadata: it ends within a field"),
        (field(1, b"\x08\x01"), "metadata.name: it has another wire type"),
        (field(3, &field(4, b"\x0b")), "status.conditions: a field has wire type 3"),
        (field(3, b"\x20\x01"), "status.conditions: an item is a number"),
    ];
    for (message, wanted) in cases {
        assert_eq!(value(&NODE, &message), Err(wanted.to_owned()));
    }
    #[derive(Debug, Deserialize)]
    struct Object {
        #[serde(rename = "metadata")]
        _metadata: Metadata,
    }
    #[derive(Debug, Deserialize)]
    struct Metadata {
        #[serde(rename = "name")]
        _name: String,
    }
    let twice = field(1, &[field(1, b"a"), field(1, b"b")].concat());
    for (message, wanted) in [
        (twice, "metadata: duplicate field `name`"),
        (field(1, b""), "metadata: missing field `name`"),
    ] {
        let error = read::<Object>(&NODE, &message).expect_err(wanted);
        assert_eq!(error.to_string(), wanted);
    }
}

/// What makes nesting bounded, a place in a table a bit of a number, and a field found from the place of the one before.
#[test]
fn tables_end() {
    fn depth(message: &'static Message, above: usize) -> usize {
        assert!(above < 10, "{} nests in itself", message.name);
        assert!(message.fields.len() <= 64, "{}", message.name);
        assert!(message.fields.is_sorted_by_key(|field| field.number), "{}", message.name);
        let inner = message.fields.iter().map(|field| match field.kind {
            Kind::One(message) | Kind::Many(message) => depth(message, above + 1),
            _ => 0,
        });
        1 + inner.max().unwrap_or(0)
    }
    let depths = KINDS.map(|kind| depth(kind, 0));
    assert_eq!(depths, [4, 3, 3, 3, 7]);
}
