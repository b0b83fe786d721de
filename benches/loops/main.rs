//! Measures kernels of `loops-v0` beside what others have: `cargo bench --bench loops -- [--threads
//! N] [--rounds N] [--python PROGRAM] [NAME…]`.
//!
//! | name | schedule | beside |
//! |---|---|---|
//! | `add` | point-wise addition of 256 MiB arrays | the best copy, by `memcpy` or past the caches |
//! | `matmul` | the product of matrices of 1024 by 1024 | `OpenBLAS` (`apt-get install libopenblas-dev`) |
//! | `softmax`, `layernorm` | rows | `PyTorch`, if `--python` has it |
//!
//! A kernel and what it is compared with take turns; the best round of each counts. What each
//! kernel computes is checked in every round.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::disallowed_methods, reason = "programs of its own that are not confined")]

use std::path::{Path, PathBuf};
use std::process::Command;

use steplake::env::loops::costs::Costs;
use steplake::env::loops::programs::program;
use steplake::env::loops::{LoopsState, ScheduleAction};
use steplake::execution::RunSettings;
use steplake::measure::{BuiltKernel, Timing, kernel_compilation};

/// The elements of the arrays that are added: 256 MiB each.
const ADD: u64 = 64 << 20;

const ADD_ACTIONS: &[&str] = &["split[0,8]", "vectorize[1]", "stream[1]", "parallel[0]"];

/// Panels of one operand are packed, tiles of 6 by 16 are held in registers, and threads share the
/// panels.
const MATMUL_ACTIONS: &[&str] = &[
    "pack[1]",
    "swap[0]",
    "split[0,16]",
    "swap[1]",
    "swap[4]",
    "swap[3]",
    "split[3,16]",
    "fuse[0]",
    "swap[3]",
    "split[3,6]",
    "swap[5]",
    "swap[4]",
    "cache[4]",
    "unroll[5]",
    "split[6,8]",
    "vectorize[7]",
    "unroll[6]",
    "vectorize[2]",
    "parallel[0]",
];

const SOFTMAX_ACTIONS: &[&str] = &[
    "fuse[0]",
    "fuse[0]",
    "fuse[0]",
    "fuse[2]",
    "cache[1]",
    "split[1,32]",
    "vectorize[2]",
    "cache[3]",
    "split[3,32]",
    "vectorize[4]",
    "split[5,8]",
    "vectorize[6]",
    "parallel[0]",
];

const LAYERNORM_ACTIONS: &[&str] = &[
    "fuse[0]",
    "fuse[0]",
    "fuse[0]",
    "fuse[0]",
    "fuse[0]",
    "fuse[2]",
    "cache[1]",
    "split[1,32]",
    "vectorize[2]",
    "cache[3]",
    "split[3,32]",
    "vectorize[4]",
    "split[5,8]",
    "vectorize[6]",
    "parallel[0]",
];

struct Options {
    threads: u64,
    rounds: u64,
    python: Option<String>,
    names: Vec<String>,
}

impl Options {
    fn from_arguments() -> Self {
        let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let mut options = Self { threads: cores, rounds: 5, python: None, names: Vec::new() };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().expect("a value comes after it");
            match argument.as_str() {
                "--threads" => options.threads = value().parse().expect("a number"),
                "--rounds" => options.rounds = value().parse().expect("a number"),
                "--python" => options.python = Some(value()),
                _ => options.names.push(argument),
            }
        }
        options
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|known| known == name)
    }
}

fn main() {
    let options = Options::from_arguments();
    let folder = tempfile::tempdir().expect("a folder for programs");
    let compilation = kernel_compilation(&RunSettings::default()).expect("a compiler");
    println!("{compilation}; {} threads", options.threads);
    if options.wants("add") {
        add(&options, folder.path());
    }
    if options.wants("matmul") {
        matmul(&options, folder.path());
    }
    for (kind, actions) in [("softmax", SOFTMAX_ACTIONS), ("layernorm", LAYERNORM_ACTIONS)] {
        if options.wants(kind) {
            rows(&options, kind, actions);
        }
    }
}

/// A kernel, with what it does in a run.
struct Contestant {
    kernel: BuiltKernel,
    operations: f64,
    bytes: f64,
    best: f64,
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
impl Contestant {
    fn new(name: &str, actions: &[&str]) -> Self {
        let start = LoopsState::initial(program(name).expect("a program"));
        let state = actions.iter().fold(start, |state, name| {
            let action = ScheduleAction::from_name(name).expect("an action");
            action.apply(&state).unwrap_or_else(|| panic!("{name} changes nothing"))
        });
        let costs = Costs::new(&state);
        let (operations, bytes) = (costs.operations() as f64, costs.compulsory_bytes() as f64);
        let kernel = BuiltKernel::build(&state, &RunSettings::default());
        let kernel = kernel.unwrap_or_else(|error| panic!("{error}"));
        Self { kernel, operations, bytes, best: f64::INFINITY }
    }

    /// Runs it once more, on other inputs.
    fn round(&mut self, threads: u64, seed: u64) {
        let timing = Timing { seed, threads, warmups: 1, samples: 5 };
        let samples = self.kernel.run(&timing).unwrap_or_else(|error| panic!("{error}"));
        self.best = samples.into_iter().fold(self.best, f64::min);
    }
}

/// Compiles a program of this folder.
fn compiled(folder: &Path, name: &str, libraries: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("benches/loops/{name}.c"));
    let program = folder.join(name);
    let mut command = Command::new("cc");
    command.args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).args(libraries);
    command.output().is_ok_and(|output| output.status.success()).then_some(program)
}

/// The lines that a program prints. `OpenBLAS` chooses for the processor that it finds.
fn lines(program: &Path, arguments: &[String]) -> Vec<String> {
    let mut command = Command::new(program);
    command.args(arguments).env_remove("OPENBLAS_CORETYPE").env_remove("OPENBLAS_L2_SIZE");
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn number(text: &str) -> f64 {
    text.parse().expect("a number")
}

fn add(options: &Options, folder: &Path) {
    let copy = compiled(folder, "copy", &[]).expect("a C compiler");
    let mut ours = Contestant::new(&format!("add-{ADD}"), ADD_ACTIONS);
    let mut best = [0.0_f64; 2];
    for round in 0..options.rounds {
        let arguments = [(ADD * 4).to_string(), options.threads.to_string(), "5".to_owned()];
        for (best, line) in best.iter_mut().zip(lines(&copy, &arguments)) {
            *best = best.max(number(&line));
        }
        ours.round(options.threads, round);
    }
    let speed = ours.bytes / ours.best;
    println!(
        "add: {:.2} GB/s; memcpy {:.2}, past the caches {:.2}: {:.1}% of the best copy",
        speed * 1e-9,
        best[0] * 1e-9,
        best[1] * 1e-9,
        100.0 * speed / best[0].max(best[1]),
    );
}

fn matmul(options: &Options, folder: &Path) {
    let gemm = compiled(folder, "gemm", &["-lopenblas"]);
    let mut ours = Contestant::new("matmul-1024x1024x1024", MATMUL_ACTIONS);
    let mut counts = vec![1, options.threads];
    counts.dedup();
    for threads in counts {
        ours.best = f64::INFINITY;
        let (mut theirs, mut about) = (f64::INFINITY, String::new());
        for round in 0..options.rounds {
            if let Some(gemm) = &gemm {
                let arguments = ["1024".to_owned(), threads.to_string(), "10".to_owned()];
                let printed = lines(gemm, &arguments);
                theirs = theirs.min(number(&printed[0]));
                about.clone_from(&printed[1]);
            }
            ours.round(threads, round);
        }
        let speed = |seconds: f64| ours.operations / seconds * 1e-9;
        println!(
            "matmul, {threads} threads: {:.1} GFLOP/s; OpenBLAS {:.1}: {:.1}% ({about})",
            speed(ours.best),
            speed(theirs),
            100.0 * theirs / ours.best,
        );
    }
}

fn rows(options: &Options, kind: &str, actions: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/loops/rows.py");
    for (rows, columns) in [(512, 1024), (4096, 1024)] {
        let mut ours = Contestant::new(&format!("{kind}-{rows}x{columns}"), actions);
        let (mut theirs, mut about) = (f64::NAN, "no PyTorch".to_owned());
        for round in 0..options.rounds {
            if let Some(python) = &options.python {
                let mut arguments = vec![script.to_string_lossy().into_owned(), kind.to_owned()];
                let numbers = [rows, columns, options.threads, 10];
                arguments.extend(numbers.map(|number| number.to_string()));
                let printed = lines(Path::new(python), &arguments);
                theirs = theirs.min(number(&printed[0]));
                about.clone_from(&printed[1]);
            }
            ours.round(options.threads, round);
        }
        println!(
            "{kind} {rows} x {columns}: {:.1} us, {:.2} GB/s; PyTorch {:.1} us: {:.2} times as fast \
             ({about})",
            ours.best * 1e6,
            ours.bytes / ours.best * 1e-9,
            theirs * 1e6,
            theirs / ours.best,
        );
    }
}
