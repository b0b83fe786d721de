//! The fastest program that a search found.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::goal::{GENERATION, LlvmPipeline};
use super::input_program::{InputProgram, PlayedSequence, Wrong};
use super::maker::{CompiledProgram, Maker};
use super::result::{Check, Comparison, Improvement, Optimized, WallTimes};
use crate::env::SessionError;
use crate::environments::catalogue::inputs_folder;
use crate::execution::{Executable, ExecutionError, RunSettings};
use crate::lake::{Lake, Rows};
use crate::measure::{Contest, NoTimes, machine, median, rounds_within};
use crate::model::{ActionIndex, Execution, StateId};
use crate::recording::{Stopwatch, now_ms};
use crate::semantics::Validator;
use crate::{Error, ErrorKind};

/// The rounds of turns before a search, which say how long LLVM's own programs take.
const ROUNDS_BEFORE: usize = 3;

/// How many of the best sequences are compared once more after a search, and in how many rounds.
const FINALISTS_MAX: usize = 3;
const ROUNDS_OF_FINALISTS: usize = 9;

/// The least and the most rounds of turns on which the report rests, and the time that more than
/// the least may take.
const ROUNDS_OF_REPORT: (usize, usize) = (15, 99);
const TIME_OF_REPORT: Duration = Duration::from_secs(20);

/// How many of the sequences whose programs the search found to be wrong are looked at again.
const WRONG_MAX: usize = 8;

/// The program untouched, and what LLVM's own pipelines make of it: results and object files.
pub(super) struct PipelineResults {
    initial: StateId,
    untouched: Vec<u8>,
    oz: (CompiledProgram, Vec<u8>),
    o3: (CompiledProgram, Vec<u8>),
    /// What times them, and then the search.
    pub(super) stopwatch: Arc<Stopwatch>,
    /// The seconds of a run after `-O3`, with which the search compares its sequences.
    pub(super) reference: f64,
}

/// A sequence that came far.
struct Finalist {
    actions: Vec<ActionIndex>,
    played: PlayedSequence,
    made: CompiledProgram,
    executable: Executable,
}

impl InputProgram {
    /// Makes the programs to compare with, and times them.
    pub(super) fn own(
        &self,
        maker: &Maker,
        execution: &Execution,
    ) -> Result<PipelineResults, Error> {
        let (mut session, started) = self.start(&self.benchmark, &self.space)?;
        let untouched = self.object(session.as_mut())?;
        let after = |level| -> Result<(CompiledProgram, Vec<u8>), Error> {
            let made = maker.level(level)?;
            let object = maker.object(&made)?.map_err(|why| {
                Error::new(ErrorKind::Failed, format!("no object file can be made: {why}"))
            })?;
            Ok((made, object))
        };
        let (oz, o3) = (after(LlvmPipeline::Oz)?, after(LlvmPipeline::O3)?);
        let settings = RunSettings { inputs: inputs_folder(), ..RunSettings::default() };
        let contest = Contest::new(execution, settings, GENERATION, &untouched);
        let contest = contest.map_err(|error| self.not_timed(&error))?;
        let built = contest.oracle().build(&o3.1).map_err(|error| not_built(&error))?;
        let samples = self.timed(&contest, &[&built], ROUNDS_BEFORE)?;
        let reference = median(&samples.map_err(|what| self.changes(&what))?[0]);
        let (machine, interrupt) = (machine(None, None), self.interrupt.clone());
        let stopwatch = Stopwatch::new(contest, machine, interrupt, (&o3.1, reference));
        let stopwatch = Arc::new(stopwatch.map_err(|error| not_built(&error))?);
        Ok(PipelineResults { initial: started.state, untouched, oz, o3, stopwatch, reference })
    }

    /// Compares the best sequences with what LLVM's own pipelines make, and returns the best one
    /// if it is right and surely faster than the faster of those, or else the result of that. The
    /// samples of the best one and of the program untouched go into the lake, and so does what
    /// miscompiles the program. `is_hasty` says that somebody waits: few samples are taken.
    pub(super) fn fastest(
        &self,
        lake: &Path,
        maker: &Maker,
        own: &PipelineResults,
        (sequences, is_hasty): (&[Vec<ActionIndex>], bool),
    ) -> Result<Optimized, Error> {
        let (mut wrong, mut validator) = (Wrong::default(), self.validator()?);
        let finalists = self.finalists(maker, own, sequences)?;
        let mut best = self.right_one(maker, own, finalists, &mut validator, &mut wrong)?;
        let executable = best.as_ref().map(|(one, _)| &one.executable);
        let times = match self.compared(own, executable, is_hasty)? {
            Ok(times) => times,
            Err(what) => {
                let Some((one, _)) = best.take() else { return Err(self.changes(&what)) };
                // It did not do the same whenever it ran.
                wrong.note(one.actions, what);
                self.compared(own, None, is_hasty)?.map_err(|what| self.changes(&what))?
            }
        };
        // Samples of a program that differs from the state are not the state's.
        let of_lake = best.as_ref().filter(|(_, found)| found.is_of_lake);
        keep(lake, self, own, &times, of_lake.map(|(finalist, _)| finalist.played.state))?;
        let wrong_in_search = own.stopwatch.wrong();
        let lines = wrong_in_search.iter().map(|(_, what)| what.clone());
        let lines = lines.chain(wrong.lines()).collect();
        let done = match best {
            Some((finalist, found)) if times.is_beaten() => {
                let what = (Some(found), LlvmPipeline::O3, Check::default());
                self.optimized(maker, Comparison::Fast(times), what, &finalist.made, lines)?
            }
            _ => {
                let level = times.pipeline();
                let (made, _) = if level == LlvmPipeline::Oz { &own.oz } else { &own.o3 };
                // Each run that was timed did what the program does untouched.
                let check = Check { is_checked: true, remarks: Vec::new(), difference: None };
                let what = (None, level, check);
                self.optimized(maker, Comparison::Fast(times), what, made, lines)?
            }
        };
        Self::blame_all(&wrong_in_search, &mut validator)?;
        Ok(Optimized { miscompilations: Self::note_findings(lake, validator), ..done })
    }

    /// Finds what is to blame for wrong programs that the search came to.
    fn blame_all(
        wrong: &[(Vec<ActionIndex>, String)],
        validator: &mut Validator<'_>,
    ) -> Result<(), Error> {
        for (actions, _) in wrong.iter().take(WRONG_MAX) {
            if validator.sequence(actions)?.difference.is_some() {
                validator.blame(actions)?;
            }
        }
        Ok(())
    }

    /// Times the program untouched, after `-Oz` and `-O3`, and the best one in turns. The inner
    /// error says why there are no times of the best one.
    fn compared(
        &self,
        own: &PipelineResults,
        best: Option<&Executable>,
        is_hasty: bool,
    ) -> Result<Result<WallTimes, String>, Error> {
        let contest = own.stopwatch.contest();
        let codes = [&own.untouched, &own.oz.1, &own.o3.1];
        let built = codes.iter().map(|code| contest.oracle().build(code));
        let built = built.collect::<Result<Vec<_>, _>>().map_err(|error| not_built(&error))?;
        let versions: Vec<&Executable> = built.iter().chain(best).collect();
        let one = match self.timed(contest, &versions, 1)? {
            Ok(samples) => samples,
            Err(what) => return Ok(Err(what)),
        };
        let time = if is_hasty { Duration::ZERO } else { TIME_OF_REPORT };
        let rounds = rounds_within(time, &one, ROUNDS_OF_REPORT);
        let times = self.timed(contest, &versions, rounds)?.map(|samples| {
            let mut samples = samples.into_iter();
            let mut next = || samples.next().unwrap_or_default();
            let (untouched, oz, o3) = (next(), next(), next());
            WallTimes { untouched, oz, o3, best: best.map(|_| next()) }
        });
        Ok(times)
    }

    /// Returns the best sequences whose programs differ, the best first.
    fn finalists(
        &self,
        maker: &Maker,
        own: &PipelineResults,
        sequences: &[Vec<ActionIndex>],
    ) -> Result<Vec<Finalist>, Error> {
        let mut codes = vec![own.untouched.clone(), own.oz.1.clone(), own.o3.1.clone()];
        let mut finalists = Vec::new();
        for actions in sequences {
            if finalists.len() == FINALISTS_MAX {
                break;
            }
            let Some(played) = self.play(actions)? else { continue };
            // One that cannot be made again is no result.
            let Ok(made) = self.made(maker, &played)? else { continue };
            let Ok(code) = maker.object(&made)? else { continue };
            if codes.contains(&code) {
                continue;
            }
            let executable = own.stopwatch.contest().oracle().build(&code);
            let executable = executable.map_err(|error| not_built(&error))?;
            codes.push(code);
            finalists.push(Finalist { actions: actions.clone(), played, made, executable });
        }
        Ok(finalists)
    }

    /// Returns the finalist that is fastest by samples in turns, of those that are right. It is
    /// timed again for the report: the luckiest one of several looks faster than it is.
    fn right_one(
        &self,
        maker: &Maker,
        own: &PipelineResults,
        mut finalists: Vec<Finalist>,
        validator: &mut Validator<'_>,
        wrong: &mut Wrong,
    ) -> Result<Option<(Finalist, Improvement)>, Error> {
        let contest = own.stopwatch.contest();
        while !finalists.is_empty() {
            let place = if finalists.len() == 1 {
                0
            } else {
                let versions: Vec<_> = finalists.iter().map(|one| &one.executable).collect();
                match contest.turns(&versions, ROUNDS_OF_FINALISTS, &self.interrupt) {
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
            let (actions, both) = (&finalist.actions, (&finalist.played, &finalist.made));
            if let Some(found) = self.check(maker, actions, both, validator, wrong)? {
                return Ok(Some((finalist, found)));
            }
        }
        Ok(None)
    }

    /// Times programs in turns. The inner error says why the last one has no time; the others,
    /// which LLVM's own pipelines made, have to have one.
    fn timed(
        &self,
        contest: &Contest,
        versions: &[&Executable],
        rounds: usize,
    ) -> Result<Result<Vec<Vec<f64>>, String>, Error> {
        match contest.turns(versions, rounds, &self.interrupt) {
            Ok(samples) => Ok(Ok(samples)),
            Err(NoTimes::Stopped) => Err(SessionError::Interrupted.into()),
            Err(NoTimes::Of(place, untimed)) if place + 1 == versions.len() => {
                Ok(Err(untimed.what))
            }
            Err(NoTimes::Of(_, untimed)) => Err(self.changes(&untimed.what)),
        }
    }

    /// Says that a program is not to be compared with others.
    fn changes(&self, what: &str) -> Error {
        let said = format!(
            "{} cannot be timed: {what}; LLVM's own pipelines change what it does, or it does not \
             do the same whenever it runs",
            self.benchmark.uri
        );
        Error::new(ErrorKind::Failed, said)
    }

    fn not_timed(&self, error: &ExecutionError) -> Error {
        let is_of_machine =
            error.is_of_machine() || matches!(error, ExecutionError::MissingInput { .. });
        let code = if is_of_machine { ErrorKind::Failed } else { ErrorKind::Usage };
        Error::new(code, format!("{} cannot be timed: {error}", self.benchmark.uri))
    }
}

fn not_built(error: &ExecutionError) -> Error {
    Error::new(ErrorKind::Failed, error.to_string())
}

/// Records the samples of the program untouched, and of the state of the best sequence.
fn keep(
    lake: &Path,
    subject: &InputProgram,
    own: &PipelineResults,
    times: &WallTimes,
    best: Option<StateId>,
) -> Result<(), Error> {
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
