//! Errors of publications and fetches.

use std::path::PathBuf;

use steplake_lake::LakeError;
use steplake_lake::transfer::merge::MergeError;
use steplake_model::{Classified, ErrorKind, Remedy};

/// What to set for an S3 store.
const VARIABLES: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (with temporary ones AWS_SESSION_TOKEN \
                         too), AWS_REGION and, if the server is not AWS's, AWS_ENDPOINT_URL";

/// Why something was not published or fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The lake on this machine cannot be read or written.
    #[error("{0}")]
    Lake(#[from] LakeError),
    /// The lake and the published one cannot be merged.
    #[error("{0}")]
    Merge(#[from] MergeError),
    /// The address is invalid.
    #[error(
        "`{address}` is not the address of a published lake ({why}): write s3://BUCKET/PREFIX or file:///FOLDER"
    )]
    Address {
        /// The given address.
        address: String,
        /// The mistake in it.
        why: String,
    },
    /// The settings of an S3 store are incomplete or contradict each other.
    #[error("{address} cannot be used ({why}): {VARIABLES}")]
    Misconfigured {
        /// The address.
        address: String,
        /// What is wrong with the settings.
        why: String,
    },
    /// There are no credentials for an S3 store, neither in variables nor on the machine.
    #[error("cannot {doing} {object}, because there are no credentials: {VARIABLES}")]
    NoCredentials {
        /// The attempted operation.
        doing: &'static str,
        /// The object.
        object: String,
    },
    /// A request to the store failed.
    #[error("cannot {doing} {object}")]
    Store {
        /// The attempted operation.
        doing: &'static str,
        /// The object.
        object: String,
        /// The store's error.
        source: object_store::Error,
    },
    /// The lake holds nothing that can be published.
    #[error(
        "the lake at {} has no sealed episode, so there is nothing to publish: record one first, or wait until \
         the recording that is running has sealed one",
        .lake.display()
    )]
    NothingSealed {
        /// The lake.
        lake: PathBuf,
    },
    /// No version is published there.
    #[error(
        "no lake is published at {address}: `steplake publish {address}` makes the first version"
    )]
    Nothing {
        /// The address that was searched.
        address: String,
    },
    /// The version does not exist.
    #[error(
        "{address} has no version {wanted}: `steplake fetch {address} --list` lists the versions"
    )]
    NoVersion {
        /// The address of the published lake.
        address: String,
        /// The requested number.
        wanted: u64,
    },
    /// The version no longer exists.
    #[error(
        "version {wanted} of {address} does not exist any more (`publish --gc` deleted it, or used its number): \
         `steplake fetch {address} --list` lists the versions"
    )]
    Forgotten {
        /// The address of the published lake.
        address: String,
        /// The requested number.
        wanted: u64,
    },
    /// The published lake, or the lake in a published version, has another format.
    #[error(
        "{object} {has} format {found}, and this steplake reads format {known}: {}",
        if found > known { "use a newer one" } else { advice }
    )]
    Format {
        /// The object.
        object: String,
        /// Whose format it is, with its verb.
        has: &'static str,
        /// The format that was found.
        found: u32,
        /// The format that this code knows.
        known: u32,
        /// What to do about an older format.
        advice: &'static str,
    },
    /// An object differs from what was published.
    #[error(
        "{object} is damaged ({what}), so nothing of it was used: fetch another version, or publish again from an \
         intact lake with --read-back, or with --replace-damaged if this is a manifest or a list"
    )]
    Damaged {
        /// The object.
        object: String,
        /// The evidence.
        what: String,
    },
    /// An object did not arrive unchanged.
    #[error("{object} did not arrive intact ({what}), so no version was made: publish again")]
    Arrival {
        /// The object.
        object: String,
        /// The evidence.
        what: String,
    },
    /// The store overwrites objects despite conditional writes.
    #[error(
        "the store of {address} ignores conditional writes (`If-None-Match: *`), so two publishers could overwrite \
         each other and nothing was published: use a store that respects them"
    )]
    Unconditional {
        /// The address to publish to.
        address: String,
    },
    /// Another lake is published at the address.
    #[error(
        "{address} holds a lake with {what} {there}, and this one has {here}: publish to another prefix"
    )]
    OtherIdentity {
        /// The address of the published lake.
        address: String,
        /// The property that differs, e.g. `compiler`.
        what: String,
        /// The value in the published lake.
        there: String,
        /// The value in the local lake.
        here: String,
    },
    /// The lake and the version each have something that the other lacks.
    #[error(
        "version {version} of {address} contains something that the lake at {} is not known to have ({what}), so \
         nothing was published: `steplake publish {address} --merge` publishes both as one",
        .lake.display()
    )]
    Diverged {
        /// The address of the published lake.
        address: String,
        /// The newest version.
        version: u64,
        /// The local lake.
        lake: PathBuf,
        /// The evidence.
        what: String,
    },
    /// Other publishers were faster every time.
    #[error(
        "another publication or collection at {address} was faster {attempts} times: try again"
    )]
    Overtaken {
        /// The address of the published lake.
        address: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// The version is published, but not yet as Delta tables.
    #[error(
        "version {version} of {address} is published, but its Delta tables are incomplete: publish again to \
         complete them"
    )]
    DeltaTables {
        /// The address of the published lake.
        address: String,
        /// The version.
        version: u64,
        /// Why they are incomplete.
        source: Box<RemoteError>,
    },
    /// A local operation failed.
    #[error("cannot {doing}")]
    Io {
        /// The attempted operation.
        doing: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Classified for RemoteError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Lake(error) => error.classify(),
            Self::Merge(error) => error.classify(),
            Self::Address { .. } | Self::Misconfigured { .. } | Self::NoVersion { .. } => {
                (ErrorKind::Usage, None)
            }
            Self::NothingSealed { .. }
            | Self::Forgotten { .. }
            | Self::Format { .. }
            | Self::Damaged { .. }
            | Self::OtherIdentity { .. } => (ErrorKind::Lake, None),
            Self::Store { .. }
            | Self::NoCredentials { .. }
            | Self::DeltaTables { .. }
            | Self::Unconditional { .. } => (ErrorKind::Offline, None),
            Self::Nothing { .. } => (ErrorKind::NothingPublished, None),
            Self::Diverged { .. } => (ErrorKind::Behind, None),
            _ => (ErrorKind::Failed, None),
        }
    }
}

impl RemoteError {
    pub(crate) fn damaged(object: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Damaged { object: object.into(), what: what.into() }
    }
}
