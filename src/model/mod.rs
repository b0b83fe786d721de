//! The project's vocabulary as types. Nothing here reads, writes or serialises.
//!
//! | word | type |
//! |---|---|
//! | benchmark | [`Benchmark`], named by a [`BenchmarkUri`], run as its [`Execution`] says |
//! | action, action space | [`ActionSpec`] at an [`ActionIndex`] of an [`ActionSpace`] |
//! | state | [`StateId`] |
//! | step | [`Step`], with its [`Outcome`] |
//! | episode, run | [`EpisodeId`], [`RunId`], [`EpisodeOutcome`] |
//! | observation, reward | [`ObservationSpace`] and [`Value`], [`RewardSpace`] |
//! | what belongs to the machine | [`MachineSpace`] |
//! | program graph | [`ProgramGraph`], sent and stored as [`Lists`] |
//! | environment | [`EnvironmentSpec`], with the [`Name`]s of its spaces |
//! | problem of a decoder | [`plain_problem`] |

mod action;
mod benchmark;
mod dice;
mod environment;
mod episode;
mod execution;
mod file_uri;
mod ids;
mod lists;
mod machine_space;
mod observation;
mod plain;
mod program_graph;
mod reward;
mod step;
mod value_type;

pub use action::{ActionFlags, ActionIndex, ActionSpace, ActionSpec, opt_command, split_option};
pub(crate) use benchmark::base;
pub use benchmark::{Benchmark, BenchmarkUri, BenchmarkUriError, Provenance};
pub(crate) use dice::Dice;
pub use environment::EnvironmentSpec;
pub use episode::EpisodeOutcome;
pub use execution::{BadExecution, Build, EXECUTABLE, Execution, Input, Linker, ShellCommand};
pub(crate) use file_uri::{decoded, encoded, file_uri, split_flags};
pub use ids::{EpisodeId, Name, ParseStateIdError, RunId, StateId};
pub use lists::{List, Lists, Texts};
pub use machine_space::MachineSpace;
pub use observation::{ObservationIndex, ObservationSpace, Value};
pub use plain::plain_problem;
pub use program_graph::ProgramGraph;
pub(crate) use reward::as_f64;
pub use reward::{Baselines, RewardSpace, RewardTracker, Rewards, Scale};
pub use step::{Failure, FailureKind, Outcome, Step};
pub use value_type::{ItemType, ValueType};
