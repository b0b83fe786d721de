//! The arguments of `leaderboard`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LeaderboardCommand {
    Add(AddArgs),
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

/// Print the table of a task, or of all tasks.
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
