//! Compiles the wire of `CompilerGym`, without a `protoc` of the system.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let wire = folder.join("compiler_gym_service.proto");
    println!("cargo::rerun-if-changed={}", wire.display());
    let descriptors = protox::compile([&wire], [&folder])?;
    tonic_prost_build::configure().btree_map(".").build_client(true).compile_fds(descriptors)?;
    Ok(())
}
