//! Compiles `proto/bailiff/v1/*.proto` with protox, so that no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    println!("cargo:rerun-if-changed={root}");
    let descriptors = protox::compile(["bailiff/v1/event_bus.proto"], [root])?;
    tonic_prost_build::configure()
        .btree_map(".")
        .codec_path("crate::codec::Codec")
        .compile_fds(descriptors)?;
    Ok(())
}
