//! Compiles `proto/bailiff/v1/*.proto` with protox, so that no protoc is needed.

use prost_types::FileDescriptorSet;
use prost_types::field_descriptor_proto::Type;

/// Fields whose messages are taken along as they were encoded: whoever passes a record on does not look into it. On the wire it is
/// the same.
const ENCODED: [(&str, &str); 2] = [("Batch", "records"), ("Changes", "records")];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    println!("cargo:rerun-if-changed={root}");
    let mut descriptors = protox::compile(["bailiff/v1/event_bus.proto"], [root])?;
    keep_encoded(&mut descriptors);
    tonic_prost_build::configure()
        .btree_map(".")
        .bytes(".")
        .codec_path("crate::codec::Codec")
        .compile_fds(descriptors)?;
    Ok(())
}

fn keep_encoded(descriptors: &mut FileDescriptorSet) {
    for message in descriptors.file.iter_mut().flat_map(|file| &mut file.message_type) {
        let name = message.name().to_owned();
        for field in message
            .field
            .iter_mut()
            .filter(|field| ENCODED.contains(&(&name, field.name())))
        {
            field.set_type(Type::Bytes);
            field.type_name = None;
        }
    }
}
