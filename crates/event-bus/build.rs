//! Compiles what the etcd engine speaks to etcd, and what it keeps there, with protox, so that no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let contract = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    println!("cargo:rerun-if-changed={own}");
    println!("cargo:rerun-if-changed={contract}");
    let descriptors = protox::compile(["etcd/rpc.proto", "bailiff/store/v1/store.proto"], [own, contract])?;
    tonic_prost_build::configure()
        .build_server(false)
        .extern_path(".bailiff.v1", "::bailiff_proto::v1")
        .compile_fds(descriptors)?;
    Ok(())
}
