//! Entries of a board, played again.

use super::{OnPlayed, Referee, Submission};
use crate::Error;
use crate::environments::Environments;
use crate::leaderboard::{Entry, EntryRow, Task};
use crate::model::Dice;
use crate::sandbox::Interrupt;

/// How far a figure of an entry may be from the one that is found, relative to that: sums of
/// logarithms differ in their last bits.
const OFF_MAX: f64 = 1e-6;

/// The rows of an entry that are to be played.
#[derive(Debug, Clone)]
pub struct Sample {
    /// These.
    pub rows: Vec<EntryRow>,
    /// Whether they are all of the entry's.
    pub is_whole: bool,
}

impl Sample {
    /// Takes all rows of an entry.
    pub fn whole(rows: Vec<EntryRow>) -> Self {
        Self { rows, is_whole: true }
    }

    /// Draws so many rows of an entry, in their order: all, if there are no more.
    pub fn drawn(rows: Vec<EntryRow>, count: usize, seed: i64) -> Self {
        if rows.len() <= count {
            return Self::whole(rows);
        }
        let mut dice = Dice::new(seed, 0);
        let mut drawn: Vec<(u64, EntryRow)> =
            rows.into_iter().map(|row| (dice.draw(), row)).collect();
        drawn.sort_by_key(|&(ticket, _)| ticket);
        drawn.truncate(count);
        let mut rows: Vec<EntryRow> = drawn.into_iter().map(|(_, row)| row).collect();
        rows.sort_by_key(|row| row.line);
        Self { rows, is_whole: false }
    }
}

/// What playing rows of an entry again showed.
#[derive(Debug, Clone)]
pub struct EntryVerification {
    /// What is not as the entry says, a line each.
    pub problems: Vec<String>,
    /// How many different results were run.
    pub results_run: usize,
}

impl Referee {
    /// Opens the environment of a task, and loads those of its programs that samples are about.
    ///
    /// # Errors
    ///
    /// Those of [`Referee::of`].
    pub fn of_samples(
        environments: &Environments,
        task: &Task,
        samples: &[Sample],
        interrupt: Interrupt,
    ) -> Result<Self, Error> {
        let of_rows = |sample: &Sample| {
            sample.rows.iter().filter_map(|row| task.place(&row.benchmark)).collect::<Vec<_>>()
        };
        // An entry says which programs it was about, all of them.
        let is_whole = samples.iter().any(|sample| sample.is_whole);
        let places: Vec<usize> = samples.iter().flat_map(of_rows).collect();
        Self::of_some(environments, task, interrupt, &|place| is_whole || places.contains(&place))
    }

    /// Plays rows of an entry again. If these are all, says also whether the entry is what they
    /// make here: its environment, compiler and target, its programs, action spaces and figures.
    /// Nothing tells whether its wall times, the command and the version of steplake behind them,
    /// and what it says of its method are true.
    ///
    /// # Errors
    ///
    /// If the machine fails.
    pub fn verify(
        &self,
        entry: &Entry,
        sample: &Sample,
        progress: &mut OnPlayed<'_>,
    ) -> Result<EntryVerification, Error> {
        let replayed = match self.replayed(&sample.rows, progress) {
            // Nobody has looked at these rows before.
            Err(error) if error.kind().is_of_caller() => {
                return Ok(EntryVerification { problems: vec![error.to_string()], results_run: 0 });
            }
            replayed => replayed?,
        };
        let results_run = replayed.results_run;
        let mut problems = replayed.problems.clone();
        if sample.is_whole && problems.is_empty() {
            let submission = Submission {
                method: entry.method.clone(),
                description: None,
                link: None,
                command: None,
            };
            problems = differences(entry, &self.entry(&replayed, submission)?);
        }
        Ok(EntryVerification { problems, results_run })
    }
}

/// What an entry says otherwise than the one that its rows make.
fn differences(said: &Entry, made: &Entry) -> Vec<String> {
    let mut problems = Vec::new();
    for (what, said, made) in [
        ("environment", &said.environment, &made.environment),
        ("compiler", &said.compiler, &made.compiler),
        ("target", &said.target, &made.target),
    ] {
        if said != made {
            problems.push(format!("the {what} is {made} here, and it says {said}"));
        }
    }
    if said.programs_digest != made.programs_digest {
        problems.push("it is about other programs than those of the task here".to_owned());
    }
    if said.action_spaces != made.action_spaces {
        let (said, made) = (said.action_spaces.join(", "), made.action_spaces.join(", "));
        problems.push(format!("its actions are of {made}, and it says {said}"));
    }
    if said.results_run > made.results_run {
        let (said, made) = (said.results_run, made.results_run);
        problems.push(format!("{made} of its results are run, and it says {said}"));
    }
    let (one, other) = (said.reference_over_cost, made.reference_over_cost);
    if (one - other).abs() > OFF_MAX * other.abs() {
        problems.push(format!("the reference is {other} times its results, and it says {one}"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaderboard::entry_for_tests;

    fn row(line: u64) -> EntryRow {
        EntryRow {
            benchmark: "generator://toy-v0/1".to_owned(),
            reward: 1.0,
            walltime: 0.0,
            commandline: String::new(),
            line,
        }
    }

    #[test]
    fn a_sample_has_so_many_rows_in_their_order() {
        let rows: Vec<EntryRow> = (2..12).map(row).collect();
        let lines =
            |sample: Sample| -> Vec<u64> { sample.rows.iter().map(|row| row.line).collect() };
        let drawn = lines(Sample::drawn(rows.clone(), 4, 1));
        assert_eq!(drawn.len(), 4);
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]), "{drawn:?}");
        assert_eq!(lines(Sample::drawn(rows.clone(), 4, 1)), drawn);
        assert_ne!(lines(Sample::drawn(rows.clone(), 4, 2)), drawn);
        assert!(Sample::drawn(rows.clone(), 10, 1).is_whole);
        assert!(!Sample::drawn(rows, 9, 1).is_whole);
    }

    #[test]
    fn what_an_entry_says_of_itself_has_to_be_what_its_rows_make() {
        let made = entry_for_tests("one");
        assert!(differences(&made, &made).is_empty());
        for (change, said) in [
            (
                (|entry: &mut Entry| entry.programs_digest = "0".to_owned()) as fn(&mut Entry),
                "other programs",
            ),
            (|entry| entry.environment = "toy-v1".to_owned(), "is toy-v0 here, and it says toy-v1"),
            (|entry| entry.compiler = "toy 1 (mine)".to_owned(), "the compiler is toy 1 here, and"),
            (|entry| entry.target = "other".to_owned(), "is none here, and it says other"),
            (|entry| entry.action_spaces = vec!["mine-v0".to_owned()], "it says mine-v0"),
            (|entry| entry.results_run = 9, "0 of its results are run, and it says 9"),
            (|entry| entry.reference_over_cost = 4.0, "is 1.25 times its results, and it says 4"),
        ] {
            let mut entry = made.clone();
            change(&mut entry);
            let [problem] = &differences(&entry, &made)[..] else { panic!("{said}") };
            assert!(problem.contains(said), "{problem}");
        }
    }
}
