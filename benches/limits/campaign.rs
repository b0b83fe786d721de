//! Runs of `generate` for the benchmarks, and the comparison of one and two jobs.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use steplake::datasets::{DatasetFolders, Datasets};
use steplake::env::Environment;
use steplake::env::llvm::LlvmEnvironment;
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::generate::{
    Costed, PolicyName, ProgramProvider, ResumeState, RunPlan, RunProgress, Shard, Stop, generate,
};
use steplake::lake::Lake;
use steplake::model::{Benchmark, BenchmarkUri};
use steplake::record::{Recording, RecordingOptions, SpaceChoice, identity};

use crate::memory::children;
use crate::{cpu_of, heading, line};

/// The 33 C files of Debian's zlib, bzip2 and lz4.
pub(crate) const LIBRARY_FILES: [&str; 3] = [
    "benchmark://debian-v0/zlib/*",
    "benchmark://debian-v0/bzip2/*",
    "benchmark://debian-v0/lz4/lib/*",
];

/// Programs in memory, so that no compilation is measured.
pub(crate) struct Loaded(HashMap<BenchmarkUri, Benchmark>);

impl ProgramProvider for Loaded {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, steplake_model::Error> {
        self.0
            .get(uri)
            .cloned()
            .ok_or_else(|| steplake::Error::usage(format!("{uri} was not loaded")))
    }
}

impl Loaded {
    /// Loads the programs that `patterns` name. Without a network, the project's own programs
    /// replace Debian's.
    pub(crate) fn new(patterns: &[&str]) -> Self {
        let datasets = Datasets::new(&DatasetFolders::from_environment().expect("a cache"));
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

    /// Loads 36 files for few episodes each: the library files, and three of the project's own.
    pub(crate) fn many() -> Self {
        let own = ["json_reader", "pattern_matcher", "window_compressor"];
        let own = own.map(|name| format!("benchmark://steplake-v0/{name}"));
        let patterns = LIBRARY_FILES.into_iter().chain(own.iter().map(String::as_str));
        Self::new(&patterns.collect::<Vec<_>>())
    }

    /// Prints the sources of the programs: figures of other versions or programs are not
    /// comparable.
    pub(crate) fn describe(&self) {
        let mut groups: BTreeMap<String, usize> = BTreeMap::new();
        for uri in self.uris() {
            *groups.entry(group(&uri)).or_default() += 1;
        }
        let counted = groups.iter().map(|(group, count)| format!("{count} of {group}"));
        println!("  programs: {}", counted.collect::<Vec<_>>().join(", "));
    }

    /// Returns the names of the programs, in order.
    pub(crate) fn uris(&self) -> Vec<BenchmarkUri> {
        let mut uris: Vec<_> = self.0.keys().cloned().collect();
        uris.sort();
        uris
    }

    /// Returns some programs of each dataset and package, spread over their names.
    pub(crate) fn some(&self, each: usize) -> Self {
        let mut groups: BTreeMap<String, Vec<BenchmarkUri>> = BTreeMap::new();
        for uri in self.uris() {
            groups.entry(group(&uri)).or_default().push(uri);
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

/// Returns the dataset and package of a program.
fn group(uri: &BenchmarkUri) -> String {
    uri.as_str().rsplit_once('/').map_or("", |(group, _)| group).to_owned()
}

/// The cost of a run.
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

    /// Returns microseconds of CPU time per step.
    pub(crate) fn micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.steps as f64
    }
}

/// Returns LLVM in worker processes.
pub(crate) fn workers() -> WorkerEnvironment {
    let config = WorkerConfig::new(PathBuf::from(env!("CARGO_BIN_EXE_steplake")));
    WorkerEnvironment::new(LlvmEnvironment::new().spec().clone(), config)
}

/// The random episodes of 50 steps to record, and how.
pub(crate) struct Episodes {
    pub(crate) count: u64,
    pub(crate) jobs: usize,
    /// The number of changes of state from keyframe to keyframe; `None` for no keyframes.
    pub(crate) keyframes: Option<u32>,
    /// The observation space to record; `None` for all of numbers.
    pub(crate) observe: Option<&'static str>,
    pub(crate) policy: PolicyName,
}

/// Records episodes over `programs`, in LLVM's default action space and with the IR of all states.
pub(crate) fn record(path: &Path, programs: &Loaded, episodes: u64, jobs: usize) -> Measured {
    let episodes = Episodes {
        count: episodes,
        jobs,
        keyframes: Some(1),
        observe: None,
        policy: PolicyName::RANDOM,
    };
    record_in(&workers(), path, programs, &episodes)
}

/// Records episodes over `programs` into a new lake, sealed at the end. The actions are those of
/// the first action space of `environment`.
pub(crate) fn record_in(
    environment: &dyn Environment,
    path: &Path,
    programs: &Loaded,
    episodes: &Episodes,
) -> Measured {
    let space = &environment.spec().action_spaces[0];
    let observe = episodes.observe.map(|name| [name.to_owned()]);
    let choice =
        SpaceChoice { observations: observe.as_ref().map(<[_; 1]>::as_slice), rewards: None };
    let recorded = identity(environment.spec(), space, &choice).expect("LLVM has the space");
    let lake = Lake::create(path, &recorded).expect("an empty folder takes a lake");
    let plan = RunPlan {
        benchmarks: programs.uris(),
        action_space: space.name.clone(),
        policy: episodes.policy,
        objective: String::new(),
        patience: 0,
        coreset: Arc::default(),
        reference: None,
        costed: Costed::EachState,
        stop: Stop::Episodes(episodes.count),
        episode_length: 50,
        seed: 1,
        jobs: episodes.jobs,
        shard: Shard::WHOLE,
    };
    let progress = RunProgress::default();
    let began = Instant::now();
    let ((), cpu) = cpu_of(|| {
        let mut writer = lake.writer().expect("nobody else writes");
        let run = writer.begin_run("{}", 0).expect("the disk takes a row");
        let keyframes = episodes.keyframes.and_then(NonZeroU32::new);
        let options = RecordingOptions { keyframes, ..RecordingOptions::default() };
        let recording = Recording::begin(writer, environment.spec(), run, &options)
            .expect("the lake is of this environment");
        let (resumed, never) = (ResumeState::default(), AtomicBool::new(false));
        generate(environment, &recording, &plan, programs, resumed, &progress, &never)
            .expect("the programs are good");
        let mut writer = recording.close().expect("the disk takes the rows");
        writer.finish_run(run).expect("the disk takes a row");
        writer.seal().expect("the disk takes the segments");
    });
    let left = children(std::process::id());
    assert!(left.is_empty(), "workers {left:?} still run: their CPU time would be missing");
    Measured { steps: progress.steps.load(Ordering::Relaxed), cpu, wall: began.elapsed() }
}

/// Compares one and two jobs by wall time.
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
