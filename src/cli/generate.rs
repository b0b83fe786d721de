//! `generate`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use super::args::GenerateArgs;
use super::progress::RunBar;
use crate::environments::Environments;
use crate::generate::{Property, RunProgress, Stop};
use crate::model::FailureKind;
use crate::recording::{BegunRun, RunEnding, RunRequest, RunSummary, begin_run};
use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{counted, print};
pub(super) use steplake_terminal::signals::interrupt;

/// The interval at which progress is shown.
const SHOW_INTERVAL: Duration = Duration::from_millis(250);

pub(super) fn run(
    environments: &Environments,
    global: &GlobalArgs,
    args: &GenerateArgs,
) -> Result<(), Error> {
    let interrupt = interrupt()?;
    let BegunRun::Open(run) = begin_run(environments, &global.lake, &request(args)?)? else {
        return print("the run with these arguments is complete: nothing is left to do\n");
    };
    let progress = RunProgress::default();
    let bar = RunBar::new(global, run.stop(), run.recorded_before());
    let done = show_while(bar, &progress, || run.record(&progress, &interrupt))?;
    match done.ending {
        RunEnding::Complete | RunEnding::NothingLeft => print(&summary(&done, global)),
        RunEnding::Exhausted => print(&format!(
            "{}the run ended before its stop: the search of every program is over\n",
            summary(&done, global)
        )),
        RunEnding::Interrupted => Err(Error::new(
            ErrorKind::Interrupted,
            "interrupted: all settled episodes are kept; the same arguments with --resume continue the run",
        )),
    }
}

/// Splits the value of an option into words, as a shell that expands nothing does.
pub(super) fn words(option: &str, value: Option<&str>) -> Result<Vec<String>, Error> {
    let value = value.unwrap_or_default();
    shell_words::split(value).map_err(|error| Error::usage(format!("{option} {value}: {error}")))
}

/// Returns the run that the arguments ask for.
fn request(args: &GenerateArgs) -> Result<RunRequest, Error> {
    let stop = match (args.steps, args.states, args.episodes) {
        (Some(steps), _, _) => Stop::Steps(steps),
        (_, Some(states), _) => Stop::States(states),
        (_, _, Some(episodes)) => Stop::Episodes(episodes),
        (None, None, None) => {
            return Err(Error::usage("give --steps, --states or --episodes to say when to stop"));
        }
    };
    if args.patience.is_some() && !args.policy.has(Property::HasPatience) {
        let said =
            format!("--patience is for `--policy random-patience`, not for `{}`", args.policy);
        return Err(Error::usage(said));
    }
    let usual = RunRequest::new(&args.benchmarks, stop);
    Ok(RunRequest {
        environment: args.env.clone(),
        flags: words("--flags", args.flags.as_deref())?,
        action_space: args.action_space.clone(),
        policy: args.policy,
        objective: args.objective.clone(),
        patience: args.patience.unwrap_or(usual.patience),
        episode_length: args.episode_length,
        seed: args.seed,
        jobs: args.jobs,
        shard: args.shard,
        keyframes: args.ir,
        observe: args.observe.clone(),
        rewards: args.rewards.clone(),
        step_cpu_seconds: args.step_cpu_seconds,
        worker_memory_mib: args.worker_memory_mib,
        audit: NonZeroU32::new(args.audit),
        resume: args.resume,
        seal: !args.no_seal,
        ..usual
    })
}

/// Shows `progress` while `work` runs.
pub(super) fn show_while<T: Send>(
    bar: RunBar,
    progress: &RunProgress,
    work: impl FnOnce() -> T + Send,
) -> T {
    let done = std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            bar.show(progress);
            std::thread::park_timeout(SHOW_INTERVAL);
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    drop(bar);
    done
}

/// Says how often the compiler failed, and how.
fn failures(kinds: &BTreeMap<FailureKind, u64>) -> String {
    let all = format!("{} of the compiler", counted(kinds.values().sum(), "failure"));
    if kinds.is_empty() {
        return all;
    }
    let kinds = kinds.iter().map(|(kind, count)| format!("{count} {kind}"));
    format!("{all} ({})", kinds.collect::<Vec<_>>().join(", "))
}

/// Summarises what this process has recorded.
fn summary(done: &RunSummary, global: &GlobalArgs) -> String {
    // A null does not say why it is there.
    let unobserved = match done.states_unobserved {
        0 => String::new(),
        count => format!(
            "; in {} it failed on an observation alone, which is null",
            counted(count, "state")
        ),
    };
    format!(
        "recorded {} and {} in {}; {}, {}{unobserved}\n",
        counted(done.steps, "step"),
        counted(done.states_new, "new state"),
        global.lake.display(),
        counted(done.episodes, "episode"),
        failures(&done.failures),
    )
}
