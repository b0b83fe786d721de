//! Tests of the definition, and of a small dataset from a repository that the test makes.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::super::INPUTS;
use super::definition::OWN;
use super::*;
use crate::datasets::cache::stored::hex;
use crate::datasets::tools::command::{ForeignTool, ToolRun};
use steplake_model::{Build, Linker};

#[test]
fn the_definition_is_whole() {
    let BenchDefinition { packages, programs } = definition();
    assert_eq!(programs.len() as u64, SIZE);
    let used: BTreeSet<_> = programs.values().map(|program| &program.package).collect();
    assert!(used.iter().copied().eq(packages.keys()), "a package without a program, or none");
    for (name, program) in programs {
        assert!(program.run.starts_with("./a.out"), "{name}");
        program.driver.as_deref().map(own);
        let has_own =
            program.driver.is_some() || program.files.values().any(|from| from.starts_with("own "));
        assert!(!has_own || program.licence.split([' ', '(', ')']).any(|id| id == "MIT"), "{name}");
        for (file, from) in &program.files {
            assert!(!file.contains('/') && !file.contains(' '), "{name}: {file}");
            match from.split_once(' ').unwrap() {
                ("package", _) => {}
                ("own", file) => assert!(!own(file).is_empty()),
                ("made", text) => assert!(inputs::made(text).is_some(), "{name}: {text}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}

#[test]
fn the_files_are_in_the_folder() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/bench");
    let entries = fs::read_dir(folder).unwrap();
    let mut there: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    there.retain(|name| name != "programs.json");
    there.sort();
    assert!(there.iter().eq(OWN.map(|(name, _)| name).iter()), "{there:?}");
    for (name, text) in OWN {
        let first = text.lines().next().unwrap();
        assert!(first.ends_with(" SPDX-License-Identifier: MIT"), "{name}");
    }
}

/// The digests say that the inputs of recorded runs can be made again.
#[test]
fn made_inputs_are_the_same_forever() {
    for (specification, begins, digest) in [
        ("text 400000", &b"orcopi xean"[..], "f888875bd05ba3ea"),
        ("dictionary 2900", b"2", "153e8a9a825c0dee"),
        ("ppm 64 48", b"P6\n64 48\n255\n", "63ca245ecd0ae93e"),
        ("pbm 64 48", b"P4\n64 48\n", "4d65797a8f83085d"),
        ("tiff 64 48", b"II*\0", "1fbc3088dbea1317"),
        ("pcm 2000", b"", "a671f3c0984c2246"),
        ("wav 2000", b"RIFF", "9e3c987f6c124000"),
        ("graph 20 50", b"p edge 20 ", "813fc9e43d47c893"),
    ] {
        let made = inputs::made(specification).unwrap();
        assert!(made.starts_with(begins), "{specification}");
        assert_eq!(&hex(&Sha256::digest(&made))[..16], digest, "{specification}");
    }
    for wrong in ["text", "text 1 2", "text x", "music 3", ""] {
        assert!(inputs::made(wrong).is_none(), "{wrong}");
    }
}

const SOURCES: [(&str, &str); 4] = [
    ("tiny-1/lib/twice.c", "#include \"config.h\"\nint twice(int x) { return FACTOR * x; }\n"),
    ("tiny-1/lib/broken.c", "int broken(\n"),
    (
        "tiny-1/main.cc",
        "#include <iostream>\nextern \"C\" int twice(int);\nint main() {\n  int x;\n  \
                        std::cin >> x;\n  std::cout << twice(x) << std::endl;\n}\n",
    ),
    ("tiny-1/number", "21\n"),
];

fn ran(tool: &'static str, folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let tool = ForeignTool { name: tool, package: tool };
    let run = ToolRun::new(tool, "a test").folder(folder).writes(folder).args(arguments);
    run.output().unwrap()
}

/// A dataset with the programs `tiny` and `wrong` over a repository that has the package `tiny`.
fn small(folder: &Path) -> BenchDataset {
    let tree = folder.join("tree");
    for (name, text) in SOURCES {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let repository = folder.join("repository");
    fs::create_dir_all(&repository).unwrap();
    ran("tar", &tree, &["-czf", "tiny_1.orig.tar.gz", "tiny-1"]);
    fs::rename(tree.join("tiny_1.orig.tar.gz"), repository.join("tiny_1.orig.tar.gz")).unwrap();
    let archive = fs::read(repository.join("tiny_1.orig.tar.gz")).unwrap();
    fs::write(repository.join("tiny_1-1.dsc"), "").unwrap();
    let (of_archive, of_none) = (hex(&Sha256::digest(&archive)), hex(&Sha256::digest("")));
    let index = format!(
        "Package: tiny\nBinary: tiny\nVersion: 1-1\nFormat: 3.0 (quilt)\nDirectory: .\n\
         Checksums-Sha256:\n {of_archive} {} tiny_1.orig.tar.gz\n {of_none} 0 tiny_1-1.dsc\n\n",
        archive.len()
    );
    fs::write(repository.join("Sources"), index).unwrap();
    let apt = folder.join("apt");
    fs::create_dir_all(&apt).unwrap();
    let list = format!("deb [trusted=yes] file:{} ./\n", repository.display());
    fs::write(apt.join("sources.list"), list).unwrap();
    let definition = format!(
        r##"{{ "packages": {{
            "tiny": {{ "version": "1", "archive": "tiny_1.orig.tar.gz", "sha256": "{of_archive}",
                       "added": {{ "config.h": ["#define FACTOR 2"] }} }},
            "gone": {{ "version": "0", "archive": "gone_0.orig.tar.gz", "sha256": "{of_none}" }}
          }}, "programs": {{
            "gone": {{ "package": "gone", "about": "x", "licence": "Zlib", "sources": ["*.c"],
                       "run": "./a.out" }},
            "tiny": {{ "package": "tiny", "about": "Twice a number", "licence": "Zlib",
                       "sources": ["lib/*.c", "!lib/b*.c", "*.cc"],
                       "flags": ["-I.", "-DNAME=\"two words\""],
                       "files": {{ "number": "package number", "more": "made text 100" }},
                       "run": "./a.out < number" }},
            "wrong": {{ "package": "tiny", "about": "x", "licence": "Zlib",
                        "sources": ["none/*.c"], "run": "./a.out" }}
          }} }}"##
    );
    let definition: BenchDefinition = serde_json::from_str(&definition).unwrap();
    let definition = Box::leak(Box::new(definition));
    BenchDataset { definition, ..BenchDataset::new(ProgramCache::new(folder.join("cache")), &apt) }
}

fn uri(name: &str) -> BenchmarkUri {
    format!("{URI}/{name}").parse().unwrap()
}

#[test]
fn a_program_of_several_files_and_languages_runs_on_its_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let bench = small(folder.path());
    let benchmark = bench.benchmark(&uri("tiny")).unwrap();
    let provenance = &benchmark.provenance;
    assert_eq!((provenance.family.as_str(), provenance.licence.as_str()), ("debian/tiny", "Zlib"));
    assert!(provenance.origin.starts_with("Twice a number: tiny 1 in Debian, tiny_1.orig.tar.gz"));
    let flags = crate::datasets::tools::clang::FLAGS;
    let c = format!("clang-22 {flags} -I. '-DNAME=\"two words\"' $file");
    let cxx = format!("clang++-22 {flags} -I. '-DNAME=\"two words\"' $file");
    let expected = format!(
        "for file in lib/twice.c; do {c}; done && for file in main.cc; do {cxx}; done && \
         llvm-link-22 *.bc"
    );
    assert_eq!(provenance.compile_command, expected);
    let run = folder.path().join("run");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("tiny.bc"), &benchmark.program).unwrap();
    ran("clang++-22", &run, &["-O0", "tiny.bc", "-o", "tiny"]);
    fs::write(run.join("number"), "21\n").unwrap();
    assert_eq!(ran("sh", &run, &["-c", "./tiny < number"]), b"42\n");
    let execution = benchmark.execution.as_ref().unwrap();
    assert_eq!(execution.build, Build::Link { linker: Linker::Cxx, arguments: Vec::new() });
    assert_eq!(execution.run.as_ref().unwrap().line(), "./a.out < number");
    execution.check().unwrap();
    // Nothing in it depends on this machine.
    let text = serde_json::to_string(execution).unwrap();
    assert!(!text.contains(folder.path().to_str().unwrap()), "{text}");
    let inputs = &execution.inputs;
    assert!(inputs.iter().map(|input| &input.name).eq(["more", "number"]));
    assert_eq!(inputs[1].blake3, blake3::hash(b"21\n").to_hex().as_str());
    // What somebody changed in the cache is made again.
    let kept = folder.path().join("cache").join(INPUTS);
    let names: Vec<PathBuf> = inputs.iter().map(|input| kept.join(&input.blake3)).collect();
    let before: Vec<Vec<u8>> = names.iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(before[1], b"21\n");
    fs::write(&names[0], "x").unwrap();
    fs::remove_file(&names[1]).unwrap();
    assert_eq!(bench.benchmark(&uri("tiny")).unwrap(), benchmark);
    assert!(names.iter().map(|path| fs::read(path).unwrap()).eq(before));
}

#[test]
fn what_cannot_be_made_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let bench = small(folder.path());
    let complaint = |name: &str| bench.benchmark(&uri(name)).unwrap_err().to_string();
    assert!(complaint("wrong").ends_with(" does not compile: the package has no file `none/*.c`"));
    assert_eq!(
        complaint("gone"),
        "`gone_0.orig.tar.gz` cannot be fetched: this machine's Debian has no package gone; add a \
         `deb` line of Debian 12 (bookworm) to the package sources"
    );
    assert!(complaint("tinny").contains("has 3 programs (did you mean `tiny`?)"));
    // A damaged archive is fetched again.
    let kept = fs::read_dir(folder.path().join("cache")).unwrap().count();
    assert!(kept > 0);
    let archives: Vec<PathBuf> = fs::read_dir(folder.path().join("cache/debian-authors"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    fs::write(&archives[0], "damaged").unwrap();
    bench.benchmark(&uri("tiny")).unwrap();
    assert!(fs::read(&archives[0]).unwrap().len() > 100);
}
