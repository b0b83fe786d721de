//! Plays the walks of the policy `frontier`.

use super::frontier::{Frontier, Goal};
use super::starts::lock;
use super::walks::Walk;
use super::{Campaign, GenerateError};
use crate::env::{Session, SessionError};
use crate::model::{ActionIndex, BenchmarkUri, Dice, StateId};
use crate::record::Recorder;

impl Campaign<'_> {
    /// Plays the next walk of a program, in an episode that has started.
    pub(super) fn play_walk(
        &self,
        recorder: &mut Recorder,
        ordinal: u32,
        steps_max: u32,
        uri: &BenchmarkUri,
        states: &mut Vec<StateId>,
    ) -> Result<(), GenerateError> {
        // The schedule ensures that no other job plays this benchmark now.
        let known = lock(&self.board).frontiers.remove(uri);
        let mut frontier = match known {
            Some(frontier) => frontier,
            None => self.frontier(uri)?,
        };
        frontier.begin(states[0], self.cost(recorder)?);
        let mut dice = Dice::new(self.plan.seed, ordinal);
        let (goal, way) = self.set_out(&mut frontier, &mut dice);
        let mut way = way.into_iter();
        for _ in 0..steps_max {
            if self.is_interrupted() {
                return Ok(());
            }
            let action = way.next().unwrap_or_else(|| frontier.choose(goal, &mut dice));
            let step = recorder.apply(action)?;
            self.count(&step);
            let reached = match step.outcome.state() {
                Some(state) => Some((state, self.cost(recorder)?)),
                None => None,
            };
            frontier.note(action, reached);
            states.extend(step.outcome.state());
            if step.outcome.ends_episode() {
                break;
            }
        }
        lock(&self.board).frontiers.insert(uri.clone(), frontier);
        Ok(())
    }

    /// Chooses what a walk that has begun looks for, and where it goes on from.
    fn set_out(&self, frontier: &mut Frontier, dice: &mut Dice) -> (Goal, Vec<ActionIndex>) {
        let goal = if dice.below(2) == 0 { Goal::New } else { Goal::Better };
        let way = frontier.way(goal, self.plan.episode_length / 2, dice);
        (goal, way)
    }

    /// Returns what is known of a program before this process walks there.
    fn frontier(&self, uri: &BenchmarkUri) -> Result<Frontier, GenerateError> {
        let (effects, earlier, own) = {
            let past = &mut lock(&self.board).past_walks;
            (past.effects.clone(), past.earlier.remove(uri), past.own.remove(uri))
        };
        let mut frontier = Frontier::new(self.actions());
        for walk in earlier.iter().flatten() {
            walk.begin(&mut frontier);
            walk.teach(&mut frontier);
        }
        frontier.know(effects);
        for (ordinal, mut walk) in own.into_iter().flatten() {
            if !walk.is_priced() {
                self.price(uri, &mut walk)?;
            }
            walk.begin(&mut frontier);
            self.set_out(&mut frontier, &mut Dice::new(self.plan.seed, ordinal));
            walk.teach(&mut frontier);
        }
        Ok(frontier)
    }

    /// Computes what the states of a settled episode cost, without recording it again.
    fn price(&self, uri: &BenchmarkUri, walk: &mut Walk) -> Result<(), GenerateError> {
        let mut session = self.unrecorded(uri, None)?;
        let session: &mut dyn Session = session.as_mut();
        walk.first.1 = Some(self.cost(session)?);
        for (action, reached) in &mut walk.steps {
            let Some((expected, cost)) = reached else { break };
            let step = session.apply(*action)?;
            if step.outcome.state() != Some(*expected) {
                let found =
                    step.outcome.state().map_or("a failure".to_owned(), |it| it.to_string());
                let (uri, expected) = (uri.to_string(), expected.to_string());
                return Err(SessionError::Diverged { uri, expected, found }.into());
            }
            *cost = Some(self.cost(session)?);
        }
        Ok(())
    }
}
