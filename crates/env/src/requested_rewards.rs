//! Rewards whose cost is observed on request, such as the size of machine code.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Session, SessionError, Start, Started, Visit, apply_each, forward};
use steplake_model::{
    ActionIndex, Baselines, EnvironmentSpec, Failure, Name, ObservationIndex, Outcome, RewardSpace,
    Scale, StateId, Step, Value, as_f64,
};

/// The most costs that a session remembers: a walk comes to most states more than once.
const COSTS_MAX: usize = 1 << 16;

/// The reward spaces that are wanted of sessions, by their places in the environment's list.
#[derive(Debug, Default)]
pub struct WantedRewards(Mutex<BTreeSet<usize>>);

impl WantedRewards {
    /// Wants these rewards.
    pub fn new(places: impl IntoIterator<Item = usize>) -> Self {
        Self(Mutex::new(places.into_iter().collect()))
    }

    /// Wants the rewards of one more space, from the next step on.
    pub fn want(&self, place: usize) {
        self.0.lock().insert(place);
    }

    fn places(&self) -> Vec<usize> {
        self.0.lock().iter().copied().collect()
    }
}

/// A session that computes those rewards [on request](EnvironmentSpec::is_on_request) that are
/// wanted. The session within leaves them NaN.
///
/// Their cost is observed in the initial state and after every step that changes the state. Their
/// baselines are observed when an episode starts, unless the caller knows them, and returned with
/// the others. If the compiler fails on an observation, the cost or baseline is not known, and
/// rewards that depend on it are NaN. But a step fails that led to a state on whose cost the
/// compiler fails, if that cost [is what it makes of the
/// state](steplake_model::ObservationSpace::is_compiled). Any other error of an observation, such
/// as an interrupt, ends the episode: its step was taken, and the caller does not know of it.
pub struct RequestedRewards {
    inner: Box<dyn Session>,
    spec: Arc<EnvironmentSpec>,
    wanted: Arc<WantedRewards>,
    /// The places of all rewards on request.
    on_request: Arc<[usize]>,
    episode: Option<RewardedEpisode>,
    /// Costs of states, and baselines by the first states of programs.
    known: HashMap<(ObservationIndex, StateId), ObservedCost>,
}

/// A cost, or how the compiler failed on it.
type ObservedCost = Result<Value, Failure>;

/// An episode under way.
#[derive(Debug, Clone)]
struct RewardedEpisode {
    initial: StateId,
    state: StateId,
    baselines: Baselines,
}

impl RequestedRewards {
    /// Wraps a session of the environment with this spec.
    pub fn new(
        inner: Box<dyn Session>,
        spec: Arc<EnvironmentSpec>,
        wanted: Arc<WantedRewards>,
    ) -> Self {
        let spaces = spec.reward_spaces.iter().enumerate();
        let on_request = spaces.filter(|(_, space)| spec.is_on_request(space));
        let on_request = on_request.map(|(place, _)| place).collect();
        Self { inner, spec, wanted, on_request, episode: None, known: HashMap::new() }
    }

    fn demand_episode(&self) -> Result<(), SessionError> {
        if self.episode.is_some() { Ok(()) } else { Err(SessionError::NoEpisode) }
    }

    /// The wanted rewards on request, with their places.
    fn spaces(&self) -> Vec<(usize, RewardSpace)> {
        let wanted = self.wanted.places().into_iter();
        let wanted = wanted.filter(|place| self.on_request.contains(place));
        wanted.map(|place| (place, self.spec.reward_spaces[place].clone())).collect()
    }

    /// Looks at a space of a state, which is the present one, or of the benchmark that begins in
    /// it. `Err` within says how the compiler failed, which costs workers: it is not tried again.
    fn look(&mut self, name: &str, state: StateId) -> Result<ObservedCost, SessionError> {
        let space = self.spec.observation_index(name);
        let space = space.ok_or_else(|| super::unknown_space(&self.spec, name))?;
        if let Some(known) = self.known.get(&(space, state)) {
            return Ok(known.clone());
        }
        let cost = match self.inner.observe(space) {
            Ok(value) => Ok(value),
            Err(SessionError::Unobservable(failure)) => Err(failure),
            Err(error) => return Err(error),
        };
        if self.known.len() >= COSTS_MAX {
            self.known.clear();
        }
        self.known.insert((space, state), cost.clone());
        Ok(cost)
    }

    /// The cost of the present state in the cost space of a reward, or how the compiler failed on
    /// it.
    fn cost(&mut self, space: &RewardSpace) -> Result<Result<f64, Failure>, SessionError> {
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        Ok(self.look(&space.cost, episode.state)?.map(|value| match value {
            Value::Int(cost) => as_f64(cost),
            Value::Float(cost) => cost,
            _ => f64::NAN,
        }))
    }

    /// The divisor of a reward; NaN if it is not known.
    fn divisor(&mut self, space: &RewardSpace) -> Result<f64, SessionError> {
        let needed: &[&str] = match &space.scale {
            Scale::Absolute => &[],
            Scale::Initial => &[&space.initial],
            Scale::Baseline(name) => &[&space.initial, name],
        };
        for &name in needed {
            let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
            if episode.baselines.get(name).is_none()
                && let Ok(Value::Int(cost)) = self.look(name, episode.initial)?
                && let Some(episode) = &mut self.episode
            {
                episode.baselines.0.push((name.to_owned(), cost));
            }
        }
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        Ok(space.divisor(&episode.baselines).unwrap_or(f64::NAN))
    }

    /// Fills in the wanted rewards of a step. `before` has the costs before it, and the divisors.
    fn complete(
        &mut self,
        mut step: Step,
        spaces: &[(usize, RewardSpace)],
        before: &[(f64, f64)],
    ) -> Result<Step, SessionError> {
        let Outcome::State { id, .. } = step.outcome else {
            self.episode = None;
            return Ok(step);
        };
        self.episode.as_mut().ok_or(SessionError::NoEpisode)?.state = id;
        for ((place, space), &(before, divisor)) in spaces.iter().zip(before) {
            let cost = match self.cost(space)? {
                Ok(cost) => cost,
                Err(failure) if self.spec.is_compiled(&space.cost) => {
                    self.episode = None;
                    return Ok(Step::failed(failure, step.rewards.len(), step.wall_time));
                }
                Err(_unknown) => f64::NAN,
            };
            step.rewards[*place] = RewardSpace::reward(before, cost, divisor);
        }
        Ok(step)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Session for RequestedRewards {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.episode = None;
        let Started { state, baselines } = self.inner.start(start)?;
        self.episode = Some(RewardedEpisode { initial: state, state, baselines });
        let measured =
            self.spaces().iter().try_for_each(|(_, space)| self.divisor(space).map(drop));
        if let Err(error) = measured {
            self.episode = None;
            return Err(error);
        }
        let episode = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        Ok(Started { state, baselines: episode.baselines.clone() })
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let spaces = self.spaces();
        self.demand_episode()?;
        let before = spaces
            .iter()
            .map(|(_, space)| Ok((self.cost(space)?.unwrap_or(f64::NAN), self.divisor(space)?)));
        let before = before.collect::<Result<Vec<_>, SessionError>>()?;
        let step = self.inner.apply(action)?;
        let completed = self.complete(step, &spaces, &before);
        if completed.is_err() {
            self.episode = None;
        }
        completed
    }

    /// The costs of a state are observed with its step, which has to be checked before.
    fn apply_unchecked(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        self.apply(action)
    }

    forward!(self => self.inner; check, identify, text);

    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError> {
        if actions.is_empty() {
            return Ok(());
        }
        self.demand_episode()?;
        if !self.spaces().is_empty() {
            return apply_each(self, actions, visit);
        }
        let episode = &mut self.episode;
        self.inner.multistep(actions, &mut |step, observe| {
            if let (Some(episode), Some(state)) = (episode.as_mut(), step.outcome.state()) {
                episode.state = state;
            }
            visit(step, observe)
        })
    }

    fn announce(&mut self, actions: &[ActionIndex]) {
        if self.spaces().is_empty() {
            self.inner.announce(actions);
        }
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let of_benchmark = self.spec.observation_space(space).is_some_and(|own| own.of_benchmark);
        let now = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        let state = if of_benchmark { now.initial } else { now.state };
        let name = self.spec.observation_space(space).map(|own| own.name.clone());
        let is_cost = |name: &Name| self.spaces().iter().any(|(_, reward)| reward.cost == *name);
        // A cost is needed again for the next step.
        match name.filter(|name| self.known.contains_key(&(space, state)) || is_cost(name)) {
            Some(name) => self.look(&name, state)?.map_err(SessionError::Unobservable),
            None => self.inner.observe(space),
        }
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        self.demand_episode()?;
        let (spec, wanted) = (Arc::clone(&self.spec), Arc::clone(&self.wanted));
        let mut fork = Self::new(self.inner.fork()?, spec, wanted);
        fork.episode.clone_from(&self.episode);
        Ok(Box::new(fork))
    }
}

impl fmt::Debug for RequestedRewards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestedRewards").field("episode", &self.episode).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::toy::{self, ToyEnvironment};
    use crate::{Environment as _, Watch};

    /// The toy environment, with a cost that is observed on request and may be interrupted.
    struct Interrupted(Box<dyn Session>, Arc<AtomicBool>);

    impl Session for Interrupted {
        forward!(self => self.0; start, apply, identify, fork);

        fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
            if self.1.load(Ordering::Relaxed) {
                return Err(SessionError::Interrupted);
            }
            self.0.observe(space)
        }
    }

    #[test]
    fn a_step_whose_cost_was_interrupted_ends_the_episode() {
        let environment = ToyEnvironment::default();
        let mut spec = environment.spec().clone();
        spec.observation_spaces[0].on_request = true;
        let is_interrupted = Arc::new(AtomicBool::new(false));
        let inner = Interrupted(environment.session().unwrap(), Arc::clone(&is_interrupted));
        let wanted = Arc::new(WantedRewards::new([0]));
        let mut session = RequestedRewards::new(Box::new(inner), Arc::new(spec), wanted);
        let start = Start {
            benchmark: &toy::benchmark(3),
            action_space: toy::NAME,
            baselines: None,
            watch: &Watch::default(),
        };
        session.start(&start).unwrap();
        let (cost, before) = (ObservationIndex(0), session.observe(ObservationIndex(0)).unwrap());
        let changing = |session: &mut RequestedRewards| {
            (0..9).find_map(|action| {
                let step = session.apply(ActionIndex(action)).ok()?;
                matches!(step.outcome, Outcome::State { changed: true, .. }).then_some(step)
            })
        };
        let step = changing(&mut session).unwrap();
        let after = session.observe(cost).unwrap();
        let (Value::Int(before), Value::Int(after)) = (before, after) else { panic!("integers") };
        assert_eq!(step.rewards[..1], [as_f64(before - after)]);
        is_interrupted.store(true, Ordering::Relaxed);
        assert!(changing(&mut session).is_none());
        is_interrupted.store(false, Ordering::Relaxed);
        // The step was taken within, and the caller does not know: nothing may follow it.
        for _ in 0..2 {
            let again = session.apply(ActionIndex(0));
            assert!(matches!(again, Err(SessionError::NoEpisode)), "{again:?}");
        }
        assert!(matches!(session.observe(cost), Err(SessionError::NoEpisode)));
        session.start(&start).unwrap();
        assert!(changing(&mut session).is_some());
    }
}
