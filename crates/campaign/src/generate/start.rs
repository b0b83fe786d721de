//! Starts the episodes of a run.

use super::GenerateError;
use super::campaign::Campaign;
use super::schedule::PlayedEpisode;
use crate::record::Recorder;
use steplake_env::{Session as _, SessionError, Start, Watch};
use steplake_model::{Benchmark, BenchmarkUri, Failure, StateId};

impl Campaign<'_> {
    /// Starts an episode of the program called `uri`, with all `choices` made if there are any,
    /// unless its first start failed. Returns the first state, or how the compiler failed. What
    /// choices make of a program is another one, of which the program's own starts say nothing.
    pub(super) fn start(
        &self,
        recorder: &mut Recorder,
        uri: &BenchmarkUri,
        choices: Option<&[i32]>,
    ) -> Result<Result<StateId, Failure>, GenerateError> {
        // A program that does not start is not even loaded again.
        if choices.is_none()
            && let Some(Err(failure)) = &*self.starts.of(uri).lock()
        {
            return Ok(Err(failure.clone()));
        }
        let (program, _) = self.program(uri)?;
        let begins = self.beginning(recorder, program, choices)?;
        if begins.uri != *uri {
            return self.try_start(recorder, uri, &begins);
        }
        let known = self.starts.of(uri);
        let mut known = known.lock();
        match &*known {
            Some(Err(failure)) => Ok(Err(failure.clone())),
            Some(Ok(())) => {
                drop(known);
                let mut started = self.try_start(recorder, uri, &begins)?;
                if started.is_err() && recorder.state().is_none() {
                    // The first try killed the worker, so this one is fresh.
                    started = self.try_start(recorder, uri, &begins)?;
                }
                match started {
                    // The first step of the episode is recorded, so that it cannot begin again.
                    // Whoever observes asks the compiler twice before they blame it.
                    Err(failure) if recorder.state().is_some() => Ok(Err(failure)),
                    Err(failure) => Err(GenerateError::StartFailed { uri: uri.clone(), failure }),
                    Ok(state) => Ok(Ok(state)),
                }
            }
            None => {
                let started = self.try_start(recorder, uri, &begins)?;
                *known = Some(started.clone().map(drop));
                Ok(started)
            }
        }
    }

    /// Records a failed start. It has a state if the compiler failed on what is recorded of it.
    pub(super) fn failed_start(
        &self,
        recorder: &mut Recorder,
        uri: &BenchmarkUri,
        failure: &Failure,
    ) -> Result<Option<PlayedEpisode>, GenerateError> {
        let states = recorder.state().into_iter().collect();
        let row = recorder.fail(uri, failure)?;
        self.count_states();
        Ok(row.map(|row| PlayedEpisode { row, states }))
    }

    fn try_start(
        &self,
        recorder: &mut Recorder,
        uri: &BenchmarkUri,
        begins: &Benchmark,
    ) -> Result<Result<StateId, Failure>, GenerateError> {
        let (benchmark, baselines) = self.program(uri)?;
        let watch = Watch::default();
        let started = recorder.start(&Start {
            benchmark: begins,
            action_space: &self.plan.action_space,
            baselines: baselines.as_deref(),
            watch: &watch,
        });
        match started {
            Ok(started) => {
                // Baselines on request are measured when they are first wanted.
                if baselines.as_deref() != Some(&started.baselines) {
                    self.programs.keep_baselines(&benchmark, &started.baselines);
                    self.cache.lock().baselines.insert(uri.clone(), started.baselines.into());
                }
                Ok(Ok(started.state))
            }
            Err(SessionError::StartFailed { failure, .. }) => {
                tracing::debug!(%uri, detail = failure.detail, "a start failed");
                Ok(Err(failure))
            }
            Err(error) => Err(error.into()),
        }
    }
}
