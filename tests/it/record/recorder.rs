//! The recorder: it returns what its session returns, and writes what happened.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Duration;

use proptest::prelude::*;
use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::{Environment, Session, Start, Watch};
use steplake::generate::Stop;
use steplake::lake::{Lake, Table, Writer};
use steplake::model::{ActionIndex, Benchmark, Step};
use steplake::record::{Recording, RecordingOptions};

use crate::fixtures::support::{assert_same, play, rows, run, toy_lake, toy_plan};

fn recording(lake: &Lake, options: &RecordingOptions) -> Recording {
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    Recording::begin(writer, ToyEnvironment::default().spec(), run, options).unwrap()
}

fn start(session: &mut dyn Session, benchmark: &Benchmark) {
    let watch = Watch::default();
    let start = Start { benchmark, action_space: toy::NAME, baselines: None, watch: &watch };
    session.start(&start).unwrap();
}

fn untimed(step: Step) -> Step {
    Step { wall_time: Duration::ZERO, ..step }
}

/// Something that a caller does with a session.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Start(u32),
    Apply(u32),
    Multistep(Vec<u32>),
    Observe(u8),
    Fork,
    Swap,
}

pub(crate) fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        1 => (0_u32..4).prop_map(Call::Start),
        6 => (0_u32..9).prop_map(Call::Apply),
        3 => prop::collection::vec(0_u32..9, 0..12).prop_map(Call::Multistep),
        2 => (0_u8..6).prop_map(Call::Observe),
        1 => Just(Call::Fork),
        1 => Just(Call::Swap),
    ]
}

/// What a session answered, as text. The sessions that were forked are on the stack.
pub(crate) fn answer(sessions: &mut Vec<Box<dyn Session>>, call: &Call) -> String {
    let session = sessions.last_mut().unwrap();
    match call {
        Call::Start(seed) => {
            let (benchmark, watch) = (toy::benchmark(*seed), Watch::default());
            let (action_space, baselines) = (toy::NAME, None);
            let start = Start { benchmark: &benchmark, action_space, baselines, watch: &watch };
            format!("{:?}", session.start(&start))
        }
        Call::Apply(action) => format!("{:?}", session.apply(ActionIndex(*action)).map(untimed)),
        Call::Multistep(actions) => {
            let actions: Vec<_> = actions.iter().copied().map(ActionIndex).collect();
            let mut steps = Vec::new();
            let result = session.multistep(&actions, &mut |step, _| {
                steps.push(untimed(step));
                Ok(ControlFlow::Continue(()))
            });
            format!("{steps:?} {result:?}")
        }
        Call::Observe(space) => {
            format!("{:?}", session.observe(steplake::model::ObservationIndex(*space)))
        }
        Call::Fork => match session.fork() {
            Ok(fork) => {
                sessions.push(fork);
                "forked".into()
            }
            Err(error) => format!("{error:?}"),
        },
        Call::Swap => {
            sessions.rotate_left(1);
            "swapped".into()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_recorder_returns_exactly_what_its_session_returns(
        calls in prop::collection::vec(call(), 1..60),
    ) {
        let (folder, lake) = toy_lake();
        let recording = recording(&lake, &RecordingOptions::default());
        let mut plain = vec![ToyEnvironment::default().session().unwrap()];
        let inner = ToyEnvironment::default().session().unwrap();
        let mut recorded: Vec<Box<dyn Session>> = vec![Box::new(recording.recorder(inner))];
        for call in &calls {
            prop_assert_eq!(answer(&mut plain, call), answer(&mut recorded, call), "{:?}", call);
        }
        drop(recorded);
        recording.close().unwrap();
        // Every state of a step is observed, and has its IR, once.
        let ids = |table| {
            let id = |row: String| row.split(' ').find(|cell| cell.starts_with("state_id=")).unwrap().to_owned();
            rows(&folder.path().join("lake"), table).into_iter().map(id).collect::<Vec<_>>()
        };
        let steps: std::collections::BTreeSet<_> =
            ids(Table::Steps).into_iter().filter(|id| id != "state_id=null").collect();
        prop_assert_eq!(ids(Table::Observations), steps.iter().cloned().collect::<Vec<_>>());
        prop_assert_eq!(ids(Table::Ir), steps.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn what_only_a_fork_came_to_is_no_sequence_of_the_program() {
    let (folder, lake) = toy_lake();
    let recording = recording(&lake, &RecordingOptions::default());
    let mut session = recording.recorder(ToyEnvironment::default().session().unwrap());
    start(&mut session, &toy::benchmark(5));
    for action in [0, 1] {
        session.apply(ActionIndex(action)).unwrap();
    }
    let mut fork = session.fork().unwrap();
    let reached = fork.apply(ActionIndex(0)).unwrap().outcome.state().unwrap().to_string();
    drop((session, fork));
    recording.close().unwrap();
    let path = folder.path().join("lake");
    run(&path, &["seal"]);
    run(&path, &["dedup"]);
    let asked = |query: &[&str]| {
        let answer = run(&path, &[&["query"], query, &["--format", "csv"]].concat());
        answer.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let state = format!("state={reached}");
    assert_eq!(asked(&["path_to", "-p", &state]), Vec::<String>::new());
    for query in ["best_episode", "minimised"] {
        let [row] = &asked(&[query])[..] else { panic!("{query} takes the fork for an episode") };
        assert!(!row.contains(&reached), "{query}: {row}");
    }
    let sql = ["sql", "SELECT count(*) FROM program_episodes", "--format", "csv"];
    assert_eq!(run(&path, &sql).lines().nth(1), Some("1"));
    let depths = asked(&["states_by_depth"]);
    assert_eq!(depths.len(), 3, "{depths:?}");
    assert!(depths[1].starts_with("1,1,1,"), "the fork begins two steps deep: {depths:?}");
}

#[test]
fn a_fork_is_an_episode_that_names_its_parent() {
    let (folder, lake) = toy_lake();
    let recording = recording(&lake, &RecordingOptions::default());
    let mut session = recording.recorder(ToyEnvironment::default().session().unwrap());
    start(&mut session, &toy::benchmark(5));
    session.apply(ActionIndex(0)).unwrap();
    session.apply(ActionIndex(1)).unwrap();
    let mut fork = session.fork().unwrap();
    fork.apply(ActionIndex(0)).unwrap();
    session.apply(ActionIndex(2)).unwrap();
    drop((session, fork));
    recording.close().unwrap();
    let episodes = rows(&folder.path().join("lake"), Table::Episodes);
    assert_eq!(episodes.len(), 2);
    assert!(episodes[0].contains("parent_episode_id=null") && episodes[0].contains("steps=3"));
    assert!(
        episodes[1].contains("parent_episode_id=4294967296 parent_step_index=2 steps=1"),
        "{}",
        episodes[1]
    );
    assert_eq!(rows(&folder.path().join("lake"), Table::Steps).len(), 4 + 2);
}

#[test]
fn a_flush_makes_durable_what_was_recorded_before_it() {
    let (folder, lake) = toy_lake();
    // Only the flush can be the cause of what is seen.
    let options =
        RecordingOptions { flush_interval: Duration::from_hours(1), ..RecordingOptions::default() };
    let recording = recording(&lake, &options);
    let mut session = recording.recorder(ToyEnvironment::default().session().unwrap());
    start(&mut session, &toy::benchmark(5));
    session.apply(ActionIndex(0)).unwrap();
    recording.flush().unwrap();
    assert_eq!(rows(&folder.path().join("lake"), Table::Steps).len(), 2);
    drop(session);
    recording.close().unwrap();
}

#[test]
fn ir_is_kept_when_it_is_asked_for_and_later_for_states_that_lack_it() {
    let (folder, lake) = toy_lake();
    let path = folder.path().join("lake");
    for (keyframes, expected) in [(None, 0), (NonZeroU32::new(1), 2)] {
        let options = RecordingOptions { keyframes, ..RecordingOptions::default() };
        let recording = recording(&lake, &options);
        let mut session = recording.recorder(ToyEnvironment::default().session().unwrap());
        start(&mut session, &toy::benchmark(5));
        session.apply(ActionIndex(0)).unwrap();
        drop(session);
        recording.close().unwrap();
        assert_eq!(rows(&path, Table::Ir).len(), expected);
        assert_eq!(rows(&path, Table::Observations).len(), 2);
    }
}

#[test]
fn another_program_of_the_same_name_is_refused() {
    let (_folder, lake) = toy_lake();
    let recording = recording(&lake, &RecordingOptions::default());
    let mut session = recording.recorder(ToyEnvironment::default().session().unwrap());
    start(&mut session, &toy::program("generator://toy-v0/1", 100, 5));
    let other = toy::program("generator://toy-v0/1", 100, 6);
    let watch = Watch::default();
    let begin =
        Start { benchmark: &other, action_space: toy::NAME, baselines: None, watch: &watch };
    let error = session.start(&begin).unwrap_err().to_string();
    assert!(error.contains("is another program than the one that the lake knows"), "{error}");
}

/// A lake into which a plan was played, sealed or not.
fn played(policy: &str, stop: Stop, jobs: usize, after: fn(&mut Writer)) -> tempfile::TempDir {
    let (folder, lake) = toy_lake();
    let mut writer = play(&lake, &toy_plan(policy, stop, jobs));
    after(&mut writer);
    folder
}

#[test]
fn what_is_recorded_does_not_depend_on_the_number_of_jobs() {
    for policy in ["random", "explore"] {
        for stop in [Stop::Steps(1010), Stop::States(300), Stop::Episodes(37)] {
            let alone = played(policy, stop, 1, |_| ());
            let together = played(policy, stop, 5, |writer| drop(writer.seal().unwrap()));
            assert_same(&alone.path().join("lake"), &together.path().join("lake"));
        }
    }
}

#[test]
fn a_run_of_so_many_steps_has_exactly_so_many() {
    let folder = played("random", Stop::Steps(1010), 3, |_| ());
    let steps = rows(&folder.path().join("lake"), Table::Steps);
    assert_eq!(steps.iter().filter(|row| !row.contains("action=null")).count(), 1010);
}
