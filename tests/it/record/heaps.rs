//! What an action leads to depends on no address: processes with other heaps record the same.
//!
//! The programs are made for what LLVM may do in the order of a hash table of addresses: loops with
//! several exits and several entries, big switches, many globals, comdats, jumps by address,
//! exceptions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{assert_same, err, run, steplake};

/// How the allocator is told to lay out the heap otherwise.
const OTHER_HEAPS: [(&str, &str); 2] = [
    ("MALLOC_PERTURB_", "165"),
    ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.mmap_threshold=8192"),
];

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/determinism")
}

#[test]
fn a_loop_with_several_exits_is_unrolled_in_one_way() {
    let folder = tempfile::tempdir().unwrap();
    let program = programs().join("unroll_exits.c");
    let program = program.to_str().unwrap();
    for last in ["loop-unroll", "loop-unroll<O3>", "loop-unroll-full"] {
        let actions = ["replay", program, "sroa", "simplifycfg", "instcombine", last];
        let states = (0..12).map(|_| {
            let shown = run(folder.path(), &actions);
            shown.lines().last().unwrap().split_whitespace().nth(1).unwrap().to_owned()
        });
        let states = states.collect::<BTreeSet<_>>();
        assert_eq!(states.len(), 1, "{last}: {states:?}");
    }
}

#[test]
fn runs_of_one_seed_are_equal_whatever_the_heap_and_the_jobs() {
    let folder = tempfile::tempdir().unwrap();
    // The other file is for `newgvn`, which is flagged.
    let programs = format!("{}/*.c*", programs().display());
    // Single passes, those with parameters, and LLVM's own pipelines.
    for space in ["llvm22-v1", "llvm22-param-v0", "llvm22-pipelines-v0"] {
        let record = |name: &str, jobs: &str, heap: &[(&str, &str)]| {
            let lake = folder.path().join(space).join(name);
            let what = ["generate", "--benchmark", &programs, "--action-space", space];
            let how = ["--episodes", "16", "--episode-length", "40", "--seed", "5", "--jobs", jobs];
            let mut command = steplake(&lake);
            command.args([what.as_slice(), &how].concat()).envs(heap.to_vec());
            let done = command.output_in_time();
            assert!(done.status.success(), "{space}: {}", err(&done));
            run(&lake, &["dedup"]);
            lake
        };
        let first = record("first", "1", &[]);
        assert_same(&first, &record("again", "1", &[]));
        assert_same(&first, &record("jobs", "2", &[]));
        assert_same(&first, &record("heap", "2", &OTHER_HEAPS));
        let said = run(&first, &["verify", "--replay", "100"]);
        assert!(said.starts_with("verify: sound; "), "{said}");
    }
}
