//! Builds the C++ shim around LLVM (`src/env/llvm/shim`).

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const SHIM: &str = "src/env/llvm/shim";
const SOURCES: [&str; 6] = [
    "canonical.cpp",
    "engine.cpp",
    "features.cpp",
    "fingerprint.cpp",
    "module.cpp",
    "mutations.cpp",
];
/// The variable through which `llvm-sys` finds LLVM too; `.cargo/config.toml` sets it for Debian.
const PREFIX_VARIABLE: &str = "LLVM_SYS_221_PREFIX";

fn main() {
    println!("cargo:rerun-if-changed={SHIM}");
    println!("cargo:rerun-if-env-changed={PREFIX_VARIABLE}");
    let llvm = find_llvm().unwrap_or_else(|problem| {
        println!("cargo:warning={problem}");
        println!("cargo:warning=on Debian: apt-get install llvm-22-dev libpolly-22-dev libzstd-dev zlib1g-dev libxml2-dev libffi-dev");
        println!("cargo:warning=elsewhere: set {PREFIX_VARIABLE} to where LLVM 22 is installed");
        panic!("LLVM 22 with its headers is needed: {problem}")
    });
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .flag("-isystem")
        .flag(&llvm.include)
        .flag("-fno-exceptions")
        .flag_if_supported("-fno-semantic-interposition")
        // LLVM's headers hold code; its libraries are built without assertions, so this must be too.
        .define("NDEBUG", None)
        .define("_GNU_SOURCE", None)
        .warnings(true)
        // The shim walks whole modules on every step: an unoptimised one would be most of a step.
        .opt_level(2);
    if !llvm.has_rtti {
        build.flag("-fno-rtti");
    }
    for source in SOURCES {
        build.file(Path::new(SHIM).join(source));
    }
    build.compile("steplake_llvm");
}

/// What the shim's compilation has to know about the installed LLVM.
struct Llvm {
    include: PathBuf,
    has_rtti: bool,
}

/// Asks LLVM's own `llvm-config`.
fn find_llvm() -> Result<Llvm, String> {
    let tool = match env::var_os(PREFIX_VARIABLE) {
        Some(prefix) => Path::new(&prefix).join("bin/llvm-config"),
        None => PathBuf::from("llvm-config-22"),
    };
    let ask = |argument: &str| -> Result<String, String> {
        #[expect(clippy::disallowed_methods, reason = "a build script has no sandbox")]
        let output = Command::new(&tool)
            .arg(argument)
            .output()
            .map_err(|error| format!("{} cannot be run ({error})", tool.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let version = ask("--version")?;
    if !version.starts_with("22.") {
        return Err(format!("{} is of LLVM {version}, not 22", tool.display()));
    }
    let include = PathBuf::from(ask("--includedir")?);
    if !include.join("llvm/Passes/PassBuilder.h").exists() {
        return Err(format!("LLVM's headers are not in {}", include.display()));
    }
    Ok(Llvm { include, has_rtti: ask("--has-rtti")? == "YES" })
}
