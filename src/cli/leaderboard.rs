//! `leaderboard`.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering;

use super::args::{AddArgs, LeaderboardCommand, RenderArgs, ShowArgs, VerifyEntriesArgs};
use super::generate::interrupt;
use crate::console::whole_file::WholeFile;
use crate::environments::Environments;
use crate::leaderboard::referee::{OnPlayed, Referee, Reproduction, Sample, Submission, Verified};
use crate::leaderboard::{
    BEGIN, Board, END, Entry, EntryRow, Task, WallTime, demand_complete, in_page, read_rows,
    tables, tables_of_verified, written,
};
use crate::model::line;
use crate::sandbox::Interrupt;
use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::exit;
use steplake_terminal::output::{counted, print, with_bar};

pub(super) fn run(
    environments: &Environments,
    global: &GlobalArgs,
    command: &LeaderboardCommand,
) -> Result<(), Error> {
    match command {
        LeaderboardCommand::Add(args) => add(environments, global, args),
        LeaderboardCommand::Verify(args) => verify(environments, global, args),
        LeaderboardCommand::Show(args) => show(args),
        LeaderboardCommand::Render(args) => render(args),
    }
}

fn add(environments: &Environments, global: &GlobalArgs, args: &AddArgs) -> Result<(), Error> {
    let board = Board::open(&args.board.board)?;
    let stem = args.results.file_stem().unwrap_or_default().to_string_lossy();
    let method = args.method.clone().unwrap_or_else(|| stem.into_owned());
    let command = (!args.command.is_empty()).then(|| args.command.join(" "));
    let named = args.task.as_deref().map(|name| board.task(name)).transpose()?;
    let interrupted = interrupt()?;
    let interrupt = Interrupt::new(move || interrupted.load(Ordering::Relaxed));
    let (task, referee, rows) = if command.is_none() {
        let rows = read_rows(&args.results)?;
        let task = named.map_or_else(|| board.task_of(&args.results, &rows), Ok)?;
        let rows = demand_complete(&args.results, task, rows)?;
        board.new_place(task, &method)?;
        (task, Referee::of(environments, task, interrupt)?, rows)
    } else {
        let task = named
            .ok_or_else(|| Error::usage("say which task the command is for, with --task NAME"))?;
        board.new_place(task, &method)?;
        let referee = Referee::of(environments, task, interrupt)?;
        let rows = found_rows(global, args, &referee)?;
        (task, referee, demand_complete(&args.results, task, rows)?)
    };
    let submission = Submission {
        method,
        description: args.description.clone(),
        link: args.link.clone(),
        command,
    };
    let template = "{bar:24.cyan} {pos}/{len} command lines played {eta}";
    let done =
        with_bar(global, template, |progress| referee.reproduce(&rows, submission, progress));
    let done = done.map_err(|error| match error.kind() {
        ErrorKind::Interrupted => {
            let said = "interrupted: nothing is added, and the same call plays all rows again";
            let resumed = if args.command.is_empty() { "" } else { " with --resume" };
            Error::new(ErrorKind::Interrupted, format!("{said}{resumed}"))
        }
        _ => error,
    });
    match done? {
        Reproduction::Entry(entry, rows) => {
            let path = board.add(&entry, &rows)?;
            Verified::here().note(&entry);
            print(&added(task, &entry, &rows, &path))
        }
        Reproduction::Refused(problems) => {
            print(&(problems.join("\n") + "\n"))?;
            let wrong = format!("{} of {}", problems.len(), counted(rows.len() as u64, "row"));
            let said = format!("nothing is added: {wrong} did not turn out as written, see above");
            Err(Error::new(ErrorKind::Found, said))
        }
    }
}

/// Runs the command for its rows, and writes each of them down before anything else is done. The
/// file has all rows so far at any moment.
fn found_rows(
    global: &GlobalArgs,
    args: &AddArgs,
    referee: &Referee,
) -> Result<Vec<EntryRow>, Error> {
    let path = &args.results;
    let refused = |said: &str| Err(Error::usage(format!("{} {said}", path.display())));
    // Rows of another command are not to be taken for those of this one.
    let (of, words) = (path.with_added_extension("command"), shell_words::join(&args.command));
    let before = match (path.exists(), args.resume) {
        (true, true) => match fs::read_to_string(&of) {
            Ok(before) if before.trim_end() == words => read_rows(path)?,
            Ok(before) => {
                let other = before.trim_end();
                return refused(&format!("has rows of `{other}`: name another file to write"));
            }
            Err(_) => {
                let of = of.display();
                return refused(&format!(
                    "has rows of which no {of} says who wrote them: name another file to write"
                ));
            }
        },
        (true, false) => {
            return refused(
                "is there already: name a file to write, or go on after its rows with --resume",
            );
        }
        (false, _) => Vec::new(),
    };
    let template = "{bar:24.cyan} {pos}/{len} rows {eta}";
    let whole = |path: &Path, text: &str| {
        let mut file = WholeFile::create(path)?;
        file.write_all(text.as_bytes())?;
        file.finish()
    };
    let mut keep = |rows: &[EntryRow]| {
        if rows.len() == 1 {
            whole(&of, &format!("{words}\n"))?;
        }
        whole(path, &written(rows))
    };
    let run = |progress: &mut OnPlayed<'_>| referee.run(&args.command, before, progress, &mut keep);
    with_bar(global, template, run)?;
    Ok(read_rows(path)?)
}

/// Says what was added.
fn added(task: &Task, entry: &Entry, rows: &[EntryRow], path: &Path) -> String {
    let Entry { method, scores, reference_over_cost, wall_time, .. } = entry;
    let mut text = format!(
        "{method}: {:.3} over {}, {:.3} best of {}, {} / result {reference_over_cost:.3}\n",
        scores.all_rows,
        counted(rows.len() as u64, "row"),
        scores.best_of_n,
        task.rows_per_benchmark,
        task.reference,
    );
    let times = match wall_time {
        WallTime::Measured => "measured",
        WallTime::SelfReported => "self-reported",
    };
    let run = counted(entry.results_run as u64, "result");
    let _ = writeln!(text, "all rows played again, {run} run; wall times are {times}");
    let _ = writeln!(text, "added as {}", path.display());
    text
}

fn show(args: &ShowArgs) -> Result<(), Error> {
    let board = Board::open(&args.board.board)?;
    let tasks = match &args.task {
        Some(name) => vec![board.task(name)?],
        None => board.tasks().iter().collect(),
    };
    let verified = Verified::here();
    let is_verified = |entry: &Entry| verified.has(entry);
    let mut text = tables_of_verified(&board, &tasks, &is_verified)?;
    let mut entries = Vec::new();
    for task in tasks {
        entries.extend(board.entries(task)?);
    }
    let unverified = entries.iter().filter(|(entry, _)| !is_verified(entry)).count();
    if unverified > 0 {
        let at = args.board.board.display();
        let _ = writeln!(
            text,
            "\n{} not verified here: `steplake leaderboard verify --board {at}` plays the rows again",
            number_of(unverified)
        );
    }
    print(&text)
}

/// Plays the rows of entries again, task by task.
fn verify(
    environments: &Environments,
    global: &GlobalArgs,
    args: &VerifyEntriesArgs,
) -> Result<(), Error> {
    let board = Board::open(&args.board.board)?;
    let tasks = match &args.task {
        Some(name) => vec![board.task(name)?],
        None => board.tasks().iter().collect(),
    };
    let interrupted = interrupt()?;
    let interrupt = Interrupt::new(move || interrupted.load(Ordering::Relaxed));
    let mut tally = Tally::default();
    for task in tasks {
        let is_wanted =
            |entry: &Entry| args.method.as_ref().is_none_or(|name| *name == entry.method);
        let entries = board.entries(task)?.into_iter().filter(|(entry, _)| is_wanted(entry));
        let entries: Vec<(Entry, usize, Sample)> = entries
            .map(|(entry, rows)| {
                let all = rows.len();
                let sample = match args.sample {
                    Some(count) => Sample::drawn(rows, count.get(), args.seed),
                    None => Sample::whole(rows),
                };
                (entry, all, sample)
            })
            .collect();
        tally.entries += entries.len();
        let samples: Vec<Sample> = entries.iter().map(|(.., sample)| sample.clone()).collect();
        if samples.is_empty() {
            continue;
        }
        match Referee::of_samples(environments, task, &samples, interrupt.clone()) {
            Ok(referee) => {
                for (entry, all, sample) in &entries {
                    tally.wrong += usize::from(!verified(global, &referee, entry, *all, sample)?);
                }
            }
            // Other tasks may be about a compiler that is here.
            Err(error) if exit::code(error.kind()) == exit::FAILED => {
                tally.unplayed += entries.len();
                print(&format!("{}: {}\n", task.name, exit::with_advice(&error)))?;
            }
            Err(error) => return Err(error),
        }
    }
    tally.end()
}

/// How many entries there were, which of them are wrong, and which could not be played.
#[derive(Default)]
struct Tally {
    entries: usize,
    wrong: usize,
    unplayed: usize,
}

impl Tally {
    fn end(self) -> Result<(), Error> {
        let Self { entries, wrong, unplayed } = self;
        let all = number_of(entries);
        if wrong > 0 {
            let said = format!("{wrong} of {all} did not turn out as written, see above");
            return Err(Error::new(ErrorKind::Found, said));
        }
        if unplayed > 0 {
            let said = format!("{unplayed} of {all} cannot be played here, see above");
            return Err(Error::new(ErrorKind::Failed, said));
        }
        if entries == 0 {
            return Err(Error::usage("there is no such entry: `leaderboard show` lists them"));
        }
        Ok(())
    }
}

fn number_of(entries: usize) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") }
}

/// Plays rows of an entry, and says what came of it. Returns whether it is as it says.
fn verified(
    global: &GlobalArgs,
    referee: &Referee,
    entry: &Entry,
    all: usize,
    sample: &Sample,
) -> Result<bool, Error> {
    let template = "{bar:24.cyan} {pos}/{len} command lines played {eta}";
    let done = with_bar(global, template, |progress| referee.verify(entry, sample, progress))?;
    let name = format!("{}, {}", entry.task, entry.method);
    if !done.problems.is_empty() {
        let lines = done.problems.iter().map(|problem| format!("{name}: {problem}\n"));
        print(&lines.collect::<String>())?;
        return Ok(false);
    }
    let played = match sample.rows.len() {
        played if played == all => format!("all {}", counted(all as u64, "row")),
        played => format!("{played} of {}", counted(all as u64, "row")),
    };
    let run = counted(done.results_run as u64, "result");
    print(&format!("{name}: {played} played again, {run} run\n"))?;
    if sample.is_whole {
        Verified::here().note(entry);
    }
    Ok(true)
}

fn render(args: &RenderArgs) -> Result<(), Error> {
    let board = Board::open(&args.board.board)?;
    let tasks: Vec<&Task> = board.tasks().iter().collect();
    let Some(path) = &args.output else { return print(&tables(&board, &tasks, None)?) };
    let before = match fs::read_to_string(path) {
        Ok(before) => Some(before),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            let said = format!("{} cannot be read: {}", path.display(), line(&error));
            return Err(Error::new(ErrorKind::Failed, said));
        }
    };
    let at = seen_from(path, board.folder());
    let texts = tables(&board, &tasks, Some(&at))?;
    let page = before.clone().unwrap_or_else(|| format!("# Leaderboards\n\n{BEGIN}\n{END}\n"));
    let page = in_page(path, &page, &texts)?;
    if before.as_ref() == Some(&page) {
        return print(&format!("{} is as it should be\n", path.display()));
    }
    if args.check {
        let (path, board) = (path.display(), args.board.board.display());
        return Err(Error::new(
            ErrorKind::Found,
            format!(
                "{path} does not show what is in {board}: \
                 `steplake leaderboard render --board {board} --output {path}` writes it anew"
            ),
        ));
    }
    write(path, &page)?;
    print(&format!("written to {}\n", path.display()))
}

/// Returns the path to a folder as seen from a page.
fn seen_from(page: &Path, folder: &Path) -> String {
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_missing| path.to_owned());
    let own = page.parent().filter(|parent| !parent.as_os_str().is_empty());
    let (own, folder) = (whole(own.unwrap_or(Path::new("."))), whole(folder));
    let shared = own.components().zip(folder.components()).take_while(|(one, other)| one == other);
    let shared = shared.count();
    let up = own.components().skip(shared).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(folder.components().skip(shared)).collect();
    path.display().to_string()
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| {
        let said = format!("{} cannot be written: {}", path.display(), line(&error));
        Error::new(ErrorKind::Failed, said)
    })
}
