//! The way back to an episode's state when its worker is gone: the confirmed actions, played again.

use super::session::{WorkerSession, lock, unexpected};
use super::wire::{self, Reply, Request};
use super::{RESTARTS_MAX, WorkerTrouble};
use crate::env::SessionError;
use crate::model::{Failure, StateId, Step};

/// The result of playing an episode's actions again.
enum Again {
    /// The worker is in the episode's state.
    There,
    /// The actions led to another state.
    Elsewhere(StateId),
    /// Actions that succeeded before now failed.
    Failed(Failure),
    /// The worker rejected the program to begin with, for this reason.
    Refused(String),
}

impl Again {
    fn demand_there(self) -> Result<(), SessionError> {
        let said = match self {
            Self::There => return Ok(()),
            Self::Elsewhere(state) => format!("this time they led to {state}"),
            Self::Failed(failure) => format!("this time they failed ({})", failure.detail),
            Self::Refused(detail) => format!("a fresh worker could not begin ({detail})"),
        };
        Err(SessionError::Machine(format!(
            "a worker that is lost cannot be replaced, since the actions of its episode do not lead to the same \
             state again: {said}"
        )))
    }
}

impl WorkerSession {
    /// Ensures that a live worker holds this session's state; tries several workers if necessary.
    pub(super) fn bring_back(&mut self) -> Result<(), SessionError> {
        let mut attempts = 0;
        loop {
            match self.play_again() {
                Ok(Again::There) => return Ok(()),
                Ok(other) => {
                    lock(&self.worker).renew();
                    if attempts == RESTARTS_MAX {
                        return other.demand_there();
                    }
                    attempts += 1;
                }
                Err(WorkerTrouble::Death(death)) => self.note_end(&death)?,
                Err(WorkerTrouble::Error(error)) => return Err(error),
            }
        }
    }

    /// Plays the episode again unless the live worker has it already. A death in `Err` is always
    /// one from outside.
    fn play_again(&mut self) -> Result<Again, WorkerTrouble> {
        let environment = self.spec.name;
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let mut worker = lock(&self.worker);
        worker.process(environment)?;
        if self.generation == worker.generation {
            return Ok(Again::There);
        }
        episode.shorten_way_back(&self.spec);
        let wall_max = worker.config.start_wall_max();
        let mut state = match worker.ask(environment, &episode.start_request(self.number), wall_max)
        {
            Ok(Reply::Started { state, .. }) => StateId(state),
            Ok(other) => return Err(unexpected(&other).into()),
            Err(WorkerTrouble::Error(SessionError::BadProgram { detail, .. })) => {
                return Ok(Again::Refused(detail));
            }
            Err(trouble) => return failed_again(trouble),
        };
        let process = worker.last_process(environment)?;
        // The recording knows these states already, so the worker does not observe them.
        let (session, actions) = (self.number, episode.actions.clone());
        process.send(&Request::Steps { session, actions, changes: None, window: None });
        loop {
            match process.receive(wall_max) {
                Ok(Reply::Step { step, .. }) => {
                    state = Step::from(step).outcome.state().unwrap_or(state);
                }
                Ok(Reply::Done) => break,
                Ok(Reply::Broken { kind, detail }) => {
                    return Ok(Again::Failed(wire::failure(&kind, detail)));
                }
                Ok(Reply::Error(error)) => {
                    return Err(error.into_session_error(environment).into());
                }
                Ok(other) => return Err(unexpected(&other).into()),
                Err(death) => {
                    worker.renew();
                    return failed_again(death.into());
                }
            }
        }
        if state != episode.state {
            return Ok(Again::Elsewhere(state));
        }
        self.generation = worker.generation;
        Ok(Again::There)
    }
}

/// Turns trouble on the way back into a failure, unless it says nothing about the compiler.
fn failed_again(trouble: WorkerTrouble) -> Result<Again, WorkerTrouble> {
    match trouble {
        WorkerTrouble::Death(death) if !death.is_from_outside() => Ok(Again::Failed(death.failure)),
        other => Err(other),
    }
}
