//! Errors of one line about the text of a query or about the lake.

pub(crate) mod dumps;
pub(crate) mod error;
pub(crate) mod explain;
