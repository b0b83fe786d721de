//! Measurement: the programs of recorded states, built and run on this machine.
//!
//! A state is rebuilt where its IR is not stored. The environment's compiler makes machine code of
//! it, which is built and run as the [`Execution`] of its benchmark says. States of one program are
//! measured in turns, so that a machine that becomes slower or faster meanwhile changes all of
//! their samples alike, and the first state of the program is always among them.
//!
//! A run counts only if the program behaves as in its first state: a time of a wrong result is no
//! time. Such states are [`Problem`]s and get no row. A program is left out that does not do the
//! same in two builds of its first state, which lie in two folders and run in different seconds.
//!
//! Schedules of `loops-v0` are no programs that run by themselves: a [`BackEnd`] builds, checks and
//! times their kernels, and [`measure_kernels`] records that.
//!
//! # What is durable when
//!
//! A group of at most [`GROUP_STATES_MAX`] states of one program is appended when its last sample
//! has been taken. What was appended stays if the work is stopped or killed later. Each row has a
//! random name, so that a measurement that is repeated adds samples and replaces none.

mod choice;
mod code;
mod error;
mod kernel;
mod kernels;
mod machine;
mod runs;
mod times;
mod turns;

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Duration;

pub use self::choice::{Chosen, States, choose};
pub use self::code::Compiler;
pub use self::error::{MeasureError, nothing_to_run};
pub use self::kernel::{Kernel, KernelError, Timing, kernel_compilation};
pub use self::kernels::{BackEnd, Blame, Kernels, Processor, measure_kernels};
pub use self::machine::machine;
pub use self::runs::{CodeGeneration, Untimed, build, compilation, expected, time};
use self::runs::{not_the_same, time_once};
pub use self::times::{measured_times, median};
pub use self::turns::{Contest, ContestError, NoTimes, rounds_within};
use crate::execution::{Behaviour, Executable, Settings, tool_version};
use crate::lake::{LakeError, MeasurementRow, OnProgress, Rows, Snapshot, Writer, random_uid};
use crate::model::{BenchmarkUri, Execution, StateId};

/// The most states that are measured in turns. Their executables are on disk at once.
pub const GROUP_STATES_MAX: usize = 16;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// The wall time of a run of the program.
    Runtime,
    /// The wall time of the build: linking, or the build command.
    Buildtime,
}

impl Space {
    /// All spaces.
    pub const ALL: [Self; 2] = [Self::Runtime, Self::Buildtime];

    /// Its name in the column `space`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Runtime => "Runtime",
            Self::Buildtime => "Buildtime",
        }
    }
}

/// How to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What is measured.
    pub space: Space,
    /// The number of samples of each state.
    pub samples: NonZeroU32,
    /// The number of times that are taken before them, and left out.
    pub warmups: u32,
    /// The limits of builds and runs, and the core on which programs run.
    pub settings: Settings,
    /// The text for the column `machine`: see [`machine`].
    pub machine: String,
}

/// A program to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub benchmark: BenchmarkUri,
    /// How it is built and run.
    pub execution: Execution,
    /// Its first state.
    pub initial: StateId,
    /// Other states of it.
    pub others: Vec<StateId>,
}

/// Why a state, or a whole program, has no measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The program.
    pub benchmark: BenchmarkUri,
    /// The state.
    pub state: StateId,
    /// What was wrong, one line.
    pub what: String,
    /// Whether the program behaves otherwise than in its first state.
    pub is_wrong_result: bool,
}

/// The result of measuring.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// Rows appended.
    pub measurements: u64,
    /// States that were to be measured and have no row.
    pub left_out: u64,
    /// What could not be measured.
    pub problems: Vec<Problem>,
}

/// Measures programs, one after another, and appends a row for each state. `snapshot` is of the
/// writer's lake. Calls `progress` with the times taken and those to take.
///
/// # Errors
///
/// [`MeasureError`]; [`LakeError::Interrupted`] at a break. Rows that were appended before stay.
/// Whatever is wrong with a program or a state is no error but a [`Problem`].
pub fn measure(
    writer: &mut Writer,
    snapshot: &Snapshot,
    compiler: &mut Compiler,
    programs: &[Program],
    options: &Options,
    progress: &mut OnProgress<'_>,
) -> Result<Measured, MeasureError> {
    let rounds = u64::from(options.warmups) + u64::from(options.samples.get());
    let groups = programs.iter().flat_map(|program| {
        let groups = groups(program.initial, &program.others).into_iter();
        groups.map(move |states| Group { program, states })
    });
    let groups = groups.collect::<Vec<_>>();
    let all = groups.iter().map(|group| group.states.len() as u64 * rounds).sum();
    let mut measured = Measured::default();
    let mut with_rows = BTreeSet::new();
    let mut done = 0;
    for group in &groups {
        let begun = done;
        let mut tick = || {
            done += 1;
            progress(done.min(all), all)
        };
        let mut bench = Bench::new(group, options);
        if bench.build(snapshot, compiler)? {
            bench.take(&mut tick)?;
        }
        let rows = bench.rows(writer.lake().clock.now_ms())?;
        measured.measurements += rows.len() as u64;
        with_rows.extend(rows.iter().map(|row| (row.benchmark.clone(), row.state)));
        measured.problems.append(&mut bench.problems);
        writer.append(&Rows { measurements: rows, ..Rows::default() })?;
        done = begun + group.states.len() as u64 * rounds;
    }
    let chosen = programs.iter().map(|program| 1 + program.others.len() as u64).sum::<u64>();
    measured.left_out = chosen.saturating_sub(with_rows.len() as u64);
    Ok(measured)
}

/// States of a program that are measured in turns, its first state before the others.
struct Group<'a> {
    program: &'a Program,
    states: Vec<StateId>,
}

/// Deals the states of a program to groups that are measured in turns. Each has the first state, by
/// which the others are judged.
fn groups(initial: StateId, others: &[StateId]) -> Vec<Vec<StateId>> {
    let with_initial =
        |others: &[StateId]| std::iter::once(initial).chain(others.iter().copied()).collect();
    if others.is_empty() {
        return vec![with_initial(&[])];
    }
    others.chunks(GROUP_STATES_MAX - 1).map(with_initial).collect()
}

/// A group that is being measured.
struct Bench<'a> {
    group: &'a Group<'a>,
    options: &'a Options,
    /// The text for the column `compilation`.
    compilation: String,
    built: Vec<Built>,
    problems: Vec<Problem>,
}

/// An executable of a state, with its samples.
struct Built {
    state: StateId,
    code: Vec<u8>,
    executable: Executable,
    samples: Vec<f64>,
    is_out: bool,
}

impl<'a> Bench<'a> {
    fn new(group: &'a Group<'a>, options: &'a Options) -> Self {
        let (compilation, built, problems) = (String::new(), Vec::new(), Vec::new());
        Self { group, options, compilation, built, problems }
    }

    fn problem(&mut self, state: StateId, what: impl Into<String>, is_wrong_result: bool) {
        let benchmark = self.group.program.benchmark.clone();
        self.problems.push(Problem { benchmark, state, what: what.into(), is_wrong_result });
    }

    /// Builds the states. Returns whether the first one was built: without it, nothing can be
    /// compared.
    fn build(
        &mut self,
        snapshot: &Snapshot,
        compiler: &mut Compiler,
    ) -> Result<bool, MeasureError> {
        let execution = &self.group.program.execution;
        match tool_version(&execution.build, &self.options.settings) {
            Ok(tool) => self.compilation = compilation(execution, CodeGeneration::O0, &tool),
            Err(error) => {
                self.problem(self.group.program.initial, error.to_string(), false);
                return Ok(false);
            }
        }
        for &state in &self.group.states {
            let made = compiler.code(snapshot, state, execution)?;
            let built = made.and_then(|code| {
                let executable = build(execution, &code, &self.options.settings);
                Ok((code, executable.map_err(|error| error.to_string())?))
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

    /// Takes the times, in turns.
    fn take(&mut self, tick: &mut dyn FnMut() -> ControlFlow<()>) -> Result<(), MeasureError> {
        let ControlFlow::Continue(expected) = self.expected() else { return Ok(()) };
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
                match self.time(place, expected.as_ref()) {
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

    /// What the program does in its first state; none if that is not to be compared. A break if it
    /// does not run there.
    fn expected(&mut self) -> ControlFlow<(), Option<Behaviour>> {
        if self.options.space == Space::Buildtime {
            return ControlFlow::Continue(None);
        }
        let (first, execution) = (&self.built[0], &self.group.program.execution);
        match expected(execution, &first.code, &self.options.settings, &first.executable) {
            Ok(behaviour) => ControlFlow::Continue(Some(behaviour)),
            Err(what) => {
                self.problem(self.built[0].state, what, false);
                self.built.clear();
                ControlFlow::Break(())
            }
        }
    }

    /// Takes a time, or says why there is none.
    fn time(&self, place: usize, expected: Option<&Behaviour>) -> Result<Duration, Untimed> {
        let built = &self.built[place];
        let Some(expected) = expected else {
            let again = build(&self.group.program.execution, &built.code, &self.options.settings);
            return Ok(again?.build_time());
        };
        if place > 0 {
            return time(&built.executable, expected);
        }
        time_once(&built.executable, expected)?
            .map_err(|what| Untimed { what: not_the_same(&what), is_wrong: false })
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
