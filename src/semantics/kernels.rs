//! Schedules whose kernels compute something else than their program.

use std::collections::BTreeSet;

use super::difference::Difference;
use super::draw::{DrawnState, draw_states};
use crate::lake::{DifferenceKind, LakeError, MiscompilationRow, Snapshot, random_uid};
use crate::measure::{BackEnd, KernelError, MeasureError, Problem, Timing, kernel};
use crate::model::{ActionIndex, BenchmarkUri, StateId};
use crate::replay::rebuild::Rebuilder;

/// What is expected of a kernel, in words.
const EXPECTED: &str = "what the program computes in 64-bit arithmetic, up to roundings";

/// Writes down what is wrong with kernels: for each problem that is a wrong result, the first wrong
/// kernel on a shortest recorded path to its state. A result that is right this time, and a program
/// whose first kernel is wrong, have no row. `initial` are the first states of programs.
///
/// # Errors
///
/// [`MeasureError`].
pub fn wrong_kernels<B: BackEnd>(
    snapshot: &Snapshot,
    rebuilder: &Rebuilder,
    back_end: &B,
    problems: &[Problem],
    initial: &[(BenchmarkUri, StateId)],
    found_at_ms: i64,
) -> Result<Vec<MiscompilationRow>, MeasureError> {
    let wrong = problems.iter().filter(|problem| problem.is_wrong_result);
    let wrong = wrong.map(|problem| (&problem.benchmark, problem.state)).collect::<BTreeSet<_>>();
    if wrong.is_empty() {
        return Ok(Vec::new());
    }
    let compilation = back_end.compilation()?;
    let mut known = BTreeSet::new();
    let mut rows = Vec::new();
    for DrawnState { program, state, path } in draw_states(snapshot, initial, usize::MAX, 0)? {
        let (benchmark, mut before) = (&initial[program].0, initial[program].1);
        if !wrong.contains(&(benchmark, state)) {
            continue;
        }
        let check = |id| said(snapshot, rebuilder, back_end, id);
        if check(before)?.is_some() {
            continue;
        }
        for (place, &(_, after)) in path.iter().enumerate() {
            if let Some(what) = check(after)? {
                if known.insert((benchmark, before, after)) {
                    let actions = path[..=place].iter().map(|(action, _)| *action).collect();
                    let row = wrong_kernel(benchmark, (before, after), actions, &what);
                    rows.push(MiscompilationRow {
                        compilation: compilation.clone(),
                        found_at_ms,
                        ..row?
                    });
                }
                break;
            }
            before = after;
        }
    }
    Ok(rows)
}

/// The row of a kernel that is wrong after the last of some actions, without how it was made and
/// when.
///
/// # Errors
///
/// If the system gives no random numbers.
pub fn wrong_kernel(
    benchmark: &BenchmarkUri,
    (state, next_state): (StateId, StateId),
    actions: Vec<ActionIndex>,
    what: &str,
) -> Result<MiscompilationRow, LakeError> {
    let difference = Difference::of_texts(DifferenceKind::Output, EXPECTED, what);
    Ok(MiscompilationRow {
        uid: random_uid()?,
        benchmark: benchmark.clone(),
        actions,
        state,
        next_state,
        kind: difference.kind,
        subject: None,
        expected: difference.expected,
        actual: difference.actual,
        minimised: false,
        compilation: String::new(),
        found_at_ms: 0,
    })
}

/// What is wrong with the result of a state's kernel; none if it is right, or there is none.
fn said<B: BackEnd>(
    snapshot: &Snapshot,
    rebuilder: &Rebuilder,
    back_end: &B,
    id: StateId,
) -> Result<Option<String>, MeasureError> {
    let Ok(kernel) = kernel(snapshot, rebuilder, back_end, id)? else { return Ok(None) };
    let seed = Timing::seed(&random_uid()?);
    match back_end.time(&kernel, seed, 0) {
        Err(KernelError::Wrong(what)) => Ok(Some(what)),
        Err(error) => error.machine().map_or(Ok(None), Err),
        Ok(_) => Ok(None),
    }
}
