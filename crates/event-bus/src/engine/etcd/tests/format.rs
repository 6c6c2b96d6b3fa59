//! That replicas which would not agree are different buses: what is stored, and what entries do.

use std::fmt::Write as _;
use std::time::Duration;

use bailiff_model::Topic;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet};

use super::super::keys::RULES;
use super::{HEALTH, Sim, mk_keepalive, mk_open, mk_publish, mk_record};
use crate::engine::{Command, Engine as _, Open};

#[path = "../../../../build/schema.rs"]
mod schema;

/// Name, number, type, and of which type.
type Field<'a> = (&'a str, i32, Type, &'a str);
/// Name and fields.
type Message<'a> = (&'a str, &'a [Field<'a>]);

/// A file of messages.
fn mk_files(messages: &[Message<'_>]) -> FileDescriptorSet {
    let mk_field = |(name, number, kind, of): &Field<'_>| FieldDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(*number),
        r#type: Some((*kind).into()),
        type_name: (!of.is_empty()).then(|| (*of).to_owned()),
        ..FieldDescriptorProto::default()
    };
    let mk_message = |(name, fields): &Message<'_>| DescriptorProto {
        name: Some((*name).to_owned()),
        field: fields.iter().map(mk_field).collect(),
        ..DescriptorProto::default()
    };
    FileDescriptorSet {
        file: vec![FileDescriptorProto {
            package: Some("p".to_owned()),
            message_type: messages.iter().map(mk_message).collect(),
            ..FileDescriptorProto::default()
        }],
    }
}

#[test]
fn whatever_is_stored_is_in_the_digest_and_nothing_else() {
    let digest = |messages: &[Message<'_>]| schema::digest(&mk_files(messages), &[".p.Root"]);
    let root: &[_] = &[("inner", 1, Type::Message, ".p.Inner")];
    let usual = digest(&[("Root", root), ("Inner", &[("a", 1, Type::String, "")])]);
    for (what, other) in [
        ("a field more", &[("a", 1, Type::String, ""), ("b", 2, Type::Bool, "")][..]),
        ("a field less", &[]),
        ("another number", &[("a", 2, Type::String, "")]),
        ("another type", &[("a", 1, Type::Bytes, "")]),
    ] {
        assert_ne!(usual, digest(&[("Root", root), ("Inner", other)]), "{what}, below the root");
    }
    let stranger: Message<'_> = ("Stranger", &[("b", 2, Type::Bool, "")]);
    let same = digest(&[stranger, ("Root", root), ("Inner", &[("a", 1, Type::String, "")])]);
    assert_eq!(usual, same, "what is not stored, and where it is written, does not matter");
    assert_eq!(digest(&[("Root", root)]), 0, "nothing is guessed");
}

/// A story in which most of what entries do happens.
fn tell(sim: &mut Sim) {
    let first = sim.open(0, 7);
    let records = |content| (0..3).map(|node| mk_record(&format!("n{node}"), content, 1)).collect();
    sim.submit(0, mk_publish(first, records(1)));
    sim.submit(0, mk_keepalive(first));
    sim.settle();
    sim.pass(Duration::from_secs(3));
    sim.submit(
        0,
        mk_publish(
            first,
            vec![mk_record("n1", 0, 1), mk_record("n2", 1, 1), mk_record("n0", 2, 1)],
        ),
    );
    sim.settle();
    sim.submit(1, mk_open(8, true));
    sim.settle();
    let second = sim.replicas[1].sessions[0];
    sim.submit(0, mk_publish(first, records(3)));
    sim.submit(1, mk_publish(second, vec![mk_record("n7", 4, 1)]));
    sim.submit(1, mk_keepalive(second));
    sim.submit(1, Command::EndReplace { session: second });
    sim.submit(1, mk_open(3, false));
    sim.settle();
    sim.pass(Duration::from_secs(11));
    sim.submit(0, Command::Tick);
    sim.settle();
    sim.submit(0, Command::ResetEpoch { topic: HEALTH, shard: 0 });
    sim.settle();
    let third = sim.open(0, 0);
    sim.submit(0, mk_keepalive(third));
    sim.submit(0, Command::Close { session: third });
    sim.settle();
    sim.start("c", false);
    sim.submit(
        2,
        Command::Open(Open {
            topic: Topic::NodeHealth,
            shard: 1,
            shard_count: 2,
            producer: "other".to_owned(),
            epoch: 0,
            replace: false,
        }),
    );
    sim.settle();
    sim.pass(Duration::from_secs(601));
    sim.submit(1, Command::Tick);
    sim.settle();
    let now = sim.now;
    sim.replicas[0].replica.departed("c", now);
    sim.settle();
}

fn written(sim: &Sim) -> String {
    let mut text = format!("rules {RULES}\n");
    for one in &sim.replicas {
        for effect in &one.effects {
            writeln!(text, "{} {effect:?}", one.replica.id()).expect("it is memory");
        }
    }
    let machine = &sim.replicas[0].replica.machine;
    let now = sim.replicas[0].replica.time(sim.now);
    for shard in machine.memory.shards(&[HEALTH].into(), now) {
        writeln!(text, "{shard:?}").expect("it is memory");
    }
    for node in 0..8 {
        for record in machine.memory.history(HEALTH, &format!("n{node}")) {
            let (age, revision, why) = (Some(record.age_at(now.mono)), record.revision, record.tombstone());
            writeln!(text, "n{node} {revision} {age:?} {why:?}").expect("it is memory");
        }
    }
    text
}

#[test]
fn what_entries_do_is_what_it_was_under_these_rules() {
    let mut sim = Sim::new(&["a", "b"]);
    tell(&mut sim);
    let found = written(&sim);
    let wanted = include_str!("rules.txt");
    assert!(
        found == wanted,
        "what entries do has changed. Replicas before and after it must not share a log: raise RULES, and write this to rules.txt:\n{found}"
    );
}
