//! What a verification says of states whose IR is not stored: whether they can be rebuilt.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;

use steplake::env::toy::ToyEnvironment;
use steplake::env::{Environment, Session, SessionError};
use steplake::generate::{CampaignEnd, ResumeState, RunProgress, Stop, generate};
use steplake::lake::Lake;
use steplake::model::EnvironmentSpec;
use steplake::record::{Recording, RecordingOptions, SpaceChoice, identity};

use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{ToyPrograms, err, run, steplake, toy_plan};

/// The environment in which `scatter` need not lead to the same state again, as it was known
/// before that was found, or as it is known today.
#[derive(Debug)]
struct OfOneDay {
    spec: EnvironmentSpec,
}

impl OfOneDay {
    fn new(is_flagged: bool) -> Self {
        let mut spec = ToyEnvironment::unsure().spec().clone();
        let mut actions = spec.action_spaces[0].actions.iter_mut();
        let scatter = actions.find(|action| action.name == "scatter").unwrap();
        assert!(!scatter.flags.replayable);
        scatter.flags.replayable = !is_flagged;
        Self { spec }
    }
}

impl Environment for OfOneDay {
    fn spec(&self) -> &EnvironmentSpec {
        &self.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        ToyEnvironment::default().session()
    }
}

/// A lake that the environment of one day recorded, with few keyframes.
fn record(is_flagged: bool) -> (tempfile::TempDir, Lake) {
    let (folder, environment) = (tempfile::tempdir().unwrap(), OfOneDay::new(is_flagged));
    let spec = environment.spec();
    let identity = identity(spec, &spec.action_spaces[0], &SpaceChoice::default()).unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let keyframes = NonZeroU32::new(1000);
    let options = RecordingOptions { keyframes, ..RecordingOptions::default() };
    let recording = Recording::begin(writer, spec, run, &options).unwrap();
    let plan = toy_plan("random", Stop::Episodes(30), 2);
    let (past, progress, never) =
        (ResumeState::default(), RunProgress::default(), AtomicBool::new(false));
    let ending = generate(&environment, &recording, &plan, &ToyPrograms, past, &progress, &never);
    assert_eq!(ending.unwrap(), CampaignEnd::Complete);
    let mut writer = recording.close().unwrap();
    writer.finish_run(run).unwrap();
    writer.seal().unwrap();
    (folder, lake)
}

#[test]
fn a_lake_is_not_called_sound_whose_states_cannot_be_rebuilt_for_sure() {
    let (_folder, older) = record(false);
    let verify = |more: &[&str]| {
        let verify = [&["verify"][..], more].concat();
        let output = steplake(older.path()).args(verify).output_in_time();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &err(&output);
        (output.status.code().unwrap_or(-1), said)
    };
    let (code, said) = verify(&[]);
    assert_eq!(code, 4, "{said}");
    assert!(!said.contains("verify: sound") && said.contains("verify: not sound; "), "{said}");
    assert!(said.contains("without IR, and recorded behind scatter, which "), "{said}");
    assert!(said.contains("record their programs again"), "{said}");
    // The bytes are fine, so the rest is checked too.
    assert!(said.contains("baselines: 3 of 3 programs agree"), "{said}");

    // Other transitions have other results, or their states are rebuilt in vain.
    run(older.path(), &["dedup"]);
    let (code, said) = verify(&["--replay", "200"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("\nverify: not sound, by what was replayed\n"), "{said}");
}

#[test]
fn what_a_flagged_action_led_to_is_stored_and_nothing_is_in_doubt() {
    let (_folder, newer) = record(true);
    let said = run(newer.path(), &["verify"]);
    assert!(said.starts_with("verify: sound; ") && said.contains(" and 0 have no IR"), "{said}");
    assert!(!said.contains("0 other states can be rebuilt"), "{said}");
}
