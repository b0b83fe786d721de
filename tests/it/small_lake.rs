//! A lake small enough to know by heart, for the tests of what reads lakes.
//!
//! ```text
//! generator://small-v0/1                      generator://small-v0/2
//! 0: a0 -dce-> a1 -gvn-> a2 -nothing-> a2     2: b0 -nothing-> b0 -dce-> b1 -scalarizer-> crash
//! 1: a0 -gvn-> a3 -dce-> a2 -inline-> a4      3: b0 -dce-> b1 -gvn-> b2
//! 4: a0 -dce-> a5                             7: b0 -dce-> b3
//! 5: a0 -dce-> a1   (open: never ended)       8: b0 -dce-> b3
//! 6: a0 -dce-> a5 -nothing-> a5
//! ```
//!
//! So `dce` is unstable in a0 (in closed episodes a5 twice, a1 once) and in b0 (b1 and b3, twice
//! each).
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::path::Path;
use std::time::Duration;

use sha1::{Digest, Sha1};
use steplake::dedup::{Settings, dedup};
use steplake::lake::{
    BenchmarkRow, EpisodeRow, Identity, Lake, LayerId, ObservationRow, RecordedObservation, Rows,
    ScanColumns, StepRow, Table,
};
use steplake::layers::LayerChange;
use steplake::model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, Baselines, BenchmarkUri, EpisodeId,
    EpisodeOutcome, FailureKind, Provenance, RunId, StateId, Value,
};

use crate::toy_lake::ir_row;

/// Where the rows of the small lake lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// All in the hot log.
    Hot,
    /// All in segments, but for the open episode.
    Sealed,
    /// Episodes 0 to 3 in segments, the others in the hot log.
    HalfSealed,
}

impl Kept {
    pub(crate) const ALL: [Self; 3] = [Self::Hot, Self::Sealed, Self::HalfSealed];
}

const ACTIONS: [(&str, &str); 5] = [
    ("dce", "function(dce)"),
    ("gvn", "function(gvn)"),
    ("inline", "cgscc(inline)"),
    ("nothing", ""),
    ("scalarizer", "function(scalarizer)"),
];
const DCE: u16 = 0;
const GVN: u16 = 1;
const INLINE: u16 = 2;
const NOTHING: u16 = 3;
const SCALARIZER: u16 = 4;

/// The name of a state is a letter for its program and a digit; its bitcode says `module <name>`.
const STATES: [&str; 10] = ["a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1", "b2", "b3"];

/// An action, the state that it led to, and the reward.
type Played = (u16, Option<&'static str>, f64);

/// Ordinal, program, first state, what was played, whether the episode ended.
const EPISODES: [(u32, u32, &str, &[Played], bool); 9] = [
    (
        0,
        1,
        "a0",
        &[(DCE, Some("a1"), 10.0), (GVN, Some("a2"), 5.0), (NOTHING, Some("a2"), 0.0)],
        true,
    ),
    (
        1,
        1,
        "a0",
        &[(GVN, Some("a3"), 4.0), (DCE, Some("a2"), 11.0), (INLINE, Some("a4"), -2.0)],
        true,
    ),
    (
        2,
        2,
        "b0",
        &[(NOTHING, Some("b0"), 0.0), (DCE, Some("b1"), 6.0), (SCALARIZER, None, f64::NAN)],
        true,
    ),
    (3, 2, "b0", &[(DCE, Some("b1"), 6.0), (GVN, Some("b2"), 8.0)], true),
    (4, 1, "a0", &[(DCE, Some("a5"), 7.0)], true),
    (5, 1, "a0", &[(DCE, Some("a1"), 10.0)], false),
    (6, 1, "a0", &[(DCE, Some("a5"), 7.0), (NOTHING, Some("a5"), 0.0)], true),
    (7, 2, "b0", &[(DCE, Some("b3"), 3.0)], true),
    (8, 2, "b0", &[(DCE, Some("b3"), 3.0)], true),
];
/// Episodes before this one are sealed in a half-sealed lake.
const HALF: usize = 4;
/// The divisor of the reward space that is scaled.
const SCALE: f64 = 20.0;

/// The id of the state called `name`.
pub(crate) fn state(name: &str) -> StateId {
    StateId(Sha1::digest(program(name)).into())
}

fn program(name: &str) -> Vec<u8> {
    format!("module {name}").into_bytes()
}

fn benchmark(number: u32) -> BenchmarkUri {
    format!("generator://small-v0/{number}").parse().unwrap()
}

/// What the small lake is a lake of.
pub(crate) fn identity() -> Identity {
    let action = |(name, pipeline): (&str, &str)| ActionSpec {
        name: name.to_owned(),
        pipeline: pipeline.to_owned(),
        flags: ActionFlags { crashes: name == "scalarizer", ..ActionFlags::UNREMARKABLE },
    };
    let vector = |name: &str, features: &[&str]| RecordedObservation {
        name: name.to_owned(),
        width: Some(u32::try_from(features.len()).unwrap()),
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
    };
    Identity {
        format_version: steplake::lake::FORMAT_VERSION,
        environment: "llvm-v0".to_owned(),
        compiler: "LLVM 22.1.8".to_owned(),
        target: "x86_64-pc-linux-gnu".to_owned(),
        action_space: ActionSpace {
            name: "small-v0".to_owned(),
            actions: ACTIONS.map(action).to_vec(),
        },
        observations: vec![
            vector("InstCount", &["TotalInsts", "TotalBlocks", "TotalFuncs"]),
            vector("Autophase", &["BBNumArgsHi", "onePred"]),
            RecordedObservation {
                name: "IrInstructionCount".to_owned(),
                width: None,
                features: Vec::new(),
            },
        ],
        rewards: vec!["IrInstructionCount".to_owned(), "IrInstructionCountNorm".to_owned()],
        baselines: vec!["IrInstructionCountO0".to_owned(), "IrInstructionCountOz".to_owned()],
    }
}

/// Records the small lake at `path`, and dedups it.
pub(crate) fn record(path: &Path, kept: Kept) -> Lake {
    let lake = Lake::create(path, &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run(r#"{"seed":1}"#, 1_700_000_000_000).unwrap();
    writer.append(&programs_and_states()).unwrap();
    writer.append(&episodes(run, &EPISODES[..HALF])).unwrap();
    if kept == Kept::HalfSealed {
        writer.seal().unwrap();
    }
    writer.append(&episodes(run, &EPISODES[HALF..])).unwrap();
    writer.finish_run(run).unwrap();
    if kept == Kept::Sealed {
        writer.seal().unwrap();
    }
    drop(writer);
    let mut maintenance = lake.maintenance().unwrap();
    if kept == Kept::Sealed {
        dedup(&mut maintenance, Settings::default(), &mut |_, _| {}).unwrap();
    } else {
        // Dedup counts what is sealed. For equal answers, what it makes of all rows is brought
        // here.
        let folder = tempfile::tempdir().unwrap();
        let sealed = record(&folder.path().join("lake"), Kept::Sealed).snapshot().unwrap();
        let mut layer = maintenance.layer_writer(LayerId(1));
        for table in Table::ALL.into_iter().filter(|table| table.is_derived()) {
            for batch in sealed.scan(table, ScanColumns::All) {
                layer.write(table, &batch.unwrap()).unwrap();
            }
        }
        let add = vec![layer];
        maintenance.publish(LayerChange { add, ..LayerChange::default() }).unwrap();
    }
    lake
}

fn programs_and_states() -> Rows {
    let benchmarks = [(1, "a0"), (2, "b0")].map(|(number, initial)| BenchmarkRow {
        uri: benchmark(number),
        program_digest: format!("{number:064x}"),
        provenance: Provenance { family: "small".to_owned(), ..Provenance::default() },
        initial_state: state(initial),
        baselines: Baselines(vec![
            ("IrInstructionCountO0".to_owned(), 100),
            ("IrInstructionCountOz".to_owned(), 80),
        ]),
    });
    let observation = |(place, name): (usize, &&str)| {
        let place = i32::try_from(place).unwrap();
        let count = i64::from(100 - place);
        ObservationRow {
            state: state(name),
            values: vec![
                Value::Vector([100 - place, 10 + place, 1].into()),
                Value::Vector([place, -place].into()),
                Value::Scalar(count),
            ],
        }
    };
    // The last state has no IR: what is kept is chosen.
    let ir = STATES[..STATES.len() - 1].iter().map(|name| ir_row(state(name), &program(name)));
    Rows {
        benchmarks: benchmarks.to_vec(),
        observations: STATES.iter().enumerate().map(observation).collect(),
        ir: ir.collect(),
        ..Rows::default()
    }
}

fn episodes(run: RunId, played: &[(u32, u32, &str, &[Played], bool)]) -> Rows {
    let mut rows = Rows::default();
    for &(ordinal, program, first, actions, ended) in played {
        let id = EpisodeId::new(run, ordinal);
        let step = |index: usize, action, reached: Option<&str>, reward: Option<f64>| StepRow {
            episode: id,
            index: u32::try_from(index).unwrap(),
            benchmark: benchmark(program),
            action,
            state: reached.map(state),
            keyframe: reached.is_some_and(|reached| reached != STATES[STATES.len() - 1]),
            end_of_episode: reached.is_none(),
            rewards: reward.map(|reward| vec![reward, reward / SCALE].into()),
            wall_time: Duration::from_micros(
                100 * (1 + action.map_or(0, |a: ActionIndex| u64::from(a.0))),
            ),
        };
        rows.steps.push(step(0, None, Some(first), None));
        for (place, &(action, reached, reward)) in actions.iter().enumerate() {
            rows.steps.push(step(place + 1, Some(ActionIndex(action)), reached, Some(reward)));
        }
        if ended {
            let crashed = actions.iter().any(|(_, reached, _)| reached.is_none());
            rows.episodes.push(EpisodeRow {
                id,
                seed: i64::from(ordinal) + 7,
                benchmark: benchmark(program),
                policy: "random".to_owned(),
                parent: None,
                steps: u32::try_from(actions.len()).unwrap(),
                outcome: if crashed {
                    EpisodeOutcome::Failed(FailureKind::Crash)
                } else {
                    EpisodeOutcome::Complete
                },
                detail: crashed.then(|| "signal 11".to_owned()),
            });
        }
    }
    rows
}
