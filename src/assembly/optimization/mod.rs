//! A program made smaller or faster within a budget of compilations: what `steplake optimize` does.

mod fast;
mod goal;
mod known_sequences;
mod own_program;
mod result;
mod small;
mod subject;

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::goal::Goal;
use self::known_sequences::{known_fast_sequences, known_sequences};
pub use self::own_program::HowRun;
use self::own_program::{aimed_at, linker_of};
pub use self::result::{Check, Figures, Found, Optimized, Outcome, Speedup, Times};
use self::subject::Subject;
use super::catalogue::Catalogue;
use super::command_error::{Code, CommandError};
use super::environments::{action_space, environment, live, worker_config};
use super::recording::{Keyframes, RunEnding, RunRequest, existing, record_run};
use crate::env::worker::Interrupt;
use crate::generate::{Policy, Programs as _, Progress, Stop};
use crate::lake::Lake;
use crate::model::as_f64;

/// The most actions of a sequence. `-Oz` runs some 250 passes.
const LENGTH_MAX: u32 = 256;

/// The distance of the states whose IR is kept. The others are made again when somebody asks.
const KEYFRAMES: u32 = 32;

/// What to optimise, and how.
#[derive(Debug, Clone)]
pub struct OptimizeRequest {
    /// The program: a file, or the URI of a benchmark.
    pub program: String,
    /// The flags with which it is compiled, if it is a file of C or C++.
    pub flags: Vec<String>,
    /// What it is optimised for.
    pub goal: Goal,
    /// How many sequences are tried.
    pub budget: u64,
    /// The seed of all choices.
    pub seed: i64,
    /// How the program is run; by default as its dataset says.
    pub how_run: Option<HowRun>,
}

/// Looks for a sequence of passes that makes a program small or fast, records what it tries in the
/// lake at `lake`, which is made if there is none, and checks what it found. The lake's own
/// sequences are tried too.
///
/// # Errors
///
/// If there is no such program, it is to be fast and nobody says how it is run, the lake cannot be
/// recorded into, the compiler cannot start the program, or `interrupt` is set. What was recorded
/// stays.
pub fn optimize(
    lake: &Path,
    request: &OptimizeRequest,
    progress: &Progress,
    interrupt: &Arc<AtomicBool>,
) -> Result<Optimized, CommandError> {
    let here = environment(crate::env::DEFAULT)?;
    let mut config = worker_config();
    let interrupted = Arc::clone(interrupt);
    config.interrupt = Interrupt::new(move || interrupted.load(Ordering::Relaxed));
    let catalogue = Catalogue::of(here.as_ref(), &config)?;
    let named = catalogue.one_with(&request.program, &request.flags)?;
    let uri = aimed_at(request.goal.aim(), &named, &catalogue)?;
    let there = existing(lake)?;
    let identity = there.as_ref().map(Lake::identity);
    let of_lake = identity.filter(|identity| identity.environment == here.spec().name);
    let space = action_space(here.spec(), of_lake.map(|lake| lake.action_space.name.as_str()))?;
    let mut subject = Subject {
        environment: live(here, config.clone()),
        space: space.name.clone(),
        source: catalogue.source(&uri),
        benchmark: catalogue.load(&uri)?,
        goal: request.goal,
        interrupt: config.interrupt,
    };
    if let Some(how) = &request.how_run {
        subject.benchmark.execution = Some(how.execution(linker_of(&subject.ir()?))?);
    }
    let run = RunRequest {
        policy: Policy::Coreset,
        objective: Some(request.goal.cost().to_owned()),
        execution: subject.benchmark.execution.clone(),
        episode_length: LENGTH_MAX,
        keyframes: Some(Keyframes(NonZeroU32::new(KEYFRAMES))),
        seed: request.seed,
        costed: request.goal.costed(),
        ..RunRequest::new([uri.as_str()], Stop::Episodes(request.budget))
    };
    let search = |run: &RunRequest| {
        if run.coreset.as_ref().is_some_and(|known| known.is_empty()) {
            return Err(CommandError::usage(format!(
                "the lake at {} has the actions of {}, of which no sequences are known: give \
                 another one with --lake",
                lake.display(),
                space.name
            )));
        }
        if record_run(lake, run, progress, interrupt)?.ending == RunEnding::Interrupted {
            let said = "interrupted: what was tried is in the lake, and the next call begins with \
                        it";
            return Err(CommandError::new(Code::Interrupted, said));
        }
        Ok(progress.best_sequences(&uri))
    };
    // What is wrong with the program shows before a lake is made.
    if request.goal == Goal::Runtime {
        let execution = subject.benchmark.execution.as_ref();
        let execution = execution.filter(|known| known.run.is_some());
        let own = subject.own(execution.ok_or_else(|| not_runnable(&request.program))?)?;
        let coreset = known_fast_sequences(there.as_ref(), &space, &uri, &own.stopwatch)?;
        let sequences = search(&RunRequest {
            coreset: Some(Arc::new(coreset)),
            reference: Some(own.reference),
            stopwatch: Some(Arc::clone(&own.stopwatch)),
            ..run
        })?;
        return subject.fastest(lake, &own, &sequences);
    }
    let cost = request.goal.cost();
    let coreset = known_sequences(there.as_ref(), &space, cost, &uri)?;
    let figures = subject.figures(cost, &catalogue.load(&named)?)?;
    let sequences = search(&RunRequest {
        coreset: Some(Arc::new(coreset)),
        reference: Some(as_f64(figures.oz)),
        ..run
    })?;
    subject.smallest(cost, figures, named != uri, &sequences)
}

/// Says what to do about a program that is to be fast and cannot be run.
fn not_runnable(program: &str) -> CommandError {
    CommandError::usage(format!(
        "nobody says how {program} is run, so its run time cannot be measured: give --arguments \
         'WORDS' (--arguments '' for none), and --stdin FILE if it reads its standard input; it \
         has to be one file with a `main`"
    ))
}
