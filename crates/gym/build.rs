//! Compiles the wire of `CompilerGym`, without a `protoc` of the system.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    // Asked at run time: a kept build folder has scripts that were compiled in another checkout.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo names no folder")?;
    let folder = Path::new(&package).join("../../proto");
    let wire = folder.join("compiler_gym_service.proto");
    println!("cargo::rerun-if-changed={}", wire.display());
    // The page is a part of the program, and the macro that takes it in does not tell cargo.
    println!("cargo::rerun-if-changed={}", Path::new(&package).join("../../web/dist").display());
    let descriptors = protox::compile([&wire], [&folder])?;
    tonic_prost_build::configure().btree_map(".").build_client(true).compile_fds(descriptors)?;
    Ok(())
}
