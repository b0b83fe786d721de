//! Live sessions that answer what the lake does not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::{Environment, Session, SessionError, forward};
use steplake::lake::{Lake, Rows};
use steplake::model::{ActionIndex, StateId, Step};
use steplake::record::{Recording, RecordingOptions};
use steplake::replay::cached::{CachedEnvironment, MissingEdge, Recorded, SessionOpener};

use super::{cached, derive, recorded, reopened, start, untimed};
use crate::fixtures::toy_lake::read;
use crate::record::recorder::{Call, answer, call};

/// Opens toy sessions, and counts them.
fn toys(opened: &Arc<AtomicUsize>) -> SessionOpener {
    let opened = Arc::clone(opened);
    Arc::new(move || {
        opened.fetch_add(1, Ordering::Relaxed);
        ToyEnvironment::default().session()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn with_a_live_session_nobody_sees_a_difference(
        calls in prop::collection::vec(call(), 1..80),
        episodes in 1_u64..60,
    ) {
        let (_folder, lake) = recorded(episodes);
        let environment = cached(&lake, MissingEdge::Live(toys(&Arc::default())));
        let mut plain = vec![ToyEnvironment::default().session().unwrap()];
        let mut from_lake = vec![environment.session().unwrap()];
        for call in &calls {
            // Only the names of environments differ in that error.
            if matches!(call, Call::Observe(space) if *space >= 5) {
                continue;
            }
            prop_assert_eq!(answer(&mut plain, call), answer(&mut from_lake, call), "{:?}", call);
        }
    }
}

#[test]
fn no_live_session_is_opened_for_what_the_lake_knows() {
    let (_folder, lake) = recorded(20);
    let opened = Arc::default();
    let environment = cached(&lake, MissingEdge::Live(toys(&opened)));
    let mut session = environment.session().unwrap();
    for episode in read(&lake).steps.chunk_by(|one, next| one.episode == next.episode) {
        start(session.as_mut(), &super::toy_benchmark(&episode[0].benchmark)).unwrap();
        for row in &episode[1..] {
            let mut fork = session.fork().unwrap();
            let [one, other] =
                [session.apply(row.action.unwrap()), fork.apply(row.action.unwrap())];
            assert_eq!(one.unwrap().outcome, other.unwrap().outcome);
        }
    }
    assert_eq!(opened.load(Ordering::Relaxed), 0);
    let coverage = environment.coverage();
    assert_eq!((coverage.went_live, coverage.live_steps, coverage.replayed_steps), (0, 0, 0));
    assert_eq!(session.identify(b"toy 9 1").unwrap(), {
        ToyEnvironment::default().session().unwrap().identify(b"toy 9 1").unwrap()
    });
    assert_eq!(opened.load(Ordering::Relaxed), 1);
}

/// Plays random episodes on a session, and on a plain one beside it.
fn wander(environment: &CachedEnvironment, seed: u64, benchmarks: u32) {
    let mut sessions =
        [ToyEnvironment::default().session().unwrap(), environment.session().unwrap()];
    let mut random = seed;
    for episode in 0..40 {
        let benchmark = toy::benchmark(episode % benchmarks);
        let [one, other] =
            sessions.each_mut().map(|session| start(session.as_mut(), &benchmark).unwrap());
        assert_eq!(one, other);
        for _ in 0..12 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let action = ActionIndex(u32::try_from(random >> 40).unwrap() % 8);
            let [one, other] =
                sessions.each_mut().map(|session| untimed(session.apply(action).unwrap()));
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
            if one.outcome.ends_episode() {
                break;
            }
        }
    }
}

/// The sum of the counts of all edges, failures included.
fn counted(lake: &Lake) -> u64 {
    let environment = cached(lake, MissingEdge::Error);
    let graph = environment.graph();
    let led = graph.edges().map(|edge| u64::from(edge.count)).sum::<u64>();
    let failed = graph.rows().flat_map(|row| graph.failures_of(row));
    led + failed.map(|failed| u64::from(failed.count)).sum::<u64>()
}

#[test]
fn only_what_the_compiler_executed_is_recorded() {
    let (folder, lake) = recorded(40);
    let path = folder.path().join("lake");
    let (before, before_count) = (read(&lake), counted(&lake));
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 1).unwrap();
    let toy = ToyEnvironment::default();
    let options = RecordingOptions::default();
    let recording = Arc::new(Recording::begin(writer, toy.spec(), run, &options).unwrap());
    let of_sessions = Arc::clone(&recording);
    let open: SessionOpener = Arc::new(move || {
        let recorder = of_sessions.recorder(ToyEnvironment::default().session()?);
        Ok(Box::new(recorder) as Box<dyn Session>)
    });
    let environment = cached(&lake, MissingEdge::Live(open));
    wander(&environment, 11, 4);
    let coverage = environment.coverage();
    drop(environment);
    let mut writer = Arc::into_inner(recording).unwrap().close().unwrap();
    writer.finish_run(run).unwrap();
    writer.seal().unwrap();
    drop(writer);
    let (lake, executed) = (reopened(&path), coverage.live_steps + coverage.replayed_steps);
    derive(&lake);
    assert!(coverage.from_lake > 0 && coverage.live_steps > 0 && coverage.replayed_steps > 0);
    let Rows { steps, episodes, .. } = read(&lake);
    let with_action = |steps: &[steplake::lake::StepRow]| {
        steps.iter().filter(|row| row.action.is_some()).count() as u64
    };
    assert_eq!(with_action(&steps) - with_action(&before.steps), executed);
    assert_eq!(counted(&lake) - before_count, executed);
    // An episode is recorded for each that went live at all.
    let live_episodes = episodes.len() - before.episodes.len();
    assert!((1..=40).contains(&live_episodes), "{live_episodes}");
    // Everything that was played is in the lake now.
    let again = cached(&lake, MissingEdge::Error);
    wander(&again, 11, 4);
    assert_eq!(again.coverage().refused, 0);
}

/// A session whose compiler takes each action for the next one.
struct Other(Box<dyn Session>);

impl Session for Other {
    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        self.0.apply(ActionIndex((action.0 + 1) % 7))
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Self(self.0.fork()?)))
    }

    forward!(self => self.0; start, identify, observe);
}

#[test]
fn a_live_session_that_comes_to_another_state_is_an_error() {
    let (_folder, lake) = recorded(3);
    let open: SessionOpener =
        Arc::new(|| Ok(Box::new(Other(ToyEnvironment::default().session()?)) as Box<dyn Session>));
    let environment = cached(&lake, MissingEdge::Live(open));
    let graph = environment.graph();
    let mut session = environment.session().unwrap();
    let mut state = start(session.as_mut(), &toy::benchmark(1)).unwrap().state;
    let mut changes = 0;
    loop {
        let row = graph.find(&state).unwrap();
        let known = graph.edges_of(row).find(|edge| edge.from != edge.to);
        let unknown =
            (0..8).find(|&it| graph.recorded(row, ActionIndex(it)) == Recorded::Nothing).unwrap();
        if changes == 2 {
            for _ in 0..2 {
                let error = session.apply(ActionIndex(unknown)).unwrap_err();
                assert!(matches!(error, SessionError::Diverged { .. }), "{error}");
                assert!(error.to_string().contains(&state.to_string()), "{error}");
            }
            break;
        }
        state = session.apply(known.unwrap().action).unwrap().outcome.state().unwrap();
        changes += 1;
    }
    // The lake still answers.
    let row = graph.find(&state).unwrap();
    let edge = graph.edges_of(row).next().unwrap();
    let next = session.apply(edge.action).unwrap().outcome.state();
    assert_eq!(next, Some(graph.state(edge.to)));
}

/// A session that notes which actions are announced to it.
struct Noted {
    inner: Box<dyn Session>,
    announced: Arc<Mutex<Vec<ActionIndex>>>,
}

impl Session for Noted {
    fn announce(&mut self, actions: &[ActionIndex]) {
        self.announced.lock().unwrap().extend(actions);
    }

    forward!(self => self.inner; start, apply, identify, observe, fork);
}

#[test]
fn a_live_session_hears_only_of_actions_that_it_will_be_asked_for() {
    let (_folder, lake) = recorded(3);
    let announced = Arc::<Mutex<Vec<ActionIndex>>>::default();
    let to_note = Arc::clone(&announced);
    let open: SessionOpener = Arc::new(move || {
        let (inner, announced) = (ToyEnvironment::default().session()?, Arc::clone(&to_note));
        Ok(Box::new(Noted { inner, announced }) as Box<dyn Session>)
    });
    let environment = cached(&lake, MissingEdge::Live(open));
    let graph = environment.graph();
    let unknown = |state: &StateId| {
        let Some(row) = graph.find(state) else { return ActionIndex(0) };
        let mut actions = (0..8).map(ActionIndex);
        actions.find(|&action| graph.recorded(row, action) == Recorded::Nothing).unwrap()
    };
    let mut session = environment.session().unwrap();
    let state = start(session.as_mut(), &toy::benchmark(1)).unwrap().state;
    let known = graph.edges_of(graph.find(&state).unwrap()).next().unwrap().action;
    // The compiler has not begun, and of the second the lake knows the result.
    for action in [unknown(&state), known] {
        session.announce(&[action]);
    }
    let state = session.apply(unknown(&state)).unwrap().outcome.state().unwrap();
    // Two actions take two calls, and there is no such action as the last one.
    let next = unknown(&state);
    session.announce(&[next, next]);
    session.announce(&[ActionIndex(1000)]);
    assert!(announced.lock().unwrap().is_empty());
    session.announce(&[next]);
    assert_eq!(*announced.lock().unwrap(), [next]);
}
