//! Searches by measured time.
//!
//! To a search, [`Timed`] is an environment with one more observation space: the time of a run of
//! the state. A [`StateClock`] knows it, or measures it: of the kernels of a schedule
//! ([`KernelClock`](super::kernel_clock::KernelClock)), or of a program that is timed beside the
//! fastest one so far ([`Stopwatch`](super::Stopwatch)).

use std::sync::Arc;

use crate::env::worker::WorkerConfig;
use crate::env::{Environment, Observe, Session, SessionError, Start, Started, Visit, forward};
use crate::measure::MeasuredSpace;
use crate::model::{
    ActionIndex, BenchmarkUri, EnvironmentSpec, ObservationIndex, ObservationSpace, StateId, Step,
    Value, ValueType,
};

/// The name of the space of times.
pub(super) fn time_space() -> &'static str {
    MeasuredSpace::Runtime.as_str()
}

/// What tells the times of states, for all sessions.
pub(super) trait StateClock: std::fmt::Debug + Send + Sync {
    /// Returns the seconds of a run of the present state, at which `observe` looks; infinity if it
    /// has no time.
    ///
    /// # Errors
    ///
    /// If this machine cannot measure, or somebody interrupts it.
    fn seconds(&self, at: &At, observe: &mut Observe<'_>) -> Result<f64, SessionError>;
}

/// The times of states, as an observation space.
#[derive(Debug, Clone)]
struct TimeSpace {
    space: ObservationIndex,
    clock: Arc<dyn StateClock>,
}

impl TimeSpace {
    /// Looks at a space of the present state. `observe` looks at all spaces but that of times.
    fn look(
        &self,
        at: Option<&At>,
        space: ObservationIndex,
        observe: &mut Observe<'_>,
    ) -> Result<Value, SessionError> {
        if space != self.space {
            return observe(space);
        }
        self.clock.seconds(at.ok_or(SessionError::NoEpisode)?, observe).map(Value::Float)
    }
}

/// An environment whose states have times.
#[derive(Debug)]
pub(super) struct Timed {
    inner: Box<dyn Environment>,
    spec: EnvironmentSpec,
    times: TimeSpace,
}

impl Timed {
    /// Adds the times that `clock` tells to the states of `inner`.
    pub(super) fn new(inner: Box<dyn Environment>, clock: Arc<dyn StateClock>) -> Self {
        let mut spec = inner.spec().clone();
        let space = ObservationSpace::new(time_space(), ValueType::Float).on_request();
        spec.observation_spaces.push(space);
        let space = spec.observation_index(time_space()).expect("it was added");
        Self { inner, spec, times: TimeSpace { space, clock } }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Environment for Timed {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let (inner, times) = (self.inner.session()?, self.times.clone());
        Ok(Box::new(TimedSession { inner, times, at: None }))
    }

    fn within(&self, config: &WorkerConfig) -> Option<Box<dyn Environment>> {
        let (inner, spec) = (self.inner.within(config)?, self.spec.clone());
        Some(Box::new(Self { inner, spec, times: self.times.clone() }))
    }

    forward!(self => self.inner; repeated_windows, audit_session, served, may_live_here, keyframes);
    forward!(self => self.inner; choices, front_end, own_datasets);
}

/// A session whose states have times.
struct TimedSession {
    inner: Box<dyn Session>,
    times: TimeSpace,
    /// Where the episode is; none without one.
    at: Option<At>,
}

/// The present state of an episode.
#[derive(Debug, Clone)]
pub(super) struct At {
    pub(super) benchmark: BenchmarkUri,
    pub(super) state: StateId,
    /// The state before that.
    pub(super) before: Option<StateId>,
    /// The actions from the program's first state on, without those that changed nothing.
    pub(super) actions: Vec<ActionIndex>,
}

impl At {
    /// Notes a step.
    fn note(&mut self, action: ActionIndex, step: &Step) {
        if let Some(state) = step.outcome.state()
            && state != self.state
        {
            self.before = Some(std::mem::replace(&mut self.state, state));
            self.actions.push(action);
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Session for TimedSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.at = None;
        let started = self.inner.start(start)?;
        self.at = Some(At {
            benchmark: start.benchmark.uri.clone(),
            state: started.state,
            before: None,
            actions: Vec::new(),
        });
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let step = self.inner.apply(action)?;
        self.at.iter_mut().for_each(|at| at.note(action, &step));
        Ok(step)
    }

    fn apply_unchecked(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let step = self.inner.apply_unchecked(action)?;
        self.at.iter_mut().for_each(|at| at.note(action, &step));
        Ok(step)
    }

    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError> {
        let Self { inner, times, at } = self;
        let mut taken = actions.iter();
        inner.multistep(actions, &mut |step, observe| {
            if let (Some(at), Some(&action)) = (at.as_mut(), taken.next()) {
                at.note(action, &step);
            }
            visit(step, &mut |space| times.look(at.as_ref(), space, observe))
        })
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let Self { inner, times, at } = self;
        times.look(at.as_ref(), space, &mut |space| inner.observe(space))
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let (inner, times) = (self.inner.fork()?, self.times.clone());
        Ok(Box::new(Self { inner, times, at: self.at.clone() }))
    }

    forward!(self => self.inner; check, identify, text, announce);
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::ops::ControlFlow;

    use parking_lot::Mutex;

    use super::*;
    use crate::env::Watch;
    use crate::env::toy::{self, ToyEnvironment};

    /// The calls with several actions that a session has had.
    type Calls = Arc<Mutex<Vec<(&'static str, Vec<ActionIndex>)>>>;

    /// The toy environment with a keyframe of its own, which notes calls.
    #[derive(Debug, Default)]
    struct Noted {
        toy: ToyEnvironment,
        calls: Calls,
    }

    impl Environment for Noted {
        fn session(&self) -> Result<Box<dyn Session>, SessionError> {
            let (inner, calls) = (self.toy.session()?, Arc::clone(&self.calls));
            Ok(Box::new(NotedSession { inner, calls }))
        }

        fn keyframes(&self) -> NonZeroU32 {
            NonZeroU32::new(7).unwrap()
        }

        forward!(self => self.toy; spec);
    }

    struct NotedSession {
        inner: Box<dyn Session>,
        calls: Calls,
    }

    impl Session for NotedSession {
        fn multistep(
            &mut self,
            actions: &[ActionIndex],
            visit: &mut Visit<'_>,
        ) -> Result<(), SessionError> {
            self.calls.lock().push(("multistep", actions.to_vec()));
            self.inner.multistep(actions, visit)
        }

        fn announce(&mut self, actions: &[ActionIndex]) {
            self.calls.lock().push(("announce", actions.to_vec()));
        }

        forward!(self => self.inner; start, apply, identify, observe, fork);
    }

    /// A state takes a second for each action that led there.
    #[derive(Debug)]
    struct Counted;

    impl StateClock for Counted {
        fn seconds(&self, at: &At, observe: &mut Observe<'_>) -> Result<f64, SessionError> {
            observe(ObservationIndex(0))?;
            Ok(at.actions.iter().map(|_| 1.0).sum())
        }
    }

    #[test]
    fn a_batch_goes_within_whole_and_each_of_its_states_has_a_time() {
        let noted = Noted::default();
        let calls = Arc::clone(&noted.calls);
        let environment = Timed::new(Box::new(noted), Arc::new(Counted));
        assert_eq!(environment.keyframes().get(), 7);
        let time = environment.spec().observation_index(time_space()).unwrap();
        let mut session = environment.session().unwrap();
        let start = Start {
            benchmark: &toy::benchmark(1),
            action_space: toy::NAME,
            baselines: None,
            watch: &Watch::default(),
        };
        let mut state = session.start(&start).unwrap().state;
        let actions = [0, 1, 5, 6, 1].map(ActionIndex);
        session.announce(&actions);
        let (mut changes, mut times) = (0.0, Vec::new());
        let visit: &mut Visit<'_> = &mut |step, observe| {
            let next = step.outcome.state().unwrap();
            changes += if std::mem::replace(&mut state, next) == next { 0.0 } else { 1.0 };
            times.push((observe(time)?, Value::Float(changes)));
            Ok(ControlFlow::Continue(()))
        };
        session.multistep(&actions, visit).unwrap();
        assert!(changes > 1.0 && times.len() == actions.len());
        assert!(times.iter().all(|(told, expected)| told == expected), "{times:?}");
        assert_eq!(session.observe(time).unwrap(), Value::Float(changes));
        let whole = actions.to_vec();
        assert_eq!(*calls.lock(), [("announce", whole.clone()), ("multistep", whole)]);
    }
}
