//! An environment of somebody's own: a floating-point number as cost and observation, and a session
//! that cannot look at a state.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray as _;
use arrow::datatypes::Float64Type;
use futures::TryStreamExt as _;
use steplake::dedup::{DedupOptions, dedup};
use steplake::env::{Environment, Session, SessionError, Start, Started, Watch};
use steplake::lake::{Lake, Table, bitcode_sha1, to_the_end};
use steplake::model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, Baselines, Benchmark, EnvironmentSpec,
    ObservationIndex, ObservationSpace, Outcome, Provenance, RewardSpace, RewardTracker, Scale,
    StateId, Step, Value, ValueType,
};
use steplake::record::{Recording, RecordingOptions, SpaceChoice, identity};
use steplake::replay::cached::{CachedEnvironment, CachedOptions, recorded_spec};

use crate::fixtures::support::{engine, rows};

/// A state is a number, and costs a tenth of it. The names are owned.
#[derive(Debug, Clone)]
struct Tenths {
    spec: EnvironmentSpec,
    /// The number that cannot be looked at.
    hidden: u32,
}

impl Tenths {
    fn new(hidden: u32) -> Self {
        let own = |name: &str| name.to_owned();
        let action = |name: &str| ActionSpec::new(name, name, ActionFlags::UNREMARKABLE);
        let actions = ["decrement", "halve"].map(action).to_vec();
        let spec = EnvironmentSpec {
            name: own("tenths-v0").into(),
            compiler: own("tenths 1"),
            target: own("any"),
            action_spaces: vec![ActionSpace { name: own("tenths-v0"), actions }],
            observation_spaces: vec![
                ObservationSpace::new(own("Tenths"), ValueType::Float),
                ObservationSpace::new(own("Number"), ValueType::Bytes),
            ],
            reward_spaces: vec![RewardSpace {
                name: own("Tenths").into(),
                cost: own("Tenths").into(),
                initial: own("Tenths").into(),
                scale: Scale::Absolute,
            }],
            baselines: own("none").into(),
            state_space: own("Number").into(),
            action_costs: BTreeMap::new(),
            state_scheme: 1,
        };
        Self { spec, hidden }
    }
}

impl Environment for Tenths {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(TenthsSession { of: self.clone(), episode: None }))
    }
}

struct TenthsSession {
    of: Tenths,
    episode: Option<(u32, RewardTracker)>,
}

fn tenths(number: u32) -> f64 {
    f64::from(number) * 0.1
}

/// From this number on, numbers have the ids of smaller ones, as if somebody had forged them.
const FORGED: u32 = 1_000_000;

fn id(number: u32) -> StateId {
    StateId(bitcode_sha1((number % FORGED).to_string().as_bytes()))
}

impl Session for TenthsSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        let number = std::str::from_utf8(&start.benchmark.program).unwrap().parse().unwrap();
        let baselines = Baselines::default();
        let rewards =
            RewardTracker::new(self.of.spec.reward_spaces.iter().map(Some), &baselines, |_| {
                tenths(number)
            });
        self.episode = Some((number, rewards.unwrap()));
        Ok(Started { state: id(number), baselines })
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let (number, rewards) = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let next = if action.0 == 0 { *number - 1 } else { *number / 2 };
        let outcome = Outcome::State {
            id: id(next),
            changed: next != *number,
            end_of_episode: false,
            action_space_changed: false,
        };
        *number = next;
        let rewards = rewards.advance(|_| tenths(next));
        Ok(Step { outcome, rewards, wall_time: Duration::ZERO })
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let (number, _) = self.episode.as_ref().ok_or(SessionError::NoEpisode)?;
        match space.0 {
            0 if *number == self.of.hidden => Err(SessionError::Broken("it is hidden".into())),
            0 => Ok(Value::Float(tenths(*number))),
            _ => Ok(Value::Bytes(number.to_string().into_bytes())),
        }
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        Ok(StateId(bitcode_sha1(state)))
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Self { of: self.of.clone(), episode: self.episode.clone() }))
    }
}

fn start(session: &mut dyn Session, number: u32) {
    try_start(session, number).unwrap();
}

fn try_start(session: &mut dyn Session, number: u32) -> Result<Started, SessionError> {
    let benchmark = Benchmark {
        uri: format!("benchmark://tenths-v0/{number}").parse().unwrap(),
        program: number.to_string().as_bytes().into(),
        provenance: Provenance::default(),
        execution: None,
    };
    let (action_space, watch) = ("tenths-v0", Watch::default());
    let start = Start { benchmark: &benchmark, action_space, baselines: None, watch: &watch };
    session.start(&start)
}

/// Records what `play` does into a new lake, seals it and counts it.
fn recorded(hidden: u32, play: impl FnOnce(&mut dyn Session)) -> (tempfile::TempDir, Lake) {
    let folder = tempfile::tempdir().unwrap();
    let environment = Tenths::new(hidden);
    let spec = environment.spec();
    let identity = identity(spec, &spec.action_spaces[0], &SpaceChoice::default()).unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity).unwrap();
    record(&lake, &environment, play);
    (folder, lake)
}

fn record(lake: &Lake, environment: &Tenths, play: impl FnOnce(&mut dyn Session)) {
    let spec = environment.spec();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let recording = Recording::begin(writer, spec, run, &RecordingOptions::default()).unwrap();
    let mut session = recording.recorder(environment.session().unwrap());
    play(&mut session);
    drop(session);
    let mut writer = recording.close().unwrap();
    writer.discard_open(run).unwrap();
    writer.finish_run(run).unwrap();
    writer.seal().unwrap();
    drop(writer);
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
}

async fn numbers(lake: &Lake, sql: &str) -> Vec<f64> {
    let batches = engine(lake).await.sql(sql).await.unwrap().try_collect::<Vec<_>>().await;
    let column = |batch: &arrow::array::RecordBatch| {
        batch.column(0).as_primitive::<Float64Type>().values().to_vec()
    };
    batches.unwrap().iter().flat_map(column).collect()
}

#[tokio::test]
async fn costs_that_are_floating_point_numbers_are_recorded_exactly() {
    let (_folder, lake) = recorded(u32::MAX, |session| {
        for _ in 0..2 {
            start(session, 7);
            for action in [0, 1, 0, 1, 1] {
                session.apply(ActionIndex(action)).unwrap();
            }
        }
    });
    let states = [7, 6, 3, 2, 1, 0];
    let observed = numbers(&lake, "SELECT \"Tenths\" FROM observations ORDER BY 1 DESC").await;
    assert_eq!(observed, states.map(tenths));
    let rewards = "SELECT \"reward_Tenths\" FROM state_transitions ORDER BY first_step_index";
    let saved = states.windows(2).map(|pair| tenths(pair[0]) - tenths(pair[1]));
    assert_eq!(numbers(&lake, rewards).await, saved.collect::<Vec<_>>());
    let best = "SELECT best_cost FROM best_cost('Tenths') ORDER BY cost DESC";
    assert_eq!(numbers(&lake, best).await, [0.0; 6]);
    let cost = "SELECT cost FROM best_sequences('Tenths')";
    assert_eq!(numbers(&lake, cost).await, [tenths(7)]);

    // Where the environment is not known, the lake describes it.
    for spec in [Tenths::new(u32::MAX).spec, recorded_spec(lake.identity())] {
        let snapshot = Arc::new(lake.snapshot().unwrap());
        let cached = CachedEnvironment::open(snapshot, &spec, CachedOptions::default());
        let mut session = cached.unwrap().session().unwrap();
        start(session.as_mut(), 7);
        for (pair, action) in states.windows(2).zip([0, 1, 0, 1, 1]) {
            let step = session.apply(ActionIndex(action)).unwrap();
            assert_eq!(*step.rewards, [tenths(pair[0]) - tenths(pair[1])]);
            let seen = session.observe(ObservationIndex(0)).unwrap();
            assert_eq!(seen, Value::Float(tenths(pair[1])));
            let state = session.observe(ObservationIndex(1)).unwrap();
            assert_eq!(state, Value::Bytes(pair[1].to_string().into_bytes()));
        }
    }
}

#[test]
fn an_episode_ends_before_a_state_that_cannot_be_looked_at() {
    let (_folder, lake) = recorded(3, |session| {
        start(session, 7);
        session.apply(ActionIndex(0)).unwrap();
        assert!(matches!(session.apply(ActionIndex(1)), Err(SessionError::Broken(_))));
        start(session, 7);
        let actions = [0, 1, 0].map(ActionIndex);
        let played = session.multistep(&actions, &mut |_, _| Ok(ControlFlow::Continue(())));
        assert!(matches!(played, Err(SessionError::Broken(_))));
        start(session, 9);
        session.apply(ActionIndex(1)).unwrap();
    });
    let of = |table| rows(lake.path(), table);
    assert_eq!((of(Table::Episodes).len(), of(Table::Steps).len()), (3, 6));
    assert_eq!(of(Table::StateTransitions).len(), 2);
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}

#[test]
fn a_program_with_the_id_of_another_one_is_refused() {
    let refused = |session: &mut dyn Session, number| {
        let said = try_start(session, number).unwrap_err().to_string();
        let id = id(number);
        let expected =
            format!("benchmark://tenths-v0/{number} begins in state {id}, and by this id");
        assert!(said.contains(&expected) && said.contains("forged"), "{said}");
    };
    let (_folder, lake) = recorded(u32::MAX, |session| {
        start(session, 7);
        session.apply(ActionIndex(0)).unwrap();
        // The state of a program that this recording has begun with, and one that a step led to.
        refused(session, FORGED + 7);
        refused(session, FORGED + 6);
        start(session, 5);
    });
    record(&lake, &Tenths::new(u32::MAX), |session| {
        // States that the lake has: the first one of a program, and one that a step led to.
        refused(session, FORGED + 7);
        refused(session, FORGED + 6);
        start(session, 6);
    });
    assert_eq!(rows(lake.path(), Table::Benchmarks).len(), 3);
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}
