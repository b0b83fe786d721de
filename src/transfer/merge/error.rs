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
    /// The lakes are of different identities.
    #[error(
        "the lake at {} has {what} {in_first}, and the one at {} has {in_second}: only lakes of one \
         environment, compiler and choice of spaces can be merged",
        .first.display(),
        .second.display()
    )]
    OtherIdentity {
        /// What differs, e.g. `compiler`.
        what: String,
        /// A lake.
        first: PathBuf,
        /// What it has.
        in_first: String,
        /// Another lake.
        second: PathBuf,
        /// What that one has.
        in_second: String,
    },
    /// One run has two stories.
    #[error(
        "run {uid} has other arguments in {} than in {}: one of the two lakes was tampered with",
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
    /// The new lake would lie in an old one.
    #[error("{} is a place in the lake {}: merge into a folder of its own", .into.display(), .lake.display())]
    Within {
        /// Where the new lake was to be.
        into: PathBuf,
        /// The lake around it.
        lake: PathBuf,
    },
    /// A URI stands for two programs.
    #[error(
        "{uri} is another program in {} than in {}: merge without one of the two, or retract the benchmark \
         (`steplake retract --benchmark`), which also leaves out what the other one has of the same runs",
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
    /// A run was gone on with in two copies of one lake.
    #[error(
        "episode {ordinal} of run {uid} was recorded otherwise in {} than in {}: the run went on in both; \
         merge without one of the two, or retract the run (`steplake retract --run`), which leaves it out \
         altogether",
        .first.display(),
        .second.display()
    )]
    EpisodeDiffers {
        /// The run.
        uid: String,
        /// The episode's place in it.
        ordinal: u32,
        /// A lake that has it.
        first: PathBuf,
        /// Another one.
        second: PathBuf,
    },
    /// Two lakes saw one state differently.
    #[error(
        "the observations of state {state} are others in {} than in {}: one of the two was recorded by \
         something else than it says; `steplake verify --replay` finds out which",
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
    /// Two lakes store something else under the name of one state.
    #[error(
        "the IR of state {state} is other bitcode in {} than in {}: one of the two was recorded by something \
         else than it says; `steplake verify` finds out which",
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
