use std::path::PathBuf;

use steplake::store::StoreError;
use steplake::store::merge::MergeError;

/// Why something was not published or fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The lake on this machine cannot be read or written.
    #[error(transparent)]
    Lake(#[from] StoreError),
    /// The lake and the published one cannot be brought together.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// The address is none.
    #[error(
        "`{address}` is no address of a published lake ({why}): write s3://BUCKET/PREFIX or file:///FOLDER"
    )]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store did not do what it was asked for.
    #[error("cannot {doing} {object}")]
    Store {
        /// What was tried.
        doing: &'static str,
        /// With which object.
        object: String,
        /// What the store said.
        source: object_store::Error,
    },
    /// The lake holds nothing that can be published.
    #[error("nothing of the lake at {} is sealed: `steplake seal` first", .lake.display())]
    NothingSealed {
        /// The lake.
        lake: PathBuf,
    },
    /// No version is there.
    #[error(
        "no lake is published at {address}: `steplake publish {address}` makes the first version"
    )]
    Nothing {
        /// Where one was looked for.
        address: String,
    },
    /// There is no such version.
    #[error(
        "{address} has no version {wanted}: `steplake fetch {address} --list` says which there are"
    )]
    NoVersion {
        /// Where the lake is published.
        address: String,
        /// The number that was asked for.
        wanted: u64,
    },
    /// There is no such version any more.
    #[error(
        "version {wanted} of {address} is not there any more (`publish --gc` took it or its number): \
         `steplake fetch {address} --list` says which there are"
    )]
    Forgotten {
        /// Where the lake is published.
        address: String,
        /// The number.
        wanted: u64,
    },
    /// What is there was written by a newer steplake.
    #[error("{object} has format {found}, and this steplake reads format {known}: use a newer one")]
    Format {
        /// The object.
        object: String,
        /// Its format.
        found: u32,
        /// The format that this code knows.
        known: u32,
    },
    /// The lake that is published there is kept otherwise.
    #[error(
        "{object} lists a lake of format {found}, and this steplake reads format {known}: {}",
        if found > known { "use a newer one" }
        else { "nothing converts it, so record it anew, and publish to another prefix" }
    )]
    LakeFormat {
        /// The object.
        object: String,
        /// The lake's format version.
        found: u32,
        /// The version that this code knows.
        known: u32,
    },
    /// An object is not what was published.
    #[error(
        "{object} is damaged ({what}): nothing of it was taken over; fetch another version, or publish again from \
         a lake that is whole, with --read-back, or with --replace-damaged where this is a manifest or a list"
    )]
    Damaged {
        /// The object.
        object: String,
        /// How that shows.
        what: String,
    },
    /// What was sent did not arrive as it was.
    #[error("{object} did not arrive whole ({what}): no version was made; publish again")]
    Arrival {
        /// The object.
        object: String,
        /// How that shows.
        what: String,
    },
    /// The store overwrites what it was asked to leave.
    #[error(
        "the store of {address} heeds no conditional writes (`If-None-Match: *`), so two publishers there could \
         overwrite each other: nothing is published; take a store that does"
    )]
    Unconditional {
        /// Where the lake was to be published.
        address: String,
    },
    /// Another lake is published there.
    #[error(
        "{address} holds a lake with {what} {there}, and this one has {here}: publish to another prefix"
    )]
    OtherIdentity {
        /// Where the lake is published.
        address: String,
        /// What differs, e.g. `compiler`.
        what: &'static str,
        /// What the published lake has.
        there: String,
        /// What the lake at hand has.
        here: String,
    },
    /// Each of the two has what the other lacks.
    #[error(
        "version {version} of {address} has what the lake at {} is not known to have ({what}), so this one does \
         not take its place: `steplake publish {address} --merge` publishes both as one",
        .lake.display()
    )]
    Diverged {
        /// Where the lake is published.
        address: String,
        /// The newest version.
        version: u64,
        /// The lake at hand.
        lake: PathBuf,
        /// What shows it.
        what: String,
    },
    /// Others were faster every time.
    #[error(
        "{tries} other versions were published at {address} while this one was under way: publish again"
    )]
    Overtaken {
        /// Where the lake is published.
        address: String,
        /// How often it was tried.
        tries: u32,
    },
    /// The machine did not do what it was asked for.
    #[error("cannot {doing}")]
    Io {
        /// What was tried.
        doing: String,
        /// What it said.
        source: std::io::Error,
    },
}

impl RemoteError {
    pub(crate) fn damaged(object: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Damaged { object: object.into(), what: what.into() }
    }
}
