//! Answers, and the formats in which they are written.

pub(crate) mod answer;
pub(crate) mod drawing;
pub(crate) mod expanded;
pub(crate) mod format;
pub(crate) mod graphml;
pub(crate) mod json;
pub(crate) mod output;
