//! Faults in what the store changes: power cuts, errors, full disks and short writes, at every
//! operation of every act.

use std::io::{Error, ErrorKind};

use steplake::lake::{Disk, DiskOperation, FaultEffect, LakeError};

use super::{Stages, Tally, answers, faulty, is_reading};
use crate::fixtures::power::{Power, is_showing};
use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::read;
use crate::lake::failing_disk::{Act, Machine};

/// Brings an act to its end that may be done in part, and compares with what should come of it.
fn finish(stages: &Stages, number: usize, mut machine: Machine, case: &str) {
    let (act, before, after) =
        (&stages.acts[number], &stages.models[number].0, &stages.models[number + 1].0);
    let found = read(&machine.lake);
    assert!(found == *before || found == *after, "{case}: {found:#?}");
    let appended = found == *after && found != *before;
    match act {
        Act::Append(_) | Act::DiscardOpen if appended => {}
        Act::SealBehind(_) if appended => machine.act(&Act::Seal).unwrap(),
        act => machine.act(act).unwrap(),
    }
    let answer = answers(&machine.lake).unwrap();
    // What is sealed and what is hot may differ, and so may what dedup saw; the rows may not.
    assert_eq!(read(&machine.lake), *after, "{case}");
    assert!(answer == stages.answers[number + 1], "{case}: {answer:#?}");
}

#[test]
fn a_power_cut_at_every_operation_of_every_act() {
    let stages = Stages::play();
    let mut tally = Tally::default();
    for number in 0..stages.acts.len() {
        for at in 0.. {
            let case = format!("act {number}, cut before operation {at}");
            let folder = scratch();
            let path = folder.path().join("lake");
            stages.images[number].lay(&path);
            let (disk, power) = Power::disk(at, true);
            let played = Machine::start(disk, &path)
                .and_then(|mut machine| machine.act(&stages.acts[number]));
            let off = power.lock().unwrap().off;
            if !off {
                played.unwrap();
                break;
            }
            match played {
                Ok(()) => tally.right += 1,
                Err(error) => tally.refuse(&case, &path, &error),
            }
            power.lock().unwrap().cut();
            let machine = Machine::start(Disk::default(), &path).unwrap();
            finish(&stages, number, machine, &case);
        }
    }
    tally.report("power cuts", 100);
}

type Fault = (&'static str, fn(&DiskOperation<'_>) -> bool, fn(&DiskOperation<'_>) -> FaultEffect);

fn is_change(operation: &DiskOperation<'_>) -> bool {
    !is_reading(operation) && !is_showing(operation)
}

fn takes_room(operation: &DiskOperation<'_>) -> bool {
    use DiskOperation::{Commit, Create, CreateDir, Write};
    matches!(operation, CreateDir(_) | Create(_) | Write(..) | Commit(_)) && !is_showing(operation)
}

const FAULTS: [Fault; 3] = [
    ("errors of writing", is_change, |_| FaultEffect::Fail(Error::from_raw_os_error(5))),
    ("full disks", takes_room, |_| FaultEffect::Fail(ErrorKind::StorageFull.into())),
    (
        "short writes",
        |operation| matches!(operation, DiskOperation::Write(..)) && !is_showing(operation),
        |operation| match operation {
            DiskOperation::Write(_, bytes) => FaultEffect::Short(bytes / 3),
            _ => FaultEffect::Proceed,
        },
    ),
];

#[test]
fn an_error_at_every_operation_of_every_act_changes_nothing_and_the_writer_goes_on() {
    let stages = Stages::play();
    for (kind, counts, fault) in FAULTS {
        let mut tally = Tally::default();
        for number in 0..stages.acts.len() {
            for at in 0.. {
                let case = format!("{kind}, act {number}, operation {at}");
                let folder = scratch();
                let path = folder.path().join("lake");
                stages.images[number].lay(&path);
                let (disk, left) = faulty(at, counts, fault);
                let mut machine = match Machine::start(disk, &path) {
                    Ok(machine) => machine,
                    Err(error) => {
                        tally.refuse(&case, &path, &error);
                        continue;
                    }
                };
                let played = machine.act(&stages.acts[number]);
                let came = left.lock().unwrap().is_none();
                match &played {
                    Ok(()) if !came => break,
                    Ok(()) => tally.right += 1,
                    Err(error) => {
                        assert!(
                            kind != "full disks" || matches!(error, LakeError::DiskFull { .. })
                        );
                        tally.refuse(&case, &path, error);
                    }
                }
                if matches!(stages.acts[number], Act::Reopen) {
                    continue;
                }
                finish(&stages, number, machine, &case);
            }
        }
        tally.report(kind, 16);
    }
}
