//! The lake on disk.
//!
//! ```text
//! lake/
//!   lake.json       the identity of the lake; the last file that a creation writes
//!   hot.sqlite      the hot log (rows that are not sealed, in frames) and the manifest
//!   *.lock          held by processes that write, maintain, show and read
//!   data/<table>/   segments: immutable Parquet files, named by the digest of their content;
//!                   and `_delta_log/`, which makes the folder a Delta table
//!   current/        the files of the newest snapshot, by table, for globs
//!   views/          the target of `current`, and its recent targets
//!   log/            what each snapshot changed
//!   fetching/       files of a fetch that is under way
//! ```
//!
//! # What is durable when
//!
//! - [`Writer::append`] commits one transaction of the hot log and syncs it. After `Ok` its rows
//!   survive a power cut; after `Err` the log has none of them.
//! - A seal writes segments under temporary names, syncs each, renames it and syncs its folder.
//!   Then *one* transaction lists them in the manifest, as a new snapshot, and deletes the frames
//!   that they replace. Each row is in the log before that transaction and in a segment after it,
//!   and never in both or in neither.
//! - Every change of what is sealed is a version edit, applied by one function. A segment that is
//!   replaced is *retired*: earlier snapshots still have it, and its file stays.
//! - A crash leaves at most files that no snapshot has. Only
//!   [`Maintenance::collect`](crate::upkeep::Maintenance::collect) deletes files of segments.
//!
//! # What a reader sees
//!
//! [`Lake::snapshot`] reads the manifest and the log in one transaction, so it sees every committed
//! row once. [`Lake::snapshot_at`] reads what was sealed in an earlier snapshot. Segments never
//! change, and no segment is deleted while a [`Snapshot`] lives: readers share a lock.
//! [`Maintenance::collect`](crate::upkeep::Maintenance::collect) needs that lock alone, and gives
//! up at once if a reader has it.
//!
//! # Open and closed episodes
//!
//! A row in `episodes` says that the episode is over and has its place in its run. Until then the
//! episode is open and its steps stay in the log. A seal moves all steps of an episode at once,
//! into one segment. Steps of open episodes can therefore be taken back
//! ([`Writer::discard_open`]): those that a run recorded past its end, when the run completes, and
//! those that an interrupted run left, when the run is resumed.

pub(crate) mod catalog;
pub(crate) mod clock;
pub(crate) mod contents;
pub(crate) mod create;
pub(crate) mod decode;
pub mod delta;
pub(crate) mod digest;
pub(crate) mod disk;
pub(crate) mod edit;
pub(crate) mod encode;
pub(crate) mod episode_steps;
mod error;
mod file_system;
pub(crate) mod frame;
pub(crate) mod guarded;
mod handle;
pub(crate) mod hot;
pub(crate) mod identity;
pub(crate) mod identity_file;
mod ids;
pub(crate) mod ir;
pub(crate) mod lists;
pub(crate) mod lock;
pub(crate) mod losses;
pub(crate) mod manifest;
pub(crate) mod orphans;
pub(crate) mod other_tools;
pub(crate) mod pages;
mod parts;
pub(crate) mod progress;
pub(crate) mod reading;
pub(crate) mod recovery;
pub(crate) mod reserve;
pub(crate) mod retractions;
mod rows;
pub(crate) mod scan;
mod seal;
pub(crate) mod segment;
pub(crate) mod segment_series;
pub(crate) mod segment_writer;
pub(crate) mod shares;
pub(crate) mod snapshot;
pub(crate) mod snapshot_log;
pub(crate) mod sqlite;
pub(crate) mod state_index;
pub(crate) mod state_rows;
pub(crate) mod table;
pub(crate) mod values;
mod writer;

pub use catalog::random_uid;
pub use clock::Clock;
pub use contents::Contents;
pub use disk::{Disk, Operation, Verdict};
pub use error::LakeError;
pub(crate) use error::REPORT;
pub(crate) use handle::DATA;
pub use handle::Lake;
#[doc(hidden)]
pub use hot::{fuzz_frame, fuzz_frames};
pub use identity::{Identity, IdentityError, RecordedObservation, RecordedReward, is_read};
pub use ids::{FORMAT_VERSION, FORMAT_VERSION_OLDEST, LayerId, SnapshotId};
pub use ir::bitcode_sha1;
pub use losses::LossRow;
pub use manifest::{SnapshotKind, SnapshotRow};
pub use orphans::Removed;
pub(crate) use parts::Part;
pub use progress::{OnProgress, to_the_end};
pub use reading::SegmentFile;
pub use retractions::{RetractionKind, RetractionRow};
pub(crate) use rows::are_samples;
pub use rows::{
    Behaviour, BenchmarkRow, DifferenceKind, EpisodeRow, IrRow, Known, KnownBenchmark,
    MeasurementRow, MiscompilationRow, ObservationRow, Rows, RunRow, StepRow,
};
pub use scan::{Batches, ScanColumns};
pub use seal::{Prepared, SealReport, Sealer};
pub use segment::{FileRow, Segment};
pub use snapshot::Snapshot;
pub use table::{Column, ColumnType, Each, FEATURES_KEY, SPACE_KEY, Table};
pub use writer::{Discarded, Writer};
