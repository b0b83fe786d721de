//! Rows of a lake for training: shuffled, in batches, as numbers.
//!
//! A [`TrainingDataset`] has chosen columns of chosen rows of a [`Source`]: state transitions,
//! steps or states. The features of a state are kept once, in a matrix that is mapped into memory
//! ([`MatrixCache`]); a row has the numbers of its states. So any row can be read at once, and a
//! shuffle is one over all rows: a [`Permutation`] computes the row at any place, and a
//! [`BatchPlan`] says which places each batch of each process has. [`Batches`] reads them ahead
//! with threads. Where the features do not fit into memory, [`StreamedRows`] reads the same rows
//! from Parquet, and shuffles row groups and a window of rows.
//!
//! An epoch is a function of the dataset's rows, the seed and the number of the epoch. It does not
//! depend on the number of threads, and resumes exactly from any round, even with another number of
//! processes.
//!
//! Architecture invariant: nothing here writes to a lake. Only sealed rows are loaded, since only
//! these have names that do not change: the digests of their segments.

mod epochs;
mod sources;
mod splitting;
mod matrices;
mod dataset;
mod error;
mod export;

pub use dataset::{
    DatasetColumn, DatasetRequest, GatheredItems, GraphColumn, Items, TrainingDataset,
};
pub use epochs::batches::{Batch, BatchRequest, Batches, Epoch};
pub use epochs::permutation::Permutation;
pub use epochs::plan::BatchPlan;
pub use epochs::stream::{StreamLayout, StreamedEpoch, StreamedRows};
pub use error::LoadError;
pub use export::{ExportedFile, ROW_GROUP_ROWS, export};
pub use matrices::matrix_cache::MatrixCache;
pub use matrices::numbers::{NumberType, Numbers};
pub use sources::graphs::GraphBatch;
pub use sources::n_step::NStep;
pub use sources::rows::Condition;
pub use sources::sealed_rows::SealedRows;
pub use sources::source::{ColumnRequest, Source};
pub use splitting::given_split::{GivenLeaks, GivenReport, GivenSplit};
pub use splitting::leaks::Leaks;
pub use splitting::parts::{Split, SplitBy, SplitReport, SplitRequest};
