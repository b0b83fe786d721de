//! What queries read: the tables and views of a lake, and the readers of its segments.

pub(crate) mod blocking_stream;
pub(crate) mod catalog;
pub(crate) mod chained_segments;
pub(crate) mod dedup_coverage;
pub(crate) mod merged_scan;
pub(crate) mod partition_segments;
pub(crate) mod readers;
pub(crate) mod relations;
pub(crate) mod tables;
pub(crate) mod views;
