//! Recorded sessions: several at once, played by hand.

use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::{Environment, Session, Start, Watch};
use steplake::lake::{Lake, LakeError, Table, to_the_end};
use steplake::model::{ActionIndex, EpisodeId, RunId, StateId};
use steplake::recording::{SessionOptions, record_sessions};

use crate::fixtures::support::{cells, rows};

fn start(session: &mut dyn Session, seed: u32) -> StateId {
    let (benchmark, watch) = (toy::benchmark(seed), Watch::default());
    let (action_space, baselines) = (toy::NAME, None);
    let start = Start { benchmark: &benchmark, action_space, baselines, watch: &watch };
    session.start(&start).unwrap().state
}

fn apply(session: &mut dyn Session, actions: &[u32]) -> Option<StateId> {
    let steps = actions.iter().map(|&action| session.apply(ActionIndex(action)).unwrap());
    steps.last().and_then(|step| step.outcome.state())
}

/// The episode, the index and the state of each step.
fn steps(lake: &Lake) -> Vec<String> {
    cells(lake.path(), Table::Steps, |name| {
        ["episode_id", "step_index", "state_id"].contains(&name)
    })
}

#[test]
fn sessions_at_once_and_a_fork_are_episodes_of_one_finished_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let environment = ToyEnvironment::default();
    let recorded = record_sessions(&path, &environment, &SessionOptions::default()).unwrap();
    let busy = record_sessions(&path, &environment, &SessionOptions::default()).unwrap_err();
    assert!(busy.to_string().contains("another writer of this process"), "{busy}");
    let new = || recorded.recording().recorder(environment.session().unwrap());
    let (mut one, mut other, mut left_open) = (new(), new(), new());
    start(&mut one, 0);
    start(&mut other, 1);
    start(&mut left_open, 2);
    apply(&mut one, &[0, 1]);
    let mut fork = one.fork().unwrap();
    let of_one = apply(&mut one, &[2]);
    let of_other = apply(&mut other, &[3, 0]);
    let of_fork = apply(fork.as_mut(), &[4]);
    apply(&mut left_open, &[1]);
    drop((fork, one, other));
    assert_eq!(recorded.finish(&environment).unwrap(), RunId(1));
    drop(left_open);

    let lake = Lake::open(&path).unwrap();
    assert_eq!(lake.snapshot().unwrap().closed_hot_steps(), 0, "it is sealed");
    let snapshot = lake.snapshot().unwrap();
    let run = &snapshot.runs()[0];
    assert!(run.finished);
    let arguments: serde_json::Value = serde_json::from_str(&run.arguments).unwrap();
    assert_eq!((&arguments["recorder"], &arguments["ir"]), (&"session".into(), &"all".into()));
    let last = |ordinal, index: u32, state: Option<StateId>| {
        let episode = EpisodeId::new(run.id, ordinal).0;
        format!("episode_id={episode} step_index={index} state_id={}", state.unwrap())
    };
    let steps = steps(&lake);
    assert_eq!(steps.len(), 4 + 3 + 2, "the open episode is taken back: {steps:#?}");
    // Episode 2 was left open, and the fork began last.
    for wanted in [last(0, 3, of_one), last(1, 2, of_other), last(3, 1, of_fork)] {
        assert!(steps.contains(&wanted), "{wanted} is not in {steps:#?}");
    }
    let episodes = cells(&path, Table::Episodes, |name| name.starts_with("parent_"));
    let parent = format!("parent_episode_id={} parent_step_index=2", EpisodeId::new(run.id, 0).0);
    assert_eq!(episodes.iter().filter(|row| **row == parent).count(), 1, "{episodes:?}");
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}

#[test]
fn a_lake_keeps_its_spaces_and_a_dropped_recording_lets_go_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let environment = ToyEnvironment::default();
    let few = SessionOptions {
        observe: Some(vec!["Cost".into()]),
        rewards: Some(vec!["Cost".into()]),
        ..SessionOptions::default()
    };
    let dropped = record_sessions(&path, &environment, &few).unwrap();
    let mut session = dropped.recording().recorder(environment.session().unwrap());
    start(&mut session, 0);
    drop(session);
    drop(dropped);
    let hot = SessionOptions { seal: false, ..SessionOptions::default() };
    let again = record_sessions(&path, &environment, &hot).unwrap();
    let mut session = again.recording().recorder(environment.session().unwrap());
    start(&mut session, 0);
    drop(session);
    again.finish(&environment).unwrap();
    let lake = Lake::open(&path).unwrap();
    let identity = lake.identity();
    assert_eq!((identity.observations.len(), identity.rewards.len()), (1, 1));
    let snapshot = lake.snapshot().unwrap();
    assert!(snapshot.has_hot_rows(), "nobody asked for a seal");
    let finished: Vec<bool> = snapshot.runs().iter().map(|run| run.finished).collect();
    assert_eq!((finished, rows(&path, Table::Episodes).len()), (vec![false, true], 2));
    assert!(!matches!(lake.writer(), Err(LakeError::Busy { .. })));
}
