//! `sql` without a question: a shell on a terminal, else the statements of a file or of standard
//! input.
//!
//! - `statements` finds the end of each statement, `commands` parses lines that begin with a
//!   backslash.
//! - `session` executes both, and holds the snapshot and the settings between them; `interrupt`
//!   ends a question early.
//! - `editor` reads lines with a history and completion, `script` reads them from files.

mod commands;
mod completion;
mod describe;
mod editor;
mod interrupt;
mod pager;
mod script;
mod session;
mod sink;
mod statements;

use std::io::{BufReader, IsTerminal};

use self::session::ShellSession;
use super::arguments::SqlArgs;
use super::source::EngineSource;
use crate::Error;

/// Answers statements until there are no more, or the user leaves. A script ends at the first
/// error, a shell continues.
pub(super) fn run(source: &EngineSource<'_>, args: &SqlArgs) -> Result<(), Error> {
    if let Some(path) = &args.file
        && path.as_os_str() != "-"
    {
        return script::file(&mut ShellSession::open(source, args, false)?, path, 0).map(drop);
    }
    if args.file.is_none() && std::io::stdin().is_terminal() {
        return editor::run(&mut ShellSession::open(source, args, true)?);
    }
    let input = BufReader::new(std::io::stdin());
    script::run(&mut ShellSession::open(source, args, false)?, input, "standard input", 0).map(drop)
}
