//! Leaderboards: how well methods do on tasks, from files that prove it.
//!
//! A [`Task`] fixes the compiler, the programs, the reward, and how many rows there are for each
//! program. An [`Entry`] is what a method reached: a CSV file in the format of CompilerGym's
//! leaderboards ([`EntryRow`]), and a JSON file that says how it was recomputed, and with what.
//! Whoever adds an entry has played its rows: a [`referee`] does.
//!
//! A [`Board`] is a folder:
//!
//! ```text
//! tasks/ir-programs-v0.json          a task; without this folder, there are the tasks of steplake
//! ir-programs-v0/random-search.csv   the rows of an entry, with the rewards that were found
//! ir-programs-v0/random-search.json  where it comes from, and its scores
//! ```

mod board;
mod command_line;
mod entry;
mod error;
mod page;
pub mod referee;
mod row;
mod scores;
mod task;

pub use self::board::Board;
pub use self::command_line::{actions_of, options_of};
pub use self::entry::{Entry, WallTime};
pub use self::error::LeaderboardError;
pub use self::page::{BEGIN, END, in_page, tables, tables_of_verified};
pub use self::row::{COLUMNS, EntryRow, demand_complete, digest_of, read_rows, written};
pub use self::scores::{Scores, geometric_mean, is_reproduced};
pub use self::task::Task;

/// An entry without rows, for the tests of other modules.
#[cfg(test)]
pub(crate) fn entry_for_tests(method: &str) -> Entry {
    entry::tests::entry(method, &[])
}
