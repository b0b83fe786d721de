//! Sessions brought along actions whose results are known.

use std::fmt;
use std::ops::ControlFlow;

use super::{Session, SessionError};
use steplake_model::{ActionIndex, BenchmarkUri, Failure, Outcome, StateId, Step};

/// Actions that a session is to take from its present state on.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// The actions.
    pub actions: &'a [ActionIndex],
    /// Where they lead.
    pub expected: Expected<'a>,
}

/// The states to which actions lead, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'a> {
    /// None is.
    Any,
    /// That of the last action.
    Last(StateId),
    /// That of each action.
    Each(&'a [StateId]),
}

impl Expected<'_> {
    /// Returns the state of action number `at` of `count`, if it is known.
    fn after(&self, at: usize, count: usize) -> Option<StateId> {
        match self {
            Self::Last(state) if at == count => Some(*state),
            Self::Any | Self::Last(_) => None,
            Self::Each(states) => states.get(at - 1).copied(),
        }
    }
}

impl Route<'_> {
    /// Takes the actions in one batch, and hands each step to `on_step`. The inner error says where
    /// the session went instead: it is then in that state or a later one.
    ///
    /// # Errors
    ///
    /// Those of [`Session::multistep`].
    pub fn bring(
        &self,
        session: &mut dyn Session,
        mut on_step: impl FnMut(ActionIndex, Step),
    ) -> Result<Result<(), Strayed>, SessionError> {
        // Even an empty batch would take back what was announced.
        if self.actions.is_empty() {
            return Ok(Ok(()));
        }
        let (mut ahead, mut strayed) = ((1..).zip(self.actions), None);
        session.multistep(self.actions, &mut |step, _| {
            let Some((at, &action)) = ahead.next() else { return Ok(ControlFlow::Break(())) };
            let expected = self.expected.after(at, self.actions.len());
            strayed = Strayed::at(at, Destination::of(&step.outcome), expected).err();
            on_step(action, step);
            // A break behind the last action would cost a worker its sessions.
            let goes_on = strayed.is_none() || at == self.actions.len();
            Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        let is_left = || ahead.next().map(|(at, _)| Strayed { at, found: Destination::End });
        Ok(strayed.or_else(is_left).map_or(Ok(()), Err))
    }
}

/// Where a session left its route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strayed {
    /// The number of the action, from 1 on; 0 for the start of the episode.
    pub at: usize,
    /// What it led to.
    pub found: Destination,
}

impl Strayed {
    /// Compares the state in which an episode begins with the one that is known.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn at_start(found: Destination, expected: StateId) -> Result<(), Self> {
        Self::at(0, found, Some(expected))
    }

    fn at(at: usize, found: Destination, expected: Option<StateId>) -> Result<(), Self> {
        match found {
            Destination::State(state) if expected.is_none_or(|expected| state == expected) => {
                Ok(())
            }
            found => Err(Self { at, found }),
        }
    }

    /// Returns the error of a session that does not come to a recorded state again.
    pub fn diverged(self, uri: &BenchmarkUri, expected: StateId) -> SessionError {
        let found = match self.found {
            Destination::State(state) => state.to_string(),
            found => found.to_string(),
        };
        SessionError::Diverged { uri: uri.to_string(), expected: expected.to_string(), found }
    }
}

/// What an action led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A state.
    State(StateId),
    /// A failure of the compiler.
    Failure(Failure),
    /// Nothing: the episode was over before.
    End,
}

impl Destination {
    /// Returns what an outcome is.
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::State { id, .. } => Self::State(*id),
            Outcome::Crashed(failure) => Self::Failure(failure.clone()),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => write!(f, "state {state}"),
            Self::Failure(failure) => write!(f, "a failure ({failure})"),
            Self::End => f.write_str("the end of the episode"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toy::{self, ToyEnvironment};
    use crate::{Environment as _, Start, Watch, forward};
    use steplake_model::FailureKind;

    /// Increments, increments, inverts, and increments once more.
    const ACTIONS: [ActionIndex; 4] =
        [ActionIndex(0), ActionIndex(0), ActionIndex(7), ActionIndex(0)];

    /// A session whose episodes end with their first step.
    struct Short(Box<dyn Session>);

    impl Session for Short {
        fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
            let mut step = self.0.apply(action)?;
            if let Outcome::State { end_of_episode, .. } = &mut step.outcome {
                *end_of_episode = true;
            }
            Ok(step)
        }

        forward!(self => self.0; start, identify, observe, fork);
    }

    fn brought(
        start: u32,
        actions: &[ActionIndex],
        expected: Expected<'_>,
    ) -> (Result<(), Strayed>, Vec<StateId>) {
        let session = ToyEnvironment::default().session().unwrap();
        brought_in(session, start, actions, expected)
    }

    /// Takes actions from a number on. Returns how that ended, and the states on the way.
    fn brought_in(
        mut session: Box<dyn Session>,
        start: u32,
        actions: &[ActionIndex],
        expected: Expected<'_>,
    ) -> (Result<(), Strayed>, Vec<StateId>) {
        let start = Start {
            benchmark: &toy::program("generator://toy-v0/1", 1000, start),
            action_space: toy::NAME,
            baselines: None,
            watch: &Watch::default(),
        };
        session.start(&start).unwrap();
        let (mut states, mut ahead) = (Vec::new(), actions.iter());
        let route = Route { actions, expected };
        let brought = route.bring(session.as_mut(), |action, step| {
            assert_eq!(Some(&action), ahead.next());
            states.extend(step.outcome.state());
        });
        (brought.unwrap(), states)
    }

    #[test]
    fn a_session_comes_to_what_is_expected_or_the_route_says_where_it_left() {
        let (whole, states) = brought(3, &ACTIONS, Expected::Any);
        assert_eq!((whole, states.len()), (Ok(()), 4));
        let (other, last) = (states[0], states[3]);
        assert_eq!(brought(3, &ACTIONS, Expected::Each(&states)).0, Ok(()));
        assert_eq!(brought(3, &ACTIONS, Expected::Last(last)).0, Ok(()));
        assert_eq!(brought(3, &[], Expected::Last(last)).0, Ok(()));
        let (strayed, on_the_way) = brought(3, &ACTIONS, Expected::Last(other));
        assert_eq!(strayed, Err(Strayed { at: 4, found: Destination::State(last) }));
        assert_eq!(on_the_way, states);
        let one_differs = [states[0], other, states[2], last];
        let (strayed, on_the_way) = brought(3, &ACTIONS, Expected::Each(&one_differs));
        assert_eq!(strayed, Err(Strayed { at: 2, found: Destination::State(states[1]) }));
        assert_eq!(on_the_way, states[..2]);
        let diverged = strayed.unwrap_err().diverged(&toy::benchmark(1).uri, other).to_string();
        assert!(
            diverged.contains(&format!("led to {} in a live session", states[1])),
            "{diverged}"
        );
    }

    #[test]
    fn an_episode_that_is_over_too_early_leaves_its_route() {
        let (_, states) = brought(3, &ACTIONS, Expected::Any);
        let short = || Box::new(Short(ToyEnvironment::default().session().unwrap()));
        for expected in [Expected::Any, Expected::Last(states[0]), Expected::Each(&states)] {
            let (strayed, on_the_way) = brought_in(short(), 3, &ACTIONS, expected);
            assert_eq!(strayed, Err(Strayed { at: 2, found: Destination::End }));
            assert_eq!(on_the_way, states[..1]);
        }
        assert_eq!(brought_in(short(), 3, &ACTIONS[..1], Expected::Last(states[0])).0, Ok(()));
    }

    #[test]
    fn a_failure_leaves_every_route() {
        let (to_failure, states) = brought(248, &ACTIONS, Expected::Any);
        let Err(Strayed { at: 3, found: Destination::Failure(failure) }) = to_failure else {
            panic!("{to_failure:?}")
        };
        assert_eq!((failure.kind, states.len()), (FailureKind::Crash, 2));
        assert_eq!(
            Destination::Failure(failure).to_string(),
            "a failure (crash: `invert` cannot take 250)"
        );
        let expected = [Expected::Last(states[1]), Expected::Each(&states)];
        for expected in expected {
            assert_eq!(brought(248, &ACTIONS, expected).0.unwrap_err().at, 3);
        }
    }
}
