//! Commands in programs of their own: their dependencies are large, and few users need them.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;

/// Replaces this process with the companion, which keeps the streams.
///
/// The companion is searched for in the folder of this program, then on the `PATH`. It takes the
/// lake from `STEPLAKE_LAKE`, as if the user had set that. If the user has not named a lake,
/// neither does this: a server of sessions records only if it is told to.
///
/// # Errors
///
/// Always: the function returns only if the companion cannot be started.
pub(super) fn exec_companion(
    global: &GlobalArgs,
    is_lake_named: bool,
    companion: &str,
    command: Option<&str>,
    args: &[OsString],
) -> Error {
    let error = process(global, is_lake_named, companion, command, args).exec();
    if error.kind() == io::ErrorKind::NotFound {
        return Error::new(
            ErrorKind::Failed,
            format!(
                "this command needs the program `{companion}`, which is neither beside `steplake` nor on the PATH: \
                 `make companions`, or `cargo build --release -p {companion}`, builds it"
            ),
        );
    }
    Error::new(ErrorKind::Failed, format!("`{companion}` cannot be started: {error}"))
}

fn process(
    global: &GlobalArgs,
    is_lake_named: bool,
    companion: &str,
    command: Option<&str>,
    args: &[OsString],
) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "it replaces this process, with the same limits and environment"
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
    if let Some(context) = &global.context {
        process.args(["--context", context]);
    }
    if is_lake_named {
        process.env("STEPLAKE_LAKE", &global.lake);
    }
    process.args(command).args(args);
    process
}

fn path(companion: &str) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(companion));
    match beside {
        Some(path) if path.is_file() => path,
        _ => companion.into(),
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
        let process = |is_lake_named| {
            process(&cli.global, is_lake_named, "steplake-cluster", Some("sql"), &asked)
        };
        let named = process(true);
        let arguments: Vec<_> = named.get_args().collect();
        assert_eq!(arguments, ["-vv", "--quiet", "sql", "--scheduler", "host:1", "--", "-1"]);
        assert_eq!([named.get_envs().count(), process(false).get_envs().count()], [1, 0]);
    }
}
