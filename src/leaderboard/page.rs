//! Tables for people, in Markdown.

use std::fmt::Write as _;
use std::path::Path;

use super::board::Board;
use super::entry::{Entry, WallTime, file_stem};
use super::error::LeaderboardError;
use super::row::EntryRow;
use super::task::Task;

/// The line of a page before the tables.
pub const BEGIN: &str = "<!-- leaderboards: begin -->";

/// The line of a page after the tables.
pub const END: &str = "<!-- leaderboards: end -->";

/// Returns the tables of tasks, the best entry first. `rows_at` is where the board's folder lies as
/// seen from the page, if entries are to link to their rows.
///
/// # Errors
///
/// If an entry cannot be read.
pub fn tables(
    board: &Board,
    tasks: &[&Task],
    rows_at: Option<&str>,
) -> Result<String, LeaderboardError> {
    each(board, tasks, rows_at, &|_| true, "")
}

/// Returns the tables of tasks for somebody who believes the entries alone that `is_verified`: they
/// come first, and the others are marked. So is in all entries what no row tells that is played
/// again: that wall times were measured, the command, and the version of steplake.
///
/// # Errors
///
/// If an entry cannot be read.
pub fn tables_of_verified(
    board: &Board,
    tasks: &[&Task],
    is_verified: &dyn Fn(&Entry) -> bool,
) -> Result<String, LeaderboardError> {
    each(board, tasks, None, is_verified, CLAIMED)
}

fn each(
    board: &Board,
    tasks: &[&Task],
    rows_at: Option<&str>,
    is_verified: &dyn Fn(&Entry) -> bool,
    claimed: &str,
) -> Result<String, LeaderboardError> {
    let texts = tasks.iter().map(|task| {
        let mut entries = board.entries(task)?;
        entries.sort_by_key(|(entry, _)| !is_verified(entry));
        let table = table(task, &entries, rows_at, is_verified, claimed);
        Ok(heading(task) + "\n" + &table + &remarks(&entries, claimed))
    });
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// Returns a page with these tables in place of those that it has.
///
/// # Errors
///
/// If it has no place for them.
pub fn in_page(path: &Path, page: &str, tables: &str) -> Result<String, LeaderboardError> {
    let found = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{BEGIN}\n\n{tables}\n{END}{after}"))
    });
    let path = path.to_owned();
    found.ok_or(LeaderboardError::NoPlace { path, begin: BEGIN, end: END })
}

fn heading(task: &Task) -> String {
    let Task { name, title, environment, compiler, reward, rows_per_benchmark, .. } = task;
    let count = task.benchmarks.len();
    let rows = if *rows_per_benchmark == 1 { "row" } else { "rows" };
    format!(
        "### {title}\n\n`{name}`: the reward `{reward}` in `{environment}` with {compiler}.\n\
         {count} programs, {rows_per_benchmark} {rows} for each.\n"
    )
}

/// What follows the method of an entry whose rows were not played here.
const UNVERIFIED: &str = " (not verified here)";

/// What follows a fact that nobody can play again.
const CLAIMED: &str = " (as its author says)";

/// The columns of a table that hold numbers.
const NUMBERS: std::ops::Range<usize> = 1..5;

/// The table of a task.
fn table(
    task: &Task,
    entries: &[(Entry, Vec<EntryRow>)],
    rows_at: Option<&str>,
    is_verified: &dyn Fn(&Entry) -> bool,
    claimed: &str,
) -> String {
    if entries.is_empty() {
        return "No entry yet.\n".to_owned();
    }
    let best = format!("best of {}", task.rows_per_benchmark);
    let ratio = format!("{} / result", task.reference);
    let mut lines =
        vec![["method", "all rows", &best, &ratio, "time for a row", "actions"].map(str::to_owned)];
    lines.extend(entries.iter().map(|(entry, rows)| {
        let method = cell(&entry.method);
        let method = match rows_at {
            Some(at) => format!("[{method}]({at}/{}/{}.csv)", task.name, file_stem(&entry.method)),
            None => method,
        };
        let mark = if is_verified(entry) { "" } else { UNVERIFIED };
        [
            method + mark,
            format!("{:.3}", entry.scores.all_rows),
            format!("{:.3}", entry.scores.best_of_n),
            format!("{:.3}", entry.reference_over_cost),
            time(entry.wall_time, rows, claimed),
            entry.action_spaces.join(", "),
        ]
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..6).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for (place, line) in lines.iter().enumerate() {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let is_number = NUMBERS.contains(&column);
            let _ = if is_number {
                write!(text, "| {cell:>width$} ")
            } else {
                write!(text, "| {cell:<width$} ")
            };
        }
        text += "|\n";
        if place == 0 {
            for (column, width) in widths.iter().enumerate() {
                let end = if NUMBERS.contains(&column) { ':' } else { '-' };
                let _ = write!(text, "|{}{end}", "-".repeat(width + 1));
            }
            text += "|\n";
        }
    }
    text
}

/// The mean wall time of rows, and who says so.
fn time(by: WallTime, rows: &[EntryRow], claimed: &str) -> String {
    let sum_and_count = |(sum, count), row: &EntryRow| (sum + row.walltime, count + 1.0);
    let (sum, count) = rows.iter().fold((0.0, 0.0), sum_and_count);
    let mean: f64 = sum / f64::max(count, 1.0);
    if mean <= 0.0 {
        return "not given".to_owned();
    }
    let time = if mean < 0.1 { format!("{:.1} ms", mean * 1e3) } else { format!("{mean:.1} s") };
    match by {
        WallTime::Measured => time + claimed,
        WallTime::SelfReported => time + " (self-reported)",
    }
}

/// What entries say of themselves, and what they were played with.
fn remarks(entries: &[(Entry, Vec<EntryRow>)], claimed: &str) -> String {
    let mut text = String::new();
    for (entry, _) in entries {
        let begins = if text.is_empty() { "\n" } else { "" };
        let mut said = vec![format!("{begins}- {}:", cell(&entry.method))];
        said.extend(entry.description.as_deref().map(|text| sentence(&cell(text))));
        said.extend(
            entry.link.as_deref().map(|link| format!("<{}>.", cell(link).replace('>', "%3E"))),
        );
        said.extend(
            entry
                .command
                .as_deref()
                .map(|command| format!("Run as `{}`{claimed}.", cell(command).replace('`', "'"))),
        );
        let Entry { steplake, compiler, results_run, .. } = entry;
        let run = match results_run {
            0 => String::new(),
            1 => "; 1 result was run".to_owned(),
            _ => format!("; {results_run} results were run"),
        };
        said.push(format!("Played by steplake {steplake}{claimed} with {compiler}{run}."));
        text += &filled(&said.join(" "));
    }
    text
}

/// A text that cannot end the cell of a table, the line, or the tables of the page.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|").replace('<', "&lt;")
}

fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// The most columns of a line of prose.
const COLUMNS_MAX: usize = 118;

/// An item of a list in lines that fit the screen.
fn filled(item: &str) -> String {
    let (mut text, mut columns) = (String::new(), 0);
    for word in item.split(' ') {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > COLUMNS_MAX {
            text += "\n  ";
            columns = 2;
        } else if columns > 0 {
            text.push(' ');
            columns += 1;
        }
        text += word;
        columns += length;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaderboard::board::tests::board;
    use crate::leaderboard::entry::tests::entry;
    use crate::leaderboard::row::tests::{row, task};

    #[test]
    fn what_an_entry_says_does_not_end_the_tables() {
        let (_folder, board) = board();
        let says = Some(format!("{END}\n# Mine"));
        let one = Entry {
            description: says.clone(),
            link: says.clone(),
            command: says,
            ..entry("One", &[row(1, 1.0), row(1, 4.0), row(2, 2.0), row(2, 8.0)])
        };
        board.add(&one, &[row(1, 1.0), row(1, 4.0), row(2, 2.0), row(2, 8.0)]).unwrap();
        let text = tables(&board, &[&task()], None).unwrap();
        assert!(!text.contains(END) && !text.contains("\n# Mine"), "{text}");
    }

    #[test]
    fn a_table_has_both_scores_and_says_who_timed() {
        let (_folder, board) = board();
        let rows =
            |reward: f64| [(1, 1.0), (1, 4.0), (2, 2.0), (2, reward)].map(|(of, r)| row(of, r));
        let one = Entry {
            description: Some("Draws | actions".to_owned()),
            link: Some("https://example.org/a".to_owned()),
            ..entry("One | two", &rows(8.0))
        };
        board.add(&one, &rows(8.0)).unwrap();
        let timed = Entry { wall_time: WallTime::Measured, ..entry("Three", &rows(0.5)) };
        board.add(&timed, &rows(0.5)).unwrap();
        let text = tables(&board, &[&task()], Some("../boards")).unwrap();
        let wanted = "\
### Two toys

`toy-v0`: the reward `Cost` in `toy-v0` with toy 1.
2 programs, 2 rows for each.

| method                                        | all rows | best of 2 | untouched / result |        time for a row | actions |
|-----------------------------------------------|---------:|----------:|-------------------:|----------------------:|---------|
| [One \\| two](../boards/toy-v0/one-two.csv)    |    2.828 |     5.657 |              1.250 | 1.5 s (self-reported) | toy-v0  |
| [Three](../boards/toy-v0/three.csv)           |    1.414 |     2.828 |              1.250 |                 1.5 s | toy-v0  |

- One \\| two: Draws \\| actions. <https://example.org/a>. Played by steplake 1.2.3 with toy 1.
- Three: Played by steplake 1.2.3 with toy 1.
";
        let squeezed = |text: &str| {
            let words = text.split([' ', '-']).filter(|word| !word.is_empty());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(squeezed(&text), squeezed(wanted), "{text}");
        let rows: Vec<usize> =
            text.lines().filter(|line| line.starts_with('|')).map(str::len).collect();
        assert!(rows.iter().all(|length| *length == rows[0]), "{text}");
    }

    #[test]
    fn what_was_not_verified_is_marked_and_comes_last() {
        let (_folder, board) = board();
        let rows = |reward: f64| [1, 1, 2, 2].map(|of| row(of, reward));
        for (method, reward) in [("Forged", 9.0), ("Other", 3.0), ("Played", 0.5)] {
            board.add(&entry(method, &rows(reward)), &rows(reward)).unwrap();
        }
        let is_verified = |entry: &Entry| entry.method == "Played";
        let text = tables_of_verified(&board, &[&task()], &is_verified).unwrap();
        let methods: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
            .map(str::trim)
            .collect();
        let wanted =
            ["method", "Played", "Forged (not verified here)", "Other (not verified here)"];
        assert_eq!(methods, wanted, "{text}");
    }

    #[test]
    fn what_nobody_can_play_again_is_what_the_author_says() {
        let (_folder, board) = board();
        let rows = [1, 1, 2, 2].map(|of| row(of, 2.0));
        let (wall_time, command) = (WallTime::Measured, Some("mine {seed}".to_owned()));
        let timed = Entry { command, wall_time, ..entry("Timed", &rows) };
        board.add(&timed, &rows).unwrap();
        let text = tables_of_verified(&board, &[&task()], &|_| true).unwrap();
        let remark = "- Timed: Run as `mine {seed}` (as its author says). Played by steplake 1.2.3 \
                      (as its author says) with toy 1.\n";
        assert!(text.contains("| 1.5 s (as its author says) |"), "{text}");
        assert!(text.ends_with(remark), "{text}");
        // The page for everybody is by those who have added the entries to it.
        let text = tables(&board, &[&task()], None).unwrap();
        assert!(!text.contains("author"), "{text}");
    }

    #[test]
    fn tables_take_the_place_of_those_that_a_page_has() {
        let path = Path::new("page.md");
        let page = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nThe end.\n");
        let done = in_page(path, &page, "new\n").unwrap();
        assert_eq!(done, format!("# Title\n\n{BEGIN}\n\nnew\n\n{END}\n\nThe end.\n"));
        assert_eq!(in_page(path, &done, "new\n").unwrap(), done);
        let error = in_page(path, "# Title\n", "new\n").unwrap_err().to_string();
        assert!(error.contains("page.md has no place for the tables: write the lines"), "{error}");
    }
}
