//! The arguments of `leaderboard`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LeaderboardCommand {
    Add(AddArgs),
    Verify(VerifyEntriesArgs),
    Show(ShowArgs),
    Render(RenderArgs),
}

/// The folder of the leaderboards.
#[derive(Debug, Args)]
pub(in crate::cli) struct BoardArgs {
    /// The folder of the leaderboards. It may have tasks of its own, in the folder `tasks` in it;
    /// else it is about the tasks that come with steplake.
    #[arg(
        long,
        default_value = "./leaderboards",
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
    )]
    pub(in crate::cli) board: PathBuf,
}

/// Add the results of a method to the leaderboard of a task.
///
/// Every row is played again: its command line has to give the reward that it says, in a second
/// worker too, and a program that does what it does untouched. If a row does not, or rows are
/// missing, nothing is added.
#[derive(Debug, Args)]
pub(in crate::cli) struct AddArgs {
    /// The results: CSV with the columns benchmark, reward, walltime, commandline. With COMMAND,
    /// the file that is written with what it finds.
    #[arg(value_name = "RESULTS", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) results: PathBuf,

    /// The task; by default the only one that has the benchmarks of the results.
    #[arg(long, value_name = "TASK")]
    pub(in crate::cli) task: Option<String>,

    /// The name of the method; by default that of the file.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(in crate::cli) method: Option<String>,

    /// What the method does, in a sentence or two.
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) description: Option<String>,

    /// Where more is to be read.
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) link: Option<String>,

    /// Go on after the rows of COMMAND that RESULTS has already, if an earlier call was stopped.
    #[arg(long, requires = "command")]
    pub(in crate::cli) resume: bool,

    #[command(flatten)]
    pub(in crate::cli) board: BoardArgs,

    /// Run this for each row, and measure how long it takes; otherwise the leaderboard says that
    /// wall times are self-reported. `{benchmark}` stands for the program, `{seed}` for a number
    /// from 0. Each run is in an empty folder of its own. The last command line of the task that
    /// it prints makes the row.
    #[arg(last = true, value_name = "COMMAND")]
    pub(in crate::cli) command: Vec<String>,
}

/// Play the rows of entries again, as `add` did, and say what is not as they say.
///
/// Entries whose rows were all played on this machine are no longer marked by `show`. If something
/// is not as an entry says, the exit code is 4.
#[derive(Debug, Args)]
pub(in crate::cli) struct VerifyEntriesArgs {
    /// The task; by default all.
    #[arg(value_name = "TASK")]
    pub(in crate::cli) task: Option<String>,

    /// The method whose entries to verify; by default all.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub(in crate::cli) method: Option<String>,

    /// Play so many rows of each entry, which are drawn, instead of all: this finds out, and
    /// removes no mark.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) sample: Option<NonZeroUsize>,

    /// The seed of the draw.
    #[arg(long, default_value_t = 0, requires = "sample")]
    pub(in crate::cli) seed: i64,

    #[command(flatten)]
    pub(in crate::cli) board: BoardArgs,
}

/// Print the table of a task, or of all tasks.
///
/// Entries that `leaderboard add` or `leaderboard verify` has not played on this machine are marked
/// and come last: who writes the files of an entry may write what they like.
#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArgs {
    /// The task.
    #[arg(value_name = "TASK")]
    pub(in crate::cli) task: Option<String>,

    #[command(flatten)]
    pub(in crate::cli) board: BoardArgs,
}

/// Write the tables of all tasks into a page of Markdown.
///
/// They take the place of what is between the lines `<!-- leaderboards: begin -->` and
/// `<!-- leaderboards: end -->`. The same entries make the same page.
#[derive(Debug, Args)]
pub(in crate::cli) struct RenderArgs {
    /// The page, which is made if there is none; by default the tables are printed.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) output: Option<PathBuf>,

    /// Write nothing; if the page would change, the exit code is 4.
    #[arg(long, requires = "output")]
    pub(in crate::cli) check: bool,

    #[command(flatten)]
    pub(in crate::cli) board: BoardArgs,
}
