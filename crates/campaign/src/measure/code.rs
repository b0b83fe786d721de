//! The machine code of states.

use super::compilation::CodeGeneration;
use super::error::nothing_to_run;
use crate::replay::rebuild::{RebuildError, Rebuilder};
use crate::replay::{ReplayError, observe_state};
use steplake_env::{Environment, Session, SessionError};
use steplake_lake::Snapshot;
use steplake_model::{Build, Execution, ObservationIndex, StateId, Value};

use super::error::MeasureError;

/// Makes code of states, with one session that stays open.
#[derive(Debug)]
pub struct CodeMaker {
    environment: Box<dyn Environment>,
    rebuilder: Rebuilder,
    session: KeptSession,
    object: ObservationIndex,
}

/// The session, if one is open.
#[derive(Default)]
struct KeptSession(Option<Box<dyn Session>>);

impl std::fmt::Debug for KeptSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenSession").field(&self.0.is_some()).finish()
    }
}

impl CodeMaker {
    /// A compiler that works in `open()`. If states may crash it, its sessions should be in worker
    /// processes.
    ///
    /// # Errors
    ///
    /// [`MeasureError::NoCode`] if the environment has no space of object files.
    pub fn new(open: &dyn Fn() -> Box<dyn Environment>) -> Result<Self, MeasureError> {
        let environment = open();
        let Some(object) = environment.spec().object_index() else {
            return Err(MeasureError::NoCode(nothing_to_run(environment.spec())));
        };
        let session = KeptSession::default();
        Ok(Self { environment, rebuilder: Rebuilder::new(open()), session, object })
    }

    /// How code is made of a state.
    pub(super) fn generation(&self) -> CodeGeneration {
        CodeGeneration::usual(self.environment.spec())
    }

    /// The code that a build wants: an object file, or the state as it is serialised. The inner
    /// error says why there is none, in one line.
    ///
    /// # Errors
    ///
    /// If the lake cannot be read, if its compiler is not here, or if a session fails in a way that
    /// is not the compiler's.
    pub(super) fn code(
        &mut self,
        snapshot: &Snapshot,
        state: StateId,
        execution: &Execution,
    ) -> Result<Result<Vec<u8>, String>, MeasureError> {
        let serialised = match self.rebuilder.ir(snapshot, &[state]) {
            Ok(mut states) => states.pop().flatten(),
            Err(RebuildError::State(obstacle)) => return Ok(Err(obstacle.to_string())),
            Err(error) => return Err(error.into()),
        };
        let Some(serialised) = serialised else {
            return Ok(Err(
                "its IR is not stored, and no recorded path from stored IR leads to it".to_owned(),
            ));
        };
        if matches!(execution.build, Build::Command(_)) {
            return Ok(Ok(serialised));
        }
        let session = match &mut self.session.0 {
            Some(session) => session,
            none => none.insert(self.environment.session().map_err(ReplayError::from)?),
        };
        let environment = self.environment.as_ref();
        let observed =
            observe_state(environment, session.as_mut(), snapshot, state, &serialised, self.object);
        match observed {
            Ok(Ok(Value::Bytes(object))) => Ok(Ok(object)),
            Ok(Ok(_)) => unreachable!("an object file is bytes"),
            Ok(Err(failure)) => {
                self.session.0 = None;
                Ok(Err(format!("the compiler failed on it ({})", failure.kind.as_str())))
            }
            Err(SessionError::Unobservable(failure)) => {
                Ok(Err(format!("no machine code can be made of it: {failure}")))
            }
            Err(error) => Err(ReplayError::from(error).into()),
        }
    }
}
