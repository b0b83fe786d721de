//! Commands in programs of their own: their dependencies are large, and few users need them.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::args::{Cli, CompanionArgs};
use super::failure::{Code, Failed};

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

/// Becomes the companion: it replaces this process, with its own arguments and the same streams.
///
/// The companion is searched for in the folder of this program, then on the `PATH`. It gets the
/// lake from `STEPLAKE_LAKE`, as if the user had set that.
///
/// # Errors
///
/// Always: the function returns only if the companion cannot be started.
pub(super) fn become_one(
    cli: &Cli,
    companion: Companion,
    command: Option<&str>,
    args: &[OsString],
) -> Failed {
    let error = process(cli, companion, command, args).exec();
    let name = companion.name();
    if error.kind() == ErrorKind::NotFound {
        return Failed::new(
            Code::Failed,
            format!(
                "this command is a program of its own, `{name}`, and is neither beside `steplake` nor on the \
                 PATH: build it with `cargo build --release -p {name}`"
            ),
        );
    }
    Failed::new(Code::Failed, format!("`{name}` cannot be started: {error}"))
}

fn process(cli: &Cli, companion: Companion, command: Option<&str>, args: &[OsString]) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "a part of this program, with its limits and its surroundings"
    )]
    let mut process = Command::new(place(companion));
    // Options precede the arguments: these may end with a word that looks like an option but is
    // none.
    if cli.verbose > 0 {
        process.arg(format!("-{}", "v".repeat(usize::from(cli.verbose))));
    }
    if cli.quiet {
        process.arg("--quiet");
    }
    process.args(command).args(args).env("STEPLAKE_LAKE", &cli.lake);
    process
}

/// Becomes the companion, for a command that exists only there.
pub(super) fn run(
    cli: &Cli,
    companion: Companion,
    command: Option<&str>,
    args: &CompanionArgs,
) -> Result<(), Failed> {
    Err(become_one(cli, companion, command, &args.arguments))
}

fn place(companion: Companion) -> PathBuf {
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

    #[test]
    fn what_holds_for_all_commands_comes_before_what_is_asked() {
        let line = ["steplake", "sql", "-vv", "SELECT 1", "--quiet"];
        let cli = Cli::try_parse_from(line).unwrap();
        let asked = ["--scheduler", "host:1", "--", "-1"].map(OsString::from);
        let process = process(&cli, Companion::Cluster, Some("sql"), &asked);
        let arguments: Vec<_> = process.get_args().collect();
        assert_eq!(arguments, ["-vv", "--quiet", "sql", "--scheduler", "host:1", "--", "-1"]);
    }
}
