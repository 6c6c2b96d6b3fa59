//! Objects in protobuf: listed, watched, and in JSON where the server has nothing else.

use bailiff_cluster::scan::{Field, Kind, Message, schema};
use bailiff_cluster::views::CompactString;

use super::*;

/// A field of a protobuf message that holds bytes; all lengths here are below 128.
fn mk_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2, u8::try_from(bytes.len()).expect("short")];
    field.extend_from_slice(bytes);
    field
}

/// A thing's message: its metadata, and its size as a number.
fn mk_message(name: &str, version: &str, size: u8) -> Vec<u8> {
    let metadata = [mk_field(1, name.as_bytes()), mk_field(6, version.as_bytes())].concat();
    [mk_field(1, &metadata), vec![2 << 3, size]].concat()
}

fn mk_document(message: &[u8]) -> Vec<u8> {
    [b"k8s\0".to_vec(), mk_field(1, b""), mk_field(2, message)].concat()
}

fn mk_frame(kind: &str, message: &[u8]) -> Vec<u8> {
    let object = mk_field(1, &mk_document(message));
    let event = [mk_field(1, kind.as_bytes()), mk_field(2, &object)].concat();
    let length = u32::try_from(event.len()).expect("short");
    [length.to_be_bytes().to_vec(), event].concat()
}

fn mk_page(version: &str, items: &[Vec<u8>]) -> Vec<u8> {
    let metadata = mk_field(1, &mk_field(2, version.as_bytes()));
    let items: Vec<u8> = items.iter().flat_map(|item| mk_field(2, item)).collect();
    mk_document(&[metadata, items].concat())
}

#[derive(Debug, Deserialize)]
struct Compact(Thing);

static THING: Message = Message {
    name: "Thing",
    fields: &[
        Field {
            number: 1,
            name: "metadata",
            kind: Kind::One(&schema::OBJECT_META),
            when_empty: true,
        },
        Field {
            number: 2,
            name: "size",
            kind: Kind::Number,
            when_empty: false,
        },
    ],
};

impl Decode for Compact {
    const MESSAGE: Option<&'static Message> = Some(&THING);
}

impl View for Compact {
    fn meta(&self) -> &Meta {
        &self.0.metadata
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_of_protobuf_is_listed_and_watched_in_it_and_in_json_where_there_is_none() {
    let status = |code: u8| [mk_field(3, b"no"), vec![6 << 3, code | 0x80, 3]].concat();
    let gone = status(0x1a);
    let broken = [mk_field(1, &mk_field(1, b"c")), vec![2 << 3 | 2, 9]].concat();
    let stream = [
        mk_frame("ADDED", &mk_message("b", "6", 2)),
        mk_frame("MODIFIED", &broken),
        mk_frame("BOOKMARK", &mk_field(1, &mk_field(6, b"8"))),
        mk_frame("DELETED", &mk_message("a", "9", 1)),
        mk_frame("ERROR", &gone),
    ]
    .concat();
    let (mut watch, _) = mk_watch_of::<Compact>(vec![
        Answer::Bytes(200, mk_page("5", &[mk_message("a", "3", 1)])),
        Answer::Bytes(200, stream),
        // 410 means a new list; this server has forgotten its protobuf.
        mk_list(12, &[&mk_thing("d", 11, 4)]),
        Answer::Silence(vec![mk_line("MODIFIED", &mk_thing("d", 13, 5))]),
    ]);
    let mut seen = Vec::new();
    for _ in 0..5 {
        let event = tokio::time::timeout(Duration::from_secs(3600), watch.next()).await;
        seen.push(match event.expect("an event") {
            Event::Snapshot(all) => {
                let all: Vec<String> = all
                    .objects
                    .iter()
                    .map(|thing| format!("{}={}", thing.0.metadata.name, thing.0.size))
                    .collect();
                format!("all {}", all.join(" "))
            }
            Event::Applied(thing) => format!("applied {}={}", thing.0.metadata.name, thing.0.size),
            Event::Deleted(meta) => format!("deleted {}", meta.name),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(seen, ["all a=1", "applied b=2", "deleted a", "all d=4", "applied d=5"]);
}

/// A view that does not read the version.
#[derive(Debug, Deserialize)]
#[serde(from = "RawNamed")]
struct Named(Meta);

#[derive(Deserialize)]
struct RawNamed {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    name: CompactString,
}

impl From<RawNamed> for Named {
    fn from(raw: RawNamed) -> Self {
        Self(Meta {
            name: raw.metadata.name,
            ..Meta::default()
        })
    }
}

impl Decode for Named {
    const MESSAGE: Option<&'static Message> = Some(&THING);
}

impl View for Named {
    fn meta(&self) -> &Meta {
        &self.0
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_was_whether_the_view_reads_versions_or_not() {
    let deleted = mk_frame("DELETED", &mk_message("a", "7", 1));
    let (mut watch, asked) = mk_watch_of::<Named>(vec![
        Answer::Bytes(200, mk_page("5", &[mk_message("a", "3", 1)])),
        Answer::Bytes(200, mk_frame("ADDED", &mk_message("b", "6", 2))),
        Answer::Bytes(
            200,
            [deleted, mk_frame("BOOKMARK", &mk_field(1, &mk_field(6, b"8")))].concat(),
        ),
        Answer::Silence(vec![mk_line("MODIFIED", &mk_thing("b", 9, 3))]),
    ]);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let event = tokio::time::timeout(Duration::from_secs(3600), watch.next()).await;
        seen.push(match event.expect("an event") {
            Event::Snapshot(all) => format!("all {}", all.objects.len()),
            Event::Applied(thing) => format!("applied {}", thing.0.name),
            Event::Deleted(meta) => format!("deleted {}", meta.name),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(seen, ["all 1", "applied b", "deleted a", "applied b"]);
    let asked = asked.lock().expect("not poisoned").clone();
    assert_eq!(asked.len(), 4, "{asked:?}");
    for (request, version) in asked[1..].iter().zip(["5", "6", "8"]) {
        assert!(request.contains(&format!("&resourceVersion={version}&")), "{request}");
    }
}
