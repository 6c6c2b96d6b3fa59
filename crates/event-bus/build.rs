//! Compiles what the etcd engine speaks to etcd, and what it keeps there, with protox, so that no protoc is needed. What it keeps is
//! also told as one number, which is a part of the keys.

#[path = "build/schema.rs"]
mod schema;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let contract = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    println!("cargo:rerun-if-changed={own}");
    println!("cargo:rerun-if-changed={contract}");
    println!("cargo:rerun-if-changed=build");
    let descriptors = protox::compile(["etcd/rpc.proto", "bailiff/store/v1/store.proto"], [own, contract])?;
    let roots = ["Entry", "Commands", "Snapshot", "Chunk"].map(|name| format!(".bailiff.store.v1.{name}"));
    let digest = schema::digest(&descriptors, &roots.each_ref().map(String::as_str));
    if digest == 0 {
        return Err("what is stored is not described by store.proto and what it imports".into());
    }
    println!("cargo:rustc-env=BAILIFF_STORED_SCHEMA={digest:016x}");
    tonic_prost_build::configure()
        .build_server(false)
        .extern_path(".bailiff.v1", "::bailiff_proto::v1")
        .compile_fds(descriptors)?;
    Ok(())
}
