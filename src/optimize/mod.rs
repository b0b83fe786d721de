//! A program made smaller or faster within a budget of compilations: what `steplake optimize` does.

mod fast;
mod goal;
mod known_sequences;
mod maker;
mod own_program;
mod result;
mod small;
mod input_program;

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

pub use self::goal::Goal;
use self::input_program::InputProgram;
use self::known_sequences::{known_fast_sequences, known_sequences};
use self::maker::Maker;
use self::own_program::aimed_at;
pub use self::result::{Check, Comparison, Figures, Improvement, Optimized, Speedup, WallTimes};
use crate::Error;
use crate::contexts::recorded_by;
use crate::env::Environment;
use crate::environments::catalogue::Catalogue;
use crate::environments::{Environments, action_space, live};
use crate::generate::{PolicyName, ProgramProvider as _, RunProgress, Stop};
use crate::how_run::{HowRun, linker_of};
use crate::lake::Lake;
use crate::model::{ActionSpace, Benchmark, Remedy, as_f64};
use crate::recording::{Keyframes, RunEnding, RunRequest, existing, record_run};
use crate::sandbox::Interrupt;

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
/// sequences are tried too. `interrupt` ends the search: the result is the best so far.
///
/// # Errors
///
/// If there is no such program, it is to be fast and nobody says how it is run, the lake cannot be
/// recorded into, the compiler cannot start the program, or `interrupt` is set before the search
/// begins. What was recorded stays.
pub fn optimize(
    environments: &Environments,
    lake: &Path,
    request: &OptimizeRequest,
    progress: &RunProgress,
    interrupt: &Arc<AtomicBool>,
) -> Result<Optimized, Error> {
    // Once the search is over, what it found is checked, and nothing is interrupted but by force.
    let is_over = Arc::new(AtomicBool::new(false));
    let here = environments.open(crate::compilers::DEFAULT)?;
    let lake = &recorded_by(lake, here.spec(), None)?;
    let prepared = SearchSetup::new(environments, here, lake, request, until(&is_over, interrupt))?;
    let SearchSetup { subject, maker, .. } = &prepared;
    let search = |run: &RunRequest| {
        prepared.demand_known(run, lake)?;
        let done = record_run(environments, lake, run, progress, interrupt)?;
        is_over.store(true, Ordering::Relaxed);
        let is_interrupted = done.ending == RunEnding::Interrupted;
        let sequences = progress.best_sequences(&subject.benchmark.uri);
        Ok::<_, Error>((sequences, done.episodes, is_interrupted))
    };
    let (there, space, run) = (prepared.lake.as_ref(), &prepared.space, prepared.run(request));
    let uri = &subject.benchmark.uri;
    // What is wrong with the program shows before a lake is made.
    let (done, tried, is_interrupted) = if request.goal == Goal::Runtime {
        let execution = subject.benchmark.execution.as_ref();
        let execution = execution.filter(|known| known.run.is_some());
        let execution = execution.ok_or_else(|| not_runnable(&request.program))?;
        let own = subject.own(maker, execution)?;
        let coreset = known_fast_sequences(environments, there, space, uri, &own.stopwatch)?;
        let (sequences, tried, is_interrupted) = search(&RunRequest {
            coreset: Some(Arc::new(coreset)),
            reference: Some(own.reference),
            stopwatch: Some(Arc::clone(&own.stopwatch)),
            ..run
        })?;
        (subject.fastest(lake, maker, &own, (&sequences, is_interrupted))?, tried, is_interrupted)
    } else {
        let coreset = known_sequences(environments, there, space, request.goal.cost(), uri)?;
        let levels = subject.levels(maker, &prepared.named)?;
        let (sequences, tried, is_interrupted) = search(&RunRequest {
            coreset: Some(Arc::new(coreset)),
            reference: Some(as_f64(levels.figures.oz)),
            ..run
        })?;
        let is_marked = prepared.named.uri != *uri;
        (subject.smallest(lake, maker, &levels, is_marked, &sequences)?, tried, is_interrupted)
    };
    Ok(Optimized { tried, is_interrupted, ..done })
}

/// All that a search needs.
struct SearchSetup {
    subject: InputProgram,
    maker: Maker,
    /// The program that the user has named: of a file of C or C++, without the marks of the aim.
    named: Benchmark,
    space: ActionSpace,
    /// The lake, if there is one already.
    lake: Option<Lake>,
}

impl SearchSetup {
    fn new(
        environments: &Environments,
        here: Box<dyn Environment>,
        lake: &Path,
        request: &OptimizeRequest,
        interrupt: Interrupt,
    ) -> Result<Self, Error> {
        let mut config = environments.worker_config();
        config.interrupt = interrupt.clone();
        let catalogue = Catalogue::of(here.as_ref(), &config)?;
        let named = catalogue.one_with(&request.program, &request.flags)?;
        let uri = aimed_at(request.goal.aim(), &named, &catalogue)?;
        let there = existing(lake)?;
        let identity = there.as_ref().map(Lake::identity);
        let of_lake = identity.filter(|identity| identity.environment == here.spec().name);
        let space = of_lake.map(|lake| lake.action_space.name.as_str());
        let space = action_space(here.spec(), space)?;
        let mut subject = InputProgram {
            environment: live(here, config),
            space: space.name.clone(),
            source: catalogue.source(&uri),
            benchmark: catalogue.load(&uri)?,
            goal: request.goal,
            interrupt,
        };
        let text = subject.ir()?;
        if let Some(how) = &request.how_run {
            subject.benchmark.execution = Some(how.execution(linker_of(&text))?);
        }
        let source = (named != uri).then(|| named.clone());
        let maker = Maker::new(request.goal, &subject.benchmark, text, source)?;
        Ok(Self { subject, maker, named: catalogue.load(&named)?, space, lake: there })
    }

    /// Returns the run that records the search, without what it knows.
    fn run(&self, request: &OptimizeRequest) -> RunRequest {
        let benchmark = &self.subject.benchmark;
        RunRequest {
            policy: PolicyName::CORESET,
            objective: Some(request.goal.cost().to_owned()),
            execution: benchmark.execution.clone(),
            episode_length: LENGTH_MAX,
            keyframes: Some(Keyframes(NonZeroU32::new(KEYFRAMES))),
            seed: request.seed,
            costed: request.goal.costed(),
            ..RunRequest::new([benchmark.uri.as_str()], Stop::Episodes(request.budget))
        }
    }

    /// Refuses an action space of which no sequences are known.
    fn demand_known(&self, run: &RunRequest, lake: &Path) -> Result<(), Error> {
        if !run.coreset.as_ref().is_some_and(|known| known.is_empty()) {
            return Ok(());
        }
        Err(Error::usage(format!(
            "the lake at {} has the actions of {}, of which no sequences are known: give another one",
            lake.display(),
            self.space.name
        ))
        .with(Remedy::Field("lake")))
    }
}

/// Returns an interrupt that comes when `interrupt` is set, until `over` is: from then on, it is
/// only said what goes on.
fn until(over: &Arc<AtomicBool>, interrupt: &Arc<AtomicBool>) -> Interrupt {
    let (over, interrupt) = (Arc::clone(over), Arc::clone(interrupt));
    let told = Once::new();
    Interrupt::new(move || {
        let is_set = interrupt.load(Ordering::Relaxed);
        let is_over = over.load(Ordering::Relaxed);
        if is_set && is_over {
            told.call_once(|| {
                tracing::warn!(
                    "interrupted: the best so far is checked and written; Ctrl-C again ends at once"
                );
            });
        }
        is_set && !is_over
    })
}

/// Says what to do about a program that is to be fast and cannot be run.
fn not_runnable(program: &str) -> Error {
    Error::usage(format!(
        "nobody says how {program} is run, so its run time cannot be measured, and it has to be \
         one file with a `main`"
    ))
    .with(Remedy::HowRun)
}
