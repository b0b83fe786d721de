//! `env probe`, for a program that has the compiler.

use super::args::ProbeArgs;
use crate::Error;
use crate::environments::Environments;
use steplake_terminal::arguments::GlobalArgs;

#[cfg(feature = "llvm")]
pub(super) fn run(
    environments: &Environments,
    global: &GlobalArgs,
    args: &ProbeArgs,
) -> Result<(), Error> {
    use crate::env::llvm::{self, probe};
    use crate::environments::action_space;
    use crate::environments::catalogue::Catalogue;
    use crate::generate::ProgramProvider as _;
    use steplake_terminal::output::{bar, print};

    let environment = environments.open(llvm::NAME)?;
    let spec = environment.spec();
    let spaces = match &args.action_space {
        Some(name) => vec![action_space(spec, Some(name))?],
        None => spec.action_spaces.clone(),
    };
    let catalogue = Catalogue::of(environment.as_ref(), &environments.worker_config())?;
    let uris = catalogue.expand(&args.benchmarks)?;
    let load = |uri| catalogue.load(uri);
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
pub(super) fn run(
    _environments: &Environments,
    _global: &GlobalArgs,
    _args: &ProbeArgs,
) -> Result<(), Error> {
    Err(without_compiler())
}

#[cfg(feature = "llvm")]
pub(super) fn child() -> Result<(), Error> {
    use crate::env::llvm::probe;
    Ok(probe::probe_child(&mut std::io::stdin().lock(), &mut std::io::stdout().lock())?)
}

#[cfg(not(feature = "llvm"))]
pub(super) fn child() -> Result<(), Error> {
    Err(without_compiler())
}

#[cfg(not(feature = "llvm"))]
fn without_compiler() -> Error {
    Error::usage(
        "this steplake holds no compiler, and a probe runs one in its own processes: use the \
         `steplake` that `cargo build --release` makes",
    )
}
