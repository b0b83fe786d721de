//! Measurement of schedules: the kernels of recorded states, built, checked and timed.

use std::collections::BTreeSet;

use super::kernel::{BuiltKernel, KernelError, Timing, kernel_compilation};
use super::programs::groups;
use super::{ChosenProgram, MeasureError, MeasureOptions, MeasureProblem, MeasureSummary};
use crate::replay::rebuild::{RebuildError, Rebuilder};
use steplake_lake::{
    LakeError, MeasurementRow, MiscompilationRow, OnProgress, Rows, Snapshot, Writer, random_uid,
};
use steplake_loops::LoopsState;
use steplake_model::StateId;
use steplake_programs::execution::RunSettings;

/// The name of the space in the column `space`.
const SPACE: &str = "Runtime";

/// What makes kernels of schedules and runs them: a processor, or a GPU.
pub trait BackEnd {
    /// A kernel that is ready to run.
    type Kernel;

    /// The text for the column `compilation`, the same for all states.
    ///
    /// # Errors
    ///
    /// If nothing can be compiled here.
    fn compilation(&self) -> Result<String, MeasureError>;

    /// Makes the kernel of a state.
    ///
    /// # Errors
    ///
    /// If it has none here.
    fn build(&self, state: &LoopsState) -> Result<Self::Kernel, KernelError>;

    /// Runs a kernel on inputs of a seed, compares what it computes with the program, and returns
    /// the seconds of a run.
    ///
    /// # Errors
    ///
    /// [`KernelError::Wrong`] and [`KernelError::Unchecked`]; an error that
    /// [is the machine's](KernelError::machine) ends all measuring.
    fn time(&self, kernel: &Self::Kernel, seed: u64, warmups: u32) -> Result<f64, KernelError>;
}

/// This machine's processor. Each run is a process of its own.
#[derive(Debug)]
pub struct Processor(pub RunSettings);

impl BackEnd for Processor {
    type Kernel = BuiltKernel;

    fn compilation(&self) -> Result<String, MeasureError> {
        kernel_compilation(&self.0).map_err(MeasureError::Machine)
    }

    fn build(&self, state: &LoopsState) -> Result<BuiltKernel, KernelError> {
        BuiltKernel::build(state, &self.0)
    }

    fn time(&self, kernel: &BuiltKernel, seed: u64, warmups: u32) -> Result<f64, KernelError> {
        let threads = Timing::threads(&self.0);
        let samples = kernel.run(&Timing { seed, threads, warmups, samples: 1 })?;
        let sample = samples.first().copied();
        sample.ok_or_else(|| KernelError::Wrong("it shows no time".to_owned()))
    }
}

/// Where the kernels of recorded states come from.
#[derive(Debug)]
pub struct Kernels<'a, B> {
    /// The states.
    pub snapshot: &'a Snapshot,
    /// What provides their texts.
    pub rebuilder: &'a Rebuilder,
    /// What makes kernels of them.
    pub back_end: &'a B,
}

impl<B: BackEnd> Kernels<'_, B> {
    /// Makes the kernel of a recorded state, or says why it has none.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if the lake cannot be read, or no state can be rebuilt here.
    pub fn of(&self, id: StateId) -> Result<Result<B::Kernel, String>, MeasureError> {
        let text = match self.rebuilder.ir(self.snapshot, &[id]) {
            Ok(mut states) => states.pop().flatten(),
            Err(RebuildError::State(obstacle)) => return Ok(Err(obstacle.to_string())),
            Err(error) => return Err(error.into()),
        };
        let Some(text) = text else { return Ok(Err("its text is not stored".to_owned())) };
        match LoopsState::parse(&text).map(|state| self.back_end.build(&state)) {
            Ok(Ok(kernel)) => Ok(Ok(kernel)),
            Ok(Err(error)) => error.machine().map_or_else(|error| Ok(Err(error.to_string())), Err),
            Err(what) => Ok(Err(what)),
        }
    }
}

/// Looks into wrong results: returns the rows of `miscompilations` about problems.
pub type WrongResultHandler<'a> =
    dyn FnMut(&[MeasureProblem]) -> Result<Vec<MiscompilationRow>, MeasureError> + 'a;

/// Measures kernels of states, program by program, and appends a row for each state, and after the
/// rows of each group what `blame` says of wrong results. Each sample is taken on inputs that no
/// other sample has, and counts only if the elements that are looked at are right. States of one
/// program take turns. The kernels are of states in the writer's lake. Calls `progress` with the
/// times taken and those to take.
///
/// # Errors
///
/// [`MeasureError`]; [`LakeError::Interrupted`] at a break. Rows that were appended before stay. A
/// state without a kernel, or with a wrong one, is no error but a [`MeasureProblem`].
pub fn measure_kernels<B: BackEnd>(
    writer: &mut Writer,
    kernels: &Kernels<'_, B>,
    programs: &[ChosenProgram],
    options: &MeasureOptions,
    blame: &mut WrongResultHandler<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<MeasureSummary, MeasureError> {
    let compilation = kernels.back_end.compilation()?;
    let groups = programs.iter().flat_map(|program| {
        let groups = (0..).zip(groups(program.initial, &program.others));
        groups.map(move |(number, states)| (program, number, states))
    });
    let groups = groups.collect::<Vec<_>>();
    let turns = groups.iter().map(|(_, _, states)| states.len() as u64).sum::<u64>();
    let all = turns * u64::from(options.samples.get());
    let (mut measured, mut done) = (MeasureSummary::default(), 0);
    // So that no inputs come twice, whenever a state is measured again.
    let draw = random_uid()?;
    let mut with_rows = BTreeSet::new();
    for (program, number, states) in groups {
        let (built, problems) = (Vec::new(), Vec::new());
        let mut bench =
            KernelBench { program, number, draw: &draw, kernels, options, built, problems };
        for state in states {
            bench.build(state)?;
        }
        bench.take(&mut || {
            done += 1;
            if progress(done, all).is_break() {
                return Err(LakeError::Interrupted);
            }
            Ok(())
        })?;
        let rows = bench.rows(writer.lake().now_ms(), &compilation)?;
        measured.measurements += rows.len() as u64;
        with_rows.extend(rows.iter().map(|row| (row.benchmark.clone(), row.state)));
        writer.append(&Rows { measurements: rows, ..Rows::default() })?;
        let miscompilations = blame(&bench.problems)?;
        writer.append(&Rows { miscompilations, ..Rows::default() })?;
        measured.problems.append(&mut bench.problems);
    }
    let chosen = programs.iter().map(|program| 1 + program.others.len() as u64).sum::<u64>();
    measured.left_out = chosen.saturating_sub(with_rows.len() as u64);
    Ok(measured)
}

/// States of a program that are measured in turns.
struct KernelBench<'a, B: BackEnd> {
    program: &'a ChosenProgram,
    /// The number of the group among those of the program.
    number: u32,
    /// What the inputs' seeds are drawn from.
    draw: &'a str,
    kernels: &'a Kernels<'a, B>,
    options: &'a MeasureOptions,
    /// The kernels, each with its samples; those with a problem have none.
    built: Vec<(StateId, B::Kernel, Vec<f64>)>,
    problems: Vec<MeasureProblem>,
}

impl<B: BackEnd> KernelBench<'_, B> {
    fn problem(&mut self, state: StateId, what: impl Into<String>, is_wrong_result: bool) {
        let benchmark = self.program.benchmark.clone();
        self.problems.push(MeasureProblem { benchmark, state, what: what.into(), is_wrong_result });
    }

    fn build(&mut self, id: StateId) -> Result<(), MeasureError> {
        match self.kernels.of(id)? {
            Ok(kernel) => self.built.push((id, kernel, Vec::new())),
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
            for (state, kernel, samples) in &mut self.built {
                tick()?;
                let draw = format!("{} {state} {} {round}", self.draw, self.number);
                let seed = Timing::seed(&draw);
                match self.kernels.back_end.time(kernel, seed, self.options.warmups) {
                    Ok(sample) => samples.push(sample),
                    Err(error) => match error.machine() {
                        Ok(MeasureError::Device(what)) => {
                            let of = format!("{}, state {state}: {what}", self.program.benchmark);
                            return Err(MeasureError::Device(of));
                        }
                        Ok(machine) => return Err(machine),
                        Err(error) => wrong.push((*state, error)),
                    },
                }
            }
            for (state, error) in wrong {
                self.built.retain(|(known, ..)| *known != state);
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
        let row = |(state, _, samples): &(StateId, B::Kernel, Vec<f64>)| {
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
        self.built.iter().filter(|(_, _, samples)| samples.len() == count).map(row).collect()
    }
}
