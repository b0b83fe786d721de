//! Measurement: the programs of recorded states, built and run on this machine.
//!
//! A state is rebuilt where its IR is not stored. The environment's compiler makes machine code of
//! it, which is built and run as the [`Execution`] of its benchmark says. States of one program are
//! measured in turns, so that a machine that becomes slower or faster meanwhile changes all of
//! their samples alike, and the first state of the program is always among them.
//!
//! A run counts only if the program does what it does in its first state, as an
//! [`Oracle`](steplake_programs::execution::Oracle) says: a time of a wrong result is no time. Such
//! states are [`MeasureProblem`]s and get no row. A program without an oracle is left out.
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
mod compilation;
mod error;
mod kernel;
mod kernels;
mod machine;
mod programs;
mod times;
mod turns;

use std::num::NonZeroU32;

pub use self::choice::{ChosenProgram, StateChoice, choose};
pub use self::code::CodeMaker;
pub use self::compilation::{CodeGeneration, compilation};
pub use self::error::{MeasureError, nothing_to_run};
pub use self::kernel::{BuiltKernel, KernelError, Timing, kernel_compilation};
pub use self::kernels::{BackEnd, Kernels, Processor, WrongResultHandler, measure_kernels};
pub use self::machine::machine;
pub use self::programs::measure;
pub use self::times::{measured_times, median};
pub use self::turns::{Contest, NoTimes, rounds_within};
use steplake_model::{BenchmarkUri, Execution, StateId};
use steplake_programs::execution::RunSettings;

/// The most states that are measured in turns. Their executables are on disk at once.
pub const GROUP_STATES_MAX: usize = 16;

steplake_model::named! {
    /// What is measured.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum MeasuredSpace {
        /// The wall time of a run of the program.
        Runtime = "Runtime",
        /// The wall time of the build: linking, or the build command.
        Buildtime = "Buildtime",
    }

    /// Its name in the column `space`.
    fn as_str;
}

/// How to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasureOptions {
    /// What is measured.
    pub space: MeasuredSpace,
    /// The number of samples of each state.
    pub samples: NonZeroU32,
    /// The number of times that are taken before them, and left out.
    pub warmups: u32,
    /// The limits of builds and runs, and the core on which programs run.
    pub settings: RunSettings,
    /// The text for the column `machine`: see [`machine`].
    pub machine: String,
}

/// A program to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredProgram {
    /// Its name.
    pub benchmark: BenchmarkUri,
    /// How it is built and run.
    pub execution: Execution,
    /// Its first state.
    pub initial: StateId,
    /// Other states of it.
    pub others: Vec<StateId>,
}

/// Why a state, or a whole program, has no measurement; or what limits what its times say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasureProblem {
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
pub struct MeasureSummary {
    /// Rows appended.
    pub measurements: u64,
    /// States that were to be measured and have no row.
    pub left_out: u64,
    /// What could not be measured, or is to be known of what was.
    pub problems: Vec<MeasureProblem>,
}
