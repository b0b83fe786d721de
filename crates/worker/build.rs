//! Keeps the relocations of the worker, by which `scripts/bolt.sh` lays out its code anew.

fn main() {
    println!("cargo::rerun-if-env-changed=STEPLAKE_RELOCATIONS");
    if std::env::var_os("STEPLAKE_RELOCATIONS").is_some() {
        println!("cargo::rustc-link-arg-bins=-Wl,--emit-relocs");
    }
}
