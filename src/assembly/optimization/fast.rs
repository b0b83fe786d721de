//! The fastest program that a search found.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::goal::{GENERATION, Level};
use super::result::{Found, Optimized, Outcome, Times};
use super::subject::{Played, Subject, Wrong};
use crate::assembly::catalogue::inputs_folder;
use crate::assembly::command_error::{Code, CommandError};
use crate::assembly::recording::{Stopwatch, now_ms};
use crate::env::SessionError;
use crate::execution::{Executable, ExecutionError, Settings};
use crate::lake::{Lake, Rows};
use crate::measure::{Contest, ContestError, NoTimes, machine, median, rounds_within};
use crate::model::{ActionIndex, Execution, StateId};

/// The rounds of turns before a search, which say how long LLVM's own programs take.
const ROUNDS_BEFORE: usize = 3;

/// How many of the best sequences are compared once more after a search, and in how many rounds.
const FINALISTS_MAX: usize = 3;
const ROUNDS_OF_FINALISTS: usize = 9;

/// The least and the most rounds of turns on which the report rests, and the time that more than
/// the least may take.
const ROUNDS_OF_REPORT: (usize, usize) = (15, 99);
const TIME_OF_REPORT: Duration = Duration::from_secs(20);

/// The program untouched, and what LLVM's own pipelines make of it.
pub(super) struct Own {
    initial: StateId,
    untouched: Vec<u8>,
    oz: Vec<u8>,
    o3: Vec<u8>,
    /// What times them, and then the search.
    pub(super) stopwatch: Arc<Stopwatch>,
    /// The seconds of a run after `-O3`, with which the search compares its sequences.
    pub(super) reference: f64,
}

/// A sequence that came far.
struct Finalist {
    actions: Vec<ActionIndex>,
    played: Played,
    executable: Executable,
}

impl Subject {
    /// Makes the programs to compare with, and times them.
    pub(super) fn own(&self, execution: &Execution) -> Result<Own, CommandError> {
        let (mut session, started) = self.start(&self.benchmark, &self.space)?;
        let untouched = self.object(session.as_mut())?;
        let after = |level| -> Result<Vec<u8>, CommandError> {
            Ok(self.object(self.after(&self.benchmark, level)?.as_mut())?)
        };
        let (oz, o3) = (after(Level::Oz)?, after(Level::O3)?);
        let settings = Settings { inputs: inputs_folder(), ..Settings::default() };
        let contest = Contest::new(execution, settings, GENERATION, &untouched);
        let contest = contest.map_err(|error| self.not_timed(&error))?;
        let built = contest.build(&o3).map_err(|error| not_built(&error))?;
        let samples = self.timed(&contest, &[&built], ROUNDS_BEFORE)?;
        let reference = median(&samples.map_err(|what| self.changes(&what))?[0]);
        let (machine, interrupt) = (machine(None, None), self.interrupt.clone());
        let stopwatch = Stopwatch::new(contest, machine, interrupt, (&o3, reference));
        let stopwatch = Arc::new(stopwatch.map_err(|error| not_built(&error))?);
        Ok(Own { initial: started.state, untouched, oz, o3, stopwatch, reference })
    }

    /// Compares the best sequences with what LLVM's own pipelines make, and returns the best one
    /// if it is right and surely faster than the faster of those, or else the result of that. The
    /// samples of the best one and of the program untouched go into the lake.
    pub(super) fn fastest(
        &self,
        lake: &Path,
        own: &Own,
        sequences: &[Vec<ActionIndex>],
    ) -> Result<Optimized, CommandError> {
        let mut wrong = Wrong::default();
        let finalists = self.finalists(own, sequences)?;
        let mut best = self.right_one(own, finalists, &mut wrong)?;
        let times = match self.compared(own, best.as_ref().map(|(one, _)| &one.executable))? {
            Ok(times) => times,
            Err(what) => {
                let Some((one, _)) = best.take() else { return Err(self.changes(&what)) };
                // It did not do the same whenever it ran.
                wrong.note(one.actions, what);
                self.compared(own, None)?.map_err(|what| self.changes(&what))?
            }
        };
        keep(lake, self, own, &times, best.as_ref().map(|(finalist, _)| finalist.played.state))?;
        let wrong = [own.stopwatch.wrong(), wrong.lines()].concat();
        match best {
            Some((mut finalist, found)) if times.is_beaten() => {
                self.of_sequence(Outcome::Fast(times), found, &mut finalist.played, wrong)
            }
            _ => {
                let level = times.pipeline();
                self.of_pipeline(Outcome::Fast(times), level, wrong)
            }
        }
    }

    /// Times the program untouched, after `-Oz` and `-O3`, and the best one in turns. The inner
    /// error says why there are no times of the best one.
    fn compared(
        &self,
        own: &Own,
        best: Option<&Executable>,
    ) -> Result<Result<Times, String>, CommandError> {
        let contest = own.stopwatch.contest();
        let codes = [&own.untouched, &own.oz, &own.o3];
        let built = codes.iter().map(|code| contest.build(code));
        let built = built.collect::<Result<Vec<_>, _>>().map_err(|error| not_built(&error))?;
        let versions: Vec<&Executable> = built.iter().chain(best).collect();
        let one = match self.timed(contest, &versions, 1)? {
            Ok(samples) => samples,
            Err(what) => return Ok(Err(what)),
        };
        let rounds = rounds_within(TIME_OF_REPORT, &one, ROUNDS_OF_REPORT);
        let times = self.timed(contest, &versions, rounds)?.map(|samples| {
            let mut samples = samples.into_iter();
            let mut next = || samples.next().unwrap_or_default();
            let (untouched, oz, o3) = (next(), next(), next());
            Times { untouched, oz, o3, best: best.map(|_| next()) }
        });
        Ok(times)
    }

    /// Returns the best sequences whose programs differ, the best first.
    fn finalists(
        &self,
        own: &Own,
        sequences: &[Vec<ActionIndex>],
    ) -> Result<Vec<Finalist>, CommandError> {
        let mut codes = vec![own.untouched.clone(), own.oz.clone(), own.o3.clone()];
        let mut finalists = Vec::new();
        for actions in sequences {
            if finalists.len() == FINALISTS_MAX {
                break;
            }
            let Some(mut played) = self.play(actions)? else { continue };
            let code = self.object(played.session.as_mut())?;
            if codes.contains(&code) {
                continue;
            }
            let executable = own.stopwatch.contest().build(&code);
            let executable = executable.map_err(|error| not_built(&error))?;
            codes.push(code);
            finalists.push(Finalist { actions: actions.clone(), played, executable });
        }
        Ok(finalists)
    }

    /// Returns the finalist that is fastest by samples in turns, of those that are right. It is
    /// timed again for the report: the luckiest one of several looks faster than it is.
    fn right_one(
        &self,
        own: &Own,
        mut finalists: Vec<Finalist>,
        wrong: &mut Wrong,
    ) -> Result<Option<(Finalist, Found)>, CommandError> {
        let contest = own.stopwatch.contest();
        while !finalists.is_empty() {
            let place = if finalists.len() == 1 {
                0
            } else {
                let versions: Vec<_> = finalists.iter().map(|one| &one.executable).collect();
                match contest.turns(&versions, ROUNDS_OF_FINALISTS, &|| self.is_stopped()) {
                    Ok(samples) => {
                        let medians: Vec<f64> = samples.iter().map(|one| median(one)).collect();
                        let places = (0..medians.len())
                            .min_by(|&one, &other| medians[one].total_cmp(&medians[other]));
                        places.unwrap_or(0)
                    }
                    Err(NoTimes::Stopped) => return Err(SessionError::Interrupted.into()),
                    Err(NoTimes::Of(place, untimed)) => {
                        wrong.note(finalists.remove(place).actions, untimed.what);
                        continue;
                    }
                }
            };
            let finalist = finalists.remove(place);
            if wrong.excludes(&finalist.actions) {
                continue;
            }
            if let Some(found) = self.check(&finalist.actions, &finalist.played, wrong)? {
                return Ok(Some((finalist, found)));
            }
        }
        Ok(None)
    }

    fn is_stopped(&self) -> bool {
        self.interrupt.is_raised()
    }

    /// Times programs in turns. The inner error says why the last one has no time; the others,
    /// which LLVM's own pipelines made, have to have one.
    fn timed(
        &self,
        contest: &Contest,
        versions: &[&Executable],
        rounds: usize,
    ) -> Result<Result<Vec<Vec<f64>>, String>, CommandError> {
        match contest.turns(versions, rounds, &|| self.is_stopped()) {
            Ok(samples) => Ok(Ok(samples)),
            Err(NoTimes::Stopped) => Err(SessionError::Interrupted.into()),
            Err(NoTimes::Of(place, untimed)) if place + 1 == versions.len() => {
                Ok(Err(untimed.what))
            }
            Err(NoTimes::Of(_, untimed)) => Err(self.changes(&untimed.what)),
        }
    }

    /// Says that a program is not to be compared with others.
    fn changes(&self, what: &str) -> CommandError {
        let said = format!(
            "{} cannot be timed: {what}; LLVM's own pipelines change what it does, or it does not \
             do the same whenever it runs",
            self.benchmark.uri
        );
        CommandError::new(Code::Failed, said)
    }

    fn not_timed(&self, error: &ContestError) -> CommandError {
        let code = match error {
            ContestError::Machine(_) => Code::Failed,
            _ => Code::Usage,
        };
        CommandError::new(code, format!("{} cannot be timed: {error}", self.benchmark.uri))
    }
}

fn not_built(error: &ExecutionError) -> CommandError {
    CommandError::new(Code::Failed, error.to_string())
}

/// Records the samples of the program untouched, and of the state of the best sequence.
fn keep(
    lake: &Path,
    subject: &Subject,
    own: &Own,
    times: &Times,
    best: Option<StateId>,
) -> Result<(), CommandError> {
    let (uri, now) = (&subject.benchmark.uri, now_ms());
    let states = [(Some(own.initial), Some(&times.untouched)), (best, times.best.as_ref())];
    let states = states.into_iter().filter_map(|(state, samples)| Some((state?, samples?)));
    let rows = states.map(|(state, samples)| own.stopwatch.row(uri, state, samples.clone(), now));
    let measurements = rows.collect::<Result<Vec<_>, _>>()?;
    let mut writer = Lake::open(lake)?.writer()?;
    writer.append(&Rows { measurements, ..Rows::default() })?;
    writer.seal()?;
    Ok(())
}
