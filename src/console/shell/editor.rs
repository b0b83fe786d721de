//! The shell on a terminal: line editing with a history and completion.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Behavior, CompletionType, Config, Context, Editor, Helper};
use steplake_terminal::exit::report;

use super::completion::{Names, complete};
use super::pager::Screen;
use super::script;
use super::session::{ShellSession, say};
use super::statements::Statements;
use crate::{Error, ErrorKind};

/// The maximum number of entries in the history.
const HISTORY_MAX: usize = 10_000;

/// Reads and executes lines until the user leaves. Errors are printed, and the shell continues.
pub(super) fn run(session: &mut ShellSession<'_>) -> Result<(), Error> {
    let mut lines = LineReader::new()?;
    let mut statements = Statements::default();
    let mut entry = String::new();
    say(session.greeting().trim_end());
    loop {
        if statements.is_blank() {
            statements.clear();
            entry.clear();
            if let Some(message) = session.new_snapshot() {
                say(&message);
            }
        }
        let line = match lines.read(session, statements.waiting()) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                statements.clear();
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            // The terminal has changed its size.
            Err(ReadlineError::Signal(_)) => continue,
            Err(error) => return Err(Error::new(ErrorKind::Failed, error.to_string())),
        };
        entry.push_str(&line);
        match line.trim() {
            "quit" | "exit" if statements.is_blank() => return Ok(()),
            "help" | "?" if statements.is_blank() => statements.push("\\?"),
            _ => statements.push(&line),
        }
        let mut pieces = Vec::new();
        while let Some(piece) = statements.next() {
            pieces.push(piece);
        }
        if statements.is_blank() {
            lines.remember(&entry);
        } else {
            entry.push('\n');
        }
        session.set_screen(lines.screen());
        for piece in pieces {
            match script::perform(session, &piece, None, 0) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(()),
                Err(error) => {
                    report(&error);
                }
            }
        }
    }
}

/// A line reader.
struct LineReader {
    editor: Editor<Completion, FileHistory>,
    history: Option<PathBuf>,
    has_warned: bool,
    to_terminal: bool,
}

impl LineReader {
    fn new() -> Result<Self, Error> {
        let failed = |error: ReadlineError| Error::new(ErrorKind::Failed, error.to_string());
        // Even if answers go elsewhere, lines are read from the terminal.
        let to_terminal = std::io::stdout().is_terminal();
        let behavior = if to_terminal { Behavior::Stdio } else { Behavior::PreferTerm };
        let config = Config::builder()
            .max_history_size(HISTORY_MAX)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failed)?
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .behavior(behavior)
            .build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        let history = history();
        if let Some(path) = &history {
            // The first time, there is no history.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history, has_warned: false, to_terminal })
    }

    /// Reads a line; `waiting` holds the earlier lines of the same statement.
    fn read(&mut self, session: &ShellSession<'_>, waiting: &str) -> Result<String, ReadlineError> {
        let (names, before) = (session.names(), waiting.to_owned());
        self.editor.set_helper(Some(Completion { names, before, files: FilenameCompleter::new() }));
        let name = session.name();
        if waiting.trim().is_empty() {
            return self.editor.readline(&(format!("{name}> "), format!("\x1b[1m{name}>\x1b[0m ")));
        }
        let width = name.chars().count();
        self.editor.readline(&format!("{:>width$}> ", "·"))
    }

    /// Adds an entry to the history at once: shells may run side by side, and end in any way.
    fn remember(&mut self, entry: &str) {
        let is_new = self.editor.add_history_entry(entry.trim_end()).unwrap_or(false);
        let Some(path) = self.history.as_deref().filter(|_| is_new) else { return };
        if let Err(error) = append(&mut self.editor, path)
            && !self.has_warned
        {
            self.has_warned = true;
            say(&format!("the history cannot be kept in {}: {error}", path.display()));
        }
    }

    /// Returns the screen to which answers are fitted.
    fn screen(&mut self) -> Option<Screen> {
        if !self.to_terminal {
            return None;
        }
        let (columns, rows) = self.editor.dimensions()?;
        Some(Screen { columns: columns.into(), rows: rows.into() })
    }
}

fn append(editor: &mut Editor<Completion, FileHistory>, path: &Path) -> Result<(), ReadlineError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    editor.append_history(path)
}

/// Returns the path of the history: in the user's folder for data not worth a backup.
fn history() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".local").join("state")))?;
    Some(state.join("steplake").join("history"))
}

/// The data for completion on Tab.
struct Completion {
    names: Arc<Names>,
    before: String,
    files: FilenameCompleter,
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if ["\\i ", "\\o "].iter().any(|command| line.trim_start().starts_with(command)) {
            return self.files.complete(line, cursor, context);
        }
        Ok(complete(&self.names, &self.before, line, cursor))
    }
}

impl Helper for Completion {}
impl Highlighter for Completion {}
impl Hinter for Completion {
    type Hint = String;
}
impl Validator for Completion {}
