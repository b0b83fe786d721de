//! Does what a policy proposes for an episode.

use std::ops::ControlFlow;

use super::campaign::Campaign;
use super::costs::cost;
use super::policies::{Policy, Property, Proposal, actions};
use super::setting::Setting;
use super::walk::{Walk, lowest};
use super::{Costed, GenerateError};
use crate::record::Recorder;
use steplake_env::{Observe, Session, SessionError};
use steplake_model::{ActionIndex, StateId, Value, as_f64};

/// An episode that a policy has begun: one that is played, or a settled one of which it learns.
pub(super) struct BegunEpisode<'a> {
    campaign: &'a Campaign<'a>,
    setting: &'a Setting<'a>,
    policy: &'a mut dyn Policy,
    length_max: usize,
    /// The choices or the actions that it tries, if the policy proposes whole vectors.
    vector: Option<Proposal>,
    /// The number of actions after which alone the cost is wanted, if it is not wanted of each
    /// state. If the environment ends the episode before that, it is wanted of the last state.
    pub(super) costed: Option<usize>,
    /// What came of it.
    pub(super) walk: Walk,
}

impl<'a> BegunEpisode<'a> {
    /// Has a policy begin an episode of so many steps at most.
    pub(super) fn new(
        campaign: &'a Campaign<'a>,
        setting: &'a Setting<'a>,
        policy: &'a mut dyn Policy,
        length_max: u32,
    ) -> Result<Self, GenerateError> {
        let (vector, length_max) = (policy.begin(), length_max as usize);
        let mut attempt = Self {
            campaign,
            setting,
            policy,
            length_max,
            vector,
            costed: None,
            walk: Walk::default(),
        };
        if let Some(vector) = &attempt.vector {
            // Choices are no actions, and what is made of them is whole.
            attempt.length_max = if attempt.choices().is_some() { 0 } else { length_max };
            attempt.costed = attempt.costed_step(actions(vector).take(attempt.length_max))?;
        }
        Ok(attempt)
    }

    /// Returns the choices of which its program is made, if it is.
    pub(super) fn choices(&self) -> Option<&[i32]> {
        self.vector.as_deref().filter(|_| self.setting.environment.choices().is_some())
    }

    /// Takes what the policy proposes, from the first state of a recorded episode on: until it
    /// proposes nothing, the episode is over, or an interrupt.
    pub(super) fn play(
        &mut self,
        recorder: &mut Recorder,
        first: StateId,
    ) -> Result<(), GenerateError> {
        let (campaign, mut dice) = (self.campaign, self.setting.episode_dice());
        let mut is_over = false;
        self.walk.first = Some((first, None));
        self.price_last(recorder, is_over)?;
        while self.walk.steps.len() < self.length_max && !is_over && !campaign.is_interrupted() {
            let before = self.walk.steps.len();
            let left = self.length_max - before;
            let mut actions = self.policy.propose(&self.walk, left, &mut dice);
            actions.truncate(left);
            is_over = match *actions {
                [] => break,
                [action] => self.take(recorder, action)?,
                _ => self.take_all(recorder, &actions)?,
            };
            if campaign.is_interrupted() {
                break;
            }
            self.price_last(recorder, is_over)?;
            if actions.len() > 1 {
                self.price(before, is_over)?;
            }
        }
        Ok(())
    }

    /// Has the policy learn a recorded episode that is over. Notes what a whole vector brought.
    pub(super) fn end(self) {
        self.policy.learn(&self.walk);
        if let Some(vector) = &self.vector {
            let (cost, after) = self.walk.lowest();
            // Choices are made at once.
            let part = if self.choices().is_some() { vector.len() } else { after };
            let best = &mut self.campaign.progress.best.lock();
            best.entry(self.setting.uri.clone()).or_default().note(&vector[..part], cost);
        }
    }

    /// Has the policy propose what it proposed for a settled episode, and learn what came of it.
    pub(super) fn repeat(mut self, walk: Walk) -> Result<(), GenerateError> {
        self.walk = walk;
        self.forget_other_costs();
        self.price(0, true)?;
        let mut past = Walk { first: self.walk.first, steps: Vec::new() };
        if past.first.is_some() {
            let (length, mut dice) = (self.length_max, self.setting.episode_dice());
            let mut proposed = self.policy.propose(&past, length, &mut dice);
            // Others draw, so that nobody can say what they did.
            let is_known = self.setting.plan.policy.has(Property::IsSystematic);
            for step in self.walk.steps.iter().filter(|_| is_known) {
                if proposed.first() != Some(&step.0) {
                    return Err(GenerateError::AnotherSearch(self.setting.uri.clone()));
                }
                past.steps.push(*step);
                proposed = self.policy.propose(&past, length, &mut dice);
            }
        }
        self.policy.learn(&self.walk);
        Ok(())
    }

    /// Where the cost of one state alone counts, forgets those of the other states: the lake may
    /// have them from other episodes, and nobody looked at them while this one was played.
    fn forget_other_costs(&mut self) {
        let Some(costed) = self.costed else { return };
        let costed = costed.min(self.walk.steps.len());
        let reached = self.walk.steps.iter_mut().map(|(_, reached)| reached);
        for (_, reached) in (0..)
            .zip(std::iter::once(&mut self.walk.first).chain(reached))
            .filter(|(after, _)| *after != costed)
        {
            if let Some((_, cost)) = reached {
                *cost = None;
            }
        }
    }

    /// Takes an action. Returns whether the episode is over.
    fn take(&mut self, recorder: &mut Recorder, action: ActionIndex) -> Result<bool, SessionError> {
        let step = recorder.apply(action)?;
        self.campaign.count_step();
        self.walk.steps.push((action, step.outcome.state().map(|state| (state, None))));
        Ok(step.outcome.ends_episode())
    }

    /// Takes actions in one batch, with the costs that come along, until one ends the episode or an
    /// interrupt. Returns whether the episode is over.
    fn take_all(
        &mut self,
        recorder: &mut Recorder,
        actions: &[ActionIndex],
    ) -> Result<bool, SessionError> {
        let campaign = self.campaign;
        let objective = self.setting.spec().observation_index(&self.setting.plan.objective);
        // A value does not come along if the recording knows it: then it is computed later.
        let come_along = |observe: &mut Observe<'_>| match observe(objective?) {
            Ok(Value::Int(cost)) => Some(as_f64(cost)),
            Ok(Value::Float(cost)) => Some(cost).filter(|cost| !cost.is_nan()),
            _ => None,
        };
        let (before, mut taken, mut is_over) = (self.walk.steps.len(), actions.iter(), false);
        recorder.multistep(actions, &mut |step, observe| {
            let Some(&action) = taken.next() else { return Ok(ControlFlow::Break(())) };
            campaign.count_step();
            is_over = step.outcome.ends_episode();
            self.walk.steps.push((action, step.outcome.state().map(|state| (state, None))));
            let after = self.walk.steps.len();
            if let Some(state) = self.unpriced(after, false) {
                let in_batch = (before..after).filter_map(|at| self.walk.reached(at));
                let known = in_batch.filter(|&(known, _)| known == state).find_map(|it| it.1);
                self.walk.set_cost(after, known.or_else(|| come_along(observe)));
            }
            let goes_on = !campaign.is_interrupted();
            Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(is_over)
    }

    /// Returns the state after so many actions if the walk has to say what it costs, and does not.
    fn unpriced(&self, after: usize, is_over: bool) -> Option<StateId> {
        let is_last = is_over && after == self.walk.steps.len();
        let is_costed = |costed: usize| after == costed || is_last && after < costed;
        let (state, cost) = self.walk.reached(after)?;
        let is_wanted = cost.is_none()
            && self.setting.plan.policy.has(Property::Searches)
            && self.costed.is_none_or(is_costed)
            && self.policy.wants_cost(after, state);
        is_wanted.then_some(state)
    }

    /// Observes what the last state costs, if it has to, in the session that is there.
    fn price_last(&mut self, session: &mut dyn Session, is_over: bool) -> Result<(), SessionError> {
        let after = self.walk.steps.len();
        if self.unpriced(after, is_over).is_some() {
            self.walk.set_cost(after, Some(self.setting.cost(session)?));
        }
        Ok(())
    }

    /// Computes what states after `from` actions or more cost, without recording them again: what
    /// neither came along nor is in the lake.
    fn price(&mut self, from: usize, is_over: bool) -> Result<(), GenerateError> {
        let end = self.walk.steps.len();
        let Some(first) = (from..=end).find(|&after| self.unpriced(after, is_over).is_some())
        else {
            return Ok(());
        };
        let mut session = self.campaign.unrecorded(self.setting.uri, self.choices())?;
        let session: &mut dyn Session = session.as_mut();
        // An action that depends on more than the state may lead elsewhere now and then. What that
        // costs says nothing about the recorded states.
        let mut is_there = true;
        for after in 0..=end {
            let Some((state, _)) = self.walk.reached(after) else { break };
            if let Some(step) = after.checked_sub(1) {
                let action = self.walk.steps[step].0;
                is_there = is_there && session.apply(action)?.outcome.state() == Some(state);
            }
            if after >= first && self.unpriced(after, is_over).is_some() {
                let cost = if is_there { self.setting.cost(session)? } else { f64::INFINITY };
                self.walk.set_cost(after, Some(cost));
            }
        }
        Ok(())
    }

    /// Returns the number of actions of a sequence after which its state says what the sequence
    /// costs; none if each state may.
    fn costed_step(
        &self,
        actions: impl Iterator<Item = ActionIndex>,
    ) -> Result<Option<usize>, GenerateError> {
        let guide = match &self.setting.plan.costed {
            Costed::EachState => return Ok(None),
            Costed::LastState => return Ok(Some(actions.count())),
            Costed::LowestOf(space) => space,
        };
        let mut session = match (self.setting.open)() {
            // The episode records how the start failed.
            Err(GenerateError::Session(SessionError::StartFailed { .. })) => return Ok(Some(0)),
            session => session?,
        };
        let value = |session: &mut dyn Session| cost(session, self.setting.spec(), guide);
        let mut values = vec![value(session.as_mut())?];
        for action in actions {
            if self.campaign.is_interrupted() {
                break;
            }
            let outcome = session.apply(action)?.outcome;
            if outcome.state().is_some() {
                values.push(value(session.as_mut())?);
            }
            if outcome.ends_episode() {
                break;
            }
        }
        Ok(Some(lowest(values.into_iter()).1))
    }
}
