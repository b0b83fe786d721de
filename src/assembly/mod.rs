//! What the programs of the project need beside the lake itself: environments and benchmarks by
//! name, workers, functions for engines, messages and errors.

pub mod arguments;
pub mod backfill;
pub mod catalogue;
pub mod command_error;
pub mod engine;
pub mod environments;
pub mod how_run;
pub mod imports;
pub mod ir;
pub mod lake_info;
pub mod leaderboard;
pub mod measurement;
pub mod messages;
pub mod open_files;
pub mod optimization;
mod other_tools;
pub mod output;
pub mod program_under_test;
pub mod recording;
pub mod runtime;
pub mod services;
pub mod signals;
pub mod training;
pub mod verification;
pub mod worker;
pub mod worker_program;
