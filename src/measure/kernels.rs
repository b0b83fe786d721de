//! Measurement of schedules: the kernels of recorded states, built, checked and timed here.

use std::collections::BTreeSet;

use super::kernel::{Kernel, KernelError, Timing, kernel_compilation};
use super::{Chosen, MeasureError, Measured, Options, Problem, groups};
use crate::env::loops::State;
use crate::execution::ExecutionError;
use crate::lake::{LakeError, MeasurementRow, OnProgress, Rows, Snapshot, Writer, random_uid};
use crate::model::StateId;
use crate::replay::rebuild::{RebuildError, Rebuilder};

/// The name of the space in the column `space`.
const SPACE: &str = "Runtime";

/// Measures kernels of states, program by program, and appends a row for each state. A sample is
/// taken by a process of its own, on inputs that no other sample has, and counts only if the
/// elements that are looked at are right. States of one program take turns. `snapshot` is of the
/// writer's lake. Calls `progress` with the times taken and those to take.
///
/// # Errors
///
/// [`MeasureError`]; [`LakeError::Interrupted`] at a break. Rows that were appended before stay. A
/// state without a kernel, or with a wrong one, is no error but a [`Problem`].
pub fn measure_kernels(
    writer: &mut Writer,
    snapshot: &Snapshot,
    rebuilder: &Rebuilder,
    programs: &[Chosen],
    options: &Options,
    progress: &mut OnProgress<'_>,
) -> Result<Measured, MeasureError> {
    let compilation = kernel_compilation(&options.settings).map_err(MeasureError::Machine)?;
    let groups = programs.iter().flat_map(|program| {
        let groups = (0..).zip(groups(program.initial, &program.others));
        groups.map(move |(number, states)| (program, number, states))
    });
    let groups = groups.collect::<Vec<_>>();
    let turns = groups.iter().map(|(_, _, states)| states.len() as u64).sum::<u64>();
    let all = turns * u64::from(options.samples.get());
    let (mut measured, mut done) = (Measured::default(), 0);
    // So that no inputs come twice, whenever a state is measured again.
    let draw = random_uid()?;
    let mut with_rows = BTreeSet::new();
    for (program, number, states) in groups {
        let (kernels, problems) = (Vec::new(), Vec::new());
        let mut bench = Bench { program, number, draw: &draw, options, kernels, problems };
        for state in states {
            bench.build(snapshot, rebuilder, state)?;
        }
        bench.take(&mut || {
            done += 1;
            if progress(done, all).is_break() {
                return Err(LakeError::Interrupted);
            }
            Ok(())
        })?;
        let rows = bench.rows(writer.lake().clock.now_ms(), &compilation)?;
        measured.measurements += rows.len() as u64;
        with_rows.extend(rows.iter().map(|row| (row.benchmark.clone(), row.state)));
        measured.problems.append(&mut bench.problems);
        writer.append(&Rows { measurements: rows, ..Rows::default() })?;
    }
    let chosen = programs.iter().map(|program| 1 + program.others.len() as u64).sum::<u64>();
    measured.left_out = chosen.saturating_sub(with_rows.len() as u64);
    Ok(measured)
}

/// States of a program that are measured in turns.
struct Bench<'a> {
    program: &'a Chosen,
    /// The number of the group among those of the program.
    number: u32,
    /// What the inputs' seeds are drawn from.
    draw: &'a str,
    options: &'a Options,
    /// The kernels, each with its samples; those with a problem have none.
    kernels: Vec<(StateId, Kernel, Vec<f64>)>,
    problems: Vec<Problem>,
}

impl Bench<'_> {
    fn problem(&mut self, state: StateId, what: impl Into<String>, is_wrong_result: bool) {
        let benchmark = self.program.benchmark.clone();
        self.problems.push(Problem { benchmark, state, what: what.into(), is_wrong_result });
    }

    fn build(
        &mut self,
        snapshot: &Snapshot,
        rebuilder: &Rebuilder,
        id: StateId,
    ) -> Result<(), MeasureError> {
        let text = match rebuilder.ir(snapshot, &[id]) {
            Ok(mut states) => states.pop().flatten(),
            Err(RebuildError::State(obstacle)) => {
                self.problem(id, obstacle.to_string(), false);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let state = text.ok_or_else(|| "its text is not stored".to_owned());
        let built = state.and_then(|text| State::parse(&text)).and_then(|state| {
            let built = Kernel::build(&state, &self.options.settings);
            built.map_err(|error| error.to_string())
        });
        match built {
            Ok(kernel) => self.kernels.push((id, kernel, Vec::new())),
            Err(what) => self.problem(id, what, false),
        }
        Ok(())
    }

    /// Takes the samples, in turns.
    fn take(
        &mut self,
        tick: &mut dyn FnMut() -> Result<(), LakeError>,
    ) -> Result<(), MeasureError> {
        let rounds = self.options.samples.get();
        for round in 0..rounds {
            let mut wrong = Vec::new();
            for (state, kernel, samples) in &mut self.kernels {
                tick()?;
                let timing = Timing {
                    seed: Timing::seed(&format!("{} {state} {} {round}", self.draw, self.number)),
                    threads: Timing::threads(&self.options.settings),
                    warmups: self.options.warmups,
                    samples: 1,
                };
                match kernel.run(&timing) {
                    Ok(found) => samples.extend(found),
                    Err(KernelError::Execution(ExecutionError::Machine(error))) => {
                        return Err(MeasureError::Machine(error.into()));
                    }
                    Err(error) => wrong.push((*state, error)),
                }
            }
            for (state, error) in wrong {
                self.kernels.retain(|(known, ..)| *known != state);
                self.problem(state, error.to_string(), matches!(error, KernelError::Wrong(_)));
            }
        }
        Ok(())
    }

    /// The rows of the states that have all their samples.
    fn rows(
        &self,
        measured_at_ms: i64,
        compilation: &str,
    ) -> Result<Vec<MeasurementRow>, LakeError> {
        let row = |(state, _, samples): &(StateId, Kernel, Vec<f64>)| {
            Ok(MeasurementRow {
                uid: random_uid()?,
                state: *state,
                benchmark: self.program.benchmark.clone(),
                space: SPACE.to_owned(),
                machine: self.options.machine.clone(),
                compilation: compilation.to_owned(),
                warmups: self.options.warmups,
                measured_at_ms,
                samples: samples.clone(),
            })
        };
        let count = self.options.samples.get() as usize;
        self.kernels.iter().filter(|(_, _, samples)| samples.len() == count).map(row).collect()
    }
}
