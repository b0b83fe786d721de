//! The lake on disk.
//!
//! ```text
//! lake/
//!   lake.json     what it is a lake of: written last when it is made, and never again
//!   hot.sqlite    the hot log: rows not yet sealed, in frames; and the manifest of segments
//!   *.lock        held by who writes, who maintains, and who reads
//!   steps/ ir/ …  segments: immutable Parquet files, named by the digest of their content
//!   retired/      segments that only older snapshots have
//!   fetching/     files of a fetch that is under way
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
//! - A segment that is replaced is not deleted but *retired*: the snapshots before have it still.
//!   Its file is moved after the commit.
//! - A retraction and a repair write segments anew without some rows, and one transaction puts them
//!   in the places of the old ones. A merge makes a new lake, whose `lake.json` is written last.
//! - A crash leaves at most files that the manifest does not list, and retired files that were not
//!   moved yet. The next writer removes those of recorded tables, the next [`Maintenance`] does the
//!   rest.
//!
//! # What a reader sees
//!
//! [`Lake::snapshot`] reads manifest and log in one transaction: every row that was committed by
//! then, once. [`Lake::snapshot_at`] reads what was sealed in an earlier one. Segments are never
//! changed, and while a [`Snapshot`] lives, none is deleted: readers share a lock that nobody waits
//! for but [`Maintenance::collect`], which gives up at once.
//!
//! # Open and closed episodes
//!
//! A row in `episodes` says that its episode is over and has its place in its run. Until then the
//! episode is open, and its steps stay in the log: a seal moves all steps of an episode at once,
//! into one segment. So what a run recorded past its end can be taken back when it completes, and
//! what an interrupted one left open when it is taken up ([`Writer::discard_open`]).

mod batch;
mod catalog;
mod check;
mod content;
mod counted;
mod derived;
mod disk;
mod error;
mod fetching;
mod frame;
mod identity;
mod inventory;
mod ir;
mod lake;
mod layers;
mod lock;
mod losses;
mod maintenance;
mod manifest;
pub mod merge;
mod parts;
mod reading;
mod repair;
mod retired;
mod retract;
mod retractions;
mod revision;
mod rows;
mod scan;
mod scratch;
mod seal;
mod segment;
mod series;
mod snapshot;
mod table;
mod trails;
mod verify;
mod wal;
mod writer;

pub(crate) use check::REPORT;
pub use derived::{LayerChange, LayerWriter};
pub use disk::{Disk, Operation, Verdict};
pub use error::StoreError;
pub use fetching::{FetchedFile, Fetching};
#[doc(hidden)]
pub use frame::{fuzz_frame, fuzz_frames};
pub use identity::{Identity, IdentityError, RecordedObservation};
pub use inventory::{FileRow, Inventory};
pub use ir::bitcode_sha1;
pub use lake::Lake;
pub(crate) use layers::{
    Edge, EdgeHead, EdgeShape, EdgeSource, Encoder, FailureText, LayerEdges, Merge, Ranges,
    StateWords, Wanted, absorb, key_of_place, rewards_of,
};
pub use layers::{KeyRange, Layer, LayeredTable};
pub use losses::LossRow;
pub use maintenance::{Collected, Expired, Keep, Maintenance};
pub use manifest::{LayerId, SnapshotId, SnapshotKind, SnapshotRow};
pub(crate) use parts::Part;
pub use reading::SegmentFile;
#[doc(hidden)]
pub use reading::fuzz_segment;
pub use repair::{Relisted, Repaired};
pub use retired::{Removed, retired_place};
pub use retract::{Retracted, Subject};
pub use retractions::{RetractionKind, RetractionRow};
pub use rows::{
    BenchmarkRow, EpisodeRow, IrRow, Known, KnownBenchmark, ObservationRow, Rows, RunRow, StepRow,
};
pub use scan::{Scan, ScanColumns};
pub(crate) use scratch::{Scratch, Stretch};
pub use seal::{Prepared, SealReport, Sealer};
pub(crate) use segment::BlockDigests;
pub use segment::Segment;
pub use snapshot::Snapshot;
pub use table::{Column, ColumnType, Each, Table};
pub use trails::{TRAIL_STEPS_MAX, Trail};
pub use verify::{Finding, StoredState, VerifyReport};
pub use writer::Writer;

/// The version of everything that lies in a lake.
pub const FORMAT_VERSION: u32 = 2;
