//! The tables, declared once, and how their rows become columns and rows again.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod episode_steps;
pub(crate) mod lists;
pub(crate) mod recorded;
pub(crate) mod rows;
pub(crate) mod state_rows;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod values;
pub(crate) mod whole_rows;
