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
//!   contexts/       what was recorded with other compilers and action spaces, a lake each
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

pub(crate) mod segments;
pub(crate) mod versions;
pub(crate) mod schema;
pub(crate) mod files;
pub(crate) mod clock;
mod contexts;
pub(crate) mod create;
pub mod delta;
mod error;
pub mod graph;
mod handle;
pub(crate) mod identity;
pub(crate) mod identity_file;
mod ids;
pub(crate) mod ir;
pub(crate) mod other_tools;
mod paths;
pub mod progress;
pub(crate) mod snapshot;
mod state_index;
mod writer;

pub use clock::Clock;
pub use contexts::{CONTEXTS, Context, is_context_name};
pub use error::{LakeError, REPORT};
pub use files::disk::{Disk, DiskOperation, FaultEffect};
pub use files::guarded::guarded;
pub(crate) use handle::DATA;
pub use handle::Lake;
pub use identity::{
    Identity, IdentityError, RecordedObservation, RecordedReward, STATE_SCHEME, is_read,
};
pub use ids::{FORMAT_VERSION, FORMAT_VERSION_OLDEST, LayerId, SnapshotId};
pub use ir::bitcode_sha1;
pub use paths::{PATH_STEPS_MAX, ReplayPath};
pub use progress::{OnProgress, to_the_end};
pub use schema::episode_steps::{EpisodeStep, Steps};
pub use schema::recorded::{ClosedEpisode, Observed, RecordedBenchmark, Transition, ValueRef};
pub use schema::rows::{KnownBenchmark, KnownContents, Rows, RunRow};
pub use schema::table::{Column, ColumnType, Each, FEATURES_KEY, SPACE_KEY, Table};
pub(crate) use schema::tables::are_samples;
pub use schema::tables::{
    BenchmarkRow, EpisodeRow, IrRow, MeasurementRow, MiscompilationRow, ObservationRow, StepRow,
};
pub use segments::compact::{CompactReport, Compactor, Extent, PreparedCompaction};
pub use segments::deletions::DeletionVector;
#[doc(hidden)]
pub use segments::hot::{fuzz_frame, fuzz_frames};
pub use segments::orphans::Removed;
pub use segments::parts::Part;
pub use segments::reading::SegmentFile;
pub use segments::scan::{RecordBatches, ScanColumns};
pub use segments::seal::{PreparedSeal, SealReport, Sealer};
pub use segments::segment::{FileRow, Segment};
pub use snapshot::Snapshot;
pub use versions::catalog::random_uid;
pub use versions::contents::SnapshotContents;
pub use versions::losses::LossRow;
pub(crate) use versions::manifest::DEDUP_INPUTS;
pub use versions::manifest::{SnapshotKind, SnapshotRow};
pub use versions::retractions::{RetractionKind, RetractionRow};
pub use writer::{Discarded, Writer};
