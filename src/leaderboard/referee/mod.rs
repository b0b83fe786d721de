//! Rows of leaderboards, played again in the environment of their task, and methods that are run
//! for their rows.

mod from_source;
mod play;
mod run;
mod verified;
mod verify;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use self::play::{ParsedCommandLine, PlayError, PlayResult, Player, TaskProgram};
pub use self::verified::Verified;
pub use self::verify::{EntryVerification, Sample};
use crate::env::worker::WorkerConfig;
use crate::environments::catalogue::{Catalogue, inputs_folder};
use crate::environments::{Environments, live};
use crate::execution::Oracle;
use crate::generate::ProgramProvider as _;
use crate::leaderboard::{
    Entry, EntryRow, Scores, Task, WallTime, actions_of, digest_of, geometric_mean, is_reproduced,
    options_of,
};
use crate::model::{ActionIndex, ActionSpace};
use crate::sandbox::Interrupt;
use crate::semantics::{Validation, Validator};
use crate::{Error, ErrorKind};

/// What a program does that is compiled without options; none if that tells nothing.
type ProgramOracle = Option<Oracle>;

/// Plays the rows of a task.
pub struct Referee {
    task: Task,
    player: Player,
    /// The programs of the task, in its order; none where a program is not wanted.
    subjects: Vec<Option<TaskProgram>>,
    interrupt: Interrupt,
}

/// Who sends rows, and what there is to say about them.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The name of the method.
    pub method: String,
    /// What the method does.
    pub description: Option<String>,
    /// Where more is to be read.
    pub link: Option<String>,
    /// The command that was run for each row, if [`Referee::run`] made the rows.
    pub command: Option<String>,
}

/// What came of playing rows again.
#[derive(Debug, Clone)]
pub enum Reproduction {
    /// All rows are as they say: the entry, and the rows with the rewards that were found.
    Entry(Box<Entry>, Vec<EntryRow>),
    /// What is wrong, a line for each row.
    Refused(Vec<String>),
}

/// A command line on a program, which several rows may have.
struct Attempt<'a> {
    /// The place of the program in the task.
    place: usize,
    line: &'a str,
    space: &'a ActionSpace,
    way: ParsedCommandLine,
    /// The rewards that rows say.
    claimed: Vec<f64>,
}

/// What playing an attempt showed.
struct AttemptVerdict {
    played: PlayResult,
    /// Whether the program was run, and does what it does untouched.
    is_run: bool,
}

/// What rows turned out to be.
struct Replayed {
    /// What is wrong, a line for each row.
    problems: Vec<String>,
    /// The other rows, with the rewards that were found.
    found: Vec<EntryRow>,
    /// The geometric mean, over these, of the cost that rewards are relative to, divided by the
    /// cost that is left.
    reference_over_cost: f64,
    /// The action spaces of the command lines, by name.
    spaces: Vec<String>,
    /// How many different results were run.
    results_run: usize,
}

/// Hears how much of how much is done.
pub type OnPlayed<'a> = dyn FnMut(u64, u64) + 'a;

impl Referee {
    /// Opens the environment of a task, and loads its programs. `interrupt` stops whatever the
    /// referee does.
    ///
    /// # Errors
    ///
    /// If there is no such environment or program, or the compiler is another than the task's.
    pub fn of(
        environments: &Environments,
        task: &Task,
        interrupt: Interrupt,
    ) -> Result<Self, Error> {
        Self::of_some(environments, task, interrupt, &|_| true)
    }

    /// Does the same, with those programs alone that are wanted, by their places in the task.
    fn of_some(
        environments: &Environments,
        task: &Task,
        interrupt: Interrupt,
        is_wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Self, Error> {
        let config = WorkerConfig { interrupt: interrupt.clone(), ..environments.worker_config() };
        let here = environments.open(&task.environment)?;
        let catalogue = Catalogue::of(here.as_ref(), &config)?;
        let environment = live(here, config.clone());
        let spec = environment.spec();
        if !task.is_of(&spec.compiler) {
            return Err(Error::new(
                ErrorKind::Failed,
                format!(
                    "`{}` is about {}, and what is here is {}: its rows cannot be played here",
                    task.name, task.compiler, spec.compiler
                ),
            ));
        }
        let known = spec.reward_spaces.iter().find(|space| space.name == task.reward.as_str());
        let reward = known.cloned().ok_or_else(|| {
            let (task, reward) = (&task.name, &task.reward);
            Error::usage(format!("`{task}`: {} has no reward `{reward}`", spec.name))
        })?;
        let subject = |(place, uri): (usize, &String)| {
            if !is_wanted(place) {
                return Ok(None);
            }
            let uri = catalogue.one(uri)?;
            let benchmark = catalogue.load(&uri)?;
            let baselines = catalogue.baselines(&benchmark);
            Ok(Some(TaskProgram { source: catalogue.source(&uri), baselines, benchmark }))
        };
        let subjects = task.benchmarks.iter().enumerate().map(subject);
        let subjects = subjects.collect::<Result<_, Error>>()?;
        let player = Player { environment, reward, config };
        Ok(Self { task: task.clone(), player, subjects, interrupt })
    }

    /// Plays rows, which are [complete](crate::leaderboard::demand_complete), and says whether they
    /// are what they say. A row is refused if its command line gives another reward, also in a
    /// second worker, or a program that does something else. If it applies actions, it is also
    /// refused if these give other states there; if it makes choices, if a plain call of the
    /// compiler does not make the same of the program's source, or what it makes cannot be linked.
    ///
    /// # Errors
    ///
    /// If a command line is none, or the machine fails.
    pub fn reproduce(
        &self,
        rows: &[EntryRow],
        submission: Submission,
        progress: &mut OnPlayed<'_>,
    ) -> Result<Reproduction, Error> {
        let replayed = self.replayed(rows, progress)?;
        if !replayed.problems.is_empty() {
            return Ok(Reproduction::Refused(replayed.problems));
        }
        let entry = self.entry(&replayed, submission)?;
        Ok(Reproduction::Entry(Box::new(entry), replayed.found))
    }

    /// Plays rows, whose programs are loaded.
    fn replayed(&self, rows: &[EntryRow], progress: &mut OnPlayed<'_>) -> Result<Replayed, Error> {
        let attempts = self.attempts(rows)?;
        let verdicts = self.judged(&attempts, progress)?;
        let verdicts: BTreeMap<_, _> = attempts
            .iter()
            .zip(&verdicts)
            .map(|(attempt, verdict)| ((attempt.place, attempt.line), verdict))
            .collect();
        let (mut problems, mut found, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let verdict = verdicts[&(self.place(row)?, row.commandline.as_str())];
            match verdict {
                Err(why) => problems.push(said(row, why)),
                Ok(AttemptVerdict { played, .. }) if !is_reproduced(row.reward, played.reward) => {
                    let (claimed, found) = (row.reward, played.reward);
                    problems.push(said(row, &format!("its reward is {found}, not {claimed}")));
                }
                Ok(AttemptVerdict { played, .. }) => {
                    ratios.push(played.reference / played.cost.max(1.0));
                    found.push(EntryRow { reward: played.reward, ..row.clone() });
                }
            }
        }
        let are_run = verdicts.values().filter(|verdict| matches!(verdict, Ok(of) if of.is_run));
        let mut spaces: Vec<String> = attempts.iter().map(|of| of.space.name.clone()).collect();
        spaces.sort_unstable();
        spaces.dedup();
        let (results_run, reference_over_cost) = (are_run.count(), geometric_mean(ratios));
        Ok(Replayed { problems, found, reference_over_cost, spaces, results_run })
    }

    /// Describes rows that were played: all of the task.
    fn entry(&self, replayed: &Replayed, submission: Submission) -> Result<Entry, Error> {
        let mut programs = blake3::Hasher::new();
        for place in 0..self.subjects.len() {
            let program = &self.subject(place)?.benchmark.program;
            programs.update(blake3::hash(program).as_bytes());
        }
        let rows = &replayed.found;
        let spec = self.player.environment.spec();
        let is_measured = submission.command.is_some();
        Ok(Entry {
            task: self.task.name.clone(),
            task_digest: self.task.digest(),
            method: submission.method,
            description: submission.description,
            link: submission.link,
            command: submission.command,
            wall_time: if is_measured { WallTime::Measured } else { WallTime::SelfReported },
            steplake: env!("CARGO_PKG_VERSION").to_owned(),
            environment: spec.name.to_string(),
            compiler: spec.compiler.clone(),
            target: spec.target.clone(),
            action_spaces: replayed.spaces.clone(),
            programs_digest: programs.finalize().to_hex().to_string(),
            rows_digest: digest_of(rows),
            results_run: replayed.results_run,
            scores: Scores::of(rows),
            reference_over_cost: replayed.reference_over_cost,
        })
    }

    /// Returns a program of the task.
    fn subject(&self, place: usize) -> Result<&TaskProgram, Error> {
        let subject = self.subjects.get(place).and_then(Option::as_ref);
        let task = &self.task.name;
        let lacks = || Error::new(ErrorKind::Failed, format!("a program of `{task}` is missing"));
        subject.ok_or_else(lacks)
    }

    /// Returns the place of a row's program in the task.
    fn place(&self, row: &EntryRow) -> Result<usize, Error> {
        self.task.place(&row.benchmark).ok_or_else(|| {
            let (benchmark, task) = (&row.benchmark, &self.task.name);
            Error::usage(format!("{benchmark} is no program of `{task}`"))
        })
    }

    /// Returns those action spaces of the task that the environment has.
    fn spaces(&self) -> impl Iterator<Item = &ActionSpace> {
        let spec = self.player.environment.spec();
        self.task.action_spaces.iter().filter_map(|name| spec.action_space(name))
    }

    /// Reads a command line in the first action space of the task in which it can be read. The
    /// error is about the usual space.
    fn read(&self, line: &str) -> Result<(&ActionSpace, ParsedCommandLine), String> {
        let mut first = None;
        for space in self.spaces() {
            match self.way(space, line) {
                Ok(way) => return Ok((space, way)),
                Err(why) => {
                    first.get_or_insert(why);
                }
            }
        }
        let environment = &self.task.environment;
        Err(first.unwrap_or_else(|| format!("{environment} has no action space of the task")))
    }

    /// Reads a command line. Where states are given by choices, a call of the compiler sets them.
    fn way(&self, space: &ActionSpace, line: &str) -> Result<ParsedCommandLine, String> {
        match (self.player.environment.choices(), options_of(line)) {
            (Some(choices), Some(options)) => {
                choices.read(&options).map(ParsedCommandLine::Choices)
            }
            _ => actions_of(space, line).map(ParsedCommandLine::Actions),
        }
    }

    /// Returns the different command lines of programs.
    fn attempts<'a>(&'a self, rows: &'a [EntryRow]) -> Result<Vec<Attempt<'a>>, Error> {
        let mut attempts: BTreeMap<(usize, &str), Attempt<'_>> = BTreeMap::new();
        for row in rows {
            let (place, line) = (self.place(row)?, row.commandline.as_str());
            let read = self.read(line);
            let (space, way) = read.map_err(|why| Error::usage(said(row, &why)))?;
            let attempt = Attempt { place, line, space, way, claimed: Vec::new() };
            attempts.entry((place, line)).or_insert(attempt).claimed.push(row.reward);
        }
        Ok(attempts.into_values().collect())
    }

    /// Plays attempts on all cores, those of a program together.
    fn judged(
        &self,
        attempts: &[Attempt<'_>],
        progress: &mut OnPlayed<'_>,
    ) -> Result<Vec<Result<AttemptVerdict, String>>, Error> {
        let jobs = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let of_programs = attempts.chunk_by(|one, next| one.place == next.place);
        let of_programs: Vec<&[Attempt<'_>]> = of_programs.collect();
        let (next, all) = (AtomicUsize::new(0), attempts.len() as u64);
        let (sender, receiver) = mpsc::channel();
        progress(0, all);
        let mut verdicts = std::thread::scope(|scope| {
            for _ in 0..jobs.min(of_programs.len()) {
                let (sender, next, of_programs) = (sender.clone(), &next, &of_programs);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(attempts) = of_programs.get(at) else { break };
                        if sender.send((at, self.judge(attempts))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let (mut verdicts, mut done) = (Vec::new(), 0);
            for (at, judged) in receiver {
                let judged = judged?;
                done += judged.len() as u64;
                verdicts.push((at, judged));
                progress(done, all);
            }
            Ok::<_, Error>(verdicts)
        })?;
        verdicts.sort_by_key(|(at, _)| *at);
        Ok(verdicts.into_iter().flat_map(|(_, judged)| judged).collect())
    }

    /// Plays attempts on one program, and those that are what a row says, once more in a second
    /// worker; then runs the program, if it is known how. The inner error says why rows are
    /// refused.
    fn judge(
        &self,
        attempts: &[Attempt<'_>],
    ) -> Result<Vec<Result<AttemptVerdict, String>>, Error> {
        let Some(first) = attempts.first() else { return Ok(Vec::new()) };
        let subject = self.subject(first.place)?;
        let apart = self.player.apart();
        let second = apart.as_ref().unwrap_or(&self.player);
        let (mut verdicts, mut claimed) = (Vec::new(), Vec::new());
        // What the program does without options, once somebody wants to know.
        let mut known: Option<ProgramOracle> = None;
        for attempt in attempts {
            let played = match self.player.play(attempt.space, subject, &attempt.way) {
                Err(PlayError::Failed(error)) => return Err(error),
                Err(PlayError::Refused(why)) => {
                    verdicts.push(Err(why));
                    continue;
                }
                Ok(played) => played,
            };
            let is_it = |&reward: &f64| is_reproduced(reward, played.reward);
            let mut verdict = Ok(AttemptVerdict { played, is_run: false });
            if attempt.claimed.iter().any(is_it) {
                match &attempt.way {
                    ParsedCommandLine::Actions(actions) => {
                        claimed.push((verdicts.len(), attempt.space, actions.as_slice()));
                    }
                    ParsedCommandLine::Choices(choices) => {
                        verdict = match differs(second, attempt, subject, played)? {
                            Some(why) => Err(why),
                            None => self
                                .holds_from_source(subject, choices, played, &mut known)?
                                .map(|is_run| AttemptVerdict { played, is_run }),
                        };
                    }
                }
            }
            verdicts.push(verdict);
        }
        claimed.sort_by_key(|(_, space, _)| space.name.as_str());
        for claimed in claimed.chunk_by(|one, next| one.1.name == next.1.name) {
            let sequences: Vec<_> = claimed.iter().map(|(_, _, actions)| *actions).collect();
            let validations = self.validated(&claimed[0].1.name, subject, &sequences)?;
            for ((at, ..), validation) in claimed.iter().zip(validations) {
                let differs = validation.difference.map(|difference| {
                    let how = difference.line();
                    format!("its command line makes a program that does something else: {how}")
                });
                if let Some(wrong) = differs.or(validation.not_repeated) {
                    verdicts[*at] = Err(wrong);
                } else if let Ok(verdict) = &mut verdicts[*at] {
                    verdict.is_run = validation.is_checked;
                }
            }
        }
        Ok(verdicts)
    }

    /// Plays sequences in two workers, and runs the program if it is known how.
    fn validated(
        &self,
        space: &str,
        subject: &TaskProgram,
        sequences: &[&[ActionIndex]],
    ) -> Result<Vec<Validation>, Error> {
        let mut validator = Validator::new(
            self.player.environment.as_ref(),
            space,
            &subject.benchmark,
            subject.source.clone(),
            inputs_folder(),
            self.interrupt.clone(),
        )?;
        let validations = sequences.iter().map(|actions| validator.sequence(actions));
        Ok(validations.collect::<Result<_, _>>()?)
    }
}

impl std::fmt::Debug for Referee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Referee").field("task", &self.task.name).finish_non_exhaustive()
    }
}

/// Plays choices in a second worker, and says what is otherwise there.
fn differs(
    second: &Player,
    attempt: &Attempt<'_>,
    subject: &TaskProgram,
    first: PlayResult,
) -> Result<Option<String>, Error> {
    match second.play(attempt.space, subject, &attempt.way) {
        Err(PlayError::Failed(error)) => Err(error),
        Err(PlayError::Refused(why)) => Ok(Some(format!("in a second worker, {why}"))),
        Ok(again) if again == first => Ok(None),
        Ok(again) => {
            let (one, other) = (first.reward, again.reward);
            Ok(Some(format!("its reward is {one}, and {other} in a second worker")))
        }
    }
}

/// Says what is wrong with a row.
fn said(row: &EntryRow, why: &str) -> String {
    format!("line {}, {}: {why}", row.line, row.benchmark)
}
