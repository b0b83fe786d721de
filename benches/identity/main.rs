//! Proves on live steps that a state's id corresponds to its bitcode: `cargo bench --bench identity
//! -- [--steps N] [--jobs N] [--seed N] [--first N] [--action-space NAME] [--files FOLDER]`.
//!
//! Every state after a step is written as bitcode. Its id must follow from that bitcode alone, in a
//! session that has seen none of the earlier steps; two ids must be equal exactly if the bitcode
//! is; and states with the same id must have the same features. A step that reports no change must
//! leave the bitcode as it was. The steps of each episode, which were made and verified one by one,
//! are then played in one batch, which is verified in windows: its steps must be the same,
//! including failures.
//!
//! Episodes are numbered from `--first` on; a problem names its episode.
//!
//! With `--files`, the states are the first states of all `.ll` files below a folder instead.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha1::{Digest, Sha1};
use steplake::datasets::{DatasetFolders, Datasets};
use steplake::env::llvm::LlvmEnvironment;
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::env::{Environment, Session, SessionError, Start, Watch};
use steplake::model::{
    ActionIndex, ActionSpec, Baselines, Benchmark, ObservationIndex, Outcome, Provenance, StateId,
    Step, Value,
};

const EPISODE_STEPS: u64 = 50;
/// The default number of steps.
const STEPS: u64 = 50_000;

/// The programs: those of the demo, generated ones, and ten Debian packages.
const PROGRAMS: [&str; 13] = [
    "benchmark://steplake-v0/*",
    "generator://csmith-v0/0..39",
    "generator://llvm-stress-v0/0..39",
    "benchmark://debian-v0/zlib/*",
    "benchmark://debian-v0/bzip2/*",
    "benchmark://debian-v0/lz4/lib/*",
    "benchmark://debian-v0/libyaml/**",
    "benchmark://debian-v0/jansson/**",
    "benchmark://debian-v0/expat/**",
    "benchmark://debian-v0/libbsd/**",
    "benchmark://debian-v0/giflib/*",
    "benchmark://debian-v0/brotli/**",
    "benchmark://debian-v0/xxhash/*",
];

struct Options {
    steps: u64,
    jobs: u64,
    seed: u64,
    first: u64,
    action_space: String,
    files: Option<PathBuf>,
}

impl Options {
    fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let value = |name: &str| {
            let place = arguments.iter().position(|argument| argument == name)?;
            arguments.get(place + 1).cloned()
        };
        let number = |name: &str, usual: u64| {
            value(name).map_or(usual, |text| text.parse().expect("a number"))
        };
        Self {
            steps: number("--steps", STEPS),
            jobs: number("--jobs", 2),
            seed: number("--seed", 1),
            first: number("--first", 0),
            action_space: value("--action-space").unwrap_or_else(|| "llvm22-v1".to_owned()),
            files: value("--files").map(PathBuf::from),
        }
    }
}

/// What is known of the states so far, and the findings.
#[derive(Default)]
struct Findings {
    /// SHA-1 of the bitcode and of the features.
    states: HashMap<StateId, ([u8; 20], [u8; 20])>,
    ids: HashMap<[u8; 20], StateId>,
    changes: u64,
    repeated: u64,
    failures: u64,
    unread: u64,
    problems: Vec<String>,
}

impl Findings {
    fn problem(&mut self, text: String) {
        println!("  PROBLEM: {text}");
        self.problems.push(text);
    }

    fn add(&mut self, id: StateId, bitcode: [u8; 20], features: [u8; 20], place: &str) {
        self.changes += 1;
        let known = *self.states.entry(id).or_insert((bitcode, features));
        if known.0 != bitcode {
            self.problem(format!("two bitcodes have the id {id}: {place}"));
        } else if known.1 != features {
            self.problem(format!("two vectors of features have the id {id}: {place}"));
        }
        let first = *self.ids.entry(bitcode).or_insert(id);
        if first != id {
            self.problem(format!("{first} and {id} have the same bitcode: {place}"));
        }
    }
}

type SharedFindings = Mutex<Findings>;

fn with<T>(findings: &SharedFindings, look: impl FnOnce(&mut Findings) -> T) -> T {
    look(&mut findings.lock().unwrap_or_else(PoisonError::into_inner))
}

/// One thread's sessions, and the indexes of the observations.
struct Prover<'a> {
    session: Box<dyn Session>,
    /// Identifies bitcode, and never steps.
    afresh: Box<dyn Session>,
    action_space: &'a str,
    actions: &'a [ActionSpec],
    bitcode: ObservationIndex,
    features: [ObservationIndex; 2],
    findings: &'a SharedFindings,
}

impl<'a> Prover<'a> {
    fn new(
        environment: &'a dyn Environment,
        action_space: &'a str,
        findings: &'a SharedFindings,
    ) -> Self {
        let spec = environment.spec();
        let actions = &spec.action_space(action_space).expect("LLVM has this space").actions;
        let index = |name: &str| spec.observation_index(name).expect("LLVM has this space");
        Self {
            session: environment.session().expect("LLVM is there"),
            afresh: environment.session().expect("LLVM is there"),
            action_space,
            actions,
            bitcode: spec.state_index(),
            features: ["InstCount", "Autophase"].map(index),
            findings,
        }
    }

    fn start(&mut self, benchmark: &Benchmark) -> Result<StateId, SessionError> {
        // The values of baselines do not matter here, and measuring them costs more than the steps.
        let baseline = |name: &str| (name.to_owned(), 1);
        let names = ["IrInstructionCountO0", "IrInstructionCountO3", "IrInstructionCountOz"];
        let baselines = Baselines(names.map(baseline).into());
        let watch = Watch::default();
        let baselines = Some(&baselines);
        let start = Start { benchmark, action_space: self.action_space, baselines, watch: &watch };
        Ok(self.session.start(&start)?.state)
    }

    /// Compares the current state, which has the id `id`, with its bitcode.
    fn look(&mut self, id: StateId, place: &str) -> Result<(), SessionError> {
        let bytes = self.bitcode()?;
        let afresh = self.afresh.identify(&bytes)?;
        let mut features = Sha1::new();
        for space in self.features {
            let Value::IntVector(numbers) = self.session.observe(space)? else {
                unreachable!("features are vectors")
            };
            numbers.iter().for_each(|number| features.update(number.to_le_bytes()));
        }
        with(self.findings, |findings| {
            if afresh != id {
                findings.problem(format!("{id} is {afresh} afresh: {place}"));
            }
            findings.add(id, Sha1::digest(&bytes).into(), features.finalize().into(), place);
        });
        Ok(())
    }

    /// Compares the current state, which should still be `id`, with the bitcode of `id`.
    fn look_again(&mut self, id: StateId, place: &str) -> Result<(), SessionError> {
        let bitcode: [u8; 20] = Sha1::digest(self.bitcode()?).into();
        with(self.findings, |findings| {
            findings.repeated += 1;
            if findings.states.get(&id).is_none_or(|known| known.0 != bitcode) {
                findings.problem(format!("a change of {id} was missed: {place}"));
            }
        });
        Ok(())
    }

    fn bitcode(&mut self) -> Result<Vec<u8>, SessionError> {
        let Value::Bytes(bytes) = self.session.observe(self.bitcode)? else {
            unreachable!("bitcode is bytes")
        };
        Ok(bytes)
    }

    /// Plays an episode, and returns the number of its steps.
    fn episode(&mut self, benchmark: &Benchmark, seed: u64) -> Result<u64, SessionError> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut state = self.start(benchmark)?;
        let place = |step: usize| format!("{}, seed {seed}, step {step}", benchmark.uri);
        self.look(state, &place(0))?;
        let (mut actions, mut steps) = (Vec::new(), Vec::new());
        for _ in 0..EPISODE_STEPS {
            let choice = random.next_u32() as usize % self.actions.len();
            let action = ActionIndex(u32::try_from(choice).expect("an action's index is 32 bits"));
            actions.push(action);
            let Step { outcome, rewards, .. } = self.session.apply(action)?;
            steps.push((outcome.clone(), bits(&rewards)));
            match outcome {
                Outcome::State { id, .. } if id == state => {
                    self.look_again(id, &place(actions.len()))?;
                }
                Outcome::State { id, .. } => {
                    state = id;
                    self.look(id, &place(actions.len()))?;
                }
                Outcome::Crashed(_) => {
                    with(self.findings, |findings| findings.failures += 1);
                    // The batch must not play these further actions after the failure.
                    actions.extend_from_within(..);
                    break;
                }
            }
        }
        self.play_in_windows(benchmark, &actions, &steps, &place(steps.len()))?;
        Ok(steps.len() as u64)
    }

    /// Plays actions in one batch, which must lead to the same steps, up to the first action that
    /// may lead elsewhere next time.
    fn play_in_windows(
        &mut self,
        benchmark: &Benchmark,
        actions: &[ActionIndex],
        careful: &[(Outcome, Vec<u64>)],
        place: &str,
    ) -> Result<(), SessionError> {
        self.start(benchmark)?;
        let mut steps = Vec::with_capacity(careful.len());
        self.session.multistep(actions, &mut |Step { outcome, rewards, .. }, _| {
            steps.push((outcome, bits(&rewards)));
            Ok(ControlFlow::Continue(()))
        })?;
        let sure =
            actions.iter().take_while(|action| self.actions[action.place()].flags.replayable);
        let sure = sure.count();
        steps.truncate(sure);
        let careful = &careful[..careful.len().min(sure)];
        if steps != careful {
            let same = steps.iter().zip(careful).take_while(|(one, other)| one == other).count();
            let (one, other) = (careful.get(same), steps.get(same));
            let text = format!(
                "step {} is {one:?} by itself and {other:?} in windows: {place}, actions {actions:?}",
                same + 1
            );
            with(self.findings, |findings| findings.problem(text));
        }
        Ok(())
    }
}

/// Makes rewards comparable: those of a failed step are NaN.
fn bits(rewards: &[f64]) -> Vec<u64> {
    rewards.iter().map(|reward| reward.to_bits()).collect()
}

fn programs() -> Vec<Benchmark> {
    let settings = DatasetFolders::from_environment().expect("programs are kept in a cache");
    let datasets = Datasets::new(&settings);
    let mut programs = Vec::new();
    for pattern in PROGRAMS {
        let uris = match datasets.expand(pattern) {
            Ok(uris) => uris,
            Err(error) => {
                println!("  without {pattern}: {error}");
                continue;
            }
        };
        let before = programs.len();
        programs.extend(uris.iter().filter_map(|uri| datasets.benchmark(uri).ok()));
        println!("  {pattern}: {} programs", programs.len() - before);
    }
    programs
}

/// Returns the `.ll` files below a folder that `llvm-as` can read: some of LLVM's tests kill their
/// reader.
fn files(folder: &Path, jobs: u64) -> Vec<Benchmark> {
    let mut paths = Vec::new();
    find(folder, &mut paths);
    let jobs = usize::try_from(jobs).expect("64 bits").max(1);
    let read = |path: &PathBuf| {
        let uri = format!("file://{}", path.display()).parse().ok()?;
        let program = assemble(path)?.into();
        Some(Benchmark { uri, program, provenance: Provenance::default(), execution: None })
    };
    std::thread::scope(|scope| {
        let part = |first: usize| paths.iter().skip(first).step_by(jobs).filter_map(read);
        let parts: Vec<_> =
            (0..jobs).map(|first| scope.spawn(move || part(first).collect::<Vec<_>>())).collect();
        parts.into_iter().flat_map(|part| part.join().expect("an assembler panicked")).collect()
    })
}

/// Collects the `.ll` files below a folder.
fn find(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "ll") {
            paths.push(path);
        }
    }
}

/// Returns the bitcode of a text if it is valid IR.
fn assemble(path: &Path) -> Option<Vec<u8>> {
    #[expect(clippy::disallowed_methods, reason = "a tool of LLVM's over LLVM's own tests")]
    let output = Command::new("llvm-as-22").args(["-o", "-"]).arg(path).output();
    let output = output.expect("llvm-as-22 is there, in Debian's package llvm-22");
    output.status.success().then_some(output.stdout)
}

fn prove(options: &Options, programs: &[Benchmark], findings: &SharedFindings) -> u64 {
    let llvm = LlvmEnvironment::new();
    let config = WorkerConfig::new(PathBuf::from(env!("CARGO_BIN_EXE_steplake")));
    let environment = WorkerEnvironment::new(llvm.spec().clone(), config);
    let (steps, next, began) = (AtomicU64::new(0), AtomicU64::new(options.first), Instant::now());
    let episode = |prover: &mut Prover<'_>, number: u64| {
        let place = usize::try_from(number).expect("64 bits") % programs.len();
        let benchmark = &programs[place];
        let result = if options.files.is_some() {
            // LLVM's own tests are for other targets too, and not all of them are sound.
            match prover.start(benchmark) {
                Err(SessionError::BadProgram { .. } | SessionError::StartFailed { .. }) => {
                    return with(findings, |findings| findings.unread += 1);
                }
                started => {
                    started.and_then(|id| prover.look(id, &benchmark.uri.to_string())).map(|()| 1)
                }
            }
        } else {
            prover.episode(benchmark, options.seed << 32 | number)
        };
        match result {
            Ok(made) => {
                steps.fetch_add(made, Ordering::Relaxed);
            }
            Err(error) => {
                with(findings, |findings| findings.problem(format!("{}: {error}", benchmark.uri)));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                let mut prover = Prover::new(&environment, &options.action_space, findings);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let is_done = match &options.files {
                        Some(_) => number >= programs.len() as u64,
                        None => steps.load(Ordering::Relaxed) >= options.steps,
                    };
                    if is_done {
                        break;
                    }
                    episode(&mut prover, number);
                    if number % 500 == 499 {
                        let steps = steps.load(Ordering::Relaxed);
                        println!("  {steps} steps, {} s", began.elapsed().as_secs());
                    }
                }
            });
        }
    });
    steps.into_inner()
}

fn main() {
    let options = Options::from_arguments();
    println!("State ids against bitcode");
    let found = match &options.files {
        Some(folder) => files(folder, options.jobs),
        None => programs(),
    };
    println!("  {} programs", found.len());
    let findings = SharedFindings::default();
    let steps = prove(&options, &found, &findings);
    with(&findings, |findings| {
        println!("  steps                 {steps:>12}");
        println!("  states looked at      {:>12}", findings.changes);
        println!("  unique ids            {:>12}", findings.states.len());
        println!("  unique bitcodes       {:>12}", findings.ids.len());
        println!("  steps without change  {:>12}", findings.repeated);
        println!("  failures              {:>12}", findings.failures);
        if options.files.is_some() {
            println!("  programs not taken    {:>12}", findings.unread);
        }
        println!("  problems              {:>12}", findings.problems.len());
        std::process::exit(i32::from(!findings.problems.is_empty()));
    });
}
