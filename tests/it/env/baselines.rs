//! Baselines that earlier runs have found.

use std::path::Path;

use steplake::datasets::{DatasetFolders, Datasets, KnownBaselines, ProgramCache};
use steplake::env::Environment;
use steplake::env::llvm::LlvmEnvironment;
use steplake::env::worker::WorkerConfig;
use steplake::lake::Table;
use steplake::model::Baselines;

use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{assert_same, err, rows, steplake};

const URI: &str = "benchmark://steplake-v0/huffman";

/// Records a little into a new lake, with this cache.
fn generate(lake: &Path, cache: &Path) {
    generate_within(lake, cache, "20");
}

/// The same with steps that may take so many seconds.
fn generate_within(lake: &Path, cache: &Path, step_cpu_seconds: &str) {
    let arguments =
        ["generate", "--benchmark", URI, "--benchmark", "benchmark://steplake-v0/orbits"];
    let more = ["--episodes", "6", "--episode-length", "5", "--jobs", "2"];
    let limits = ["--step-cpu-seconds", step_cpu_seconds];
    let mut command = steplake(lake);
    let command = command.args(arguments).args(more).args(limits);
    let output = command.env("STEPLAKE_CACHE", cache).output_in_time();
    assert!(output.status.success(), "{}", err(&output));
}

#[test]
fn tables_are_the_same_whatever_was_known_before() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    generate(&place("cold"), &place("cache"));
    generate(&place("warm"), &place("cache"));
    assert_same(&place("cold"), &place("warm"));

    let cache = place("cache");
    let environment = LlvmEnvironment::new();
    let limits = WorkerConfig::new("steplake".into()).limits();
    let known = KnownBaselines::new(ProgramCache::new(&cache), environment.spec(), &limits);
    let datasets = Datasets::new(&DatasetFolders {
        cache: cache.clone(),
        apt_sources: place("apt"),
        mirrors: Vec::new(),
    });
    let program = datasets.benchmark(&URI.parse().unwrap()).unwrap().program;
    let found = known.read(&program).unwrap();
    // A run takes what is known, and does not find it out again.
    let planted = Baselines(found.0.iter().map(|(name, cost)| (name.clone(), cost + 1)).collect());
    known.write(&program, &planted).unwrap();
    generate(&place("planted"), &cache);
    let cost = format!("IrInstructionCountO3={}", planted.get("IrInstructionCountO3").unwrap());
    let recorded = rows(&place("planted"), Table::Benchmarks);
    assert!(recorded.iter().any(|row| row.contains(&cost)), "{recorded:?}");
    // Within other limits the compiler might not come to an end, so what it came to within these is
    // not known for them.
    generate_within(&place("limited"), &cache, "19");
    assert_same(&place("cold"), &place("limited"));
    // A lake has one row for a program, whatever the cache says later.
    generate(&place("cold"), &cache);
    let recorded = rows(&place("cold"), Table::Benchmarks);
    assert!(!recorded.iter().any(|row| row.contains(&cost)), "{recorded:?}");
    // What is damaged is found out again and mended.
    for shard in std::fs::read_dir(cache.join("baselines")).unwrap() {
        for entry in std::fs::read_dir(shard.unwrap().path()).unwrap() {
            std::fs::write(entry.unwrap().path(), "damaged").unwrap();
        }
    }
    generate(&place("mended"), &cache);
    assert_same(&place("limited"), &place("mended"));
    assert_eq!(known.read(&program), Some(found));
}
