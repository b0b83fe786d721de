//! `generate`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::args::GenerateArgs;
use super::progress::RunBar;
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::catalogue::Catalogue;
use crate::assembly::command_error::{Code, CommandError};
use crate::assembly::environments::{action_space, environment, live, worker_config};
use crate::assembly::output::{counted, print};
use crate::env::worker::WorkerConfig;
use crate::generate::{
    Ending, Plan, Policy, Programs, Progress, ResumeState, Shard, Stop, generate,
};
use crate::lake::{Identity, Lake, LakeError, Writer};
use crate::model::{ActionSpace, EnvironmentSpec, RunId};
use crate::record::{self, Choice, Recording, RecordingOptions};

/// The interval at which progress is shown.
const SHOW_INTERVAL: Duration = Duration::from_millis(250);

pub(super) fn run(global: &GlobalArgs, args: &GenerateArgs) -> Result<(), CommandError> {
    let interrupt = interrupt()?;
    let here = environment(&args.env)?;
    let spec = here.spec().clone();
    let existing = Lake::open(&global.lake);
    // The choices of an existing lake are the defaults. A lake of another environment is refused
    // below.
    let there = existing.as_ref().ok().map(Lake::identity);
    let there = there.filter(|there| there.environment == spec.name);
    let wanted_space =
        args.action_space.as_deref().or(there.map(|there| there.action_space.name.as_str()));
    let space = action_space(&spec, wanted_space)?;
    let identity = identity(&spec, &space, args, there)?;
    let config = WorkerConfig {
        step_cpu_max: Duration::from_secs(args.step_cpu_seconds),
        memory_bytes_max: args.worker_memory_mib << 20,
        ..worker_config()
    };
    let catalogue = Catalogue::new(&spec, &config)?;
    let plan = plan(args, &space, &catalogue)?;
    match existing {
        Ok(_) => {}
        Err(LakeError::NotFound { .. } | LakeError::NotALake { .. }) => {
            load_first_programs(&catalogue, args)?;
        }
        Err(error) => return Err(error.into()),
    }
    let lake = Lake::open_or_create(&global.lake, &identity)?;
    let mut writer = lake.writer()?;
    let Some((run, past)) = begin_or_resume(&mut writer, args, &plan)? else {
        return print("the run with these arguments is complete: nothing is left to do\n");
    };
    let episodes_before = past.episodes();
    let options = RecordingOptions {
        keyframes: args.ir.0,
        observations: args.observe.clone(),
        rewards: args.rewards.clone(),
        ..RecordingOptions::default()
    };
    let recording = Recording::begin(writer, &spec, run, &options)?;
    let progress = Progress::default();
    let environment = live(here, config);
    let before = past.towards(plan.stop);
    let result = show_while(global, &plan, before, &progress, || {
        generate(environment.as_ref(), &recording, &plan, &catalogue, past, &progress, &interrupt)
    });
    // First commit what was recorded, whatever the result.
    let closed = recording.close();
    if let (Err(error), Ok(_)) = (&result, &closed) {
        tracing::debug!(%error, "the run stopped");
    }
    let mut writer = closed?;
    let repeated_windows = environment.repeated_windows();
    writer.add_repeated_windows(run, u32::try_from(repeated_windows).unwrap_or(u32::MAX))?;
    match result? {
        Ending::Complete => {
            writer.discard_open(run)?;
            writer.finish_run(run)?;
            print(&summary(&progress, episodes_before, global))
        }
        Ending::Interrupted => Err(CommandError::new(
            Code::Interrupted,
            "interrupted: all settled episodes are kept; the same arguments with --resume continue the run",
        )),
    }
}

/// Returns the identity of the lake: that of the arguments. An existing lake grows to it; without a
/// choice of spaces, it keeps those that it has.
fn identity(
    spec: &EnvironmentSpec,
    space: &ActionSpace,
    args: &GenerateArgs,
    there: Option<&Identity>,
) -> Result<Identity, CommandError> {
    let choice = Choice { observations: args.observe.as_deref(), rewards: args.rewards.as_deref() };
    let mut identity = record::identity(spec, space, &choice)?;
    if let Some(there) = there {
        if choice.observations.is_none() {
            identity.observations.clone_from(&there.observations);
        }
        if choice.rewards.is_none() {
            identity.rewards.clone_from(&there.rewards);
        }
    }
    Ok(identity)
}

fn plan(
    args: &GenerateArgs,
    space: &ActionSpace,
    catalogue: &Catalogue,
) -> Result<Plan, CommandError> {
    let stop = match (args.steps, args.states, args.episodes) {
        (Some(steps), _, _) => Stop::Steps(steps),
        (_, Some(states), _) => Stop::States(states),
        (_, _, Some(episodes)) => Stop::Episodes(episodes),
        (None, None, None) => {
            return Err(CommandError::usage(
                "give --steps, --states or --episodes to say when to stop",
            ));
        }
    };
    if args.shard.is_some() && !matches!(stop, Stop::Episodes(_)) {
        return Err(CommandError::usage(
            "--shard requires --episodes N, the number for all shards together: no shard can tell without the \
             others where --steps or --states would end the run",
        ));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        benchmarks: catalogue.expand(&args.benchmarks)?,
        action_space: space.name.clone(),
        policy: args.policy,
        stop,
        episode_length: args.episode_length,
        seed: args.seed,
        jobs: args.jobs.map_or(cores, usize::from),
        shard: args.shard.unwrap_or(Shard::WHOLE),
    };
    let (shard, benchmarks) = (plan.shard, plan.benchmarks.len() as u64);
    if plan.policy == Policy::Explore && u64::from(shard.count()) > benchmarks {
        return Err(CommandError::usage(format!(
            "`explore` looks at earlier episodes of the same benchmark, so its shards go by benchmark: there \
             {}, for {} shards; use fewer shards",
            if benchmarks == 1 { "is 1".to_owned() } else { format!("are {benchmarks}") },
            shard.count(),
        )));
    }
    Ok(plan)
}

/// Loads the first program of each pattern, so that a missing program does not leave an empty lake.
fn load_first_programs(catalogue: &Catalogue, args: &GenerateArgs) -> Result<(), CommandError> {
    for pattern in &args.benchmarks {
        if let Some(first) = catalogue.expand(std::slice::from_ref(pattern))?.first() {
            catalogue.load(first)?;
        }
    }
    Ok(())
}

/// Returns what identifies a run: every argument that affects what is recorded.
fn arguments(args: &GenerateArgs, plan: &Plan) -> String {
    let mut uris = blake3::Hasher::new();
    for uri in &plan.benchmarks {
        uris.update(uri.as_str().as_bytes()).update(b"\n");
    }
    let (stop, count) = match plan.stop {
        Stop::Steps(count) => ("steps", count),
        Stop::States(count) => ("states", count),
        Stop::Episodes(count) => ("episodes", count),
    };
    let mut arguments = json!({
        "benchmarks": args.benchmarks,
        "benchmark_count": plan.benchmarks.len(),
        "benchmark_digest": uris.finalize().to_hex().as_str(),
        "action_space": plan.action_space,
        "policy": plan.policy.as_str(),
        "stop": { stop: count },
        "episode_length": plan.episode_length,
        "seed": plan.seed,
        "ir": args.ir.to_string(),
        "step_cpu_seconds": args.step_cpu_seconds,
        "worker_memory_mib": args.worker_memory_mib,
    });
    // A run that names its spaces is another one than a run that takes those of the lake.
    for (key, spaces) in [("observe", &args.observe), ("rewards", &args.rewards)] {
        if let Some(spaces) = spaces {
            arguments[key] = json!(spaces);
        }
    }
    // A run without shards is written as before shards existed.
    if let Some(shard) = args.shard {
        arguments["shard"] = json!(shard.to_string());
    }
    arguments.to_string()
}

/// Returns the run to resume and how far it got, or a new run; `None` if the run is complete.
fn begin_or_resume(
    writer: &mut Writer,
    args: &GenerateArgs,
    plan: &Plan,
) -> Result<Option<(RunId, ResumeState)>, CommandError> {
    let arguments = arguments(args, plan);
    let runs = writer.runs()?;
    let mut same = runs.iter().filter(|run| run.arguments == arguments);
    if !args.resume {
        match same.next_back() {
            Some(run) if run.finished => tracing::warn!(
                "this lake has a finished run with these arguments: the same episodes are recorded \
                 again; another --seed records others"
            ),
            Some(_) => tracing::warn!(
                "this lake has an unfinished run with these arguments: the same episodes are recorded \
                 again; --resume would continue it"
            ),
            None => {}
        }
    } else if let Some(run) = same.next_back() {
        if run.finished {
            return Ok(None);
        }
        return Ok(Some((run.id, ResumeState::resume(writer, run.id, plan)?)));
    } else if !runs.is_empty() {
        tracing::warn!("there is no unfinished run with these arguments: a new one begins");
    }
    Ok(Some((writer.begin_run(&arguments, now_ms())?, ResumeState::default())))
}

fn now_ms() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "a run records when it began")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}

/// Returns a flag that Ctrl-C or a request to terminate sets; a second one ends the process at
/// once.
fn interrupt() -> Result<Arc<AtomicBool>, CommandError> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Shows `progress` while `work` runs. Earlier calls have recorded `before` of the run's steps,
/// states or episodes.
fn show_while<T: Send>(
    global: &GlobalArgs,
    plan: &Plan,
    before: u64,
    progress: &Progress,
    work: impl FnOnce() -> T + Send,
) -> T {
    let stop = match plan.stop {
        Stop::Episodes(episodes) => Stop::Episodes(plan.own_episodes(episodes)),
        other => other,
    };
    let bar = RunBar::new(global, stop, before);
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            bar.show(progress);
            std::thread::park_timeout(SHOW_INTERVAL);
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Summarises what this process has recorded.
fn summary(progress: &Progress, episodes_before: u32, global: &GlobalArgs) -> String {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    format!(
        "recorded {} and {} in {}; {}, {} of the compiler\n",
        counted(read(&progress.steps), "step"),
        counted(read(&progress.states), "new state"),
        global.lake.display(),
        counted(read(&progress.episodes) - u64::from(episodes_before), "episode"),
        counted(read(&progress.failures), "failure"),
    )
}
