//! Rows of a lake for training: shuffled, in batches, as numbers.
//!
//! A [`Dataset`] has chosen columns of chosen rows of a [`Source`]: state transitions, steps or
//! states. The features of a state are kept once, in a matrix that is mapped into memory
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

mod batches;
mod dataset;
mod error;
mod export;
mod given_split;
mod graphs;
mod leaks;
mod mapped;
mod matrix;
mod matrix_builder;
mod matrix_cache;
mod n_step;
mod number_kind;
mod numbers;
mod parts;
mod permutation;
mod plan;
mod rows;
mod sealed_rows;
mod sequences;
mod source;
mod splits;
mod states;
mod stream;

pub use batches::{Batch, BatchRequest, Batches, Epoch};
pub use dataset::{Column, Dataset, DatasetRequest, Gathered, GraphColumn, Items};
pub use error::LoadError;
pub use export::{ExportedFile, ROW_GROUP_ROWS, export};
pub use given_split::{GivenLeaks, GivenReport, GivenSplit};
pub use graphs::GraphBatch;
pub use leaks::Leaks;
pub use matrix_cache::MatrixCache;
pub use n_step::NStep;
pub use numbers::{NumberType, Numbers};
pub use parts::{Split, SplitBy, SplitReport, SplitRequest};
pub use permutation::Permutation;
pub use plan::BatchPlan;
pub use rows::Condition;
pub use sealed_rows::SealedRows;
pub use source::{ColumnRequest, Source};
pub use stream::{StreamLayout, StreamedEpoch, StreamedRows};
