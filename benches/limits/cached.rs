//! Steps answered from a lake, on the toy environment.

use std::sync::Arc;
use std::time::Instant;

use steplake::dedup::{DedupOptions, dedup};
use steplake::env::toy::ToyEnvironment;
use steplake::env::{Environment, Session};
use steplake::lake::{Lake, Snapshot, to_the_end};
use steplake::record::{Recording, RecordingOptions};
use steplake::replay::cached::{CachedEnvironment, CachedOptions};

use crate::recorder::{everything, play};
use crate::{heading, line};

const STEPS: u32 = 500_000;

/// Records the steps, without IR, and counts them.
fn recorded() -> (tempfile::TempDir, Snapshot) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lake = Lake::create(folder.path().join("lake"), &everything()).expect("an empty folder");
    let mut writer = lake.writer().expect("nobody else writes");
    let run = writer.begin_run("{}", 0).expect("the disk takes a row");
    let environment = ToyEnvironment::default();
    let options = RecordingOptions { keyframes: None, ..RecordingOptions::default() };
    let recording = Recording::begin(writer, environment.spec(), run, &options)
        .expect("the lake is of this environment");
    let mut recorder = recording.recorder(environment.session().expect("it is pure"));
    play(&mut recorder, STEPS, None, None);
    drop(recorder);
    recording.close().expect("the disk takes the rows").seal().expect("the disk takes them");
    let mut maintenance = lake.maintenance().expect("nobody else maintains it");
    dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end).expect("the lake is sound");
    drop(maintenance);
    let snapshot = lake.snapshot().expect("the lake is sound");
    (folder, snapshot)
}

pub(crate) fn run() {
    heading("Steps answered from a lake: half a million steps of the toy environment");
    let (_folder, snapshot) = recorded();
    let toy = ToyEnvironment::default();
    let began = Instant::now();
    let options = CachedOptions::default();
    let environment = CachedEnvironment::open(Arc::new(snapshot), toy.spec(), options)
        .expect("the lake is of this environment");
    let opened = began.elapsed().as_secs_f64();
    let (states, transitions) = (environment.graph().states(), environment.graph().transitions());
    line("states and transitions", &format!("{states} {transitions}"), "");
    line("opened, transitions/s", &format!("{:.0}", transitions as f64 / opened), "");
    let bits = environment.spec().observation_index("Bits");
    let mut session = environment.session().expect("it is memory");
    let mut nanoseconds = Vec::with_capacity(STEPS as usize);
    // The first round reads the columns.
    for _ in 0..2 {
        nanoseconds.clear();
        play(session.as_mut(), STEPS, bits, Some(&mut nanoseconds));
    }
    assert_eq!(environment.coverage().refused, 0, "every step was recorded");
    nanoseconds.sort_unstable();
    for (name, per_mille, target) in [("p50", 500, "target 5 µs"), ("p99", 990, "")] {
        let at = f64::from(nanoseconds[nanoseconds.len() * per_mille / 1000]) / 1000.0;
        let what = format!("a step, and its observation of 16 numbers, {name}");
        line(&what, &format!("{at:.2} µs"), target);
    }
    let mean = |session: &mut dyn Session| {
        let began = Instant::now();
        play(session, STEPS, bits, None);
        began.elapsed().as_secs_f64() * 1e6 / f64::from(STEPS)
    };
    let cached = mean(session.as_mut());
    line("the same, mean, with the starts", &format!("{cached:.2} µs"), "target 5 µs");
    let live = mean(toy.session().expect("it is pure").as_mut());
    line("the toy environment itself, likewise", &format!("{live:.2} µs"), "");
}
