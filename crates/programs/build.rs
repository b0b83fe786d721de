//! With the feature `embedded-programs`, compiles the project's own programs.

#[path = "src/datasets/tools/clang_flags.rs"]
mod clang_flags;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: &str = "../../data/programs";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_EMBEDDED_PROGRAMS").is_some() {
        compile_programs();
    }
}

/// Compiles the project's programs as `src/datasets` does.
fn compile_programs() {
    println!("cargo:rerun-if-changed={PROGRAMS}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let files = fs::read_dir(PROGRAMS).expect("the programs are part of the sources");
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    for file in names.filter(|file| Path::new(file).extension() == Some(OsStr::new("c"))) {
        let bitcode = out.join(&file).with_extension("bc");
        #[expect(clippy::disallowed_methods, reason = "the project's own programs")]
        let compiled = Command::new("clang-22")
            .current_dir(PROGRAMS)
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("LC_ALL", "C.UTF-8")
            .env("SOURCE_DATE_EPOCH", "0")
            .args(clang_flags::FLAGS.split(' '))
            .arg(&file)
            .arg("-o")
            .arg(&bitcode)
            .status();
        let is_compiled = compiled.is_ok_and(|status| status.success());
        assert!(is_compiled, "clang-22 is needed to compile {file}: apt-get install clang-22");
    }
}
