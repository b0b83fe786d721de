//! Builds the states of programs, and runs them in turns.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use super::{
    CodeMaker, GROUP_STATES_MAX, MeasureError, MeasureOptions, MeasureProblem, MeasureSummary,
    MeasuredProgram, MeasuredSpace, compilation,
};
use steplake_lake::{LakeError, MeasurementRow, OnProgress, Rows, Snapshot, Writer, random_uid};
use steplake_model::StateId;
use steplake_programs::execution::{
    Executable, ExecutableCode, ExecutionError, Oracle, Untimed, tool_version,
};
use steplake_sandbox::Interrupt;

/// Measures programs, one after another, and appends a row for each state. `snapshot` is of the
/// writer's lake. Calls `progress` with the times taken and those to take.
///
/// # Errors
///
/// [`MeasureError`]; [`LakeError::Interrupted`] at a break. Rows that were appended before stay.
/// Whatever is wrong with a program or a state is no error but a [`MeasureProblem`].
pub fn measure(
    writer: &mut Writer,
    snapshot: &Snapshot,
    compiler: &mut CodeMaker,
    programs: &[MeasuredProgram],
    options: &MeasureOptions,
    progress: &mut OnProgress<'_>,
) -> Result<MeasureSummary, MeasureError> {
    let rounds = u64::from(options.warmups) + u64::from(options.samples.get());
    let groups = programs.iter().flat_map(|program| {
        let groups = groups(program.initial, &program.others).into_iter();
        groups.map(move |states| StateGroup { program, states })
    });
    let groups = groups.collect::<Vec<_>>();
    let all = groups.iter().map(|group| group.states.len() as u64 * rounds).sum();
    let mut measured = MeasureSummary::default();
    let mut with_rows = BTreeSet::new();
    let mut done = 0;
    for group in &groups {
        let begun = done;
        let mut tick = || {
            done += 1;
            progress(done.min(all), all)
        };
        let mut bench = GroupBench::new(group, options);
        if bench.build(snapshot, compiler)? {
            bench.take(&mut tick)?;
        }
        let rows = bench.rows(writer.lake().now_ms())?;
        measured.measurements += rows.len() as u64;
        with_rows.extend(rows.iter().map(|row| (row.benchmark.clone(), row.state)));
        bench.problems.retain(|problem| !measured.problems.contains(problem));
        measured.problems.append(&mut bench.problems);
        writer.append(&Rows { measurements: rows, ..Rows::default() })?;
        done = begun + group.states.len() as u64 * rounds;
    }
    let chosen = programs.iter().map(|program| 1 + program.others.len() as u64).sum::<u64>();
    measured.left_out = chosen.saturating_sub(with_rows.len() as u64);
    Ok(measured)
}

/// States of a program that are measured in turns, its first state before the others.
struct StateGroup<'a> {
    program: &'a MeasuredProgram,
    states: Vec<StateId>,
}

/// Deals the states of a program to groups that are measured in turns. Each has the first state, by
/// which the others are judged.
pub(super) fn groups(initial: StateId, others: &[StateId]) -> Vec<Vec<StateId>> {
    let with_initial =
        |others: &[StateId]| std::iter::once(initial).chain(others.iter().copied()).collect();
    if others.is_empty() {
        return vec![with_initial(&[])];
    }
    others.chunks(GROUP_STATES_MAX - 1).map(with_initial).collect()
}

/// A group that is being measured.
struct GroupBench<'a> {
    group: &'a StateGroup<'a>,
    options: &'a MeasureOptions,
    /// The text for the column `compilation`.
    compilation: String,
    /// What the program has to do; none before its first state is built, and if runs are not timed.
    oracle: Option<Oracle>,
    built: Vec<Built>,
    problems: Vec<MeasureProblem>,
}

/// An executable of a state, with its samples.
struct Built {
    state: StateId,
    code: Vec<u8>,
    executable: Executable,
    samples: Vec<f64>,
    is_out: bool,
}

impl<'a> GroupBench<'a> {
    fn new(group: &'a StateGroup<'a>, options: &'a MeasureOptions) -> Self {
        let (compilation, built, problems) = (String::new(), Vec::new(), Vec::new());
        Self { group, options, compilation, oracle: None, built, problems }
    }

    fn problem(&mut self, state: StateId, what: impl Into<String>, is_wrong_result: bool) {
        let benchmark = self.group.program.benchmark.clone();
        self.problems.push(MeasureProblem { benchmark, state, what: what.into(), is_wrong_result });
    }

    /// Builds the states. Returns whether the first one was built, and says what the others have to
    /// do: without it, nothing can be compared.
    fn build(
        &mut self,
        snapshot: &Snapshot,
        compiler: &mut CodeMaker,
    ) -> Result<bool, MeasureError> {
        let execution = &self.group.program.execution;
        match tool_version(&execution.build, &self.options.settings) {
            Ok(tool) => self.compilation = compilation(execution, compiler.generation(), &tool),
            Err(error) => {
                self.problem(self.group.program.initial, error.to_string(), false);
                return Ok(false);
            }
        }
        for &state in &self.group.states {
            let made = compiler.code(snapshot, state, execution)?;
            let built = made.and_then(|code| {
                let executable = self.executable(&code).map_err(|error| error.to_string())?;
                Ok((code, executable))
            });
            match built {
                Ok((code, executable)) => {
                    let (samples, is_out) = (Vec::new(), false);
                    self.built.push(Built { state, code, executable, samples, is_out });
                }
                Err(what) => self.problem(state, what, false),
            }
            if self.built.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Builds a state. The first one that is built says what the others have to do.
    fn executable(&mut self, code: &[u8]) -> Result<Executable, ExecutionError> {
        let MeasureOptions { space, settings, .. } = self.options;
        let MeasuredProgram { execution, .. } = self.group.program;
        if *space == MeasuredSpace::Buildtime {
            return Executable::build(
                execution,
                ExecutableCode::of(&execution.build, code),
                settings,
            );
        }
        if let Some(oracle) = &self.oracle {
            return oracle.build(code);
        }
        let oracle = Oracle::of(execution, code, settings, &Interrupt::default())?;
        let oracle = oracle.for_times()?.with_run_limit(settings.run_limit);
        self.oracle.insert(oracle).build(code)
    }

    /// Takes the times, in turns.
    fn take(&mut self, tick: &mut dyn FnMut() -> ControlFlow<()>) -> Result<(), MeasureError> {
        let warmups = u64::from(self.options.warmups);
        for round in 0..warmups + u64::from(self.options.samples.get()) {
            for turn in 0..self.built.len() {
                // Each round begins with another state, so that none always follows the same one.
                let begins = usize::try_from(round).unwrap_or(0) % self.built.len();
                let place = (begins + turn) % self.built.len();
                if tick().is_break() {
                    return Err(LakeError::Interrupted.into());
                }
                if self.built[place].is_out {
                    continue;
                }
                match self.time(place) {
                    Ok(time) if round >= warmups => {
                        self.built[place].samples.push(time.as_secs_f64());
                    }
                    Ok(_) => {}
                    Err(Untimed { what, is_wrong }) => {
                        self.built[place].is_out = true;
                        self.problem(self.built[place].state, what, is_wrong);
                        if place == 0 {
                            // Nothing can be compared with a first state that changes, and nothing
                            // that was compared with it is wrong.
                            self.built.clear();
                            self.problems.iter_mut().for_each(|one| one.is_wrong_result = false);
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes a time, or says why there is none.
    fn time(&self, place: usize) -> Result<Duration, Untimed> {
        let built = &self.built[place];
        let Some(oracle) = &self.oracle else {
            let execution = &self.group.program.execution;
            let code = ExecutableCode::of(&execution.build, &built.code);
            return Ok(Executable::build(execution, code, &self.options.settings)?.build_time());
        };
        if place > 0 {
            return oracle.time(&built.executable);
        }
        oracle.run(&built.executable).map_err(|error| match error {
            ExecutionError::Differs { what } => ExecutionError::Unsteady { what }.into(),
            other => other.into(),
        })
    }

    /// The rows of the states that have all their samples.
    fn rows(&self, measured_at_ms: i64) -> Result<Vec<MeasurementRow>, LakeError> {
        let count = self.options.samples.get() as usize;
        let whole = self.built.iter().filter(|built| !built.is_out && built.samples.len() == count);
        let row = |built: &Built| {
            Ok(MeasurementRow {
                uid: random_uid()?,
                state: built.state,
                benchmark: self.group.program.benchmark.clone(),
                space: self.options.space.as_str().to_owned(),
                machine: self.options.machine.clone(),
                compilation: self.compilation.clone(),
                warmups: self.options.warmups,
                measured_at_ms,
                samples: built.samples.clone(),
            })
        };
        whole.map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_the_first_state_and_the_others_are_in_one_each() {
        let state = |number| StateId([number; 20]);
        assert_eq!(groups(state(0), &[]), [[state(0)]]);
        let others = (1..=40).map(state).collect::<Vec<_>>();
        let groups = groups(state(0), &others);
        assert!(groups.iter().all(|group| group[0] == state(0) && group.len() <= GROUP_STATES_MAX));
        let dealt = groups.iter().flat_map(|group| &group[1..]).copied().collect::<Vec<_>>();
        assert_eq!(dealt, others);
    }
}
