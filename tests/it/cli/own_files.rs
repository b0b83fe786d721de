//! Programs of the user's own: by plain paths, and with flags for the compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use steplake::lake::{Lake, Table};

use super::folder;
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{err, fail, rows, run, steplake};

const PROGRAM: &str = "int f(int x) { int y = x; return y * y; }\n";

/// A folder with programs in a folder with a space in its name.
fn programs() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir(root.join("my progs")).unwrap();
    fs::write(root.join("my progs/a b.c"), PROGRAM).unwrap();
    fs::write(root.join("my progs/lv.ll"), "define i32 @h() {\n  ret i32 3\n}\n").unwrap();
    (folder, root)
}

/// A copy of the program that needs a header and a macro, in a folder of its own.
fn needs_include() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/needs_include");
    crate::fixtures::support::copy_folder(&case, &root.join("case"));
    (folder, root)
}

/// Runs a command in a folder.
fn run_in(folder: &Path, lake: &Path, arguments: &[&str]) -> Output {
    steplake(lake).current_dir(folder).args(arguments).output_in_time()
}

fn done_in(folder: &Path, lake: &Path, arguments: &[&str]) -> String {
    let output = run_in(folder, lake, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn benchmarks(lake: &Path) -> Vec<String> {
    let uris = Lake::open(lake).unwrap().snapshot().unwrap().benchmark_uris().unwrap();
    uris.iter().map(ToString::to_string).collect()
}

const SHORT: [&str; 6] = ["--episodes", "1", "--episode-length", "3", "--seed", "4"];

#[test]
fn a_program_is_named_by_its_path_wherever_one_is_named() {
    let ((_programs, root), (_folder, lake)) = (programs(), folder());
    let path = "my progs/a b.c";
    let generate = [&["generate", "--benchmark", path], &SHORT[..], &["--resume"]].concat();
    done_in(&root, &lake, &generate);
    let uri = format!("file://{}/my%20progs/a%20b.c", root.display());
    assert_eq!(benchmarks(&lake), std::slice::from_ref(&uri));
    // It is the same run from another folder, and by its URI.
    let absolute = root.join(path);
    let spaces = format!("file://{}", absolute.display());
    for name in [absolute.to_str().unwrap(), &uri, &spaces] {
        let again = [&["generate", "--benchmark", name], &SHORT[..], &["--resume"]].concat();
        let said = run(&lake, &again);
        assert!(said.contains("nothing is left to do"), "{name}: {said}");
    }
    let replayed = done_in(&root, &lake, &["replay", path, "mem2reg"]);
    assert_eq!(replayed.lines().next(), Some(uri.as_str()), "{replayed}");
    assert_eq!(run(&lake, &["replay", &uri, "mem2reg"]), replayed);
    let validated = done_in(&root, &lake, &["replay", "--validate", path, "mem2reg"]);
    assert!(validated.contains("a second worker gave the same states"), "{validated}");
    let text = done_in(&root, &lake, &["replay", "my progs/lv.ll", "--ir"]);
    assert!(text.contains("define i32 @h()"), "{text}");
    let listed = done_in(&root, &lake, &["datasets", "benchmarks", "my progs"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert_eq!(done_in(&root, &lake, &["datasets", "benchmarks", "my progs/*.c"]).trim(), uri);
    let said = run_in(&root, &lake, &["measure", "--benchmark", path]);
    assert!(err(&said).contains("says how it is built and run"), "{}", err(&said));
    let said = done_in(&root, &lake, &["retract", "--benchmark", path, "--reason", "a test"]);
    assert!(said.starts_with("retracted "), "{said}");
    assert!(benchmarks(&lake).is_empty());
}

#[test]
fn a_path_that_leads_nowhere_is_said_with_what_is_near() {
    let ((_programs, root), (_folder, lake)) = (programs(), folder());
    let near = run_in(&root, &lake, &["replay", "my progs/ab.c"]);
    assert_eq!(near.status.code(), Some(2));
    assert!(
        err(&near).ends_with("there is no such file (did you mean `a b.c`?)"),
        "{}",
        err(&near)
    );
    for name in ["huffman", "steplake-v0/huffman"] {
        let (code, said) = fail(&lake, &["replay", name]);
        assert!(code == 2 && said.contains("there is no such file, and it is no URI"), "{said}");
    }
}

#[test]
fn flags_go_to_the_compiler_and_name_another_program() {
    let ((_case, root), (_folder, lake)) = (needs_include(), folder());
    let generate = |flags: &str, folder: &Path, file: &str| {
        let flags = ["generate", "--flags", flags, "--benchmark", file];
        run_in(folder, &lake, &[&flags[..], &SHORT, &["--resume"]].concat())
    };
    let place = root.join("case");
    let first = generate("-Iinclude -DSCALE=1", &place, "area.c");
    assert!(first.status.success(), "{}", err(&first));
    let second = generate("-I include -DSCALE=2", &place, "area.c");
    assert!(second.status.success(), "{}", err(&second));
    let uri = format!("file://{}/area.c?flags=-Iinclude%20-DSCALE=", place.display());
    assert_eq!(benchmarks(&lake), [format!("{uri}1"), format!("{uri}2")]);
    let programs = rows(&lake, Table::Benchmarks);
    let command = "compile_command=clang-22";
    assert!(programs[0].contains(command) && programs[0].contains("-Iinclude -DSCALE=1 area.c"));
    // From elsewhere it is the same run, also by the URI alone.
    for (flags, folder, file) in [
        ("-Icase/include -DSCALE=2", &root, "case/area.c".to_owned()),
        ("-Iinclude -DSCALE=2", &root, "case/area.c".to_owned()),
    ] {
        let again = generate(flags, folder, &file);
        let said = String::from_utf8_lossy(&again.stdout).into_owned();
        assert!(said.contains("nothing is left to do"), "{flags}: {said}{}", err(&again));
    }
    let by_uri = run(&lake, &["replay", &format!("{uri}2"), "--ir"]);
    let by_flags = ["replay", "area.c", "--flags", "-Iinclude -DSCALE=2", "--ir"];
    assert_eq!(done_in(&place, &lake, &by_flags), by_uri);
    assert_ne!(run(&lake, &["replay", &format!("{uri}1"), "--ir"]), by_uri);
}

#[test]
fn a_folder_that_flags_name_is_the_programs_own_and_others_are_not() {
    let ((_case, root), (_folder, lake)) = (needs_include(), folder());
    fs::create_dir(root.join("case/src")).unwrap();
    fs::rename(root.join("case/area.c"), root.join("case/src/area.c")).unwrap();
    let replay = |flags: &str| {
        let arguments = ["replay", "case/src/area.c", "--flags", flags];
        run_in(&root, &lake, &arguments)
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let done = replay("-Icase/include -DSCALE=3");
    assert!(said(&done).contains("?flags=-I..%2Finclude%20-DSCALE=3\n"), "{}", err(&done));
    let named = replay("-DSCALE=3");
    assert!(err(&named).contains("'shape.h' file not found"), "{}", err(&named));
    assert!(err(&named).ends_with("by a flag -I"), "{}", err(&named));
    let header = fs::read_to_string(root.join("case/include/shape.h")).unwrap();
    fs::write(root.join("secret.h"), "#define SECRET 1\n").unwrap();
    fs::write(
        root.join("case/include/shape.h"),
        "#include \"../../secret.h\"\n".to_owned() + &header,
    )
    .unwrap();
    let refused = replay("-Icase/include -DSCALE=3");
    assert!(err(&refused).contains(" is refused: it takes in "), "{}", err(&refused));
    let taken = replay("-Icase/include -I. -DSCALE=3");
    assert!(taken.status.success(), "{}", err(&taken));
    let (code, said) = fail(&lake, &["replay", "case", "--flags", "-o x"]);
    assert!(code == 2 && said.contains("case"), "{said}");
    let wrong = replay("-o x");
    assert!(err(&wrong).starts_with("steplake: the flag `-o` is not taken"), "{}", err(&wrong));
    let none = ["replay", "benchmark://steplake-v0/huffman", "--flags", "-DX"];
    assert!(fail(&lake, &none).1.contains("flags are for files of C or C++"));
}

#[test]
fn a_program_that_needs_flags_becomes_smaller() {
    let ((_case, root), (_folder, lake)) = (needs_include(), folder());
    let place = root.join("case");
    let optimize = |flags: &[&str]| {
        let arguments = ["optimize", "area.c", "--budget", "2", "-o", "out.bc", "--"];
        run_in(&place, &lake, &[&arguments[..], flags].concat())
    };
    let done = optimize(&["-Iinclude", "-DSCALE=3"]);
    assert!(done.status.success(), "{}", err(&done));
    assert!(String::from_utf8_lossy(&done.stdout).contains("2 sequences tried"));
    assert!(fs::read(place.join("out.bc")).unwrap().starts_with(b"BC"));
    let failed = optimize(&["-Iinclude"]);
    assert!(err(&failed).contains("SCALE is given on the command line"), "{}", err(&failed));
}
