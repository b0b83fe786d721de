//! Tests with images that are made of this machine's own compiler. They need docker or podman, and
//! say so where neither is there or works.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::GccEnvironment;
use crate::compiler::{Compiler, image_of};
use crate::tool::{CompilerTool, plain_limits};
use steplake_env::{Environment as _, Start, Watch};
use steplake_model::Value;
use steplake_programs::datasets::FrontEnd;

const SOURCE: &str = "# 1 \"sum.c\"\n\
    int sum(const int *numbers, int count) {\n\
    \tint sum = 0;\n\
    \tfor (int at = 0; at < count; at++) sum += numbers[at] / 3;\n\
    \treturn sum;\n\
    }\n";

/// Runs a program of this machine and returns what it prints.
fn printed(program: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let tool =
        CompilerTool::new(steplake_sandbox::search(program).unwrap(), vec![PathBuf::from("/")]);
    let arguments: Vec<_> = arguments.iter().map(Into::into).collect();
    let limits = plain_limits(Duration::from_mins(1));
    let ended = tool.run(&arguments, folder.path(), &limits).unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{program}: {said}");
    String::from_utf8(ended.stdout).unwrap()
}

/// Copies a file of this machine, with links resolved, to the same place in an image.
fn copy(file: &Path, root: &Path, place: &str) {
    let to = root.join(place.trim_start_matches('/'));
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(file, &to).unwrap();
}

/// Writes an image with this machine's compiler: its programs, their libraries, and one header.
fn image_in(root: &Path) {
    let compiler = Compiler::open("").unwrap();
    copy(&compiler.driver, root, "/usr/bin/gcc-of-the-image");
    std::os::unix::fs::symlink("/usr/bin/gcc-of-the-image", root.join("usr/bin/gcc")).unwrap();
    let mut libraries = BTreeSet::new();
    for tool in [&compiler.cc1, &compiler.assembler] {
        let place = tool.program.to_str().unwrap();
        copy(&tool.program, root, if place.ends_with("cc1") { place } else { "/usr/bin/as" });
        let listed = printed("ldd", &[place]);
        let words = listed.split_whitespace().filter(|word| word.starts_with('/'));
        libraries.extend(words.map(str::to_owned));
    }
    for library in &libraries {
        // Another place than this machine's, so that nothing is found by chance.
        let name = Path::new(library).file_name().unwrap().to_str().unwrap();
        copy(Path::new(library), root, &format!("/opt/libraries/{name}"));
    }
    fs::create_dir_all(root.join("lib64")).unwrap();
    let loader = "ld-linux-x86-64.so.2";
    let target = format!("/opt/libraries/{loader}");
    std::os::unix::fs::symlink(target, root.join("lib64").join(loader)).unwrap();
    for (place, text) in [
        ("etc/ld.so.conf.d/libraries.conf", "# a comment\n/opt/libraries\n"),
        ("usr/include/only_there.h", "#define ANSWER 42\n"),
        ("var/large", "left out"),
    ] {
        fs::create_dir_all(root.join(place).parent().unwrap()).unwrap();
        fs::write(root.join(place), text).unwrap();
    }
}

/// Returns an engine with a store of its own below `store`, if this machine has one that works.
fn engine_in(store: &Path) -> Option<ContainerEngine> {
    let engine = ContainerEngine::installed().into_iter().find(|engine| engine.name == "podman")?;
    let place = |name: &str| store.join(name).into_os_string();
    let arguments = [
        "--root".into(),
        place("storage"),
        "--runroot".into(),
        place("run"),
        "--storage-driver".into(),
        "vfs".into(),
    ];
    Some(ContainerEngine { arguments: arguments.to_vec(), ..engine })
}

/// Makes an image of a folder.
fn import(engine: &ContainerEngine, root: &Path, scratch: &Path, name: &str) {
    let archive = scratch.join("made.tar");
    let folder = root.to_str().unwrap();
    let packed = archive.to_str().unwrap();
    let tar = CompilerTool::new(steplake_sandbox::search("tar").unwrap(), vec![root.to_owned()]);
    let arguments = ["--create", "--file", packed, "--directory", folder, "."].map(Into::into);
    let ended = tool_ended(&tar, &arguments, scratch);
    assert!(ended, "tar");
    engine.import(packed, name).unwrap();
}

fn tool_ended(tool: &CompilerTool, arguments: &[std::ffi::OsString], folder: &Path) -> bool {
    tool.run(arguments, folder, &plain_limits(Duration::from_mins(1))).unwrap().status.success()
}

/// Compiles a program with its options, and returns the text of its assembly.
fn assembly(environment: &GccEnvironment, program: &[u8]) -> String {
    let mut session = environment.session().unwrap();
    let benchmark = steplake_model::Benchmark {
        uri: "file:///sum.i".parse().unwrap(),
        program: program.into(),
        provenance: steplake_model::Provenance::default(),
        execution: None,
    };
    let spec = environment.spec();
    let action_space = spec.action_spaces[0].name.as_str();
    let watch = Watch::default();
    session
        .start(&Start { benchmark: &benchmark, action_space, baselines: None, watch: &watch })
        .unwrap();
    let object = session.observe(spec.observation_index("obj").unwrap()).unwrap();
    assert!(matches!(object, Value::Bytes(bytes) if bytes.starts_with(b"\x7fELF")));
    let Value::Text(text) = session.observe(spec.observation_index("asm").unwrap()).unwrap() else {
        panic!("assembly is text")
    };
    text
}

#[expect(clippy::print_stdout, reason = "a test that was not done is said")]
fn say_untried() {
    println!("podman is not installed: compilers in container images were not tried");
}

#[test]
fn the_compiler_of_an_image_compiles_as_an_installed_one() {
    let [root, scratch, store] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let Some(engine) = engine_in(store.path()) else { return say_untried() };
    image_in(root.path());
    let name = "localhost/steplake-test:1";
    import(&engine, root.path(), scratch.path(), name);
    let cache = ProgramCache::new(scratch.path().join("cache"));
    let image = Image::open_with(name, &cache, &[engine]).unwrap();
    assert!(!image.folder().join("root/var").exists(), "it holds no part of a compiler");
    let installed = GccEnvironment::open("").unwrap();
    let there = GccEnvironment::of(Compiler::of(image.driver.clone(), Some(&image)).unwrap());
    let (installed_build, build) = (&installed.spec().compiler, &there.spec().compiler);
    // The arguments name the folder of the image's headers.
    let programs = |build: &str| build.split(", arguments ").next().unwrap().to_owned();
    assert_eq!(programs(build), programs(installed_build));
    assert!(build.ends_with(&format!(", image {}", image.id)), "{build}");
    assert_eq!(there.options().list().len(), installed.options().list().len());
    for line in ["", "-O3 -fno-plt", "-Os"] {
        let program = format!("// gcc-v0 state 1: {line}\n{SOURCE}").into_bytes();
        assert_eq!(assembly(&there, &program), assembly(&installed, &program), "{line}");
    }
    // Once it is in the cache, a lake finds it by its id alone.
    let wanted = image_of(build).unwrap();
    let id = wanted.strip_prefix("docker:").unwrap();
    assert_eq!(Image::open_with(id, &cache, &[]).unwrap().driver, image.driver);
    preprocesses_with_its_own_headers(&there);
}

/// Makes a program of a source whose header only the image has.
fn preprocesses_with_its_own_headers(environment: &GccEnvironment) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer.c");
    fs::write(&file, "#include <only_there.h>\nint answer(void) { return ANSWER; }\n").unwrap();
    let front_end = environment.front_end();
    assert!(matches!(front_end, FrontEnd::Gcc(_)));
    let settings = steplake_programs::datasets::DatasetFolders {
        cache: folder.path().join("cache"),
        apt_sources: PathBuf::from("/etc/apt"),
        mirrors: Vec::new(),
    };
    let datasets = steplake_programs::datasets::Datasets::of(&settings, &front_end);
    let uri = format!("file://{}", file.display()).parse().unwrap();
    let made = datasets.benchmark(&datasets.resolve(&uri).unwrap()).unwrap();
    let text = String::from_utf8_lossy(&made.program).into_owned();
    assert!(text.contains("return 42"), "{text}");
    assert!(!text.contains("root"), "no place of this machine: {text}");
    assert!(assembly(environment, &made.program).contains("$42"));
}

#[test]
fn an_image_that_cannot_be_used_is_said() {
    let scratch = tempfile::tempdir().unwrap();
    let cache = ProgramCache::new(scratch.path().join("cache"));
    let open = |name: &str, engines: &[ContainerEngine]| {
        Image::open_with(name, &cache, engines).unwrap_err()
    };
    assert_eq!(open("", &[]), "`` is no name of a container image");
    let none = open("gcc:11", &[]);
    assert_eq!(none, "the container image `gcc:11` needs docker or podman: apt-get install podman");
    // What is no engine answers nothing that can be read.
    let engine = |program: &str| ContainerEngine {
        name: "podman",
        program: steplake_sandbox::search(program).unwrap(),
        arguments: Vec::new(),
    };
    let unreadable = open("gcc:11", &[engine("echo")]);
    assert!(unreadable.contains("it describes the image in another way"), "{unreadable}");
    assert!(unreadable.ends_with("To fetch it: podman pull gcc:11"), "{unreadable}");
    let failing = open("gcc:11", &[engine("false")]);
    assert!(failing.contains("(podman: it failed)"), "{failing}");
}

#[test]
fn an_image_without_a_compiler_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("root");
    let make =
        || RootFilesystem::make(folder.path(), &["PATH=/usr/bin:/opt/bin".to_owned()]).unwrap_err();
    fs::create_dir_all(files.join("usr/bin")).unwrap();
    assert!(make().contains("by which programs for glibc are started"), "{}", make());
    fs::create_dir_all(files.join("lib64")).unwrap();
    fs::write(files.join("lib64/ld-linux-x86-64.so.2"), "").unwrap();
    assert_eq!(make(), "it has no `gcc` in /usr/bin:/opt/bin");
}
