//! Who records seals at the end, so that other tools see all of it.

use nix::sys::signal::Signal;
use steplake::lake::{Lake, Table};

use super::{TOY, folder, toy};
use crate::fixtures::programs::{InTime as _, end_of, program, until};
use crate::fixtures::support::{err, run, signal, steplake};

/// How many steps of closed episodes are in the hot log.
fn hot_steps(lake: &std::path::Path) -> u64 {
    Lake::open(lake).unwrap().snapshot().unwrap().closed_hot_steps()
}

#[test]
fn a_run_seals_what_it_recorded_unless_it_is_told_not_to() {
    let (_folder, lake) = folder();
    toy(&lake, &["--episodes", "4"]);
    let snapshot = Lake::open(&lake).unwrap().sealed().unwrap();
    assert_eq!((hot_steps(&lake), snapshot.rows(Table::Episodes)), (0, 4));
    drop(snapshot);
    let later = ["--episodes", "4", "--seed", "1", "--resume"];
    toy(&lake, &[&later[..], &["--no-seal"]].concat());
    assert!(hot_steps(&lake) > 0);
    // The same run, of which nothing is left to record.
    assert!(toy(&lake, &later).contains("nothing is left to do"));
    assert_eq!(hot_steps(&lake), 0);
    assert_eq!(run(&lake, &["seal"]), "sealed 0 rows into 0 files\n");
}

#[test]
fn an_interrupted_run_is_sealed_too() {
    let (_folder, lake) = folder();
    let arguments = [&TOY[..], &["--steps", "100000000"]].concat();
    let mut child = steplake(&lake).args(&arguments).spawn().unwrap();
    let is_recorded = || {
        let snapshot = Lake::open(&lake).and_then(|lake| lake.snapshot());
        snapshot.is_ok_and(|snapshot| snapshot.rows(Table::Episodes) > 0)
    };
    until("an episode is recorded", is_recorded);
    signal(&child, Signal::SIGINT);
    assert_eq!(end_of(&mut child, "a run that was interrupted").code(), Some(130));
    assert_eq!(hot_steps(&lake), 0);
    assert!(Lake::open(&lake).unwrap().sealed().unwrap().rows(Table::Episodes) > 0);
}

/// As shells start what runs in the background of a script, and `nohup`.
#[test]
fn a_run_that_was_started_with_ctrl_c_ignored_goes_on() {
    let (_folder, lake) = folder();
    let ignoring = |arguments: &[&str]| {
        let mut command = program("sh");
        let script = r#"trap "" INT; exec "$0" --quiet "$@""#;
        command.args(["-c", script, env!("CARGO_BIN_EXE_steplake")]).args(arguments);
        command.env("STEPLAKE_LAKE", &lake).spawn().unwrap()
    };
    let mut child = ignoring(&[&TOY[..], &["--steps", "100000000"]].concat());
    let episodes = || {
        let snapshot = Lake::open(&lake).and_then(|lake| lake.snapshot());
        snapshot.map_or(0, |snapshot| snapshot.rows(Table::Episodes))
    };
    until("an episode is recorded", || episodes() > 0);
    signal(&child, Signal::SIGINT);
    let before = episodes();
    until("more is recorded", || episodes() > before + 1);
    assert_eq!(child.try_wait().unwrap(), None, "it goes on");
    signal(&child, Signal::SIGTERM);
    assert_eq!(end_of(&mut child, "a run that was terminated").code(), Some(130));
    assert_eq!(hot_steps(&lake), 0);
}

#[test]
fn what_is_started_has_its_default_signals() {
    // As if the tests themselves ran in the background.
    let outer = program("sh")
        .args(["-c", r#"trap "" INT HUP; exec env --default-signal "$@""#, "sh"])
        .args(["grep", "SigIgn", "/proc/self/status"])
        .output_in_time();
    assert!(outer.status.success(), "{}", err(&outer));
    let ignored = String::from_utf8(outer.stdout).unwrap();
    let mask = ignored.trim().rsplit('\t').next().unwrap();
    // The C library keeps the first two signals behind the standard ones to itself.
    let standard = u64::from_str_radix(mask, 16).unwrap() & ((1 << 31) - 1);
    assert_eq!(standard, 0, "{ignored}");
}
