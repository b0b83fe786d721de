//! Results in CompilerGym's format: CSV of `benchmark,reward,walltime,commandline`.

use std::fs;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Writer};
use serde::{Deserialize, Serialize};

use super::error::LeaderboardError;
use super::task::Task;

/// The columns, in their usual order.
pub const COLUMNS: [&str; 4] = ["benchmark", "reward", "walltime", "commandline"];

/// The most problems that a message names.
const PROBLEMS_MAX: usize = 5;

/// What a method reached on a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryRow {
    /// The URI of the benchmark.
    pub benchmark: String,
    /// The sum of the rewards.
    pub reward: f64,
    /// The seconds that the method took to find the command line.
    pub walltime: f64,
    /// What was done, as [`actions_of`](super::actions_of) reads it.
    pub commandline: String,
    /// The line of the file, from 1.
    #[serde(skip)]
    pub line: u64,
}

/// Reads the rows of a file.
///
/// # Errors
///
/// If the file cannot be read, or is something else.
pub fn read_rows(path: &Path) -> Result<Vec<EntryRow>, LeaderboardError> {
    let read = |source| LeaderboardError::Read { path: path.to_owned(), source };
    parse(path, &fs::read(path).map_err(read)?)
}

/// Reads the rows of a file with these bytes.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<EntryRow>, LeaderboardError> {
    let bad = |line, problem| LeaderboardError::BadRow { path: path.to_owned(), line, problem };
    let failed = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        bad(line, problem(&error))
    };
    let mut reader = ReaderBuilder::new().from_reader(bytes);
    let columns = reader.headers().map_err(failed)?.clone();
    let mut sorted: Vec<&str> = columns.iter().collect();
    sorted.sort_unstable();
    let mut wanted = COLUMNS;
    wanted.sort_unstable();
    if sorted != wanted {
        let found = columns.iter().collect::<Vec<_>>().join(",");
        return Err(LeaderboardError::Columns { path: path.to_owned(), found });
    }
    let row = |record: Result<StringRecord, csv::Error>| {
        let record = record.map_err(failed)?;
        let line = record.position().map_or(1, csv::Position::line);
        let row: EntryRow = record.deserialize(Some(&columns)).map_err(|error| {
            let (problem, line) = (problem(&error), line);
            bad(line, problem)
        })?;
        if !row.reward.is_finite() {
            return Err(bad(line, format!("`{}` is no reward", row.reward)));
        }
        if !row.walltime.is_finite() || row.walltime < 0.0 {
            return Err(bad(line, format!("`{}` is no number of seconds", row.walltime)));
        }
        Ok(EntryRow { line, ..row })
    };
    reader.records().map(row).collect()
}

/// Says what is wrong without the place, which the message has already.
fn problem(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { len, expected_len, .. } => {
            format!("it has {len} fields, and there are {expected_len} columns")
        }
        csv::ErrorKind::Deserialize { err, .. } => {
            let field = err.field().and_then(|at| usize::try_from(at).ok());
            let column = field.and_then(|at| COLUMNS.get(at)).copied().unwrap_or("a field");
            let problem = match err.kind() {
                csv::DeserializeErrorKind::ParseInt(_) => "it is no whole number".to_owned(),
                csv::DeserializeErrorKind::ParseFloat(_) => "it is no number".to_owned(),
                csv::DeserializeErrorKind::ParseBool(_) => {
                    "it is neither true nor false".to_owned()
                }
                other => other.to_string(),
            };
            format!("{column}: {problem}")
        }
        _ => error.to_string(),
    }
}

/// Returns rows as a file has them.
///
/// # Panics
///
/// Never: it writes to memory.
pub fn written(rows: &[EntryRow]) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).expect("memory takes it");
    }
    String::from_utf8(writer.into_inner().expect("memory takes it")).expect("it is of texts")
}

/// Returns the digest of rows as a file has them.
pub fn digest_of(rows: &[EntryRow]) -> String {
    blake3::hash(written(rows).as_bytes()).to_hex().to_string()
}

/// Refuses rows that are not those of all benchmarks of a task, as many as it wants of each.
/// Returns them in the task's order.
///
/// # Errors
///
/// [`LeaderboardError::Incomplete`], with what is missing or too much.
pub fn demand_complete(
    path: &Path,
    task: &Task,
    rows: Vec<EntryRow>,
) -> Result<Vec<EntryRow>, LeaderboardError> {
    let n = task.rows_per_benchmark;
    let mut problems = Vec::new();
    let (mut placed, mut counts) = (Vec::new(), vec![0; task.benchmarks.len()]);
    for row in rows {
        let Some(place) = task.place(&row.benchmark) else {
            problems.push(format!("line {} has {}, which is another", row.line, row.benchmark));
            continue;
        };
        counts[place] += 1;
        placed.push((place, row));
    }
    for (benchmark, &count) in task.benchmarks.iter().zip(&counts) {
        if count != n {
            problems.push(format!("{benchmark} has {count}"));
        }
    }
    if problems.is_empty() {
        placed.sort_by_key(|(place, _)| *place);
        return Ok(placed.into_iter().map(|(_, row)| row).collect());
    }
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    problems.truncate(PROBLEMS_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let rows = if n == 1 { "1 row".to_owned() } else { format!("{n} rows") };
    Err(LeaderboardError::Incomplete {
        path: path.to_owned(),
        task: task.name.clone(),
        wanted: format!("{rows} for each of its {} benchmarks", task.benchmarks.len()),
        problems: problems.join(", ") + &more,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A task of two benchmarks with two rows each.
    pub(in crate::leaderboard) fn task() -> Task {
        Task {
            name: "toy-v0".to_owned(),
            title: "Two toys".to_owned(),
            environment: "toy-v0".to_owned(),
            compiler: "toy 1".to_owned(),
            action_spaces: vec!["toy-v0".to_owned()],
            reward: "Cost".to_owned(),
            reference: "untouched".to_owned(),
            rows_per_benchmark: 2,
            benchmarks: [1, 2].map(|seed| format!("generator://toy-v0/{seed}")).to_vec(),
        }
    }

    pub(in crate::leaderboard) fn row(benchmark: u32, reward: f64) -> EntryRow {
        EntryRow {
            benchmark: format!("generator://toy-v0/{benchmark}"),
            reward,
            walltime: 1.5,
            commandline: "a b".to_owned(),
            line: 0,
        }
    }

    fn parsed(text: &str) -> Result<Vec<EntryRow>, String> {
        parse(Path::new("r.csv"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_read_and_written() {
        let text = "benchmark,reward,walltime,commandline\n\
                    generator://toy-v0/1,1.03,12.5,\"opt -passes='a,b' input.bc -o output.bc\"\n";
        let rows = parsed(text).unwrap();
        assert_eq!(rows[0].commandline, "opt -passes='a,b' input.bc -o output.bc");
        assert_eq!((rows[0].reward, rows[0].walltime, rows[0].line), (1.03, 12.5, 2));
        assert_eq!(written(&rows), text);
        let moved = "commandline,walltime,reward,benchmark\n,0,1,generator://toy-v0/1\n";
        assert_eq!(parsed(moved).unwrap()[0].benchmark, "generator://toy-v0/1");
    }

    #[test]
    fn what_is_no_row_is_said_with_its_line() {
        for (text, said) in [
            ("", "r.csv has the columns ``: write `benchmark,reward,walltime,commandline`"),
            ("benchmark,reward\na,1\n", "r.csv has the columns `benchmark,reward`: write"),
            ("benchmark,reward,walltime,commandline\na,b,1,c\n", "r.csv, line 2: reward: "),
            ("benchmark,reward,walltime,commandline\na,1,-1,c\n", "line 2: `-1` is no number of"),
            ("benchmark,reward,walltime,commandline\na,NaN,1,c\n", "line 2: `NaN` is no reward"),
            (
                "benchmark,reward,walltime,commandline\na,1,1,c\na,1,1\n",
                "line 3: it has 3 fields, and there are 4 columns",
            ),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn complete_rows_are_put_in_the_tasks_order() {
        let rows = [(2, 0.1), (1, 0.2), (2, 0.3), (1, 0.4)].map(|(of, reward)| row(of, reward));
        let rows = demand_complete(Path::new("r.csv"), &task(), rows.to_vec()).unwrap();
        let rewards: Vec<f64> = rows.iter().map(|row| row.reward).collect();
        assert_eq!(rewards, [0.2, 0.4, 0.1, 0.3]);
    }

    #[test]
    fn what_is_missing_or_too_much_is_said() {
        let rows = vec![row(1, 0.1), row(1, 0.1), row(1, 0.1), EntryRow { line: 7, ..row(3, 0.1) }];
        let error = demand_complete(Path::new("r.csv"), &task(), rows).unwrap_err();
        assert_eq!(
            error.to_string(),
            "r.csv is not complete: `toy-v0` wants 2 rows for each of its 2 benchmarks; line 7 has \
             generator://toy-v0/3, which is another, generator://toy-v0/1 has 3, \
             generator://toy-v0/2 has 0"
        );
    }
}
