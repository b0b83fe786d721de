//! Parameters of publications and fetches.

use std::path::PathBuf;

use clap::{Args, ValueHint, value_parser};

/// The size of a request in bytes: of a part, if a file has several.
const PART_BYTES: u64 = 16 << 20;

/// How often a publication or a collection tries again after another one was faster.
pub(crate) const ATTEMPTS_MAX: u32 = 16;

/// Parameters of a publication.
#[derive(Debug, Clone, Args)]
pub struct PublishOptions {
    /// Number of files that are sent at a time.
    #[arg(skip = PublishOptions::default().parallel)]
    pub parallel: usize,

    /// If the newest version has something that this lake lacks, publish both as one. The local
    /// lake gets what it lacks with the next fetch.
    #[arg(long)]
    pub merge: bool,

    /// Read back every file of this lake and compare it. Send damaged or missing files again, and
    /// make a new version of them.
    #[arg(long)]
    pub read_back: bool,

    /// If the newest version cannot be read, build on the newest readable one. The new version
    /// lacks whatever only the damaged one had.
    #[arg(long)]
    pub replace_damaged: bool,

    /// The size of a request in bytes; larger files are sent in parts. S3 requires at least 5 MiB.
    /// For tests.
    #[arg(
        long,
        hide = true,
        default_value_t = PART_BYTES,
        value_parser = value_parser!(u64).range(1..),
    )]
    pub part_bytes: u64,

    /// The folder for temporary lakes of --merge, with room for the version and what is new of both
    /// lakes. By default beside the lake, where files of the version that the lake has take no
    /// room. If killed, publish leaves a folder .steplake-publish-… there.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub work: Option<PathBuf>,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self {
            parallel: 4,
            merge: false,
            read_back: false,
            replace_damaged: false,
            part_bytes: PART_BYTES,
            work: None,
        }
    }
}

/// Parameters of a fetch.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// Number of files that are fetched at a time.
    pub parallel: usize,
    /// Whether to compare files that are already here with their digests first. Damaged files are
    /// fetched again.
    pub verify: bool,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self { parallel: 4, verify: false }
    }
}
