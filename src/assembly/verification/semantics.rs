//! The part of a verification that builds and runs programs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _};

use super::text::{self, Noted};
use crate::assembly::catalogue::{Catalogue, inputs_folder};
use crate::assembly::command_error::CommandError;
use crate::assembly::environments::{environment_of_lake, worker_config, workers};
use crate::assembly::how_run::{HowRun, demand_own, is_own};
use crate::generate::Programs as _;
use crate::lake::decode::{States, benchmark_uris, state_ids};
use crate::lake::progress::demand;
use crate::lake::{Lake, LakeError, OnProgress, Rows, ScanColumns, Snapshot, Table};
use crate::model::{BenchmarkUri, Execution, StateId};
use crate::replay::demand_same;
use crate::semantics::{
    DrawnState, Finding, SemanticsReport, Subject, check_semantics, draw_states,
};

/// A program of the lake that can be run.
struct Runnable {
    benchmark: BenchmarkUri,
    execution: Execution,
    initial: StateId,
}

/// What to run, besides the snapshot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
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
pub(super) struct Ran {
    /// The report, if there was anything to run.
    pub(super) report: Option<SemanticsReport>,
    /// What to say.
    pub(super) text: String,
    /// Why it ended early, if it did.
    pub(super) ended: Result<(), CommandError>,
}

/// Builds and runs drawn states, and writes down the miscompilations, also if something ends that
/// early.
pub(super) fn run_some(
    lake: &Lake,
    snapshot: &Snapshot,
    wanted: Wanted<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<Ran, CommandError> {
    let identity = snapshot.identity();
    let environment = environment_of_lake(identity)?;
    demand_same(environment.as_ref(), identity)?;
    let catalogue = Catalogue::of(environment.as_ref(), &worker_config())?;
    let workers = workers(environment.as_ref(), snapshot.runs());
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
        return Ok(Ran { report: None, text: left_out + text::NOTHING_TO_RUN, ended: Ok(()) });
    }
    demand(progress(0, drawn.len() as u64))?;
    let space = &identity.action_space;
    let (report, ended) =
        check_semantics(workers.as_ref(), &space.name, &subjects, &drawn, wanted.jobs, progress);
    let noted = if report.findings.is_empty() {
        Noted::Rows(0)
    } else if wanted.is_older {
        Noted::Not("an older snapshot does not change".to_owned())
    } else {
        match note_findings(lake, &subjects, &report.findings) {
            Ok(rows) => Noted::Rows(rows),
            Err(error) => Noted::Not(CommandError::from(error).to_string()),
        }
    };
    let text = left_out + &text::semantics(&report, &subjects, space, &noted);
    Ok(Ran { report: Some(report), text, ended: ended.map_err(CommandError::from) })
}

/// Says how a program with this first state is run, if the user does.
type Tells<'a> = dyn Fn(&BenchmarkUri, StateId) -> Option<Result<Execution, CommandError>> + 'a;

/// The programs of the lake that can be run, then a line for each of which it cannot be said how.
fn runnable(
    snapshot: &Snapshot,
    catalogue: &Catalogue,
    told: &Tells<'_>,
) -> Result<(Vec<Runnable>, String), CommandError> {
    let (mut found, mut left_out) = (BTreeMap::new(), String::new());
    let columns = ["benchmark_uri", "initial_state_id", "execution"];
    for batch in snapshot.scan(Table::Benchmarks, ScanColumns::Named(&columns)) {
        let batch = batch?;
        let (states, texts) = (States::of(&batch, "initial_state_id"), &batch["execution"]);
        let texts = texts.as_string::<i32>();
        for (row, uri) in benchmark_uris(&batch).enumerate() {
            let (Some(benchmark), Some(initial)) =
                (uri.parse::<BenchmarkUri>().ok(), states.get(row))
            else {
                continue;
            };
            let text = texts.is_valid(row).then(|| texts.value(row));
            let known = || catalogue.execution(&benchmark, text);
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
                found.insert(uri.to_owned(), Runnable { benchmark, execution, initial });
            }
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
) -> Result<Vec<Subject>, CommandError> {
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
        subjects.push(Subject {
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
pub(in crate::assembly) fn note_findings(
    lake: &Lake,
    subjects: &[Subject],
    findings: &[Finding],
) -> Result<usize, LakeError> {
    let mut writer = lake.writer()?;
    let mut known = HashSet::new();
    let columns = ["benchmark_uri", "state_id", "next_state_id"];
    let snapshot = lake.snapshot()?;
    for batch in snapshot.scan(Table::Miscompilations, ScanColumns::Named(&columns)) {
        let batch = batch?;
        let states = state_ids(&batch, "state_id").zip(state_ids(&batch, "next_state_id"));
        known.extend(benchmark_uris(&batch).map(str::to_owned).zip(states));
    }
    drop(snapshot);
    let now = writer.lake().clock.now_ms();
    let is_new = |finding: &&Finding| {
        let uri = subjects[finding.subject].benchmark.as_str().to_owned();
        !known.contains(&(uri, (Some(finding.state), Some(finding.next_state))))
    };
    let rows = findings.iter().filter(is_new);
    let rows = rows.map(|finding| finding.row(&subjects[finding.subject], now));
    let miscompilations = rows.collect::<Result<Vec<_>, _>>()?;
    let count = miscompilations.len();
    if count > 0 {
        writer.append(&Rows { miscompilations, ..Rows::default() })?;
        writer.seal()?;
    }
    Ok(count)
}
