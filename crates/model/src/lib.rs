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
//! | error of a request | [`Error`], with its [`ErrorKind`]; errors of crates are [`Classified`] |
//! | suggestions for misspelt names | [`suggestions`] |

#![forbid(unsafe_code)]

mod action;
mod benchmark;
mod dice;
mod difference;
mod environment;
mod episode;
mod error;
mod execution;
pub mod file_uri;
mod ids;
mod lists;
mod machine_space;
mod named;
mod observation;
mod plain;
mod program_graph;
mod reward;
mod step;
pub mod suggestions;
mod value_type;

pub use action::{ActionFlags, ActionIndex, ActionSpace, ActionSpec, opt_command, split_option};
pub use benchmark::base;
pub use benchmark::{Benchmark, BenchmarkUri, BenchmarkUriError, Provenance};
pub use dice::Dice;
pub use difference::{DifferenceKind, Excerpt};
pub use environment::EnvironmentSpec;
pub use episode::EpisodeOutcome;
pub use error::{Classified, Error, ErrorKind, Remedy, line};
pub use execution::{BadExecution, Build, EXECUTABLE, Execution, Input, Linker, ShellCommand};
pub use file_uri::{decoded, encoded, file_uri, split_flags};
pub use ids::{EpisodeId, Name, ParseStateIdError, RunId, StateId};
pub use lists::{List, Lists, Texts};
pub use machine_space::MachineSpace;
pub use observation::{ObservationIndex, ObservationSpace, Value};
pub use plain::plain_problem;
pub use program_graph::ProgramGraph;
pub use reward::as_f64;
pub use reward::{Baselines, RewardSpace, RewardTracker, Rewards, Scale};
pub use step::{Failure, FailureKind, Outcome, Step};
pub use value_type::{ItemType, ValueType};
