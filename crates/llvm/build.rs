//! Builds the C++ shim around LLVM (`src/shim`), links LLVM, and records which LLVM it is.
//!
//! LLVM is linked statically, with the components that the environment needs and the C++ library.
//! The program starts faster that way, and no library of the host affects what is recorded. The
//! feature `dynamic` links `libLLVM.so` instead. Without the feature `compiler`, only the
//! name of LLVM is recorded.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

const SHIM: &str = "src/shim";
const SOURCES: [&str; 19] = [
    "arc4random.cpp",
    "canonical.cpp",
    "codegen.cpp",
    "content.cpp",
    "difference.cpp",
    "engine.cpp",
    "features.cpp",
    "fingerprint.cpp",
    "ir2vec.cpp",
    "known_content.cpp",
    "module.cpp",
    "mutations.cpp",
    "options.cpp",
    "pointees.cpp",
    "program_graph.cpp",
    "sort.cpp",
    "tokens.cpp",
    "typed_text.cpp",
    "typed_values.cpp",
];
/// The variable that holds LLVM's prefix; `.cargo/config.toml` sets it for Debian.
const PREFIX_VARIABLE: &str = "LLVM_SYS_221_PREFIX";
/// The components of LLVM to link, by their `llvm-config` names.
const COMPONENTS: [&str; 8] =
    ["analysis", "asmparser", "bitreader", "bitwriter", "core", "object", "passes", "x86"];

fn main() {
    println!("cargo:rerun-if-changed={SHIM}");
    println!("cargo:rerun-if-env-changed={PREFIX_VARIABLE}");
    let llvm = find_llvm().unwrap_or_else(|problem| {
        println!("cargo:warning={problem}");
        println!("cargo:warning=on Debian: apt-get install llvm-22-dev zlib1g-dev");
        println!("cargo:warning=elsewhere: set {PREFIX_VARIABLE} to where LLVM 22 is installed");
        panic!("LLVM 22 with its headers is needed: {problem}")
    });
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    if has("COMPILER") {
        compile_shim(&llvm);
    }
    if has("DYNAMIC") {
        link_dynamically(&llvm);
    } else if has("COMPILER") {
        link_statically(&llvm);
    }
    println!("cargo:rerun-if-changed={}", llvm.header().display());
    println!("cargo:rustc-env=STEPLAKE_LLVM_VERSION={}", llvm.version);
    println!("cargo:rustc-env=STEPLAKE_LLVM_NAME={}", llvm.name());
}

fn compile_shim(llvm: &Llvm) {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .cpp_link_stdlib(None)
        .std("c++17")
        .flag("-isystem")
        .flag(&llvm.include)
        .flag("-fno-exceptions")
        .flag_if_supported("-fno-semantic-interposition")
        // LLVM's headers contain code. Its libraries are built without assertions, so the shim must
        // be too.
        .define("NDEBUG", None)
        .define("_GNU_SOURCE", None)
        .warnings(true)
        // The shim walks whole modules on every step; unoptimised, it would dominate a step.
        .opt_level(3);
    if !llvm.has_rtti {
        build.flag("-fno-rtti");
    }
    for source in SOURCES {
        build.file(Path::new(SHIM).join(source));
    }
    build.compile("steplake_llvm");
}

fn link_dynamically(llvm: &Llvm) {
    println!("cargo:rustc-link-search=native={}", llvm.libraries.display());
    for name in library_names(llvm, "--link-shared", ".so") {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
    println!("cargo:rustc-link-lib=dylib=stdc++");
}

/// Compression comes from the crate `zstd`, which has all of that library, and from zlib. LLVM's
/// build also names libxml2, libffi and Z3, but these belong to components that are not linked.
fn link_statically(llvm: &Llvm) {
    println!("cargo:rustc-link-search=native={}", llvm.libraries.display());
    // Not bundled: a copy of the archives in the rlib would be of no use.
    for name in library_names(llvm, "--link-static", ".a") {
        println!("cargo:rustc-link-lib=static:-bundle={name}");
    }
    let compiler = cc::Build::new().cpp(true).get_compiler();
    for name in ["z", "stdc++"] {
        let query = format!("-print-file-name=lib{name}.a");
        let path = run(compiler.path(), [query]).unwrap_or_else(|problem| panic!("{problem}"));
        // A compiler that does not find a library prints its bare name.
        let folder = Path::new(&path).parent().filter(|folder| folder.is_absolute());
        let folder =
            folder.unwrap_or_else(|| panic!("lib{name}.a is needed to link LLVM statically"));
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static:-bundle={name}");
    }
}

/// Returns the names of LLVM's libraries in the form that linkers take.
fn library_names(llvm: &Llvm, kind: &str, suffix: &str) -> Vec<String> {
    let arguments = ["--libnames", kind].into_iter().chain(COMPONENTS);
    let names = run(&llvm.tool, arguments).unwrap_or_else(|problem| panic!("{problem}"));
    let name = |file: &str| file.strip_prefix("lib")?.strip_suffix(suffix).map(str::to_owned);
    let names: Option<Vec<_>> = names.split_whitespace().map(name).collect();
    names.expect("llvm-config gives the names of library files")
}

/// The installed LLVM.
struct Llvm {
    tool: PathBuf,
    version: String,
    include: PathBuf,
    libraries: PathBuf,
    has_rtti: bool,
}

impl Llvm {
    /// Returns a header that changes with every build of the package.
    fn header(&self) -> PathBuf {
        self.include.join("llvm/Passes/PassBuilder.h")
    }

    /// Returns the version, with the distribution's build if the package database knows it: builds
    /// of one version carry different patches.
    fn name(&self) -> String {
        let build = || -> Option<String> {
            let header = self.header().canonicalize().ok()?;
            let owner = run("dpkg-query", [OsStr::new("--search"), header.as_os_str()]).ok()?;
            let (package, _) = owner.split_once(':')?;
            run("dpkg-query", ["--show", "--showformat=${Version}", package]).ok()
        };
        match build() {
            Some(build) => format!("LLVM {} (Debian {build})", self.version),
            None => format!("LLVM {}", self.version),
        }
    }
}

/// Asks LLVM's own `llvm-config`.
fn find_llvm() -> Result<Llvm, String> {
    let tool = match env::var_os(PREFIX_VARIABLE) {
        Some(prefix) => Path::new(&prefix).join("bin/llvm-config"),
        None => PathBuf::from("llvm-config-22"),
    };
    let version = run(&tool, ["--version"])?;
    if !version.starts_with("22.") {
        return Err(format!("{} is of LLVM {version}, not 22", tool.display()));
    }
    let include = PathBuf::from(run(&tool, ["--includedir"])?);
    let libraries = PathBuf::from(run(&tool, ["--libdir"])?);
    let has_rtti = run(&tool, ["--has-rtti"])? == "YES";
    let llvm = Llvm { tool, version, include, libraries, has_rtti };
    if !llvm.header().exists() {
        return Err(format!("LLVM's headers are not in {}", llvm.include.display()));
    }
    Ok(llvm)
}

/// Returns what a program prints.
fn run<I>(program: impl AsRef<Path>, arguments: I) -> Result<String, String>
where
    I: IntoIterator<Item: AsRef<OsStr>>,
{
    let program = program.as_ref();
    #[expect(clippy::disallowed_methods, reason = "a build script has no sandbox")]
    let output = Command::new(program).args(arguments).output();
    let output =
        output.map_err(|error| format!("{} cannot be run ({error})", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("{} failed: {said}", program.display()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
