//! The lake on disk.
//!
//! ```text
//! lake/
//!   lake.json       what it is a lake of: written last when it is made, and never again
//!   hot.sqlite      the hot log: rows not yet sealed, in frames; and the manifest of segments
//!   *.lock          held by processes that write, maintain, show and read
//!   data/<table>/   segments: immutable Parquet files, named by the digest of their content;
//!                   and `_delta_log/`, which makes the folder a Delta table
//!   current/        the files of the newest snapshot, by table, for globs
//!   views/          where `current` leads, and has led a short while ago
//!   log/            what each snapshot changed
//!   fetching/       files of a fetch that is under way
//! ```
//!
//! # What is durable when
//!
//! - [`Writer::append`] commits one transaction of the hot log and syncs it: after `Ok` its rows
//!   survive a power cut, after `Err` none of them is there.
//! - A seal writes segments under temporary names, syncs each, renames it and syncs its folder.
//!   Then *one* transaction lists them in the manifest, as a new snapshot, and deletes the frames
//!   that they hold. Before it, the rows are in the log; after it, in the segments; at no moment in
//!   both or in neither.
//! - Every change of what is sealed is a version edit, applied by one function. A segment that is
//!   replaced is *retired*: the snapshots before still have it, and its file stays where it is.
//! - A crash leaves at most files that no snapshot has. Only
//!   [`Maintenance::collect`](crate::upkeep::Maintenance::collect) deletes files of segments.
//!
//! # What a reader sees
//!
//! [`Lake::snapshot`] reads manifest and log in one transaction: every row that was committed by
//! then, once. [`Lake::snapshot_at`] reads what was sealed in an earlier one. Segments are never
//! changed, and while a [`Snapshot`] lives, none is deleted: readers share a lock that nobody waits
//! for but [`Maintenance::collect`](crate::upkeep::Maintenance::collect), which gives up at once.
//!
//! # Open and closed episodes
//!
//! A row in `episodes` says that its episode is over and has its place in its run. Until then the
//! episode is open, and its steps stay in the log: a seal moves all steps of an episode at once,
//! into one segment. So what a run recorded past its end can be taken back when it completes, and
//! what an interrupted one left open when it is taken up ([`Writer::discard_open`]).

pub(crate) mod catalog;
pub(crate) mod clock;
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
mod guarded;
mod handle;
pub(crate) mod hot;
pub(crate) mod identity;
pub(crate) mod identity_file;
mod ids;
pub(crate) mod ir;
pub(crate) mod lock;
pub(crate) mod losses;
pub(crate) mod manifest;
mod parts;
pub(crate) mod reading;
pub(crate) mod recovery;
pub(crate) mod orphans;
pub(crate) mod outside;
pub(crate) mod retractions;
mod rows;
mod scan;
mod seal;
pub(crate) mod segment;
pub(crate) mod segment_writer;
pub(crate) mod series;
pub(crate) mod snapshot;
pub(crate) mod snapshot_log;
pub(crate) mod sqlite;
pub(crate) mod table;
pub(crate) mod values;
mod writer;

pub use clock::Clock;
pub use disk::{Disk, Operation, Verdict};
pub use error::LakeError;
pub(crate) use error::REPORT;
pub(crate) use handle::DATA;
pub use handle::Lake;
#[doc(hidden)]
pub use hot::{fuzz_frame, fuzz_frames};
pub use identity::{Identity, IdentityError, RecordedObservation, RecordedReward};
pub use ids::{FORMAT_VERSION, LayerId, SnapshotId};
pub use ir::bitcode_sha1;
pub use losses::LossRow;
pub use manifest::{SnapshotKind, SnapshotRow};
pub use orphans::Removed;
pub(crate) use parts::Part;
pub use reading::SegmentFile;
pub use retractions::{RetractionKind, RetractionRow};
pub use rows::{
    BenchmarkRow, EpisodeRow, IrRow, Known, KnownBenchmark, ObservationRow, Rows, RunRow, StepRow,
};
pub use scan::{Scan, ScanColumns};
pub use seal::{Prepared, SealReport, Sealer};
pub use segment::{FileRow, Segment};
pub use snapshot::Snapshot;
pub use table::{Column, ColumnType, Each, FEATURES_KEY, SPACE_KEY, Table};
pub use writer::Writer;
