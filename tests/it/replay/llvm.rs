//! The lake of a small LLVM program answers as LLVM does.

use std::sync::Arc;

use steplake::env::llvm::{LlvmEnvironment, assemble};
use steplake::env::{Environment, Session};
use steplake::lake::Lake;
use steplake::model::{ActionIndex, Benchmark, Provenance};
use steplake::record::{Recording, RecordingOptions, SpaceChoice, identity};
use steplake::replay::cached::{MissingEdge, SessionOpener};

use super::{derive, open, start_in, untimed};

const SPACE: &str = "llvm22-v1";
const RECORDED: [&str; 4] = ["InstCount", "Autophase", "Programl", "IrInstructionCount"];
const ON_REQUEST: [&str; 6] = [
    "IR2Vec",
    "ProgramlJson",
    "LexedIr",
    "Inst2vecPreprocessedText",
    "Inst2vecEmbeddingIndices",
    "Inst2vec",
];
const PLAYED: [&[&str]; 3] = [
    &["sroa", "instcombine", "simplifycfg", "gvn", "sroa"],
    &["instcombine", "sroa", "early-cse", "simplifycfg"],
    &["simplifycfg", "sroa", "dce", "instcombine"],
];

fn program() -> Benchmark {
    let text = b"define i32 @sum(i32 %n) {
        entry:
          %slot = alloca i32
          store i32 %n, ptr %slot
          %known = icmp eq i32 1, 1
          br i1 %known, label %yes, label %no
        yes:
          %value = load i32, ptr %slot
          %twice = add i32 %value, %value
          %none = sub i32 %twice, %twice
          %sum = add i32 %twice, %none
          ret i32 %sum
        no:
          ret i32 0
    }";
    Benchmark {
        uri: "file:///sum.bc".parse().unwrap(),
        program: assemble(text).unwrap().into(),
        provenance: Provenance::default(),
        execution: None,
    }
}

fn actions(environment: &LlvmEnvironment, names: &[&str]) -> Vec<ActionIndex> {
    let space = environment.spec().action_space(SPACE).unwrap();
    names.iter().filter_map(|name| space.index_of(name)).collect()
}

/// A lake in which the episodes were played.
fn record(folder: &std::path::Path, environment: &LlvmEnvironment) -> Lake {
    let spec = environment.spec();
    let space = spec.action_space(SPACE).unwrap();
    let names = [&RECORDED[..], &ON_REQUEST].concat();
    let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
    let choice = SpaceChoice { observations: Some(&names), rewards: None };
    let identity = identity(spec, space, &choice).unwrap();
    let lake = Lake::create(folder.join("lake"), &identity).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let options = RecordingOptions { observations: Some(names), ..RecordingOptions::default() };
    let recording = Recording::begin(writer, spec, run, &options).unwrap();
    let mut session = recording.recorder(environment.session().unwrap());
    for names in PLAYED {
        start_in(&mut session, &program(), SPACE).unwrap();
        for action in actions(environment, names) {
            session.apply(action).unwrap();
        }
    }
    drop(session);
    recording.close().unwrap().seal().unwrap();
    derive(&lake);
    lake
}

#[test]
fn a_small_program_is_optimised_without_and_with_a_compiler() {
    let environment = LlvmEnvironment::new();
    let folder = tempfile::tempdir().unwrap();
    let lake = record(folder.path(), &environment);
    let without = open(&lake, environment.spec(), MissingEdge::Error);
    let names: Vec<_> =
        without.spec().observation_spaces.iter().map(|space| &*space.name).collect();
    let all = [
        &RECORDED[..],
        &["IrInstructionCountO0", "IrInstructionCountO3", "IrInstructionCountOz"],
        &ON_REQUEST,
        &["State"],
    ];
    assert_eq!(names, all.concat());
    let of_llvm = environment.clone();
    let compiler: SessionOpener = Arc::new(move || of_llvm.session());
    let with = open(&lake, environment.spec(), MissingEdge::Live(compiler));
    let mut live = environment.session().unwrap();
    for (cached, played) in [
        (&without, &PLAYED[..]),
        // The third action is known in another state, and what follows it is not.
        (&with, &[&["sroa", "instcombine", "dce", "gvn", "instcombine", "simplifycfg"]]),
    ] {
        let mut session = cached.session().unwrap();
        for names in played {
            let started = start_in(session.as_mut(), &program(), SPACE).unwrap();
            assert_eq!(started, start_in(live.as_mut(), &program(), SPACE).unwrap());
            for action in actions(&environment, names) {
                let step = untimed(session.apply(action).unwrap());
                let mut wanted = untimed(live.apply(action).unwrap());
                // The lake has no costs for rewards that are recorded only if they are named.
                wanted.rewards = wanted.rewards[..cached.spec().reward_spaces.len()].into();
                assert_eq!(step, wanted);
                for name in all.concat() {
                    let [here, there] = [cached.spec(), environment.spec()]
                        .map(|spec| spec.observation_index(name).unwrap());
                    assert_eq!(session.observe(here).unwrap(), live.observe(there).unwrap());
                }
            }
        }
    }
    assert_eq!(without.coverage().refused, 0);
    assert!(with.coverage().from_lake > 0 && with.coverage().live_steps > 0);
}
