//! What a session does when it is live, parked, and back.

use std::num::NonZeroU32;
use std::ops::ControlFlow;

use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::{Start, Visit, Watch};
use steplake::model::{ActionIndex, ObservationIndex, StateId, Step};

use super::*;

/// The calls with several actions that sessions have had.
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

#[test]
fn what_is_asked_of_a_session_reaches_the_live_one() {
    let noted = Noted::default();
    let calls = Arc::clone(&noted.calls);
    let environment = ParkingEnvironment::new(Arc::new(noted), 1);
    assert_eq!(environment.keyframes().get(), 7);
    let (mut session, _) = begun(&environment, 1);
    let actions = [0, 1, 5].map(ActionIndex);
    let play = |session: &mut dyn Session| {
        session.announce(&actions);
        let visit: &mut Visit<'_> = &mut |_, _| Ok(ControlFlow::Continue(()));
        session.multistep(&actions, visit).unwrap();
        std::mem::take(&mut *calls.lock())
    };
    let [announced, taken] = ["announce", "multistep"].map(|call| (call, actions.to_vec()));
    assert_eq!(play(session.as_mut()), [announced, taken.clone()]);
    // A parked session comes back by the batch, and has nothing announced.
    let _other = begun(&environment, 2);
    assert_eq!(play(session.as_mut()), [taken.clone(), taken]);
}

fn parking(live_max: usize) -> ParkingEnvironment {
    ParkingEnvironment::new(Arc::new(ToyEnvironment::default()), live_max)
}

fn begun(environment: &ParkingEnvironment, seed: u32) -> (Box<dyn Session>, StateId) {
    let mut session = environment.session().unwrap();
    let (benchmark, watch) = (toy::benchmark(seed), Watch::default());
    let start =
        Start { benchmark: &benchmark, action_space: toy::NAME, baselines: None, watch: &watch };
    let started = session.start(&start).unwrap();
    (session, started.state)
}

fn state(step: &Step) -> Option<StateId> {
    step.outcome.state()
}

#[test]
fn parked_sessions_come_back_to_their_states() {
    let environment = parking(2);
    let actions = [0, 1, 5, 6].map(ActionIndex);
    let mut sessions: Vec<_> = (0..20).map(|seed| begun(&environment, seed)).collect();
    let alone: Vec<_> = (0..20).map(|seed| begun(&parking(100), seed)).collect();
    for ((mut one, first), (session, other)) in alone.into_iter().zip(&mut sessions) {
        assert_eq!(first, *other);
        for action in actions {
            let [expected, found] =
                [&mut one, &mut *session].map(|session| session.apply(action).unwrap());
            assert_eq!(state(&expected), state(&found));
        }
    }
    assert!(environment.0.live.load(Ordering::Relaxed) <= 2);
    // Once more, in the opposite order: each was parked in between.
    for (session, _) in sessions.iter_mut().rev() {
        session.observe(ObservationIndex(0)).unwrap();
    }
    assert!(environment.0.live.load(Ordering::Relaxed) <= 2);
    drop(sessions);
    assert_eq!(environment.0.live.load(Ordering::Relaxed), 0);
}

#[test]
fn sessions_that_are_gone_leave_nothing_behind() {
    let environment = parking(1000);
    let kept = begun(&environment, 1);
    for seed in 0..500 {
        drop(begun(&environment, seed));
    }
    assert!(environment.0.places.lock().len() < 10);
    drop(kept);
}

#[test]
fn forks_of_parked_sessions_are_on_their_own() {
    let environment = parking(1);
    let (mut first, _) = begun(&environment, 1);
    first.apply(ActionIndex(1)).unwrap();
    let mut forks: Vec<_> = (0..4).map(|_| first.fork().unwrap()).collect();
    let moved = first.apply(ActionIndex(5)).unwrap();
    for fork in &mut forks {
        assert_eq!(state(&fork.apply(ActionIndex(5)).unwrap()), state(&moved));
    }
}

#[test]
fn a_session_that_may_not_come_back_stays_live() {
    let environment = ParkingEnvironment::new(Arc::new(ToyEnvironment::unsure()), 1);
    let scatter = environment.spec().action_spaces[0].index_of("scatter").unwrap();
    let (mut unsure, first) = begun(&environment, 1);
    assert_ne!(state(&unsure.apply(scatter).unwrap()), Some(first));
    let _others: Vec<_> = (2..5).map(|seed| begun(&environment, seed)).collect();
    assert_eq!(environment.0.live.load(Ordering::Relaxed), 1, "it alone is live");
    unsure.apply(ActionIndex(0)).unwrap();
    assert_eq!(environment.0.live.load(Ordering::Relaxed), 1);
}

#[test]
fn nothing_goes_on_after_the_end() {
    let environment = parking(1);
    let mut session = environment.session().unwrap();
    let none = session.apply(ActionIndex(0)).unwrap_err();
    assert!(matches!(none, SessionError::NoEpisode), "{none}");
}
