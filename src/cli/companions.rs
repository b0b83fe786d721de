//! Commands in programs of their own: their dependencies are large, and few users need them.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::args::CompanionArgs;
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::failure::{Code, CommandError};

/// A program beside this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Companion {
    /// `steplake-serve`, for Arrow clients.
    Serve,
    /// `steplake-remote`, for object stores.
    Remote,
    /// `steplake-cluster`, for Ballista.
    Cluster,
}

impl Companion {
    const fn name(self) -> &'static str {
        match self {
            Self::Serve => "steplake-serve",
            Self::Remote => "steplake-remote",
            Self::Cluster => "steplake-cluster",
        }
    }
}

/// Replaces this process with the companion, which keeps the streams.
///
/// The companion is searched for in the folder of this program, then on the `PATH`. It takes the
/// lake from `STEPLAKE_LAKE`, as if the user had set that.
///
/// # Errors
///
/// Always: the function returns only if the companion cannot be started.
pub(super) fn exec_companion(
    global: &GlobalArgs,
    companion: Companion,
    command: Option<&str>,
    args: &[OsString],
) -> CommandError {
    let error = process(global, companion, command, args).exec();
    let name = companion.name();
    if error.kind() == ErrorKind::NotFound {
        return CommandError::new(
            Code::Failed,
            format!(
                "this command needs the program `{name}`, which is neither beside `steplake` nor on the PATH: \
                 build it with `cargo build --release -p {name}`"
            ),
        );
    }
    CommandError::new(Code::Failed, format!("`{name}` cannot be started: {error}"))
}

fn process(
    global: &GlobalArgs,
    companion: Companion,
    command: Option<&str>,
    args: &[OsString],
) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "a part of this program, with its limits and its surroundings"
    )]
    let mut process = Command::new(path(companion));
    // Options precede the arguments: these may end with a word that looks like an option but is
    // none.
    if global.verbose > 0 {
        process.arg(format!("-{}", "v".repeat(usize::from(global.verbose))));
    }
    if global.quiet {
        process.arg("--quiet");
    }
    process.args(command).args(args).env("STEPLAKE_LAKE", &global.lake);
    process
}

/// Runs a command that only the companion has.
pub(super) fn run(
    global: &GlobalArgs,
    companion: Companion,
    command: Option<&str>,
    args: &CompanionArgs,
) -> Result<(), CommandError> {
    Err(exec_companion(global, companion, command, &args.arguments))
}

fn path(companion: Companion) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(companion.name()));
    match beside {
        Some(path) if path.is_file() => path,
        _ => companion.name().into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::Cli;

    #[test]
    fn global_options_come_before_the_question() {
        let line = ["steplake", "sql", "-vv", "SELECT 1", "--quiet"];
        let cli = Cli::try_parse_from(line).unwrap();
        let asked = ["--scheduler", "host:1", "--", "-1"].map(OsString::from);
        let process = process(&cli.global, Companion::Cluster, Some("sql"), &asked);
        let arguments: Vec<_> = process.get_args().collect();
        assert_eq!(arguments, ["-vv", "--quiet", "sql", "--scheduler", "host:1", "--", "-1"]);
    }
}
