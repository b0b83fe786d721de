//! Actions whose result the lake does not have.

use steplake::env::toy;
use steplake::env::{Environment, Session, SessionError};
use steplake::lake::Lake;
use steplake::model::{ActionIndex, ObservationIndex, Outcome, StateId};
use steplake::replay::cached::{CachedEnvironment, MissingEdge, Recorded};

use super::{cached, derive, recorded, start};

/// Plays on until an action was never tried. Returns the session, the state and the action.
fn to_a_missing_edge(environment: &CachedEnvironment) -> (Box<dyn Session>, StateId, ActionIndex) {
    let mut session = environment.session().unwrap();
    let mut state = start(session.as_mut(), &toy::benchmark(1)).unwrap().state;
    for turn in 0.. {
        let row = environment.graph().find(&state).unwrap();
        let recorded = |action: u32| environment.graph().recorded(row, ActionIndex(action));
        if let Some(action) = (0..8).find(|&action| recorded(action) == Recorded::Nothing) {
            return (session, state, ActionIndex(action));
        }
        let led = |action: u32| matches!(recorded(action), Recorded::Led(_));
        let action = (0..8).map(|number| (number + turn) % 8).find(|&action| led(action)).unwrap();
        state = session.apply(ActionIndex(action)).unwrap().outcome.state().unwrap();
    }
    unreachable!("the states of a lake are finite")
}

#[test]
fn an_error_names_the_state_and_the_action_and_changes_nothing() {
    let (_folder, lake) = recorded(20);
    let environment = cached(&lake, MissingEdge::Error);
    let (mut session, state, action) = to_a_missing_edge(&environment);
    let before = session.observe(ObservationIndex(1)).unwrap();
    let asked = environment.coverage().from_lake;
    for _ in 0..2 {
        let error = session.apply(action).unwrap_err();
        let name = &environment.spec().action_spaces[0].get(action).unwrap().name;
        assert!(
            error.to_string().contains(&format!("(`{name}`) in state {state}: take another")),
            "{error}"
        );
        assert!(matches!(error, SessionError::MissingEdge { .. }));
    }
    assert_eq!(session.observe(ObservationIndex(1)).unwrap(), before);
    let coverage = environment.coverage();
    assert_eq!((coverage.refused, coverage.stayed, coverage.from_lake), (2, 0, asked));
}

#[test]
fn a_session_may_stay_without_a_reward() {
    let (_folder, lake) = recorded(20);
    let environment = cached(&lake, MissingEdge::Stay);
    let (mut session, state, action) = to_a_missing_edge(&environment);
    let step = session.apply(action).unwrap();
    let stays = Outcome::State {
        id: state,
        changed: false,
        end_of_episode: false,
        action_space_changed: false,
    };
    assert_eq!((step.outcome, &*step.rewards), (stays, &[0.0; 3][..]));
    assert_eq!(session.apply(action).unwrap().outcome.state(), Some(state));
    let coverage = environment.coverage();
    assert_eq!((coverage.refused, coverage.stayed, coverage.live_steps), (0, 2, 0));
}

#[test]
fn a_retracted_action_has_no_edges() {
    let (_folder, lake) = recorded(50);
    let action = ActionIndex(1);
    let count = |lake: &Lake| {
        let environment = cached(lake, MissingEdge::Error);
        let graph = environment.graph();
        let edges = graph.edges().filter(|edge| edge.action == action).count();
        let rewards = environment.rewards("Cost").unwrap().unwrap();
        assert_eq!(rewards.len(), graph.transitions());
        (edges, graph.transitions())
    };
    let (before, all) = count(&lake);
    assert!(before > 0);
    lake.maintenance().unwrap().retract_action("double", "a test").unwrap();
    derive(&lake);
    assert_eq!(count(&lake), (0, all - before));
}
