//! Plays the walks of the policy `frontier`.

use std::ops::ControlFlow;

use super::frontier::{Frontier, Goal};
use super::starts::lock;
use super::walks::Walk;
use super::{Campaign, GenerateError};
use crate::env::{Observe, Session};
use crate::model::{ActionIndex, BenchmarkUri, Dice, StateId, Value, as_f64};
use crate::record::Recorder;

/// The number of actions that are chosen and taken at a time: one call of the compiler's process
/// for each would cost more than what is learned in between is worth.
const BATCH: usize = 8;

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
            None => self.frontier(uri),
        };
        self.teach_before(&mut frontier, uri, ordinal)?;
        let mut walk = Walk { first: (states[0], Some(self.cost(recorder)?)), steps: Vec::new() };
        walk.begin(&mut frontier);
        let mut dice = Dice::new(self.plan.seed, ordinal);
        let (goal, mut next) = self.set_out(&mut frontier, &mut dice);
        let (steps_max, mut has_ended) = (steps_max as usize, false);
        while walk.steps.len() < steps_max && !has_ended {
            let (before, left) = (walk.steps.len(), steps_max - walk.steps.len());
            if next.is_empty() {
                next = frontier.choose(goal, BATCH.min(left), &mut dice);
            }
            next.truncate(left);
            has_ended = self.take_batch(recorder, &frontier, &next, &mut walk)?;
            next.clear();
            if self.is_interrupted() {
                return Ok(());
            }
            if !walk.is_priced() {
                self.price(uri, &mut walk)?;
            }
            walk.teach_from(before, &mut frontier);
        }
        states.extend(walk.steps.iter().filter_map(|(_, reached)| reached.map(|(state, _)| state)));
        lock(&self.board).frontiers.insert(uri.clone(), frontier);
        Ok(())
    }

    /// Takes actions in one batch, and adds what came of them to the walk, with the costs that are
    /// known or come along. Returns whether the episode is over.
    fn take_batch(
        &self,
        recorder: &mut Recorder,
        frontier: &Frontier,
        actions: &[ActionIndex],
        walk: &mut Walk,
    ) -> Result<bool, GenerateError> {
        let objective = self.environment.spec().observation_index(&self.plan.objective);
        let (mut taken, mut has_ended) = (actions.iter(), false);
        recorder.multistep(actions, &mut |step, observe| {
            let Some(&action) = taken.next() else { return Ok(ControlFlow::Break(())) };
            self.count(&step);
            // A value does not come along if the recording knows it: then it is computed later.
            let come_along = |observe: &mut Observe<'_>| match observe(objective?) {
                Ok(Value::Int(cost)) => Some(as_f64(cost)),
                Ok(Value::Float(cost)) => Some(cost).filter(|cost| !cost.is_nan()),
                _ => None,
            };
            let reached = step.outcome.state();
            let known = |state| frontier.cost_of(state).or_else(|| walk.cost_of(state));
            let priced = |state| (state, known(state).or_else(|| come_along(observe)));
            let reached = reached.map(priced);
            walk.steps.push((action, reached));
            has_ended = step.outcome.ends_episode();
            let goes_on = !has_ended && !self.is_interrupted();
            Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(has_ended)
    }

    /// Chooses what a walk that has begun looks for, and where it goes on from.
    fn set_out(&self, frontier: &mut Frontier, dice: &mut Dice) -> (Goal, Vec<ActionIndex>) {
        let goal = if dice.below(2) == 0 { Goal::New } else { Goal::Better };
        let way = frontier.way(goal, self.plan.episode_length / 2, dice);
        (goal, way)
    }

    /// Returns what earlier runs know of a program.
    fn frontier(&self, uri: &BenchmarkUri) -> Frontier {
        let (effects, earlier) = {
            let past = &mut lock(&self.board).past_walks;
            (past.effects.clone(), past.earlier.remove(uri))
        };
        let mut frontier = Frontier::new(self.actions(), self.least_cost());
        for walk in earlier.iter().flatten() {
            walk.begin(&mut frontier);
            walk.teach_from(0, &mut frontier);
        }
        frontier.know(effects);
        frontier
    }

    /// Says what the settled walks before an episode came to.
    fn teach_before(
        &self,
        frontier: &mut Frontier,
        uri: &BenchmarkUri,
        ordinal: u32,
    ) -> Result<(), GenerateError> {
        let own = lock(&self.board).past_walks.own.take_before(uri, ordinal);
        for (ordinal, mut walk) in own {
            if !walk.is_priced() {
                self.price(uri, &mut walk)?;
            }
            walk.begin(frontier);
            self.set_out(frontier, &mut Dice::new(self.plan.seed, ordinal));
            walk.teach_from(0, frontier);
        }
        Ok(())
    }

    /// Computes what the states of a walk cost, without recording it again.
    fn price(&self, uri: &BenchmarkUri, walk: &mut Walk) -> Result<(), GenerateError> {
        let mut session = self.unrecorded(uri, None)?;
        let session: &mut dyn Session = session.as_mut();
        if walk.first.1.is_none() {
            walk.first.1 = Some(self.cost(session)?);
        }
        // An action that depends on more than the state may lead elsewhere now and then. What that
        // costs says nothing about the recorded states.
        let mut is_there = true;
        for (action, reached) in &mut walk.steps {
            let Some((state, cost)) = reached else { break };
            is_there = is_there && session.apply(*action)?.outcome.state() == Some(*state);
            if cost.is_none() {
                *cost = Some(if is_there { self.cost(session)? } else { f64::INFINITY });
            }
        }
        Ok(())
    }
}
