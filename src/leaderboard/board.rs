//! A folder of tasks and entries.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::entry::{Entry, file_stem};
use super::error::LeaderboardError;
use super::row::{EntryRow, demand_complete, parse, written};
use super::scores::Scores;
use super::task::Task;
use crate::model::plain_problem;

/// The folder of tasks in that of a board.
const TASKS: &str = "tasks";

/// How far a score may be from that of the rows: the last bits of logarithms differ by machine.
const SCORE_OFF_MAX: f64 = 1e-9;

/// A folder of leaderboards.
#[derive(Debug)]
pub struct Board {
    folder: PathBuf,
    tasks: Vec<Task>,
}

impl Board {
    /// Opens the board in a folder, which need not exist yet.
    ///
    /// # Errors
    ///
    /// If the folder has tasks of its own, and one of them is none.
    pub fn open(folder: &Path) -> Result<Self, LeaderboardError> {
        let tasks = folder.join(TASKS);
        let tasks = if tasks.is_dir() {
            let read = |path: PathBuf| Task::parse(&path, &text(&path)?);
            files(&tasks, "json")?.into_iter().map(read).collect::<Result<_, _>>()?
        } else {
            Task::shipped()
        };
        Ok(Self { folder: folder.to_owned(), tasks })
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the tasks, by name.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Returns the task called `name`.
    ///
    /// # Errors
    ///
    /// [`LeaderboardError::UnknownTask`].
    pub fn task(&self, name: &str) -> Result<&Task, LeaderboardError> {
        self.tasks.iter().find(|task| task.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.tasks.iter().map(|task| task.name.as_str()).collect();
            LeaderboardError::UnknownTask { name: name.to_owned(), known: known.join(" or ") }
        })
    }

    /// Returns the one task that has the benchmarks of all rows, which come from the file `path`.
    ///
    /// # Errors
    ///
    /// [`LeaderboardError::WhichTask`].
    pub fn task_of(&self, path: &Path, rows: &[EntryRow]) -> Result<&Task, LeaderboardError> {
        let has_all = |task: &&Task| rows.iter().all(|row| task.place(&row.benchmark).is_some());
        let of: Vec<&Task> = self.tasks.iter().filter(has_all).collect();
        if let [task] = of.as_slice() {
            return Ok(task);
        }
        let names: Vec<&str> = of.iter().map(|task| task.name.as_str()).collect();
        let of = if names.is_empty() { "no task".to_owned() } else { names.join(" and ") };
        Err(LeaderboardError::WhichTask { path: path.to_owned(), of })
    }

    /// Returns the entries of a task with their rows, the highest score over all rows first.
    ///
    /// # Errors
    ///
    /// If one is damaged, or is of a task that said something else.
    pub fn entries(&self, task: &Task) -> Result<Vec<(Entry, Vec<EntryRow>)>, LeaderboardError> {
        let folder = self.folder.join(&task.name);
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let files = files(&folder, "json")?.into_iter();
        let mut entries = files.map(|path| read(&path, task)).collect::<Result<Vec<_>, _>>()?;
        entries.sort_by(|(one, _), (other, _)| {
            let scores = |entry: &Entry| [entry.scores.all_rows, entry.scores.best_of_n];
            let by_scores = scores(other).into_iter().zip(scores(one));
            let by_scores = by_scores.map(|(other, one)| other.total_cmp(&one));
            by_scores
                .fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
                .then_with(|| one.method.cmp(&other.method))
        });
        Ok(entries)
    }

    /// Returns the file of the entry that a method will have.
    ///
    /// # Errors
    ///
    /// [`LeaderboardError::Known`] if it has one, or [`LeaderboardError::BadMethod`].
    pub fn new_place(&self, task: &Task, method: &str) -> Result<PathBuf, LeaderboardError> {
        let stem = file_stem(method);
        if stem.is_empty() {
            return Err(LeaderboardError::BadMethod(method.to_owned()));
        }
        let path = self.folder.join(&task.name).join(stem + ".json");
        // A crash may have left rows without an entry.
        let known = [path.clone(), path.with_extension("csv")].into_iter().find(|one| one.exists());
        known.map_or(Ok(path), |path| Err(LeaderboardError::Known { path }))
    }

    /// Writes an entry, and its rows beside it. Returns the entry's file.
    ///
    /// # Errors
    ///
    /// If the method has one already, or the folder cannot be written.
    pub fn add(&self, entry: &Entry, rows: &[EntryRow]) -> Result<PathBuf, LeaderboardError> {
        let path = self.new_place(self.task(&entry.task)?, &entry.method)?;
        let folder = self.folder.join(&entry.task);
        let failed =
            |path: &Path, source| LeaderboardError::Write { path: path.to_owned(), source };
        fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
        let of_rows = path.with_extension("csv");
        // Whoever is first has the name.
        let taken = |path: &Path, error: io::Error| match error.kind() {
            ErrorKind::AlreadyExists => LeaderboardError::Known { path: path.to_owned() },
            _ => failed(path, error),
        };
        File::create_new(&of_rows)
            .and_then(|mut file| file.write_all(written(rows).as_bytes()))
            .map_err(|error| taken(&of_rows, error))?;
        let text = serde_json::to_string_pretty(entry).expect("an entry is text and numbers");
        // Last, so that an entry has its rows.
        let done = File::create_new(&path).and_then(|mut file| writeln!(file, "{text}"));
        done.map_err(|error| {
            let _ = fs::remove_file(&of_rows);
            taken(&path, error)
        })?;
        Ok(path)
    }
}

/// Reads an entry and its rows.
fn read(path: &Path, task: &Task) -> Result<(Entry, Vec<EntryRow>), LeaderboardError> {
    let bad = |detail: String| LeaderboardError::BadEntry { path: path.to_owned(), detail };
    let entry: Entry = serde_json::from_str(&text(path)?)
        .map_err(|error| bad(plain_problem(&error.to_string())))?;
    if entry.task != task.name {
        return Err(bad(format!("it is of `{}`", entry.task)));
    }
    if entry.task_digest != task.digest() {
        let said = "the task said something else then: a changed task wants another version";
        return Err(bad(said.to_owned()));
    }
    let of_rows = path.with_extension("csv");
    let bytes = text(&of_rows)?;
    if blake3::hash(bytes.as_bytes()).to_hex().as_str() != entry.rows_digest {
        return Err(bad(format!("{} has other rows", of_rows.display())));
    }
    let rows = demand_complete(&of_rows, task, parse(&of_rows, bytes.as_bytes())?)?;
    let scores = Scores::of(&rows);
    let is_off = |one: f64, other: f64| (one - other).abs() > SCORE_OFF_MAX;
    if is_off(scores.all_rows, entry.scores.all_rows)
        || is_off(scores.best_of_n, entry.scores.best_of_n)
    {
        return Err(bad(format!("its rows have the scores {scores:?}")));
    }
    Ok((entry, rows))
}

fn text(path: &Path) -> Result<String, LeaderboardError> {
    let failed = |source| LeaderboardError::Read { path: path.to_owned(), source };
    fs::read_to_string(path).map_err(failed)
}

/// The files of a folder with this ending, by name.
fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, LeaderboardError> {
    let failed = |source| LeaderboardError::Read { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(failed)?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.retain(|path| path.extension().is_some_and(|own| own == ending));
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::leaderboard::entry::tests::entry;
    use crate::leaderboard::row::tests::{row, task};

    /// A board with the task of the tests, in a folder that goes with it.
    pub(in crate::leaderboard) fn board() -> (tempfile::TempDir, Board) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(TASKS)).unwrap();
        let text = serde_json::to_string(&task()).unwrap();
        fs::write(folder.path().join("tasks/toy-v0.json"), text).unwrap();
        let board = Board::open(folder.path()).unwrap();
        (folder, board)
    }

    fn rows(reward: f64) -> Vec<EntryRow> {
        [1, 1, 2, 2].map(|of| row(of, reward)).to_vec()
    }

    #[test]
    fn entries_are_kept_and_the_best_comes_first() {
        let (folder, board) = board();
        for (method, reward) in [("low", 0.5), ("high", 2.0), ("lower", 0.5)] {
            board.add(&entry(method, &rows(reward)), &rows(reward)).unwrap();
        }
        let again = Board::open(folder.path()).unwrap();
        let entries = again.entries(&task()).unwrap();
        let methods: Vec<&str> = entries.iter().map(|(entry, _)| entry.method.as_str()).collect();
        assert_eq!(methods, ["high", "low", "lower"]);
        assert_eq!(entries[0].1[3].line, 5);
        let known = board.add(&entry("HIGH!", &rows(9.0)), &rows(9.0)).unwrap_err().to_string();
        assert!(known.contains("high.json is there already"), "{known}");
    }

    #[test]
    fn what_is_not_what_was_added_is_refused() {
        let (folder, board) = board();
        let path = board.add(&entry("one", &rows(0.5)), &rows(0.5)).unwrap();
        let refused = || board.entries(&task()).unwrap_err().to_string();
        fs::write(path.with_extension("csv"), written(&rows(0.6))).unwrap();
        assert!(refused().contains("one.csv has other rows"));
        fs::write(path.with_extension("csv"), written(&rows(0.5))).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"all_rows\": 0.5", "\"all_rows\": 0.7")).unwrap();
        assert!(refused().contains("its rows have the scores"), "{}", refused());
        fs::write(&path, text).unwrap();
        let changed = Task { reward: "Other".to_owned(), ..task() };
        let error = board.entries(&changed).unwrap_err().to_string();
        assert!(error.contains("the task said something else"), "{error}");
        assert!(folder.path().join("toy-v0").is_dir());
    }

    #[test]
    fn an_entry_without_the_worst_rows_of_its_method_is_refused() {
        let (_folder, board) = board();
        let best = &rows(2.0)[..3];
        board.add(&entry("best", best), best).unwrap();
        let error = board.entries(&task()).unwrap_err().to_string();
        assert!(error.contains("best.csv is not complete: `toy-v0` wants 2 rows"), "{error}");
    }

    #[test]
    fn a_task_is_found_by_its_name_or_by_its_benchmarks() {
        let (folder, board) = board();
        let path = Path::new("r.csv");
        assert_eq!(board.task_of(path, &rows(1.0)).unwrap().name, "toy-v0");
        let error = board.task_of(path, &[row(3, 1.0)]).unwrap_err().to_string();
        assert!(error.contains("r.csv has the benchmarks of no task: say"), "{error}");
        let twin = Task { name: "twin-v0".to_owned(), ..task() };
        let text = serde_json::to_string(&twin).unwrap();
        fs::write(folder.path().join("tasks/twin-v0.json"), text).unwrap();
        let board = Board::open(folder.path()).unwrap();
        let error = board.task_of(path, &rows(1.0)).unwrap_err().to_string();
        assert!(error.contains("of toy-v0 and twin-v0: say of which task"), "{error}");
        let error = board.task("toy").unwrap_err().to_string();
        assert_eq!(error, "there is no task `toy`: write toy-v0 or twin-v0");
    }
}
