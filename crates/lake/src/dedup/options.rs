//! What a caller can choose.

use std::num::NonZeroUsize;

/// Parameters of a dedup. They affect the number of layers, and nothing else in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DedupOptions {
    /// Memory for the whole pass: edges not yet sorted, edges being sorted, pages and row groups of
    /// Parquet. Not included are the program itself, the catalog's list of files, and some hundred
    /// bytes for each failed episode with new steps. Parquet takes about 50 MiB per thread, however
    /// little data there is.
    pub memory_bytes_max: u64,
    /// Number of threads.
    pub threads: NonZeroUsize,
    /// Whether to make the tables anew from all steps, as one layer.
    pub full: bool,
    /// All layers become one while they have at most this many rows together.
    pub one_layer_rows_max: u64,
    /// A layer is taken in if it has less than this many times the rows to be written. Layers are
    /// tried from the newest on, until one is too large. So a step is rewritten a few times, and
    /// there are few layers.
    pub tier: u64,
    /// All layers become one when the newer ones have more than one row for this many of the
    /// oldest. Globs show only the oldest layer, so it must not lag far behind. With 0, it may.
    pub lag: u64,
}

impl Default for DedupOptions {
    fn default() -> Self {
        Self {
            memory_bytes_max: 1 << 30,
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            full: false,
            one_layer_rows_max: 500_000,
            tier: 8,
            lag: 10,
        }
    }
}
