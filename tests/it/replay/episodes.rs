//! Recorded episodes, played from the lake.

use std::sync::Arc;

use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::{Environment, Session, SessionError};
use steplake::generate::Stop;
use steplake::lake::{EpisodeRow, Lake, LakeError, Rows, StepRow};
use steplake::model::{
    ActionIndex, BenchmarkUri, EnvironmentSpec, EpisodeId, EpisodeOutcome, FailureKind,
    ObservationIndex, Outcome, RunId, Value,
};
use steplake::record::{SpaceChoice, identity};
use steplake::replay::ReplayError;
use steplake::replay::cached::{CachedEnvironment, CachedOptions, MissingEdge};

use super::{cached, derive, open, recorded, reopened, start, toy_benchmark, untimed};
use crate::fixtures::support::{play, toy_lake, toy_plan};
use crate::fixtures::toy_lake::read;

/// The steps of each episode, step 0 first.
fn episodes(lake: &Lake) -> Vec<Vec<StepRow>> {
    let steps = read(lake).steps;
    steps.chunk_by(|one, next| one.episode == next.episode).map(<[_]>::to_vec).collect()
}

fn bits(rewards: &[f64]) -> Vec<u64> {
    rewards.iter().map(|reward| reward.to_bits()).collect()
}

/// What a session shows in all spaces of the toy environment, by name.
fn seen(environment: &dyn Environment, session: &mut dyn Session) -> Vec<Value> {
    let names = ["Cost", "Bits", "Number", "CostO0", "CostOz"];
    let spaces = names.map(|name| environment.spec().observation_index(name).unwrap());
    spaces.into_iter().map(|space| session.observe(space).unwrap()).collect()
}

#[test]
fn every_recorded_episode_is_played_as_it_was_and_as_it_would_be_live() {
    let (folder, _) = recorded(400);
    let lake = reopened(&folder.path().join("lake"));
    let (live, environment) = (ToyEnvironment::default(), cached(&lake, MissingEdge::Error));
    let mut sessions = [live.session().unwrap(), environment.session().unwrap()];
    let (mut steps, mut failures) = (0, 0);
    for episode in episodes(&lake) {
        let benchmark = toy_benchmark(&episode[0].benchmark);
        let [live_start, from_lake] =
            sessions.each_mut().map(|session| start(session.as_mut(), &benchmark).unwrap());
        assert_eq!(live_start, from_lake);
        assert_eq!(Some(from_lake.state), episode[0].state);
        for row in &episode[1..] {
            let action = row.action.unwrap();
            let [in_live, step] =
                sessions.each_mut().map(|session| untimed(session.apply(action).unwrap()));
            assert_eq!(step.outcome, in_live.outcome);
            assert_eq!(bits(&step.rewards), bits(&in_live.rewards));
            assert_eq!(step.outcome.state(), row.state);
            steps += 1;
            match &row.rewards {
                Some(rewards) => assert_eq!(bits(&step.rewards), bits(rewards)),
                None => failures += 1,
            }
            if row.state.is_some() {
                let [one, other] = &mut sessions;
                assert_eq!(seen(&live, one.as_mut()), seen(&environment, other.as_mut()));
            } else {
                let again = sessions[1].apply(action);
                assert!(matches!(again, Err(SessionError::NoEpisode)));
            }
        }
    }
    assert!(failures > 0, "none of {steps} steps failed");
    let coverage = environment.coverage();
    assert_eq!((coverage.from_lake, coverage.refused, coverage.uncounted_steps), (steps, 0, 0));
}

#[test]
fn a_fork_goes_its_own_way() {
    let (_folder, lake) = recorded(30);
    let environment = cached(&lake, MissingEdge::Error);
    let mut session = environment.session().unwrap();
    assert!(matches!(session.fork(), Err(SessionError::NoEpisode)));
    let all = episodes(&lake);
    let [one, other] =
        [&all[0], all.iter().skip(1).find(|it| it[0].state == all[0][0].state).unwrap()];
    start(session.as_mut(), &toy_benchmark(&one[0].benchmark)).unwrap();
    let mut fork = session.fork().unwrap();
    for (left, right) in one[1..].iter().zip(&other[1..]) {
        for (session, row) in [(&mut session, left), (&mut fork, right)] {
            let step = session.apply(row.action.unwrap()).unwrap();
            assert_eq!(step.outcome.state(), row.state);
        }
    }
}

#[test]
fn what_the_lake_records_is_what_the_environment_has() {
    let folder = tempfile::tempdir().unwrap();
    let toy = ToyEnvironment::default();
    let spec = toy.spec();
    let [observations, rewards] = [["Bits"], ["CostNorm"]].map(|names| names.map(String::from));
    let choice = SpaceChoice { observations: Some(&observations), rewards: Some(&rewards) };
    let identity = identity(spec, &spec.action_spaces[0], &choice).unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity).unwrap();
    play(&lake, &toy_plan("random", Stop::Episodes(60), 1)).seal().unwrap();
    derive(&lake);
    let environment = cached(&lake, MissingEdge::Error);
    let here = environment.spec();
    let names: Vec<_> = here.observation_spaces.iter().map(|space| &*space.name).collect();
    assert_eq!(names, ["Bits", "Number", "CostO0", "CostOz"]);
    let names: Vec<_> = here.reward_spaces.iter().map(|space| &*space.name).collect();
    assert_eq!((&*here.name, names), ("replay-v0", vec!["CostNorm"]));
    // The costs are not recorded, so the rewards are those of the transitions' first steps.
    let recorded = environment.rewards("CostNorm").unwrap().unwrap();
    let mut session = environment.session().unwrap();
    for episode in episodes(&lake) {
        start(session.as_mut(), &toy_benchmark(&episode[0].benchmark)).unwrap();
        for pair in episode.windows(2) {
            let (action, graph) = (pair[1].action.unwrap(), environment.graph());
            let step = session.apply(action).unwrap();
            if step.outcome.state().is_some() {
                let from = graph.find(&pair[0].state.unwrap()).unwrap();
                let edge = graph.step(from, action).unwrap();
                assert_eq!(bits(&step.rewards), bits(&[recorded[edge.place]]));
                let bits = session.observe(ObservationIndex(0)).unwrap();
                let column = environment.observations("Bits").unwrap().unwrap();
                assert_eq!(column.row(edge.to), Some(bits));
            }
        }
    }
    assert!(environment.observations("Cost").unwrap().is_none());
    assert!(environment.rewards("Cost").unwrap().is_none());
    let error = session.observe(ObservationIndex(9)).unwrap_err();
    assert!(matches!(error, SessionError::UnknownSpace { .. }), "{error}");
}

#[test]
fn a_start_that_the_lake_cannot_answer_is_refused() {
    let (_folder, lake) = recorded(10);
    let failed: BenchmarkUri = "generator://toy-v0/77".parse().unwrap();
    let mut writer = lake.writer().unwrap();
    let row = EpisodeRow {
        outcome: EpisodeOutcome::Failed(FailureKind::TimeOut),
        detail: Some("too slow".to_owned()),
        ..EpisodeRow::new(EpisodeId::new(RunId(1), 1000), failed.clone())
    };
    writer.append(&Rows { episodes: vec![row], ..Rows::default() }).unwrap();
    let environment = cached(&lake, MissingEdge::Stay);
    let mut session = environment.session().unwrap();
    let error = start(session.as_mut(), &toy::benchmark(50)).unwrap_err().to_string();
    assert!(error.contains("first state of generator://toy-v0/50"), "{error}");
    match start(session.as_mut(), &toy_benchmark(&failed)) {
        Err(SessionError::StartFailed { failure, .. }) => {
            assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::TimeOut, "too slow"));
        }
        other => panic!("{other:?}"),
    }
    let mut benchmark = toy::benchmark(1);
    benchmark.program = b"toy 65536 1".as_slice().into();
    let error = start(session.as_mut(), &benchmark).unwrap_err().to_string();
    assert!(error.contains("another one of that name"), "{error}");
    assert!(matches!(session.apply(ActionIndex(0)), Err(SessionError::NoEpisode)));
    // The name is enough.
    benchmark.program = [].as_slice().into();
    start(session.as_mut(), &benchmark).unwrap();
    let error = session.apply(ActionIndex(8)).unwrap_err();
    assert!(matches!(error, SessionError::InvalidAction { index: 8, len: 8, .. }), "{error}");
    for error in [session.identify(b"toy 9 1").err(), session.text(b"toy 9 1").err()] {
        assert!(matches!(error, Some(SessionError::Unavailable { .. })), "{error:?}");
    }
    let watch = steplake::env::Watch::default();
    let start = steplake::env::Start {
        benchmark: &benchmark,
        action_space: "no-such-space",
        baselines: None,
        watch: &watch,
    };
    assert!(matches!(session.start(&start), Err(SessionError::UnknownSpace { .. })));
}

#[test]
fn a_lake_of_another_environment_and_one_without_dedup_are_refused() {
    let (_folder, lake) = toy_lake();
    play(&lake, &toy_plan("random", Stop::Episodes(3), 1)).seal().unwrap();
    let snapshot = Arc::new(lake.snapshot().unwrap());
    let toy = ToyEnvironment::default();
    let open = |spec: &EnvironmentSpec| {
        CachedEnvironment::open(Arc::clone(&snapshot), spec, CachedOptions::default())
    };
    match open(toy.spec()) {
        Err(ReplayError::Store(LakeError::NotDerived { .. })) => {}
        other => panic!("{other:?}"),
    }
    let mut other = toy.spec().clone();
    other.action_spaces[0].actions[2].pipeline = "quarter".to_owned();
    let error = open(&other).unwrap_err().to_string();
    assert!(error.contains("its action 2 is"), "{error}");
    other.action_spaces.clear();
    let error = open(&other).unwrap_err().to_string();
    assert!(error.contains("its action space is toy-v0"), "{error}");
}

#[test]
fn another_compiler_may_not_go_on_but_need_not_be_here() {
    let (_folder, lake) = recorded(5);
    let toy = ToyEnvironment::default();
    let mut other = toy.spec().clone();
    other.compiler = "toy 2".to_owned();
    let environment = open(&lake, &other, MissingEdge::Error);
    assert_eq!(environment.spec().compiler, "toy 1");
    let session: steplake::replay::cached::SessionOpener =
        Arc::new(|| ToyEnvironment::default().session());
    let options =
        CachedOptions { missing_edge: MissingEdge::Live(session), ..CachedOptions::default() };
    let snapshot = Arc::new(lake.snapshot().unwrap());
    let error = CachedEnvironment::open(snapshot, &other, options).unwrap_err().to_string();
    assert!(error.contains("its compiler is toy 1, and here it is toy 2"), "{error}");
}

#[test]
fn a_batch_of_actions_ends_with_a_failure() {
    let (_folder, lake) = recorded(400);
    let environment = cached(&lake, MissingEdge::Error);
    let mut session = environment.session().unwrap();
    let failing: Vec<_> =
        episodes(&lake).into_iter().filter(|it| it.last().unwrap().state.is_none()).collect();
    assert!(!failing.is_empty());
    for episode in failing {
        start(session.as_mut(), &toy_benchmark(&episode[0].benchmark)).unwrap();
        let mut actions: Vec<_> = episode[1..].iter().map(|row| row.action.unwrap()).collect();
        let played = actions.len();
        actions.push(ActionIndex(0));
        let mut outcomes = Vec::new();
        session
            .multistep(&actions, &mut |step, _| {
                outcomes.push(step.outcome);
                Ok(std::ops::ControlFlow::Continue(()))
            })
            .unwrap();
        assert_eq!(outcomes.len(), played);
        assert!(matches!(outcomes.last(), Some(Outcome::Crashed(_))));
    }
}
