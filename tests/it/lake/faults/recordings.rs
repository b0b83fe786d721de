//! Power cuts at every operation of whole runs: generate, seal, dedup.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use steplake::dedup::{DedupOptions, dedup};
use steplake::env::Environment as _;
use steplake::env::toy::ToyEnvironment;
use steplake::generate::{ResumeState, RunPlan, RunProgress, Stop, generate};
use steplake::lake::{Disk, Lake, to_the_end};
use steplake::record::{Recording, RecordingOptions};

use super::Tally;
use crate::fixtures::power::Power;
use crate::fixtures::support::scratch;
use crate::fixtures::support::{ToyPrograms, assert_same, toy_identity, toy_plan};

type Failed = Box<dyn Display>;

fn failed(error: impl Display + 'static) -> Failed {
    Box::new(error)
}

/// Does what is left of a run, and then seals and dedups.
fn play(disk: Disk, path: &Path, plan: &RunPlan) -> Result<(), Failed> {
    let lake = Lake::open_or_create_on(disk, path, &toy_identity()).map_err(failed)?;
    let mut writer = lake.writer().map_err(failed)?;
    let run = writer.runs().map_err(failed)?.into_iter().next();
    let run = match run {
        Some(run) => run.id,
        None => writer.begin_run("{}", 0).map_err(failed)?,
    };
    let resumed = ResumeState::resume(&mut writer, run, plan).map_err(failed)?;
    let environment = ToyEnvironment::default();
    let options =
        RecordingOptions { flush_interval: Duration::from_millis(4), ..Default::default() };
    let recording = Recording::begin(writer, environment.spec(), run, &options).map_err(failed)?;
    let (progress, never) = (RunProgress::default(), AtomicBool::new(false));
    let ending = generate(&environment, &recording, plan, &ToyPrograms, resumed, &progress, &never);
    let mut writer = recording.close().map_err(failed)?;
    ending.map_err(failed)?;
    writer.discard_open(run).map_err(failed)?;
    writer.finish_run(run).map_err(failed)?;
    writer.seal().map_err(failed)?;
    let mut maintenance = lake.maintenance().map_err(failed)?;
    dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end).map_err(failed)?;
    Ok(())
}

#[test]
fn a_run_that_is_cut_anywhere_and_taken_up_ends_as_one_that_was_not() {
    let mut plan = toy_plan("random", Stop::Episodes(6), 2);
    plan.episode_length = 8;
    let calm = scratch();
    let calm = calm.path().join("lake");
    assert!(play(Disk::default(), &calm, &plan).is_ok());
    let mut tally = Tally::default();
    for at in 0.. {
        let folder = scratch();
        let path = folder.path().join("lake");
        let (disk, power) = Power::disk(at, true);
        let played = play(disk, &path, &plan);
        if let Err(error) = &played {
            // Making the lake may fail over the folder that it is made in.
            tally.refuse(&format!("cut before operation {at}"), folder.path(), error);
        } else if power.lock().unwrap().off {
            tally.right += 1;
        }
        let off = power.lock().unwrap().off;
        power.lock().unwrap().cut();
        if let Err(error) = play(Disk::default(), &path, &plan) {
            panic!("cut before operation {at}: {error}");
        }
        assert_same(&calm, &path);
        let report = Lake::open(&path).unwrap().verify(&mut to_the_end).unwrap();
        assert!(report.is_sound(), "cut before operation {at}: {:?}", report.findings);
        if !off {
            break;
        }
    }
    tally.report("power cuts in whole runs", 60);
}
