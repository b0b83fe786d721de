//! The part of a verification that builds and runs programs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use super::{VerifyObserver, VerifyProgress, text};
use crate::Error;
use crate::environments::catalogue::{Catalogue, inputs_folder};
use crate::environments::{Environments, environment_of_lake};
use crate::generate::ProgramProvider as _;
use crate::how_run::{HowRun, demand_own, is_own};
use crate::lake::progress::demand;
use crate::lake::{self, Lake, LakeError, Rows, Snapshot};
use crate::measure::CodeGeneration;
use crate::model::{BenchmarkUri, Execution, StateId};
use crate::replay::demand_same;
use crate::semantics::{
    CheckedProgram, DrawnState, Miscompilation, SemanticsReport, check_semantics, draw_states,
};

/// A program of the lake that can be run.
struct Runnable {
    benchmark: BenchmarkUri,
    execution: Execution,
    initial: StateId,
}

/// What to run, besides the snapshot.
#[derive(Debug, Clone, Copy)]
pub(super) struct SemanticsRequest<'a> {
    /// How many states.
    pub(super) count: usize,
    /// Fixes which ones.
    pub(super) seed: i64,
    /// Whether the snapshot is an older one, which does not change.
    pub(super) is_older: bool,
    /// The number of concurrent sessions.
    pub(super) jobs: usize,
    /// How programs of the user's own are run, if that is said.
    pub(super) how_run: Option<&'a HowRun>,
}

/// What was run.
#[derive(Debug)]
pub(super) struct SemanticsRun {
    /// The report, if there was anything to run.
    pub(super) report: Option<SemanticsReport>,
    /// What to say.
    pub(super) text: String,
    /// Why it ended early, if it did.
    pub(super) ended: Result<(), Error>,
}

/// Builds and runs drawn states, and writes down the miscompilations, also if something ends that
/// early.
pub(super) fn run_some(
    environments: &Environments,
    lake: &Lake,
    snapshot: &Snapshot,
    wanted: SemanticsRequest<'_>,
    observer: &dyn VerifyObserver,
) -> Result<SemanticsRun, Error> {
    let identity = snapshot.identity();
    let environment = environment_of_lake(identity)?;
    demand_same(environment.as_ref(), identity)?;
    let catalogue = Catalogue::of(environment.as_ref(), &environments.worker_config())?;
    let workers = environments.workers(environment.as_ref(), snapshot.runs());
    let told = |uri: &BenchmarkUri, initial| {
        let how = wanted.how_run.filter(|_| is_own(uri))?;
        Some(how.execution_in(workers.as_ref(), snapshot, &catalogue, (uri, initial)))
    };
    let (runnable, mut left_out) = runnable(snapshot, &catalogue, &told)?;
    demand_own(wanted.how_run, runnable.iter().map(|it| &it.benchmark))?;
    let firsts: Vec<_> = runnable.iter().map(|it| (it.benchmark.clone(), it.initial)).collect();
    let mut drawn = draw_states(snapshot, &firsts, wanted.count, wanted.seed)?;
    let subjects = subjects(snapshot, &catalogue, &runnable, &mut drawn, &mut left_out)?;
    if drawn.is_empty() {
        return Ok(SemanticsRun {
            report: None,
            text: left_out + text::NOTHING_TO_RUN,
            ended: Ok(()),
        });
    }
    let mut progress = |done, all| observer.progress(VerifyProgress::Run { done, all });
    demand(progress(0, drawn.len() as u64))?;
    let space = &identity.action_space;
    let (workers, jobs) = (workers.as_ref(), wanted.jobs);
    let (report, ended) =
        check_semantics(workers, &space.name, &subjects, &drawn, jobs, &mut progress);
    let noted = if report.findings.is_empty() {
        Ok(0)
    } else if wanted.is_older {
        Err("an older snapshot does not change".to_owned())
    } else {
        let generation = CodeGeneration::usual(environment.spec());
        let noted = note_findings(lake, &subjects, &report.findings, generation);
        noted.map_err(|error| observer.worded(&error.into()))
    };
    let text = left_out + &text::semantics(&report, &subjects, space, noted);
    Ok(SemanticsRun { report: Some(report), text, ended: ended.map_err(Error::from) })
}

/// Says how a program with this first state is run, if the user does.
type Tells<'a> = dyn Fn(&BenchmarkUri, StateId) -> Option<Result<Execution, Error>> + 'a;

/// The programs of the lake that can be run, then a line for each of which it cannot be said how.
fn runnable(
    snapshot: &Snapshot,
    catalogue: &Catalogue,
    told: &Tells<'_>,
) -> Result<(Vec<Runnable>, String), Error> {
    let (mut found, mut left_out) = (BTreeMap::new(), String::new());
    for row in snapshot.benchmarks() {
        let lake::RecordedBenchmark { uri, execution, known } = row?;
        let (Ok(benchmark), Some(initial)) = (uri.parse::<BenchmarkUri>(), known.initial_state)
        else {
            continue;
        };
        let known = || catalogue.execution(&benchmark, execution.as_deref());
        let execution = match told(&benchmark, initial)
            .transpose()?
            .map_or_else(known, |told| Ok(Some(told)))
        {
            Ok(execution) => execution,
            Err(what) => {
                writeln!(left_out, "{uri}: {what}").expect("a string takes it");
                continue;
            }
        };
        if let Some(execution) = execution.filter(|execution| execution.run.is_some()) {
            found.insert(uri, Runnable { benchmark, execution, initial });
        }
    }
    Ok((found.into_values().collect(), left_out))
}

/// The programs of drawn states, with what is needed to start them. Gives the states their new
/// places. Adds a line to `left_out` for each program that is not at hand, and drops its states.
fn subjects(
    snapshot: &Snapshot,
    catalogue: &Catalogue,
    runnable: &[Runnable],
    drawn: &mut Vec<DrawnState>,
    left_out: &mut String,
) -> Result<Vec<CheckedProgram>, Error> {
    let mut subjects = Vec::new();
    let mut places = BTreeMap::new();
    for place in drawn.iter().map(|drawn| drawn.program).collect::<BTreeSet<_>>() {
        let Runnable { benchmark, execution, initial } = &runnable[place];
        if !execution.inputs.is_empty() {
            // Its dataset puts them into the cache. Without them the program is left out.
            catalogue.load(benchmark).ok();
        }
        let program: Arc<[u8]> = match snapshot.ir(&[*initial])?.pop().flatten() {
            Some(program) => program.into(),
            None => match catalogue.load(benchmark) {
                Ok(loaded) => loaded.program,
                Err(error) => {
                    writeln!(left_out, "{benchmark}: {error}").expect("a string takes it");
                    continue;
                }
            },
        };
        places.insert(place, subjects.len());
        subjects.push(CheckedProgram {
            benchmark: benchmark.clone(),
            execution: execution.clone(),
            initial: *initial,
            program,
            source: catalogue.source(benchmark),
            inputs: inputs_folder(),
        });
    }
    drawn.retain(|drawn| places.contains_key(&drawn.program));
    for drawn in drawn {
        drawn.program = places[&drawn.program];
    }
    Ok(subjects)
}

/// Appends a row for each finding that the table does not have yet, and returns their number.
pub(crate) fn note_findings(
    lake: &Lake,
    subjects: &[CheckedProgram],
    findings: &[Miscompilation],
    generation: CodeGeneration,
) -> Result<usize, LakeError> {
    let mut writer = lake.writer()?;
    let mut known = HashSet::new();
    for row in lake.snapshot()?.miscompilations() {
        let row = row?;
        known.insert((row.benchmark, row.state, row.next_state));
    }
    let now = writer.lake().now_ms();
    let is_new = |finding: &&Miscompilation| {
        let benchmark = subjects[finding.subject].benchmark.clone();
        !known.contains(&(benchmark, finding.state, finding.next_state))
    };
    let rows = findings.iter().filter(is_new);
    let rows = rows.map(|finding| finding.row(&subjects[finding.subject], generation, now));
    let miscompilations = rows.collect::<Result<Vec<_>, _>>()?;
    let count = miscompilations.len();
    if count > 0 {
        writer.append(&Rows { miscompilations, ..Rows::default() })?;
        writer.seal()?;
    }
    Ok(count)
}
