//! Errors and early ends at every reading of every command that reads.

use std::io::Error;
use std::path::Path;

use steplake::lake::{Disk, DiskOperation, FaultEffect, Lake, LakeError, to_the_end};

use super::{Image, Stages, Tally, answers, faulty, is_reading};
use crate::fixtures::support::scratch;
use crate::lake::failing_disk::{Act, Machine};

type Fault = (&'static str, fn(&DiskOperation<'_>) -> FaultEffect);

const FAULTS: [Fault; 3] = [
    ("errors of reading", |_| FaultEffect::Fail(Error::from_raw_os_error(5))),
    ("readings of nothing", |_| FaultEffect::Short(0)),
    ("readings cut short", |operation| match operation {
        DiskOperation::Read(_, bytes) => FaultEffect::Short(bytes / 2),
        _ => FaultEffect::Proceed,
    }),
];

/// Does something with a lake on a disk whose `n`-th reading fails, for every `n`. What it says may
/// be as without a fault, or an error.
fn try_all(
    kind: &str,
    image: &Image,
    truth: &[String],
    cases_min: u32,
    work: impl Fn(Disk, &Path) -> Result<Vec<String>, LakeError>,
) {
    for (fault_name, fault) in FAULTS {
        let mut tally = Tally::default();
        for at in 0.. {
            let folder = scratch();
            let path = folder.path().join("lake");
            image.lay(&path);
            let (disk, left) = faulty(at, is_reading, fault);
            let answer = work(disk, &path);
            if left.lock().unwrap().is_some() {
                assert!(answer.unwrap() == truth);
                break;
            }
            let case = format!("{kind}, {fault_name}, reading {at}");
            tally.judge(&case, &path, answer, truth);
            let calm = Lake::open(&path).unwrap().verify(&mut to_the_end).unwrap();
            assert_eq!(calm.findings, [], "{case}: the lake has changed");
        }
        tally.report(&format!("{fault_name} under {kind}"), cases_min);
    }
}

#[test]
fn a_reading_that_fails_gives_no_wrong_answer() {
    let (image, truth) = Stages::last();
    try_all("scans and lookups", &image, &truth, 20, |disk, path| {
        answers(&Lake::open_on(disk, path)?)
    });
    let sound = vec!["sound".to_owned()];
    try_all("verification", &image, &sound, 20, |disk, path| {
        let report = Lake::open_on(disk, path)?.verify(&mut to_the_end)?;
        match report.findings.first() {
            None => Ok(vec!["sound".to_owned()]),
            Some(finding) => {
                Err(LakeError::Corrupt { path: finding.path.clone(), what: finding.what.clone() })
            }
        }
    });
}

#[test]
fn a_reading_that_fails_under_a_writer_changes_nothing() {
    let stages = Stages::play();
    let mut tally = Tally::default();
    for number in 0..stages.acts.len() {
        for (name, fault) in FAULTS {
            for at in 0.. {
                let case = format!("act {number}, {name}, reading {at}");
                let folder = scratch();
                let path = folder.path().join("lake");
                stages.images[number].lay(&path);
                let (disk, left) = faulty(at, is_reading, fault);
                let played = Machine::start(disk, &path)
                    .and_then(|mut machine| machine.act(&stages.acts[number]));
                if left.lock().unwrap().is_some() {
                    played.unwrap();
                    break;
                }
                let calm = Lake::open(&path).unwrap();
                match &played {
                    Ok(()) => {
                        let answer = answers(&calm);
                        tally.judge(&case, &path, answer, &stages.answers[number + 1]);
                    }
                    Err(error) => {
                        tally.refuse(&case, &path, error);
                        let half = matches!(stages.acts[number], Act::SealBehind(_));
                        let answer = answers(&calm).unwrap();
                        assert!(half || answer == stages.answers[number], "{case}: {answer:#?}");
                    }
                }
            }
        }
    }
    tally.report("readings that fail under a writer", 30);
}
