//! Plays the trials of beam and greedy searches.

use std::collections::HashMap;

use super::beam::{Beam, Taken, Trial};
use super::starts::lock;
use super::{Campaign, GenerateError, Policy};
use crate::env::{Session, SessionError};
use crate::model::{BenchmarkUri, StateId, Step};
use crate::record::Recorder;

impl Campaign<'_> {
    /// Plays the next trial of a program's search, in an episode that has started.
    pub(super) fn play_trial(
        &self,
        recorder: &mut Recorder,
        ordinal: u32,
        steps_max: u32,
        uri: &BenchmarkUri,
        states: &mut Vec<StateId>,
    ) -> Result<(), GenerateError> {
        // The schedule ensures that no other job plays this benchmark now.
        let known = lock(&self.board).beams.remove(uri);
        let mut beam = match known {
            Some(beam) => beam,
            None => self.beam(recorder, states[0])?,
        };
        self.tell_before(&mut beam, uri, ordinal)?;
        let mut trial = beam.ask();
        trial.actions.truncate(steps_max as usize);
        let mut costs = HashMap::new();
        let taken = self.take(recorder, &beam, &trial, &mut costs, &mut |step| {
            self.count(step);
            states.extend(step.outcome.state());
        })?;
        if !self.is_interrupted() {
            beam.tell(&taken, &costs);
            lock(&self.board).beams.insert(uri.clone(), beam);
        }
        Ok(())
    }

    /// Begins the search of a program.
    fn beam(&self, recorder: &mut Recorder, first: StateId) -> Result<Beam, GenerateError> {
        let (actions, depth_max) = (self.actions(), self.plan.episode_length);
        Ok(if self.plan.policy == Policy::Greedy {
            Beam::greedy(first, self.cost(recorder)?, actions, depth_max)
        } else {
            Beam::new(first, actions, depth_max)
        })
    }

    /// Tells a search what the settled episodes before an episode tried.
    fn tell_before(
        &self,
        beam: &mut Beam,
        uri: &BenchmarkUri,
        ordinal: u32,
    ) -> Result<(), GenerateError> {
        let past = lock(&self.board).past_trials.take_before(uri, ordinal);
        for (taken, mut costs) in past.into_values() {
            let asked = beam.ask().actions;
            if !taken.iter().map(|(action, _)| action).eq(asked.iter().take(taken.len())) {
                return Err(GenerateError::AnotherSearch(uri.clone()));
            }
            let states = taken.iter().filter_map(|(_, state)| *state);
            if states.into_iter().any(|state| !beam.knows(state) && !costs.contains_key(&state)) {
                // The lake does not say what all of its states cost.
                let actions = taken.iter().map(|&(action, _)| action).collect();
                let mut session = self.unrecorded(uri, None)?;
                self.take(session.as_mut(), beam, &Trial::again(actions), &mut costs, &mut |_| {})?;
            }
            beam.tell(&taken, &costs);
        }
        Ok(())
    }

    /// Applies the actions of a trial until it is over, or an interrupt. Returns what came of them,
    /// and says what the states cost that are new to the search.
    fn take(
        &self,
        session: &mut dyn Session,
        beam: &Beam,
        trial: &Trial,
        costs: &mut HashMap<StateId, f64>,
        visit: &mut dyn FnMut(&Step),
    ) -> Result<Vec<Taken>, SessionError> {
        let mut taken = Vec::new();
        for &action in &trial.actions {
            if self.is_interrupted() {
                break;
            }
            let step = session.apply(action)?;
            visit(&step);
            let state = step.outcome.state();
            if let Some(new) = state.filter(|&state| !beam.knows(state)) {
                costs.insert(new, self.cost(session)?);
            }
            taken.push((action, state));
            if step.outcome.ends_episode() || trial.is_over(&taken) {
                break;
            }
        }
        Ok(taken)
    }
}
