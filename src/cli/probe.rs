//! `env probe`, for a program that has the compiler.

use super::args::ProbeArgs;
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::command_error::CommandError;

#[cfg(feature = "llvm")]
pub(super) fn run(global: &GlobalArgs, args: &ProbeArgs) -> Result<(), CommandError> {
    use crate::assembly::catalogue::Catalogue;
    use crate::assembly::environments::{action_space, environment, worker_config};
    use crate::assembly::output::{bar, print};
    use crate::env::llvm::{self, probe};
    use crate::generate::Programs as _;

    let environment = environment(llvm::NAME)?;
    let spec = environment.spec();
    let spaces = match &args.action_space {
        Some(name) => vec![action_space(spec, Some(name))?],
        None => spec.action_spaces.clone(),
    };
    let catalogue = Catalogue::of(environment.as_ref(), &worker_config())?;
    let uris = catalogue.expand(&args.benchmarks)?;
    let load = |uri| catalogue.load(uri).map_err(CommandError::from);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = probe::ProbeOptions {
        program: std::env::current_exe()?,
        arguments: vec!["probe-child".into()],
        benchmarks: uris.iter().map(load).collect::<Result<_, _>>()?,
        pipelines: probe::pipelines(&spaces),
        rounds: args.rounds,
        seed: args.seed,
        jobs: args.jobs.map_or(cores, usize::from),
    };
    let bar = bar(global, 0, "{bar:24.cyan} {pos}/{len} walks, left: {eta}");
    let report = probe::probe(&options, &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    })?;
    drop(bar);
    print(&report.table())?;
    if let Some(folder) = &args.output {
        probe::write_tables(&report, folder)?;
    }
    Ok(())
}

#[cfg(not(feature = "llvm"))]
pub(super) fn run(_global: &GlobalArgs, _args: &ProbeArgs) -> Result<(), CommandError> {
    Err(without_compiler())
}

#[cfg(feature = "llvm")]
pub(super) fn child() -> Result<(), CommandError> {
    use crate::env::llvm::probe;
    Ok(probe::probe_child(&mut std::io::stdin().lock(), &mut std::io::stdout().lock())?)
}

#[cfg(not(feature = "llvm"))]
pub(super) fn child() -> Result<(), CommandError> {
    Err(without_compiler())
}

#[cfg(not(feature = "llvm"))]
fn without_compiler() -> CommandError {
    CommandError::usage(
        "this steplake holds no compiler, and a probe runs one in its own processes: use the \
         `steplake` that `cargo build --release` makes",
    )
}
