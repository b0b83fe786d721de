//! Plays the episodes of the policy `explore`.

use super::Campaign;
use super::starts::lock;
use crate::env::{Session as _, SessionError};
use crate::model::{BenchmarkUri, Dice, StateId};
use crate::record::Recorder;

impl Campaign<'_> {
    /// Plays an episode, which has started, by actions that were not tried before it.
    pub(super) fn play_explore(
        &self,
        recorder: &mut Recorder,
        ordinal: u32,
        steps_max: u32,
        uri: &BenchmarkUri,
        states: &mut Vec<StateId>,
    ) -> Result<(), SessionError> {
        let (actions, mut dice) = (self.actions(), Dice::new(self.plan.seed, ordinal));
        // The schedule ensures that no other job plays this benchmark now.
        let (mut tried, past) = {
            let mut board = lock(&self.board);
            let tried = board.tried.remove(uri).unwrap_or_default();
            (tried, board.past_tries.take_before(uri, ordinal))
        };
        for (state, action) in past.into_values().flatten() {
            tried.note(state, action, actions);
        }
        let mut state = states[0];
        for _ in 0..steps_max {
            if self.is_interrupted() {
                break;
            }
            let action = tried.choose(state, actions, &mut dice);
            let step = recorder.apply(action)?;
            tried.note(state, action, actions);
            self.count(&step);
            let ends = step.outcome.ends_episode();
            if let Some(next) = step.outcome.state() {
                states.push(next);
                state = next;
            }
            if ends {
                break;
            }
        }
        lock(&self.board).tried.insert(uri.clone(), tried);
        Ok(())
    }
}
