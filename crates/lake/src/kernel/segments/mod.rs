//! Rows on disk: frames of the hot log, Parquet segments, and scans of both.

pub(crate) mod compact;
pub(crate) mod deletions;
pub(crate) mod frame;
pub(crate) mod hot;
pub(crate) mod orphans;
pub(crate) mod pages;
pub(crate) mod parts;
pub(crate) mod reading;
pub(crate) mod scan;
pub(crate) mod seal;
pub(crate) mod segment;
pub(crate) mod segment_series;
pub(crate) mod segment_writer;
pub(crate) mod sorted_merge;
