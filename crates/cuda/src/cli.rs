//! The command line: parse, run, exit code.

use std::io::Read as _;
use std::ops::RangeInclusive;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};
use steplake::env::loops::cuda::{BlockNeeds, CudaSource, SYSTEM_BYTES};
use steplake::env::loops::programs::program;
use steplake::env::loops::state::LoopsState;
use steplake::{Error, ErrorKind};
use steplake_terminal::output::print;

use crate::bench;
use crate::compiler::compile;
use crate::cubin;
use crate::device::Device;
use crate::measure::MeasureArgs;
use crate::rounds::Rounds;
use crate::run::{Turns, run};
use crate::schedules::{adds, products, swept};

/// The architecture that code is compiled for where there is no device: that of an H100.
const ARCH: &str = "sm_90";

/// The bytes of each array of a copy: beyond all caches.
const COPY_BYTES: [u64; 2] = [256 << 20, 1 << 30];

/// The sizes that are swept, and the threads.
const SWEPT_SIZES: &str = "1024,4096,16384,65536,262144,1048576,4194304,16777216,67108864";
const SWEPT_THREADS: &str =
    "1,4,16,64,256,1024,2048,4096,8192,16384,32768,65536,131072,262144,524288,1048576";

/// The sizes at which addition is measured.
const ADD_SIZES: RangeInclusive<u32> = 10..=28;

/// Compile schedules of loops-v0 for GPUs, run, check and time them.
#[derive(Debug, Parser)]
#[command(
    name = "steplake-cuda",
    version,
    about,
    after_help = "\
STATE is a file with the text of a state, - for standard input, or the name of a program, such as
matmul-64x64x64, for its initial schedule. Results are JSON, one line for each state or measurement.

The libraries of CUDA 13 are looked for where the loader looks (LD_LIBRARY_PATH). Exit codes: 0 done;
1 it failed, a result was wrong, or there is no device or library; 2 the command line or a state is wrong;
4 `measure` found wrong results."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile states, and say what their kernels need. No GPU is needed.
    Compile {
        #[arg(value_name = "STATE", required = true)]
        states: Vec<String>,

        /// The architecture.
        #[arg(long, default_value = ARCH, value_name = "ARCH")]
        arch: String,

        /// Print the CUDA C++ instead.
        #[arg(long)]
        text: bool,
    },
    /// Run states on the device, check what they compute, and time them.
    Run {
        #[arg(value_name = "STATE", required = true)]
        states: Vec<String>,

        #[command(flatten)]
        turns: Turns,
    },
    /// Measure recorded states of a lake of loops-v0, as `steplake measure` does on the processor.
    Measure(MeasureArgs),
    /// Measure copies, point-wise addition beside them, and the product of matrices beside cuBLAS.
    Bench {
        /// What to measure; by default all.
        #[arg(value_enum, value_name = "WHAT")]
        what: Vec<What>,

        #[command(flatten)]
        sizes: SizeArgs,

        #[command(flatten)]
        rounds: Rounds,
    },
    /// Measure point-wise addition of arrays by numbers of threads.
    Sweep {
        #[command(flatten)]
        swept: SweptArgs,

        #[command(flatten)]
        rounds: Rounds,
    },
    /// Print the schedules that `bench` and `sweep` measure. No GPU is needed.
    Actions {
        #[command(flatten)]
        sizes: SizeArgs,

        #[command(flatten)]
        swept: SweptArgs,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Copies of arrays, by the driver and by kernels that store past the caches.
    Copy,
    /// Point-wise addition, in turns with copies of as many bytes.
    Add,
    /// The product of square matrices, in turns with cuBLAS.
    Matmul,
}

#[derive(Debug, Args)]
struct SizeArgs {
    /// The elements of the arrays that are added, powers of two; by default 2^10 to 2^28.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = size)]
    sizes: Vec<u64>,

    /// The rows of the matrices.
    #[arg(
        long,
        default_value = "4096",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(256..=16_384),
    )]
    matmul: u32,
}

impl SizeArgs {
    fn adds(&self) -> Vec<u64> {
        if self.sizes.is_empty() {
            return ADD_SIZES.map(|power| 1 << power).collect();
        }
        self.sizes.clone()
    }
}

#[derive(Debug, Args)]
struct SweptArgs {
    /// The elements of the arrays, powers of two.
    #[arg(
        long,
        default_value = SWEPT_SIZES,
        value_name = "N",
        value_delimiter = ',',
        value_parser = size,
    )]
    swept_sizes: Vec<u64>,

    /// The threads of all blocks together, powers of two. More than there are elements are left
    /// out.
    #[arg(
        long,
        default_value = SWEPT_THREADS,
        value_name = "N",
        value_delimiter = ',',
        value_parser = threads,
    )]
    threads: Vec<u64>,
}

/// A power of two within bounds.
fn power(text: &str, powers: RangeInclusive<u32>) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| number.is_power_of_two());
    let number = number.filter(|number| powers.contains(&number.ilog2()));
    let (least, most) = powers.into_inner();
    number.ok_or_else(|| format!("it must be a power of two from {} to {}", 1 << least, 1 << most))
}

fn size(text: &str) -> Result<u64, String> {
    power(text, ADD_SIZES)
}

fn threads(text: &str) -> Result<u64, String> {
    power(text, 0..=20)
}

/// Runs the command line of the process.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn main() -> Result<(), Error> {
    match Cli::parse().command {
        Command::Compile { states, arch, text } => {
            for (name, state) in read(&states)? {
                let source = CudaSource::of(&state);
                if text {
                    print(&source.text)?;
                } else {
                    say(&compiled(&name, &state, &source, &arch).map_err(failed)?)?;
                }
            }
            Ok(())
        }
        Command::Run { states, turns } => run_states(&states, &turns),
        Command::Measure(args) => crate::measure::run(&args),
        Command::Bench { what, sizes, rounds } => bench(&what, &sizes, rounds),
        Command::Sweep { swept, rounds } => sweep(&swept, rounds),
        Command::Actions { sizes, swept } => actions(&sizes, &swept),
    }
}

fn failed(message: String) -> Error {
    Error::new(ErrorKind::Failed, message)
}

/// Prints a line.
fn say(line: &Value) -> Result<(), Error> {
    print(&format!("{line}\n"))
}

fn run_states(states: &[String], turns: &Turns) -> Result<(), Error> {
    let states = read(states)?;
    let device = Device::open().map_err(failed)?;
    for (name, state) in states {
        let ran = run(&device, &state, turns).map_err(|what| failed(format!("{name}: {what}")))?;
        let kernels = ran.kernels;
        say(&json!({
            "state": name,
            "state_id": state.identify().to_string(),
            "kernel_digest": kernels,
            "samples_s": ran.samples_s,
            "checked": ran.checked,
            "seed": turns.seed,
            "machine": device.describe().map_err(failed)?,
        }))?;
    }
    Ok(())
}

/// Prints lines about the device.
fn say_of(device: &Device, lines: Vec<Value>) -> Result<(), Error> {
    for mut line in lines {
        line["machine"] = device.describe().map_err(failed)?;
        say(&line)?;
    }
    Ok(())
}

fn bench(what: &[What], sizes: &SizeArgs, rounds: Rounds) -> Result<(), Error> {
    let device = Device::open().map_err(failed)?;
    let is_wanted = |which| what.is_empty() || what.contains(&which);
    if is_wanted(What::Copy) {
        for bytes in COPY_BYTES {
            say_of(&device, vec![bench::copy(&device, bytes, rounds).map_err(failed)?])?;
        }
    }
    if is_wanted(What::Add) {
        for elements in sizes.adds() {
            say_of(&device, bench::add(&device, elements, rounds).map_err(failed)?)?;
        }
    }
    if is_wanted(What::Matmul) {
        say_of(&device, bench::matmul(&device, sizes.matmul, rounds).map_err(failed)?)?;
    }
    Ok(())
}

fn sweep(swept: &SweptArgs, rounds: Rounds) -> Result<(), Error> {
    let device = Device::open().map_err(failed)?;
    for &elements in &swept.swept_sizes {
        let lines = bench::sweep(&device, elements, &swept.threads, rounds).map_err(failed)?;
        say_of(&device, lines)?;
    }
    Ok(())
}

fn actions(sizes: &SizeArgs, SweptArgs { swept_sizes, threads }: &SweptArgs) -> Result<(), Error> {
    let mut all =
        sizes.adds().into_iter().map(|elements| ("add", adds(elements))).collect::<Vec<_>>();
    all.push(("matmul", products(sizes.matmul.into())));
    for &elements in swept_sizes {
        let threads = threads.iter().filter(|&&threads| threads <= elements);
        all.push(("sweep", threads.map(|&threads| swept(elements, threads)).collect()));
    }
    for (bench, schedules) in all {
        for named in schedules {
            let state = named.state().map_err(failed)?;
            say(&json!({
                "bench": bench,
                "program": named.program,
                "schedule": named.name,
                "actions": named.actions,
                "state_id": state.identify().to_string(),
                "kernel_digest": CudaSource::of(&state).digest(),
            }))?;
        }
    }
    Ok(())
}

/// Reads states, each with its name.
fn read(names: &[String]) -> Result<Vec<(String, LoopsState)>, Error> {
    let wrong = |name: &str, what: String| Error::new(ErrorKind::Usage, format!("{name}: {what}"));
    let one = |name: &String| {
        if let Ok(dag) = program(name) {
            return Ok((name.clone(), LoopsState::initial(dag)));
        }
        let bytes = if name == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(name)
        };
        let bytes = bytes.map_err(|error| wrong(name, error.to_string()))?;
        let state = LoopsState::parse(&bytes).map_err(|what| wrong(name, what))?;
        Ok((name.clone(), state))
    };
    names.iter().map(one).collect()
}

fn compiled(
    name: &str,
    state: &LoopsState,
    source: &CudaSource,
    arch: &str,
) -> Result<Value, String> {
    let image = compile(&source.text, arch).map_err(|what| format!("{name}: {what}"))?;
    let needs = cubin::needs(&image).ok_or("NVRTC made no ELF file of the form that is known")?;
    let kernels = source.kernels.iter().map(|kernel| {
        let of_kernel = needs.get(&kernel.name).copied().unwrap_or_default();
        json!({
            "name": kernel.name,
            "blocks": kernel.blocks,
            "threads": kernel.threads,
            "registers": of_kernel.registers,
            "shared_bytes": of_kernel.shared_bytes,
            "local_bytes": of_kernel.local_bytes,
            "occupancy": BlockNeeds {
                threads: kernel.threads.into(),
                registers: of_kernel.registers.into(),
                shared_bytes: of_kernel.shared_bytes.saturating_sub(SYSTEM_BYTES),
            }
            .occupancy(),
        })
    });
    Ok(json!({
        "state": name,
        "state_id": state.identify().to_string(),
        "arch": arch,
        "kernel_digest": source.digest(),
        "cubin_bytes": image.len(),
        "scratch_bytes": source.scratch_places * 4,
        "kernels": kernels.collect::<Vec<_>>(),
    }))
}
