//! The store's contract, by its public interface alone.

use std::collections::BTreeMap;
use std::time::Duration;

use sha1::{Digest as _, Sha1};
use steplake::model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, Baselines, BenchmarkUri, EpisodeId,
    EpisodeOutcome, Provenance, RunId, StateId, Value,
};
use steplake::store::{
    BenchmarkRow, EpisodeRow, FORMAT_VERSION, Identity, IrRow, Lake, ObservationRow,
    RecordedObservation, Rows, StepRow, Table,
};

/// An identity with columns of every kind.
pub(crate) fn identity() -> Identity {
    let action = |number: u16| ActionSpec {
        name: format!("a{number}"),
        pipeline: format!("pass{number}"),
        flags: ActionFlags::UNREMARKABLE,
    };
    let space = |name: &str, features: &[&str]| RecordedObservation {
        name: name.into(),
        width: u32::try_from(features.len()).ok().filter(|&width| width > 0),
        features: features.iter().map(|&name| name.into()).collect(),
    };
    Identity {
        format_version: FORMAT_VERSION,
        environment: "toy-v0".into(),
        compiler: "toy 1".into(),
        target: "none".into(),
        action_space: ActionSpace { name: "toy-v0".into(), actions: (0..8).map(action).collect() },
        observations: vec![space("Size", &[]), space("Counts", &["x", "y", "z"])],
        rewards: vec!["Size".into(), "SizeNorm".into()],
        baselines: vec!["SizeO0".into()],
    }
}

/// The IR of the `number`-th state.
pub(crate) fn bitcode(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + number as usize % 50)
}

/// The `number`-th state.
pub(crate) fn state(number: u32) -> StateId {
    StateId(Sha1::digest(bitcode(number)).into())
}

pub(crate) fn uri(number: u32) -> BenchmarkUri {
    format!("generator://toy-v0/{number}").parse().unwrap()
}

/// The rows of a state.
pub(crate) fn add_state(rows: &mut Rows, number: u32) {
    let content = bitcode(number);
    let values =
        vec![Value::Scalar(i64::from(number)), Value::Vector(vec![1, number as i32, -3].into())];
    rows.observations.push(ObservationRow { state: state(number), values });
    let compressed = zstd::bulk::compress(&content, 3).unwrap();
    rows.ir.push(IrRow {
        state: state(number),
        compressed,
        bytes: u32::try_from(content.len()).unwrap(),
    });
}

/// The rows of a benchmark that starts in the state of its number.
pub(crate) fn add_benchmark(rows: &mut Rows, number: u32) {
    rows.benchmarks.push(BenchmarkRow {
        uri: uri(number),
        program_digest: blake3::hash(&bitcode(number)).to_hex().to_string(),
        provenance: Provenance { family: "toy".into(), ..Provenance::default() },
        initial_state: state(number),
        baselines: Baselines(vec![("SizeO0".into(), i64::from(number))]),
    });
}

/// The steps of an episode from the state `first` by `(action, state)`; no state where the compiler failed.
pub(crate) fn add_steps(
    rows: &mut Rows,
    episode: EpisodeId,
    first: u32,
    path: &[(u16, Option<u32>)],
) {
    let step = |index: usize, action: Option<u16>, to: Option<u32>| StepRow {
        episode,
        index: u32::try_from(index).unwrap(),
        benchmark: uri(first),
        action: action.map(ActionIndex),
        state: to.map(state),
        end_of_episode: false,
        rewards: action.and(to).map(|to| vec![f64::from(to), 0.5].into()),
        wall_time: Duration::from_micros(10 + u64::from(to.unwrap_or(0))),
    };
    rows.steps.push(step(0, None, Some(first)));
    rows.steps
        .extend(path.iter().zip(1..).map(|(&(action, to), index)| step(index, Some(action), to)));
}

pub(crate) fn close(
    rows: &mut Rows,
    episode: EpisodeId,
    first: u32,
    steps: usize,
    outcome: EpisodeOutcome,
) {
    rows.episodes.push(EpisodeRow {
        id: episode,
        seed: episode.0 * 7,
        benchmark: uri(first),
        policy: "random".into(),
        parent: None,
        steps: u32::try_from(steps).unwrap(),
        outcome,
        detail: matches!(outcome, EpisodeOutcome::Failed(_))
            .then(|| format!("died in {}", episode.0)),
    });
}

/// One closed episode of two steps with all that belongs to it.
fn small() -> Rows {
    let mut rows = Rows::default();
    let episode = EpisodeId::new(RunId(1), 0);
    (0..3).for_each(|number| add_state(&mut rows, number));
    add_benchmark(&mut rows, 0);
    add_steps(&mut rows, episode, 0, &[(1, Some(1)), (2, Some(2))]);
    close(&mut rows, episode, 0, 2, EpisodeOutcome::Complete);
    rows
}

fn counts(lake: &Lake) -> BTreeMap<&'static str, u64> {
    let snapshot = lake.snapshot().unwrap();
    Table::ALL.map(|table| (table.name(), snapshot.rows(table))).into()
}

#[test]
fn what_is_appended_is_there_before_and_after_a_seal() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    assert_eq!(writer.begin_run("{}", 5).unwrap(), RunId(1));
    writer.append(&small()).unwrap();
    let before = counts(&lake);
    assert_eq!((before["steps"], before["ir"], before["benchmarks"]), (3, 3, 1));
    let report = writer.seal().unwrap();
    assert_eq!((report.rows, report.hot_bytes), (11, 0));
    assert_eq!(counts(&lake), before);
    let snapshot = lake.snapshot().unwrap();
    assert!(snapshot.hot(Table::Steps).is_empty());
    let states = [state(2), state(9), state(0), state(2)];
    let ir = snapshot.ir(&states).unwrap();
    assert_eq!(ir, [Some(bitcode(2)), None, Some(bitcode(0)), Some(bitcode(2))]);
}
