//! The arguments of commands that run programs.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::Error;
use crate::how_run::HowRun;

/// The arguments of commands that run programs.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct HowRunArgs {
    /// How a program of your own is run: its arguments, as words of a shell that expands nothing;
    /// '' for none. This, --stdin or --input says that it can be run. Programs of
    /// `benchmark://steplake-v0` and some others say it themselves.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    arguments: Option<String>,

    /// The file that the program reads as its standard input; without it, that is empty.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) stdin: Option<PathBuf>,

    /// A file that the program reads; may be repeated. A copy lies where it runs: of `data/a.txt`
    /// there, of a path that begins with / or leaves the folder under the file's name. Other files
    /// of yours are not there.
    #[arg(long = "input", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) inputs: Vec<PathBuf>,
}

impl HowRunArgs {
    /// Returns how programs are run; none if that is not said.
    pub(in crate::cli) fn how_run(&self) -> Option<HowRun> {
        let Self { arguments, stdin, inputs } = self.clone();
        let is_said = arguments.is_some() || stdin.is_some() || !inputs.is_empty();
        is_said.then(|| HowRun { arguments: arguments.unwrap_or_default(), stdin, inputs })
    }

    /// Refuses to be told how programs are run where none is.
    ///
    /// # Errors
    ///
    /// A usage error, unless there is nothing to refuse.
    pub(in crate::cli) fn demand_unsaid(&self, wanted: &str) -> Result<(), Error> {
        let said = "--arguments, --stdin and --input say how a program is run";
        match self.how_run() {
            None => Ok(()),
            Some(_) => Err(Error::usage(format!("{said}: give {wanted} too"))),
        }
    }
}
