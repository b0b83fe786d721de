//! `verify` as a call.

use std::cell::RefCell;
use std::ops::ControlFlow;

use steplake::generate::Stop;
use steplake::lake::{Lake, Table};
use steplake::verification::{VerifyObserver, VerifyOptions, VerifyProgress, verify};
use steplake::{Error, ErrorKind};

use super::environments;
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{play, run, steplake, toy_lake, toy_plan};

/// Keeps what it hears.
#[derive(Default)]
struct Listener {
    lines: RefCell<String>,
    parts: RefCell<Vec<VerifyProgress>>,
    /// The part that it stops, and at which call.
    stop: Option<(&'static str, usize)>,
}

fn name(progress: VerifyProgress) -> &'static str {
    match progress {
        VerifyProgress::Derived { .. } => "derived",
        VerifyProgress::Checked { .. } => "checked",
        VerifyProgress::Measured { .. } => "measured",
        VerifyProgress::Run { .. } => "run",
        VerifyProgress::Replayed { .. } => "replayed",
    }
}

impl VerifyObserver for Listener {
    fn progress(&self, progress: VerifyProgress) -> ControlFlow<()> {
        let mut parts = self.parts.borrow_mut();
        parts.push(progress);
        let calls = |part| parts.iter().filter(|&&call| name(call) == part).count();
        let ends = self.stop.is_some_and(|(part, call)| calls(part) == call);
        if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn said(&self, text: &str) -> Result<(), Error> {
        self.lines.borrow_mut().push_str(text);
        Ok(())
    }
}

fn recorded() -> (tempfile::TempDir, Lake) {
    let (folder, lake) = toy_lake();
    play(&lake, &toy_plan("random", Stop::Episodes(20), 2)).seal().unwrap();
    run(lake.path(), &["dedup"]);
    (folder, lake)
}

#[test]
fn a_verification_says_what_the_command_prints_and_returns_it_as_data() {
    let environments = environments();
    let (_folder, lake) = recorded();
    let listener = Listener::default();
    let options = VerifyOptions { replay: Some(50), seed: 3, ..VerifyOptions::default() };
    let done = verify(&environments, &lake, &options, &listener).unwrap();
    assert!(done.is_sound(), "{}", done.text);
    assert_eq!(done.text, run(lake.path(), &["verify", "--replay", "50", "--seed", "3"]));
    assert_eq!(done.text, listener.lines.into_inner());
    assert_eq!(done.repaired, None);
    assert_eq!((done.ids.compared, done.ids.findings.len()), (done.bytes.ir, 0));
    assert_eq!(done.baselines.map(|report| report.compared), Some(3));
    assert_eq!(done.replayed.map(|report| report.replayed), Some(50));
    let parts = listener.parts.into_inner();
    let ids = done.bytes.ir;
    let all = done.bytes.bytes;
    assert!(parts.contains(&VerifyProgress::Checked { done: all, all, ids }), "{parts:?}");
    assert_eq!(parts.last(), Some(&VerifyProgress::Replayed { done: 50, all: 50 }));
}

#[test]
fn damage_is_found_and_a_repair_says_what_it_drops() {
    let environments = environments();
    let (_folder, lake) = recorded();
    let segment = lake.snapshot().unwrap().segments(Table::Steps)[0].path.clone();
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&segment, bytes).unwrap();
    let listener = Listener::default();
    let done = verify(&environments, &lake, &VerifyOptions::default(), &listener).unwrap();
    assert!(!done.is_sound() && done.baselines.is_none());
    assert!(done.bytes.findings.iter().any(|finding| finding.path == segment), "{}", done.text);
    let printed = steplake(lake.path()).arg("verify").output_in_time();
    assert_eq!((printed.status.code(), printed.stdout), (Some(4), done.text.into_bytes()));

    let repair = VerifyOptions { repair: true, ..VerifyOptions::default() };
    let done = verify(&environments, &lake, &repair, &listener).unwrap();
    assert!(done.is_sound(), "{}", done.text);
    assert_eq!(done.repaired.map(|repaired| repaired.losses.len()), Some(2), "{}", done.text);
    let parts = listener.parts.into_inner();
    assert!(parts.contains(&VerifyProgress::Derived { done: 0, all: 0 }), "{parts:?}");
}

#[test]
fn a_listener_stops_a_verification_wherever_it_is() {
    let environments = environments();
    let (_folder, lake) = recorded();
    let options = VerifyOptions { replay: Some(20), ..VerifyOptions::default() };
    // Every state is a call, and every program and transition. Others come by the clock.
    for (part, calls) in [("checked", 100), ("measured", 3), ("replayed", 21)] {
        for call in (1..=calls).filter(|call| call % 7 < 4) {
            let listener = Listener { stop: Some((part, call)), ..Listener::default() };
            let error = verify(&environments, &lake, &options, &listener).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted, "{part} {call}: {error}");
            let last = listener.parts.into_inner().pop().map(name);
            assert_eq!(last, Some(part), "after a break nobody asks again");
        }
    }
}
