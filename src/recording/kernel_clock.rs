//! The times of kernels.
//!
//! A state of which the lake has samples of this machine and compilation is not measured again; the
//! samples of any other state go to `measurements` with the run's other rows, before the episode
//! that needed them settles. So a resumed search learns the times that it learnt before; a state
//! that had no time is measured once more. A wrong kernel is a row of `miscompilations`, if that of
//! the state before it is known to be right.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::now_ms;
use super::timed::{At, StateClock, time_space};
use crate::env::loops::LoopsState;
use crate::env::{Observe, SessionError};
use crate::execution::RunSettings;
use crate::lake::{MeasurementRow, MiscompilationRow, Snapshot, random_uid};
use crate::measure::{
    BuiltKernel, KernelError, MeasuredSpace, Timing, kernel_compilation, machine, measured_times,
    median,
};
use crate::model::{BenchmarkUri, ObservationIndex, StateId, Value};
use crate::record::MeasurementSink;
use crate::semantics::wrong_kernel;
use crate::{Error, ErrorKind};

/// The samples of a state.
const SAMPLES: u32 = 3;

/// What measures kernels.
#[derive(Debug)]
pub(super) struct KernelClock {
    /// The place of the space that serialises a state.
    state_space: ObservationIndex,
    settings: RunSettings,
    machine: String,
    compilation: String,
    sink: MeasurementSink,
    /// The medians that are known; infinity for a state without a time. Whoever measures holds the
    /// lock, so that only one kernel runs at a time.
    known: Mutex<HashMap<StateId, f64>>,
}

/// What this machine calls itself, how it makes kernels, and the times of states that a lake has of
/// both.
#[derive(Debug)]
pub(super) struct KnownTimes {
    machine: String,
    compilation: String,
    settings: RunSettings,
    known: HashMap<StateId, f64>,
}

impl KnownTimes {
    /// Reads the times of a lake.
    ///
    /// # Errors
    ///
    /// If this machine has no compiler for kernels, or the lake cannot be read.
    pub(super) fn of(snapshot: &Snapshot) -> Result<Self, Error> {
        let (settings, machine) = (RunSettings::default(), machine(None, None));
        let compilation = kernel_compilation(&settings)
            .map_err(|error| Error::new(ErrorKind::Failed, error.to_string()))?;
        let known = measured_times(snapshot, MeasuredSpace::Runtime, &machine, &compilation)?;
        Ok(Self { machine, compilation, settings, known })
    }
}

impl KernelClock {
    /// Measures what is not among the times that are known. What is measured goes to `sink`.
    pub(super) fn new(
        state_space: ObservationIndex,
        times: KnownTimes,
        sink: MeasurementSink,
    ) -> Self {
        let KnownTimes { machine, compilation, settings, known } = times;
        Self { state_space, settings, machine, compilation, sink, known: Mutex::new(known) }
    }

    /// Builds, checks and times the kernel of a state, on inputs that nothing else has.
    fn samples(&self, text: &[u8], uid: &str) -> Result<Vec<f64>, KernelError> {
        let state = LoopsState::parse(text).expect("a session serialises states");
        let kernel = BuiltKernel::build(&state, &self.settings)?;
        kernel.run(&Timing {
            seed: Timing::seed(uid),
            threads: Timing::threads(&self.settings),
            warmups: 0,
            samples: SAMPLES,
        })
    }

    /// Records a wrong kernel, if the one of the state before is known to be right.
    fn note_wrong(
        &self,
        known: &HashMap<StateId, f64>,
        At { benchmark, state, before, actions }: At,
        what: &str,
    ) -> Result<(), SessionError> {
        let is_right = |before: &StateId| known.get(before).is_some_and(|time| time.is_finite());
        let Some(before) = before.filter(is_right) else { return Ok(()) };
        let row = wrong_kernel(&benchmark, (before, state), actions, what);
        let row = row.map_err(|error| SessionError::Recording(error.into()))?;
        let compilation = self.compilation.clone();
        self.sink.push_miscompilation(MiscompilationRow {
            compilation,
            found_at_ms: now_ms(),
            ..row
        })
    }

    fn row(
        &self,
        uid: String,
        benchmark: BenchmarkUri,
        state: StateId,
        samples: Vec<f64>,
    ) -> MeasurementRow {
        MeasurementRow {
            uid,
            state,
            benchmark,
            space: time_space().to_owned(),
            machine: self.machine.clone(),
            compilation: self.compilation.clone(),
            warmups: 0,
            measured_at_ms: now_ms(),
            samples,
        }
    }
}

impl StateClock for KernelClock {
    fn seconds(&self, at: &At, observe: &mut Observe<'_>) -> Result<f64, SessionError> {
        let (benchmark, id) = (at.benchmark.clone(), at.state);
        let mut known = self.known.lock();
        if let Some(&seconds) = known.get(&id) {
            return Ok(seconds);
        }
        let Value::Bytes(text) = observe(self.state_space)? else {
            return Err(SessionError::Defect("a serialised state is not bytes".into()));
        };
        let uid = random_uid().map_err(|error| SessionError::Recording(error.into()))?;
        let seconds = match self.samples(&text, &uid) {
            Ok(samples) => {
                let seconds = median(&samples);
                self.sink.push(self.row(uid, benchmark, id, samples))?;
                seconds
            }
            Err(error) => match error.machine() {
                Ok(error) => {
                    let what = format!("a kernel cannot be measured: {error}");
                    return Err(SessionError::Recording(Error::new(ErrorKind::Failed, what)));
                }
                Err(error) => {
                    tracing::warn!(%benchmark, state = %id, %error, "a schedule has no time");
                    if let KernelError::Wrong(what) = error {
                        self.note_wrong(&known, at.clone(), &what)?;
                    }
                    f64::INFINITY
                }
            },
        };
        known.insert(id, seconds);
        Ok(seconds)
    }
}
