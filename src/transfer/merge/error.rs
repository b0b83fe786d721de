use std::path::PathBuf;

use crate::lake::LakeError;
use crate::model::StateId;

/// Why lakes cannot be merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A lake cannot be read, or the new one cannot be written.
    #[error(transparent)]
    Store(#[from] LakeError),
    /// The lakes have different identities.
    #[error(
        "the lake at {} has {what} {in_first}, and the one at {} has {in_second}: only lakes with the same \
         environment, compiler and spaces can be merged",
        .first.display(),
        .second.display()
    )]
    OtherIdentity {
        /// The property that differs, e.g. `compiler`.
        what: String,
        /// A lake.
        first: PathBuf,
        /// Its value.
        in_first: String,
        /// Another lake.
        second: PathBuf,
        /// The value in the other lake.
        in_second: String,
    },
    /// A run differs between two lakes.
    #[error(
        "run {uid} has different arguments in {} and in {}: one of the two lakes was tampered with",
        .first.display(),
        .second.display()
    )]
    RunDiffers {
        /// The run.
        uid: String,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// The new lake would be inside an old one.
    #[error("{} is inside the lake {}: merge into a folder outside of it", .into.display(), .lake.display())]
    Within {
        /// The folder of the new lake.
        into: PathBuf,
        /// The lake around it.
        lake: PathBuf,
    },
    /// A URI names two programs.
    #[error(
        "{uri} is one program in {} and another in {}: merge without one of the two lakes, or retract the benchmark \
         in one (`steplake retract --benchmark`), which also leaves out its episodes of the same runs in the other",
        .first.display(),
        .second.display()
    )]
    OtherProgram {
        /// The benchmark.
        uri: String,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// A run was continued in two copies of one lake.
    #[error(
        "episode {ordinal} of run {uid} differs between {} and {}, because the run was continued in both: \
         merge without one of the two, or retract the run (`steplake retract --run`), which leaves it out \
         completely",
        .first.display(),
        .second.display()
    )]
    EpisodeDiffers {
        /// The run.
        uid: String,
        /// The ordinal of the episode.
        ordinal: u32,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// Two lakes have different observations of one state.
    #[error(
        "the observations of state {state} differ between {} and {}: one of the two lakes was not recorded by \
         the compiler that it names; `steplake verify --replay` finds out which",
        .first.display(),
        .second.display()
    )]
    ObservationsDiffer {
        /// The state.
        state: StateId,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// Two lakes have different bitcode of one state.
    #[error(
        "the bitcode of state {state} differs between {} and {}: one of the two lakes was not recorded by the \
         compiler that it names; `steplake verify` finds out which",
        .first.display(),
        .second.display()
    )]
    IrDiffers {
        /// The state.
        state: StateId,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
}
