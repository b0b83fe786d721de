//! Runs of `generate` for the benchmarks, and how one and two jobs compare.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use steplake::datasets::{Datasets, Settings};
use steplake::env::Environment;
use steplake::env::llvm::LlvmEnvironment;
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::model::{Benchmark, BenchmarkUri};
use steplake::record::generate::{
    Past, Plan, Policy, ProgramError, Programs, Progress, Shard, Stop, generate,
};
use steplake::record::{Choice, Recording, RecordingOptions, identity};
use steplake::store::Lake;

use crate::{cpu_of, heading, line};

/// The action space of all benchmarks.
pub(crate) const ACTION_SPACE: &str = "llvm22-v0";

/// Programs in memory, so that no compilation is measured.
pub(crate) struct Loaded(HashMap<BenchmarkUri, Benchmark>);

impl Programs for Loaded {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, ProgramError> {
        self.0.get(uri).cloned().ok_or_else(|| format!("{uri} was not loaded").into())
    }
}

impl Loaded {
    /// The programs that `patterns` name. Without a network, Debian's are replaced by the project's own.
    pub(crate) fn new(patterns: &[&str]) -> Self {
        let datasets = Datasets::new(&Settings::from_environment());
        let mut programs = HashMap::new();
        for pattern in patterns {
            let uris = datasets.expand(pattern).or_else(|error| {
                println!("  {pattern}: {error}; the project's own programs instead");
                datasets.expand("benchmark://steplake-v0/*")
            });
            for uri in uris.expect("the project's own programs are in the binary") {
                let benchmark = datasets.benchmark(&uri).expect("it was just listed");
                programs.insert(uri, benchmark);
            }
        }
        Self(programs)
    }

    /// Their names, in order.
    pub(crate) fn uris(&self) -> Vec<BenchmarkUri> {
        let mut uris: Vec<_> = self.0.keys().cloned().collect();
        uris.sort();
        uris
    }

    /// A few of the programs of each dataset and package, spread over their names.
    pub(crate) fn some(&self, each: usize) -> Self {
        let mut groups: BTreeMap<String, Vec<BenchmarkUri>> = BTreeMap::new();
        for uri in self.uris() {
            let group = uri.as_str().rsplit_once('/').map_or("", |(group, _)| group);
            groups.entry(group.to_owned()).or_default().push(uri);
        }
        let spread = |uris: Vec<BenchmarkUri>| {
            let stride = (uris.len() / each).max(1);
            uris.into_iter().step_by(stride).take(each)
        };
        let chosen = groups.into_values().flat_map(spread);
        Self(chosen.map(|uri| (uri.clone(), self.0[&uri].clone())).collect())
    }

    pub(crate) fn get(&self, uri: &str) -> &Benchmark {
        &self.0[&uri.parse::<BenchmarkUri>().expect("it comes from a lake")]
    }
}

/// What a run took.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) steps: u64,
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
}

impl Measured {
    pub(crate) fn per_cpu_second(&self) -> f64 {
        self.steps as f64 / self.cpu.as_secs_f64()
    }
}

/// Records random episodes of 50 steps over `programs` into a new lake, sealed at its end, with workers.
pub(crate) fn record(path: &Path, programs: &Loaded, episodes: u64, jobs: usize) -> Measured {
    record_keyframes(path, programs, episodes, jobs, Some(1))
}

/// The same with the IR of keyframes, so many changes of state apart; without any IR where there are none.
pub(crate) fn record_keyframes(
    path: &Path,
    programs: &Loaded,
    episodes: u64,
    jobs: usize,
    every: Option<u32>,
) -> Measured {
    let llvm = LlvmEnvironment::new();
    let space = llvm.spec().action_space(ACTION_SPACE).expect("it is LLVM's default");
    let everything = identity(llvm.spec(), space, &Choice::default()).expect("nothing is chosen");
    let lake = Lake::create(path, &everything).expect("an empty folder takes a lake");
    let plan = Plan {
        benchmarks: programs.uris(),
        action_space: ACTION_SPACE.into(),
        policy: Policy::Random,
        stop: Stop::Episodes(episodes),
        episode_length: 50,
        seed: 1,
        jobs,
        shard: Shard::WHOLE,
    };
    let config = WorkerConfig::new(PathBuf::from(env!("CARGO_BIN_EXE_steplake")));
    let environment = WorkerEnvironment::new(llvm.spec().clone(), config);
    let progress = Progress::default();
    let began = Instant::now();
    let ((), cpu) = cpu_of(|| {
        let mut writer = lake.writer().expect("nobody else writes");
        let run = writer.begin_run("{}", 0).expect("the disk takes a row");
        let keyframes = every.and_then(NonZeroU32::new);
        let options = RecordingOptions { keyframes, ..RecordingOptions::default() };
        let recording = Recording::begin(writer, environment.spec(), run, &options)
            .expect("the lake is of this environment");
        let (past, never) = (Past::default(), AtomicBool::new(false));
        generate(&environment, &recording, &plan, programs, past, &progress, &never)
            .expect("the programs are good");
        let mut writer = recording.close().expect("the disk takes the rows");
        writer.finish_run(run).expect("the disk takes a row");
        writer.seal().expect("the disk takes the segments");
    });
    Measured { steps: progress.steps.load(Ordering::Relaxed), cpu, wall: began.elapsed() }
}

/// One job against two, on the clock.
pub(crate) fn run_jobs() {
    heading("Two cores: the same episodes with --jobs 1 and --jobs 2, on the clock");
    let programs = Loaded::new(&["benchmark://debian-v0/zlib/*", "benchmark://debian-v0/bzip2/*"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let episodes = 8 * programs.uris().len() as u64;
    let [one, two] =
        [1, 2].map(|jobs| record(&folder.path().join(jobs.to_string()), &programs, episodes, jobs));
    let rate = |run: &Measured| run.steps as f64 / run.wall.as_secs_f64();
    line("--jobs 1, steps/s", &format!("{:.0}", rate(&one)), "");
    line("--jobs 2, steps/s", &format!("{:.0}", rate(&two)), "");
    line("ratio", &format!("{:.2}x", rate(&two) / rate(&one)), "target 1.8x");
    line(
        "cores busy with --jobs 2",
        &format!("{:.2}", two.cpu.as_secs_f64() / two.wall.as_secs_f64()),
        "",
    );
}
