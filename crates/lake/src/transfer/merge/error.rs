//! Errors of merges.

use std::path::PathBuf;
use steplake_model::{Classified, ErrorKind, Remedy};

use crate::kernel::{LakeError, STATE_SCHEME};

/// Why lakes cannot be merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A lake cannot be read, or the new one cannot be written.
    #[error("{0}")]
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
    /// The new lake would be in the place of an old one.
    #[error(
        "{} holds a lake already: name a new or empty folder, since a merge makes a new lake; to add to the one \
         there, name it among the lakes to merge",
        .into.display()
    )]
    IntoALake {
        /// The folder.
        into: PathBuf,
    },
    /// The new lake would be inside an old one.
    #[error("{} is inside the lake {}: merge into a folder outside of it", .into.display(), .lake.display())]
    Within {
        /// The folder of the new lake.
        into: PathBuf,
        /// The lake around it.
        lake: PathBuf,
    },
    /// Two lakes disagree about a run, an episode, a program or a state.
    #[error("{what} between {} and {}: {advice}", .first.display(), .second.display())]
    Differs {
        /// What differs, e.g. `the IR of state … differs`.
        what: String,
        /// A lake.
        first: PathBuf,
        /// Another lake.
        second: PathBuf,
        /// The cause or what to do.
        advice: &'static str,
    },
}

impl Classified for MergeError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Store(error) => error.classify(),
            Self::OtherIdentity { what, .. } if what == STATE_SCHEME => {
                (ErrorKind::Lake, Some(Remedy::OtherScheme))
            }
            _ => (ErrorKind::Lake, None),
        }
    }
}
