//! SQL, functions and named queries.

mod contexts;
mod graph;
mod limits;
mod messages;
pub(crate) mod reading;
mod segment_order;
mod several_lakes;
mod slow_readers;
mod slt;
