//! The command line: parse, run, exit code.

use std::io::Read as _;

use clap::{Args, Parser, Subcommand};
use serde_json::json;
use steplake::assembly::command_error::{Code, CommandError};
use steplake::assembly::output::print;
use steplake::env::loops::cuda::CudaSource;
use steplake::env::loops::programs::program;
use steplake::env::loops::state::State;

use crate::compiler::compile;
use crate::cubin;
use crate::device::Device;
use crate::run::{Turns, run};

/// The architecture that code is compiled for where there is no device: that of an H100.
const ARCH: &str = "sm_90";

/// Compile schedules of loops-v0 for GPUs, run, check and time them.
#[derive(Debug, Parser)]
#[command(
    name = "steplake-cuda",
    version,
    about,
    after_help = "\
STATE is a file with the text of a state, - for standard input, or the name of a program, such as
matmul-64x64x64, for its initial schedule. Results are JSON, one line for each state.

The libraries of CUDA 13 are looked for where the loader looks (LD_LIBRARY_PATH). Exit codes: 0 done;
1 it failed, a result was wrong, or there is no device or library; 2 the command line or a state is wrong."
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
        turns: TurnArgs,
    },
}

#[derive(Debug, Args)]
struct TurnArgs {
    /// The number of timed runs.
    #[arg(
        long,
        default_value = "30",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    samples: u32,

    /// The number of runs before them.
    #[arg(long, default_value = "5", value_name = "N")]
    warmups: u32,

    /// The seed of the inputs.
    #[arg(long, default_value = "0", value_name = "S")]
    seed: u64,
}

impl From<TurnArgs> for Turns {
    fn from(TurnArgs { samples, warmups, seed }: TurnArgs) -> Self {
        Self { samples, warmups, seed }
    }
}

/// Runs the command line of the process.
///
/// # Errors
///
/// Those of the command.
pub(crate) fn main() -> Result<(), CommandError> {
    let failed = |message: String| CommandError::new(Code::Failed, message);
    match Cli::parse().command {
        Command::Compile { states, arch, text } => {
            for (name, state) in read(&states)? {
                let source = CudaSource::of(&state);
                if text {
                    print(&source.text)?;
                } else {
                    let line = compiled(&name, &state, &source, &arch).map_err(failed)?;
                    print(&format!("{line}\n"))?;
                }
            }
            Ok(())
        }
        Command::Run { states, turns } => {
            let (states, turns) = (read(&states)?, turns.into());
            let device = Device::open().map_err(failed)?;
            for (name, state) in states {
                let ran = run(&device, &state, &turns)
                    .map_err(|what| failed(format!("{name}: {what}")))?;
                let kernels = ran.kernels;
                let line = json!({
                    "state": name,
                    "state_id": state.identify().to_string(),
                    "kernel_digest": kernels,
                    "samples_s": ran.samples_s,
                    "checked": ran.checked,
                    "seed": turns.seed,
                    "machine": device.describe().map_err(failed)?,
                });
                print(&format!("{line}\n"))?;
            }
            Ok(())
        }
    }
}

/// Reads states, each with its name.
fn read(names: &[String]) -> Result<Vec<(String, State)>, CommandError> {
    let wrong =
        |name: &str, what: String| CommandError::new(Code::Usage, format!("{name}: {what}"));
    let one = |name: &String| {
        if let Ok(dag) = program(name) {
            return Ok((name.clone(), State::initial(dag)));
        }
        let bytes = if name == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(name)
        };
        let bytes = bytes.map_err(|error| wrong(name, error.to_string()))?;
        let state = State::parse(&bytes).map_err(|what| wrong(name, what))?;
        Ok((name.clone(), state))
    };
    names.iter().map(one).collect()
}

fn compiled(
    name: &str,
    state: &State,
    source: &CudaSource,
    arch: &str,
) -> Result<serde_json::Value, String> {
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
