//! The times of programs, for a search that looks for the fastest.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::{Error, ErrorKind};
use parking_lot::Mutex;

use super::now_ms;
use super::timed::{At, StateClock, time_space};
use crate::env::{Observe, SessionError};
use crate::execution::{Executable, ExecutionError, Untimed};
use crate::lake::{MeasurementRow, random_uid};
use crate::measure::{CodeGeneration, Contest, NoTimes, rounds_within};
use crate::model::{ActionIndex, BenchmarkUri, ObservationIndex, StateId, Value};
use crate::query::speedup;
use crate::record::MeasurementSink;
use crate::sandbox::Interrupt;

/// The samples of a program, of which a first one tells whether it is worth the others.
const SAMPLES: usize = 3;

/// How many times as long as the fastest program a run may take that is worth more samples.
const HOPELESS: f64 = 1.5;

/// The least and the most further samples of a program that may be faster than the fastest one, and
/// the time that more than the least may take.
const SAMPLES_OF_FAST: (usize, usize) = (6, 47);
const TIME_OF_FAST: Duration = Duration::from_secs(2);

/// Times the programs of one search, each in turns with the fastest one so far. So a machine that
/// becomes slower or faster meanwhile misleads nobody. A program that does something else than
/// untouched has no time.
#[derive(Debug)]
pub struct Stopwatch {
    contest: Contest,
    machine: String,
    interrupt: Interrupt,
    /// Whoever measures holds the lock, so that only one program runs at a time.
    race: Mutex<Race>,
}

/// How far a search is.
#[derive(Debug)]
struct Race {
    fastest: Executable,
    /// The seconds of the fastest one: those of the first one, divided by all speed-ups since.
    seconds: f64,
    /// The seconds that are known, by digests of the code; infinity where there is no time.
    known: HashMap<blake3::Hash, f64>,
    /// The actions whose programs differ from the one untouched, and how.
    wrong: Vec<(Vec<ActionIndex>, String)>,
}

impl Stopwatch {
    /// Begins with the program to beat, which has this code and takes so many seconds.
    ///
    /// # Errors
    ///
    /// If it cannot be built.
    pub fn new(
        contest: Contest,
        machine: String,
        interrupt: Interrupt,
        (code, seconds): (&[u8], f64),
    ) -> Result<Self, ExecutionError> {
        let fastest = contest.oracle().build(code)?;
        let known = HashMap::from([(blake3::hash(code), seconds)]);
        let race = Mutex::new(Race { fastest, seconds, known, wrong: Vec::new() });
        Ok(Self { contest, machine, interrupt, race })
    }

    /// Returns the program whose versions it times.
    pub fn contest(&self) -> &Contest {
        &self.contest
    }

    /// Returns what this machine calls itself: see [`machine`](crate::measure::machine).
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// Returns the actions whose programs differ from the one untouched, of those that the search
    /// came to, and how they differ, one line each.
    pub fn wrong(&self) -> Vec<(Vec<ActionIndex>, String)> {
        self.race.lock().wrong.clone()
    }

    /// Returns a measurement of a state.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn row(
        &self,
        benchmark: &BenchmarkUri,
        state: StateId,
        samples: Vec<f64>,
        measured_at_ms: i64,
    ) -> Result<MeasurementRow, crate::lake::LakeError> {
        Ok(MeasurementRow {
            uid: random_uid()?,
            state,
            benchmark: benchmark.clone(),
            space: time_space().to_owned(),
            machine: self.machine.clone(),
            compilation: self.contest.compilation().to_owned(),
            warmups: 0,
            measured_at_ms,
            samples,
        })
    }

    /// Times a program of this code, which these actions have made. Returns its seconds and
    /// samples; none if it has no time.
    fn time(
        &self,
        race: &mut Race,
        code: &[u8],
        actions: &[ActionIndex],
    ) -> Result<Option<(f64, Vec<f64>)>, SessionError> {
        let new = match self.contest.oracle().build(code) {
            Ok(new) => new,
            Err(error @ ExecutionError::Machine(_)) => {
                let error = Error::from(error).at("a program cannot be built");
                return Err(SessionError::Recording(error));
            }
            Err(error) => {
                tracing::warn!(%error, "a program has no time");
                return Ok(None);
            }
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut ratio = f64::INFINITY;
        for least in [0.0, 1.0 / HOPELESS, 1.0] {
            if ratio <= least {
                break;
            }
            let rounds = match after.len() {
                0 => 1,
                1 => SAMPLES - 1,
                _ => rounds_within(TIME_OF_FAST, &[&before, &after], SAMPLES_OF_FAST),
            };
            let turns = self.contest.turns(&[&race.fastest, &new], rounds, &self.interrupt);
            match turns {
                Ok(samples) => {
                    before.extend_from_slice(&samples[0]);
                    after.extend_from_slice(&samples[1]);
                }
                Err(NoTimes::Stopped) => return Err(SessionError::Interrupted),
                Err(NoTimes::Of(0, Untimed { what, .. })) => {
                    let what = format!("the fastest program cannot be run again: {what}");
                    return Err(SessionError::Recording(Error::new(ErrorKind::Failed, what)));
                }
                Err(NoTimes::Of(_, Untimed { what, is_wrong })) => {
                    tracing::debug!(what, is_wrong, "a program has no time");
                    if is_wrong {
                        race.wrong.push((actions.to_vec(), what));
                    }
                    return Ok(None);
                }
            }
            ratio = speedup(&before, &after).unwrap_or(0.0);
        }
        let seconds = race.seconds / ratio.max(f64::MIN_POSITIVE);
        if ratio > 1.0 {
            (race.fastest, race.seconds) = (new, seconds);
        }
        Ok(Some((seconds, after)))
    }
}

/// A stopwatch whose samples go into a recording.
#[derive(Debug)]
pub(super) struct ProgramClock {
    stopwatch: Arc<Stopwatch>,
    object: ObservationIndex,
    sink: MeasurementSink,
}

impl ProgramClock {
    /// The observation space of the code that is timed.
    pub(super) const OBJECT: CodeGeneration = CodeGeneration::O3;

    /// Times programs by `stopwatch`, whose object files are observed in the space `object`.
    pub(super) fn new(
        stopwatch: Arc<Stopwatch>,
        object: ObservationIndex,
        sink: MeasurementSink,
    ) -> Self {
        Self { stopwatch, object, sink }
    }
}

impl StateClock for ProgramClock {
    fn seconds(&self, at: &At, observe: &mut Observe<'_>) -> Result<f64, SessionError> {
        let code = match observe(self.object) {
            Ok(Value::Bytes(code)) => code,
            Ok(_) => return Err(SessionError::Defect("an object file is not bytes".into())),
            Err(SessionError::Unobservable(_)) => return Ok(f64::INFINITY),
            Err(error) => return Err(error),
        };
        let mut race = self.stopwatch.race.lock();
        let digest = blake3::hash(&code);
        if let Some(&seconds) = race.known.get(&digest) {
            return Ok(seconds);
        }
        let timed = self.stopwatch.time(&mut race, &code, &at.actions)?;
        let seconds = timed.as_ref().map_or(f64::INFINITY, |(seconds, _)| *seconds);
        if let Some((_, samples)) = timed {
            let row = self.stopwatch.row(&at.benchmark, at.state, samples, now_ms());
            self.sink.push(row.map_err(|error| SessionError::Recording(error.into()))?)?;
        }
        race.known.insert(digest, seconds);
        Ok(seconds)
    }
}
