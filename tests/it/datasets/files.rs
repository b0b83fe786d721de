//! `file:///…`.

use std::fs;
use std::path::PathBuf;

use steplake::datasets::DatasetError;
use steplake::model::{Benchmark, BenchmarkUri};

use super::{Fixture, command, output, uri};

const PROGRAM: &str = "#include \"n.h\"\nint f(int x) { return x * N; }\n";

/// A folder of programs of every kind.
fn folder_of_programs(fixture: &Fixture) -> PathBuf {
    let folder = fixture.folder.path().canonicalize().unwrap().join("my programs");
    fs::create_dir_all(folder.join("deeper")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("a.c", PROGRAM);
    write("n.h", "#define N 7\n");
    write("b.cc", "#include <vector>\nint g() { return std::vector<int>(3).size(); }\n");
    write("c.ll", "define i32 @h() {\n  ret i32 3\n}\n");
    write("deeper/e.c", "int e;\n");
    write("notes.txt", "");
    output(command("llvm-as-22").arg(folder.join("c.ll")).arg("-o").arg(folder.join("d.bc")));
    folder
}

fn benchmark(fixture: &Fixture, path: &str) -> Result<Benchmark, DatasetError> {
    fixture.datasets.benchmark(&uri(&format!("file://{path}")))
}

#[test]
fn every_kind_of_file_and_the_folder_of_them() {
    let fixture = Fixture::new();
    let folder = folder_of_programs(&fixture);
    let root = folder.to_str().unwrap();
    let written = format!("file://{}", root.replace(' ', "%20"));
    // A URI may be written with spaces, and a path is as good.
    for begin in [format!("file://{root}"), written.clone(), root.to_owned()] {
        let names = |pattern: &str| -> Vec<String> {
            let uris = fixture.datasets.expand(&format!("{begin}{pattern}")).unwrap();
            let prefix = format!("{written}/");
            uris.iter().map(|uri| uri.as_str().strip_prefix(&prefix).unwrap().to_owned()).collect()
        };
        for pattern in ["", "/", "/*"] {
            assert_eq!(names(pattern), ["a.c", "b.cc", "c.ll", "d.bc"], "{begin}{pattern}");
        }
        assert_eq!(names("/*.c"), ["a.c"]);
        assert_eq!(names("/**/*.c"), ["a.c", "deeper/e.c"]);
        assert_eq!(names("/deeper/../a.c"), ["a.c"]);
    }
    for uri in fixture.datasets.expand(&format!("file://{root}")).unwrap() {
        let benchmark = fixture.datasets.benchmark(&uri).unwrap();
        assert_eq!(&benchmark.program[..2], b"BC", "{uri}");
        assert_eq!(benchmark.provenance.family, "file/my programs");
        assert_eq!(benchmark.uri, uri);
    }
    let bitcode = benchmark(&fixture, &format!("{root}/d.bc")).unwrap();
    assert_eq!(*bitcode.program, fs::read(folder.join("d.bc")).unwrap());
}

#[test]
fn a_change_of_an_included_file_is_seen() {
    let fixture = Fixture::new();
    let folder = folder_of_programs(&fixture);
    let path = format!("{}/a.c", folder.display());
    let before = benchmark(&fixture, &path).unwrap();
    fs::write(folder.join("n.h"), "#define N 8\n").unwrap();
    assert_ne!(benchmark(&fixture, &path).unwrap().program, before.program);
}

#[test]
fn what_cannot_be_read_is_one_clear_line() {
    let fixture = Fixture::new();
    let folder = folder_of_programs(&fixture);
    let root = folder.to_str().unwrap();
    let written = root.replace(' ', "%20");
    fs::write(folder.join("bad.c"), "int f( {\n").unwrap();
    fs::write(folder.join("bad.ll"), "define i32 @f() {\n  ret i64 0\n}\n").unwrap();
    fs::write(folder.join("empty.bc"), "").unwrap();
    let mut bitcode = fs::read(folder.join("d.bc")).unwrap();
    fs::write(folder.join("short.bc"), &bitcode[..bitcode.len() / 2]).unwrap();
    for byte in &mut bitcode[100..140] {
        *byte ^= 0x55;
    }
    fs::write(folder.join("flipped.bc"), &bitcode).unwrap();
    for (name, word) in [
        ("bad.c", "bad.c:1:"),
        ("bad.ll", "bad.ll:2:"),
        ("short.bc", "short.bc"),
        ("flipped.bc", "flipped.bc"),
    ] {
        let error = benchmark(&fixture, &format!("{root}/{name}")).unwrap_err();
        assert!(matches!(error, DatasetError::DoesNotCompile { .. }), "{error}");
        let message = error.to_string();
        assert!(
            message.starts_with(&format!("file://{written}/{name} does not compile: ")),
            "{message}"
        );
        let detail = message.split("compile: ").nth(1).unwrap();
        assert!(
            detail.contains(word) && !detail.contains(root) && !detail.contains('\n'),
            "{message}"
        );
    }
    let error = benchmark(&fixture, &format!("{root}/empty.bc")).unwrap_err();
    assert!(matches!(error, DatasetError::Empty(_)), "{error}");
    let wanted = format!("file://{written}/empty.bc is an empty file: there is no program in it");
    assert_eq!(error.to_string(), wanted);
}

/// A comment may stand anywhere in a text, and shift what looks like the end of a string.
#[test]
fn assembler_text_behind_comments_is_found() {
    let fixture = Fixture::new();
    let folder = folder_of_programs(&fixture);
    for text in [
        "module asm /* x */ \".incbin \\22/etc/hostname\\22\"",
        "/* \" */ module asm \".incbin \\22/etc/hostname\\22\"",
    ] {
        fs::write(folder.join("asm.ll"), text).unwrap();
        let path = folder.join("asm.ll");
        let error = benchmark(&fixture, path.to_str().unwrap()).unwrap_err();
        assert!(matches!(error, DatasetError::Refused { .. }), "{text}: {error}");
    }
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let fixture = Fixture::new();
    let folder = folder_of_programs(&fixture);
    let root = folder.to_str().unwrap();
    let complaint = |name: &str| fixture.complaint(&format!("file://{root}/{name}"));
    assert!(complaint("aa.c").ends_with("there is no such file (did you mean `a.c`?)"));
    assert!(
        complaint("notes.txt").ends_with("its name must end in .c, .cc, .cpp, .cxx, .ll or .bc")
    );
    assert!(complaint("nowhere/*.c").contains("there is no folder `"));
    assert!(complaint("*.bcc").ends_with("no file there ends in .c, .cc, .cpp, .cxx, .ll or .bc"));
    assert!(fixture.complaint("file://").contains("has no end"));
    assert!(fixture.complaint("file://a.c").contains("there is no dataset `file://a.c`"));
}

#[test]
fn a_link_is_what_it_points_to() {
    let fixture = Fixture::new();
    let folder = folder_of_programs(&fixture);
    std::os::unix::fs::symlink(folder.join("a.c"), folder.join("link.c")).unwrap();
    let resolved = fixture.datasets.resolve(&uri(&format!("file://{}/link.c", folder.display())));
    let written = format!("file://{}/a.c", folder.display()).replace(' ', "%20");
    assert_eq!(resolved.unwrap(), uri(&written));
    let uris: Vec<BenchmarkUri> =
        fixture.datasets.expand(&format!("file://{}/*.c", folder.display())).unwrap();
    assert_eq!(uris.len(), 1);
}
