//! The way back to an episode's state when its worker is gone: the confirmed actions, played again.

use super::process::WorkerTrouble;
use super::session::{WorkerSession, unexpected};
use super::supervisor::RESTARTS_MAX;
use super::wire::{Reply, WireStart, WorkerRequest};
use crate::SessionError;
use steplake_model::Failure;

/// Where the way back leads instead of to the episode's state.
struct WrongState {
    /// In words: a state, or a failure.
    found: String,
    is_failure: bool,
}

impl WorkerSession {
    /// Ensures that a live worker holds this session's state; tries several workers if necessary.
    pub(super) fn bring_back(&mut self) -> Result<(), SessionError> {
        let mut attempts = 0;
        loop {
            match self.play_again() {
                Ok(None) => return Ok(()),
                Ok(Some(obstacle)) => {
                    self.worker.lock().renew();
                    if attempts == RESTARTS_MAX {
                        let WrongState { found, is_failure } = obstacle;
                        return Err(SessionError::Unrepeatable { found, is_failure });
                    }
                    attempts += 1;
                }
                Err(WorkerTrouble::Death(death)) => self.note_end(&death)?,
                Err(WorkerTrouble::Error(error)) => return Err(error),
            }
        }
    }

    /// Plays the episode again unless the live worker has it already. Returns what went wrong, if
    /// anything did. A death in `Err` is always one from outside.
    fn play_again(&mut self) -> Result<Option<WrongState>, WorkerTrouble> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let mut worker = self.worker.lock();
        // What was announced is answered by the worker that has it, even if it is dead by now: how
        // it died is part of the answer.
        if self.generation == worker.generation && worker.is_announced() {
            return Ok(None);
        }
        worker.process()?;
        if self.generation == worker.generation {
            return Ok(None);
        }
        episode.shorten_way_back(&self.spec);
        let wall_max = worker.config.start_wall_max();
        let start = WireStart::clone(&episode.start);
        let request = WorkerRequest::Start { session: self.number, start };
        let mut state = match worker.ask(&request, wall_max) {
            Ok(Reply::Started { state, .. }) => state,
            Ok(other) => return Err(unexpected(&other).into()),
            Err(WorkerTrouble::Error(SessionError::BadProgram { detail, .. })) => {
                let found = format!("a program that cannot be read ({detail})");
                return Ok(Some(WrongState { found, is_failure: true }));
            }
            Err(trouble) => return obstacle(trouble),
        };
        let process = worker.last_process()?;
        // The recording knows these states already, so the worker does not observe them.
        let (session, actions) = (self.number, episode.actions.clone());
        process.send(&WorkerRequest::Steps { session, actions, changes: None, window: None });
        loop {
            match process.receive(wall_max) {
                Ok(Reply::Step { step, .. }) => {
                    state = step.outcome.state().unwrap_or(state);
                }
                Ok(Reply::Done) => break,
                Ok(Reply::Broken(failure)) => return Ok(Some(failed_again(&failure))),
                Ok(other) => return Err(unexpected(&other).into()),
                Err(trouble) => {
                    if !process.is_alive() {
                        worker.renew();
                    }
                    return obstacle(trouble);
                }
            }
        }
        if state != episode.state {
            return Ok(Some(WrongState { found: format!("state {state}"), is_failure: false }));
        }
        self.generation = worker.generation;
        Ok(None)
    }
}

fn failed_again(failure: &Failure) -> WrongState {
    WrongState { found: format!("a failure ({})", failure.detail), is_failure: true }
}

/// Turns a failure on the way back into an obstacle, unless it says nothing about the compiler.
fn obstacle(trouble: WorkerTrouble) -> Result<Option<WrongState>, WorkerTrouble> {
    match trouble {
        WorkerTrouble::Death(death) if !death.is_from_outside => {
            Ok(Some(failed_again(&death.failure)))
        }
        other => Err(other),
    }
}
