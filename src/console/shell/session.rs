//! State between statements: the snapshot, the settings, the destination of answers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::commands::{MetaCommand, help};
use super::completion::Names;
use super::describe;
use super::interrupt::ended;
use super::pager::{Pager, Screen};
use super::sink::{AnswerFile, Sink};
use super::statements::{InputKind, ShellInput};
use crate::console::arguments::{
    OutputArgs, SnapshotArgs, SqlArgs, demand_readable, of_file, table_limits,
};
use crate::console::progress::{Spinner, until_closed, write_answer};
use crate::console::source::{self, EngineSource, OpenEngine};
use crate::lake::{Lake, Snapshot, SnapshotId};
use crate::query::{Engine, Format, Position, QueryError, TableLimits, Written};
use crate::runtime::runtime;
use crate::{Error, ErrorKind};
use steplake_terminal::output::counted;

/// How long the shell waits until the work on a cancelled question stops.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// What to do after a piece.
#[derive(Debug)]
pub(super) enum Next {
    Continue,
    /// Answer the statements of a file, then continue.
    Include(PathBuf),
    Leave,
}

/// A question for the engine.
enum ShellQuestion {
    Sql(String),
    Named(String, Vec<(String, String)>),
}

/// The snapshot being read.
#[derive(Debug, Clone, Copy)]
struct ReadSnapshot {
    snapshot: SnapshotId,
    has_hot_rows: bool,
    /// Whether the user chose the snapshot by its number.
    is_pinned: bool,
    /// The newest snapshot already announced.
    announced: SnapshotId,
}

impl ReadSnapshot {
    fn new(snapshot: &Snapshot, asked: SnapshotArgs) -> Self {
        Self {
            snapshot: snapshot.id(),
            has_hot_rows: snapshot.has_hot_rows(),
            is_pinned: asked.snapshot.is_some(),
            announced: snapshot.history().last().map_or(snapshot.id(), |row| row.id),
        }
    }
}

/// The state of a shell or a script.
pub(super) struct ShellSession<'a> {
    source: EngineSource<'a>,
    lake: Lake,
    runtime: Option<Runtime>,
    engine: Arc<Engine>,
    names: Arc<Names>,
    reading: ReadSnapshot,
    /// The format that the user named; the ending of the output file decides otherwise.
    format: Option<Format>,
    is_expanded: bool,
    is_timed: bool,
    rows_max: Option<usize>,
    output: Option<AnswerFile>,
    /// The screen to which answers are fitted, in a shell.
    screen: Option<Screen>,
    is_shell: bool,
}

impl<'a> ShellSession<'a> {
    /// Opens the lake. Only a shell survives Ctrl-C.
    pub(super) fn open(
        source: &EngineSource<'a>,
        args: &SqlArgs,
        is_shell: bool,
    ) -> Result<Self, Error> {
        let OutputArgs { format, rows, output } = &args.output;
        args.output.limits()?;
        let lake = Lake::open(source.lake)?;
        let snapshot = source::snapshot(&lake, args.snapshot)?;
        let reading = ReadSnapshot::new(&snapshot, args.snapshot);
        let runtime = runtime()?;
        if is_shell {
            // From now on, Ctrl-C reaches those who wait for it, and does not end the process.
            runtime.block_on(async { signal(SignalKind::interrupt()).map(drop) })?;
        }
        let (engine, names) = runtime.block_on(open_engine(source.open, snapshot))?;
        Ok(Self {
            source: *source,
            lake,
            runtime: Some(runtime),
            engine,
            names,
            reading,
            format: *format,
            is_expanded: false,
            is_timed: is_shell,
            rows_max: *rows,
            output: output.clone().map(AnswerFile::create).transpose()?,
            screen: None,
            is_shell,
        })
    }

    /// Returns the name of the lake, with the snapshot if one was chosen by number.
    pub(super) fn name(&self) -> String {
        let name = self.lake.path().file_name().unwrap_or(self.lake.path().as_os_str());
        let name = name.to_string_lossy();
        match self.reading {
            _ if self.has_several_contexts() => self.engine.contexts().join("+"),
            ReadSnapshot { snapshot, is_pinned: true, .. } => format!("{name}@{snapshot}"),
            _ => name.into_owned(),
        }
    }

    /// Returns the names for completion.
    pub(super) fn names(&self) -> Arc<Names> {
        Arc::clone(&self.names)
    }

    /// Sets the size of the terminal.
    pub(super) fn set_screen(&mut self, screen: Option<Screen>) {
        self.screen = screen;
    }

    /// Returns the first message of a shell.
    pub(super) fn greeting(&self) -> String {
        format!("{}. `\\?` lists the commands, `\\q` leaves.\n", self.reading())
    }

    fn reading(&self) -> String {
        if self.has_several_contexts() {
            return format!("the newest snapshots of {}", self.engine.contexts().join(", "));
        }
        let ReadSnapshot { snapshot, has_hot_rows, .. } = self.reading;
        let hot = if has_hot_rows { " and what is not sealed yet" } else { "" };
        format!("{}: snapshot {snapshot}{hot}", self.lake.path().display())
    }

    /// Executes a piece. `script` is the name of its source, used in errors.
    pub(super) fn perform(
        &mut self,
        piece: &ShellInput,
        script: Option<&str>,
    ) -> Result<Next, Error> {
        let place = |line| script.map(|script| format!("{script}, line {line}"));
        let line = piece.at.line;
        match piece.kind {
            InputKind::Command => {
                let done = piece.text.parse().and_then(|command| self.execute(command));
                done.map_err(|failed| place(line).map_or(failed.clone(), |place| failed.at(&place)))
            }
            InputKind::Statement => {
                let asked = self.ask(ShellQuestion::Sql(piece.text.clone()));
                asked.map_err(|error| error.in_source(script, piece.at))
            }
        }
    }

    fn execute(&mut self, command: MetaCommand) -> Result<Next, Error> {
        let width = self.screen.map(|screen| screen.columns);
        match command {
            MetaCommand::Quit => return Ok(Next::Leave),
            MetaCommand::Help => self.show(&help())?,
            MetaCommand::Describe(None) => {
                self.show(&describe::relations(&self.names.relations, width))?;
            }
            MetaCommand::Describe(Some(name)) => {
                self.show(&describe::relation(&self.names.relations, &name, width)?)?;
            }
            MetaCommand::Functions(pattern) => {
                self.show(&describe::functions(&self.names.functions, pattern.as_deref(), width)?)?;
            }
            MetaCommand::Queries(None) => self.show(&describe::queries(width))?,
            MetaCommand::Queries(Some(name)) => self.show(&describe::query(&name)?)?,
            MetaCommand::Query(name, values) => {
                let asked = self.ask(ShellQuestion::Named(name, values));
                return asked.map_err(AskError::into_error);
            }
            MetaCommand::Snapshot(None) => {
                self.show(&format!("{}\n", self.reading()))?;
                let sql = "SELECT snapshot_id, kind, created_at, rows_added, detail FROM snapshots \
                           ORDER BY snapshot_id";
                let asked = self.ask(ShellQuestion::Sql(sql.to_owned()));
                return asked.map_err(AskError::into_error);
            }
            MetaCommand::Snapshot(number) => self.switch_to(number)?,
            MetaCommand::Refresh => self.switch_to(None)?,
            MetaCommand::Timing(on) => {
                self.is_timed = on.unwrap_or(!self.is_timed);
                self.confirm(&format!("timing is {}", on_off(self.is_timed)))?;
            }
            MetaCommand::Expanded(on) => {
                self.is_expanded = on.unwrap_or(!self.is_expanded);
                self.confirm(&format!("one line for each value is {}", on_off(self.is_expanded)))?;
            }
            MetaCommand::Format(None) => self.show(&format!("{}\n", self.format()))?,
            MetaCommand::Format(Some(format)) => {
                (self.format, self.is_expanded) = (Some(format), false);
                self.confirm(&format!("answers come as {format}"))?;
            }
            MetaCommand::Output(path) => self.send_to(path)?,
            MetaCommand::Include(path) => return Ok(Next::Include(path)),
        }
        Ok(Next::Continue)
    }

    /// Returns the format of the next answer.
    fn format(&self) -> Format {
        let file = self.output.as_ref().map(AnswerFile::path);
        match self.format.unwrap_or_else(|| of_file(file)) {
            Format::Table if self.is_expanded => Format::Expanded,
            format => format,
        }
    }

    fn send_to(&mut self, path: Option<PathBuf>) -> Result<(), Error> {
        let said = match &path {
            Some(path) => format!("answers go to {}", path.display()),
            None => "answers go to the screen".to_owned(),
        };
        self.output = path.map(AnswerFile::create).transpose()?;
        self.confirm(&said)
    }

    /// Switches to another snapshot; without a number, to everything that there is now.
    fn switch_to(&mut self, number: Option<i64>) -> Result<(), Error> {
        if number.is_some() && self.has_several_contexts() {
            let problem = "`\\snapshot N` chooses a snapshot of one lake or context: of several, the newest are read";
            return Err(Error::usage(problem));
        }
        let asked = SnapshotArgs { snapshot: number };
        let snapshot = source::snapshot(&self.lake, asked)?;
        let reading = ReadSnapshot::new(&snapshot, asked);
        let opening = open_engine(self.source.open, snapshot);
        (self.engine, self.names) = self.runtime().block_on(opening)?;
        self.reading = reading;
        self.confirm(&self.reading())
    }

    /// Returns a message about a newer snapshot, once for each.
    pub(super) fn new_snapshot(&mut self) -> Option<String> {
        if self.has_several_contexts() {
            return None;
        }
        // Ignores a lake that cannot be read now: the next question reports that.
        let newest = self.lake.newest().ok()?;
        if newest <= self.reading.announced {
            return None;
        }
        self.reading.announced = newest;
        let own = self.reading.snapshot;
        Some(format!(
            "the lake has snapshot {newest} now, and this shell reads {own}: `\\refresh` reads the newest"
        ))
    }

    fn has_several_contexts(&self) -> bool {
        !self.engine.contexts().is_empty()
    }

    /// Confirms the effect of a command, in a shell.
    fn confirm(&self, text: &str) -> Result<(), Error> {
        if self.is_shell { self.show(&format!("{text}\n")) } else { Ok(()) }
    }

    /// Shows a text that is not an answer.
    fn show(&self, text: &str) -> Result<(), Error> {
        let mut sink = Sink::stdout(self.screen, Spinner::idle());
        let shown = io::Write::write_all(&mut sink, text.as_bytes()).and_then(|()| sink.finish());
        ignore_closed_pipe(shown).map_err(Error::from)
    }

    /// Answers a question, and reports the time that it took. A script ends when its reader leaves.
    fn ask(&mut self, question: ShellQuestion) -> Result<Next, AskError> {
        let format = self.format();
        let limits = table_limits(self.rows_max, self.output.is_some());
        let started = Instant::now();
        let spinner = {
            let _runtime = self.runtime().enter();
            Spinner::start(self.source.is_quiet)
        };
        let sink = if let Some(file) = &self.output {
            file.next(format)?
        } else {
            demand_readable(format)?;
            Sink::stdout(self.screen, spinner.clone())
        };
        let pager = sink.pager();
        let engine = Arc::clone(&self.engine);
        let work = answer(engine, question, format, limits, sink, spinner.clone());
        let outcome = self.until_interrupted(work);
        spinner.end();
        let ended = pager.as_ref().and_then(Pager::begun).unwrap_or_else(Instant::now);
        if let Some(pager) = pager {
            pager.wait();
        }
        let took = ended.saturating_duration_since(started);
        let written = outcome?;
        if self.is_timed {
            let rows = written.filter(|_| !format.is_for_people() || self.output.is_some());
            let rows = rows.map(|written| counted(written.rows, "row") + ", ");
            say(&format!("{}{}", rows.unwrap_or_default(), duration(took)));
        }
        Ok(if written.is_none() && !self.is_shell { Next::Leave } else { Next::Continue })
    }

    /// Runs `work` to its end or, in a shell, until the user presses Ctrl-C.
    fn until_interrupted(
        &self,
        work: impl Future<Output = Result<Option<Written>, AskError>> + Send + 'static,
    ) -> Result<Option<Written>, AskError> {
        let task = self.runtime().spawn(work);
        match ended(task, self.is_shell, STOP_WAIT)? {
            Some(Ok(outcome)) => outcome,
            Some(Err(crash)) => Err(AskError::Command(Error::new(
                ErrorKind::Failed,
                format!("the question was not answered: {crash}"),
            ))),
            None => Err(AskError::Command(Error::new(ErrorKind::Interrupted, "cancelled"))),
        }
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("only a drop takes it")
    }
}

impl Drop for ShellSession<'_> {
    fn drop(&mut self) {
        // Work that does not stop must not keep the user from leaving.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Opens an engine over a snapshot, and collects its names.
async fn open_engine(
    open: &OpenEngine,
    snapshot: Snapshot,
) -> Result<(Arc<Engine>, Arc<Names>), QueryError> {
    let engine = open(snapshot).await?;
    let names = Names { relations: engine.relations().await?, functions: engine.functions() };
    Ok((Arc::new(engine), Arc::new(names)))
}

/// Answers a question and returns what was written; nothing if the reader closed the pipe.
async fn answer(
    engine: Arc<Engine>,
    question: ShellQuestion,
    format: Format,
    limits: TableLimits,
    mut sink: Sink,
    spinner: Spinner,
) -> Result<Option<Written>, AskError> {
    let answer = match &question {
        ShellQuestion::Sql(sql) => engine.sql(sql).await?,
        ShellQuestion::Named(name, values) => engine.named(name, values).await?,
    };
    let written = write_answer(answer, format, limits, &mut sink, &spinner).await;
    if sink.is_file() {
        // Whoever reads a file, or a pipe with a name, wants all of it.
        let written = written?;
        sink.finish()?;
        return Ok(Some(written));
    }
    let written = until_closed(written)?;
    if written.is_some() {
        ignore_closed_pipe(sink.finish())?;
    }
    Ok(written)
}

/// Ignores a closed pipe: the reader has left.
fn ignore_closed_pipe(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum AskError {
    Query(#[from] QueryError),
    Command(#[from] Error),
}

impl AskError {
    /// Converts to the error of a command; in a script, adds the position of the statement, which
    /// begins at `at`.
    fn in_source(self, script: Option<&str>, at: Position) -> Error {
        let Some(script) = script else { return self.into_error() };
        match self {
            Self::Query(QueryError::Sql { message, position: Some(position) }) => {
                let column = if position.line == 1 { at.column - 1 } else { 0 };
                let position = Position {
                    line: position.line + at.line - 1,
                    column: position.column + column,
                };
                let error = QueryError::Sql { message, position: Some(position) };
                Error::from(error).at(script)
            }
            other => other.into_error().at(&format!("{script}, line {}", at.line)),
        }
    }

    fn into_error(self) -> Error {
        match self {
            Self::Query(error) => error.into(),
            Self::Command(failed) => failed,
        }
    }
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        Self::Command(error.into())
    }
}

/// Prints something that is not part of an answer.
pub(super) fn say(text: &str) {
    // Standard error may be closed.
    let _ = io::Write::write_all(&mut io::stderr(), format!("{text}\n").as_bytes());
}

fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// Formats a duration: `12.3 ms`, `4.56 s`, `2 min 3 s`.
fn duration(took: Duration) -> String {
    let seconds = took.as_secs();
    match took.as_secs_f64() {
        short if short < 1.0 => format!("{:.1} ms", short * 1e3),
        middle if middle < 60.0 => format!("{middle:.2} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_readable() {
        for (millis, text) in [(12, "12.0 ms"), (4_560, "4.56 s"), (123_400, "2 min 3 s")] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }
}
