//! Schedules whose kernels compute something else than their program.

use std::collections::{HashMap, HashSet};

use super::draw::{DrawnState, paths_to};
use crate::measure::{BackEnd, KernelError, Kernels, MeasureError, MeasureProblem, Timing};
use steplake_lake::{LakeError, MiscompilationRow, random_uid};
use steplake_model::{ActionIndex, BenchmarkUri, DifferenceKind, StateId};
use steplake_programs::execution::Difference;

/// What is expected of a kernel, in words.
const EXPECTED: &str = "what the program computes in 64-bit arithmetic, up to roundings";

/// What is known of a state's kernel.
#[derive(Debug, Clone)]
enum KernelVerdict {
    Right,
    Wrong(String),
    /// It has no kernel, or nothing can be said of its result.
    Unknown,
}

/// Writes down what is wrong with kernels: for each problem that is a wrong result, the first wrong
/// kernel on a shortest recorded path to its state, if that of the state before is right. There is
/// no row for a result that is right this time. `initial` are the first states of programs.
///
/// # Errors
///
/// [`MeasureError`].
pub fn wrong_kernels<B: BackEnd>(
    kernels: &Kernels<'_, B>,
    problems: &[MeasureProblem],
    initial: &[(BenchmarkUri, StateId)],
    found_at_ms: i64,
) -> Result<Vec<MiscompilationRow>, MeasureError> {
    let wrong = problems.iter().filter(|problem| problem.is_wrong_result);
    let wrong = wrong.map(|problem| problem.state).collect::<HashSet<_>>();
    if wrong.is_empty() {
        return Ok(Vec::new());
    }
    let compilation = kernels.back_end.compilation()?;
    let mut known = HashMap::new();
    let mut verdict = |id: StateId| {
        if let Some(verdict) = known.get(&id) {
            return Ok(KernelVerdict::clone(verdict));
        }
        let found = judge(kernels, id)?;
        known.insert(id, found.clone());
        Ok::<_, MeasureError>(found)
    };
    let mut rows: Vec<MiscompilationRow> = Vec::new();
    for DrawnState { program, path, .. } in paths_to(kernels.snapshot, initial, &wrong)? {
        let (benchmark, mut before) = (&initial[program].0, initial[program].1);
        for (place, &(_, after)) in path.iter().enumerate() {
            if let KernelVerdict::Wrong(what) = verdict(after)? {
                let is_known =
                    rows.iter().any(|row| (row.state, row.next_state) == (before, after));
                if !is_known && matches!(verdict(before)?, KernelVerdict::Right) {
                    let actions = path[..=place].iter().map(|(action, _)| *action).collect();
                    let row = wrong_kernel(benchmark, (before, after), actions, &what)?;
                    let compilation = compilation.clone();
                    rows.push(MiscompilationRow { compilation, found_at_ms, ..row });
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

/// Runs the kernel of a state once.
fn judge<B: BackEnd>(kernels: &Kernels<'_, B>, id: StateId) -> Result<KernelVerdict, MeasureError> {
    let Ok(kernel) = kernels.of(id)? else {
        return Ok(KernelVerdict::Unknown);
    };
    let seed = Timing::seed(&random_uid()?);
    match kernels.back_end.time(&kernel, seed, 0) {
        Ok(_) => Ok(KernelVerdict::Right),
        Err(KernelError::Wrong(what)) => Ok(KernelVerdict::Wrong(what)),
        Err(error) => error.machine().map_or(Ok(KernelVerdict::Unknown), Err),
    }
}
