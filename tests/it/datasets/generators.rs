//! `generator://csmith-v0` and `generator://llvm-stress-v0`.

use steplake::model::BenchmarkUri;

use super::{Fixture, text_of, uri};

#[test]
fn a_seed_is_a_program_the_same_everywhere() {
    let (one, other) = (Fixture::new(), Fixture::new());
    for (dataset, family, flag) in [
        ("csmith-v0", "csmith", "--seed 3 > csmith.c && clang-22 "),
        ("llvm-stress-v0", "llvm-stress", "-x ir stress.ll"),
    ] {
        let benchmarks: Vec<_> = ["3", "0003", "4"]
            .iter()
            .map(|seed| {
                one.datasets.benchmark(&uri(&format!("generator://{dataset}/{seed}"))).unwrap()
            })
            .collect();
        assert_eq!(benchmarks[0], benchmarks[1]);
        assert_eq!(benchmarks[0].uri.path(), "3");
        assert_ne!(benchmarks[0].program, benchmarks[2].program);
        assert_eq!(benchmarks[0], other.datasets.benchmark(&benchmarks[0].uri).unwrap());
        assert_eq!(&benchmarks[0].program[..2], b"BC");
        let text = text_of(&benchmarks[0]);
        assert!(!text.contains(one.folder.path().to_str().unwrap()));
        assert!(text.contains("target triple = \"x86_64-pc-linux-gnu\""));
        let provenance = &benchmarks[0].provenance;
        assert_eq!(provenance.family, family);
        assert!(provenance.compile_command.contains(flag), "{}", provenance.compile_command);
        assert!(provenance.origin.ends_with(", seed 3"), "{}", provenance.origin);
    }
}

#[test]
fn ranges_and_what_is_no_seed() {
    let fixture = Fixture::new();
    let uris = fixture.datasets.expand("generator://csmith-v0/0..99").unwrap();
    assert_eq!(uris.len(), 100);
    assert!(
        uris.iter()
            .map(BenchmarkUri::path)
            .eq((0..100).map(|seed| seed.to_string()).collect::<Vec<_>>())
    );
    for (pattern, expected) in [
        (
            "5..3",
            "`generator://csmith-v0/5..3` cannot be read as a pattern: the range runs backwards: write 3..5",
        ),
        (
            "",
            "`generator://csmith-v0` has no end: name a part of it, e.g. generator://csmith-v0/0..99",
        ),
        (
            "*",
            "`generator://csmith-v0` has no end: name a part of it, e.g. generator://csmith-v0/0..99",
        ),
        (
            "4294967296",
            "there is no benchmark `generator://csmith-v0/4294967296`: a seed from 0 to 4294967295 is wanted, \
             e.g. generator://csmith-v0/42",
        ),
        (
            "x",
            "there is no benchmark `generator://csmith-v0/x`: a seed from 0 to 4294967295 is wanted, \
             e.g. generator://csmith-v0/42",
        ),
        (
            "0..4294967295",
            "`generator://csmith-v0/0..4294967295` names 4294967296 benchmarks; at most 1000000 are taken at a time",
        ),
    ] {
        assert_eq!(fixture.complaint(&format!("generator://csmith-v0/{pattern}")), expected);
    }
    assert!(fixture.complaint("generator://csmith-v0").contains("has no end"));
}
