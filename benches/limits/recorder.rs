//! The recorder alone, on the toy environment.

use std::hint::black_box;
use std::time::Instant;

use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::{Environment, Session, Start, Watch};
use steplake::lake::{Identity, Lake};
use steplake::model::{ActionIndex, ObservationIndex};
use steplake::record::{Recording, RecordingOptions, SpaceChoice, identity};

use crate::{cpu_of, heading, line};

const STEPS: u32 = 1_000_000;
const EPISODE_LENGTH: u32 = 50;

pub(crate) fn everything() -> Identity {
    let environment = ToyEnvironment::default();
    let spec = environment.spec();
    identity(spec, &spec.action_spaces[0], &SpaceChoice::default()).expect("nothing is chosen")
}

/// Plays steps call by call, always the same ones. `observed` is looked at after each; `timed`
/// collects the nanoseconds of each.
pub(crate) fn play(
    session: &mut dyn Session,
    steps: u32,
    observed: Option<ObservationIndex>,
    mut timed: Option<&mut Vec<u32>>,
) {
    let watch = Watch::default();
    let mut action = 1_u32;
    for episode in 0..steps / EPISODE_LENGTH {
        let benchmark = toy::benchmark(episode % 64);
        let (action_space, baselines) = (toy::NAME, None);
        let start = Start { benchmark: &benchmark, action_space, baselines, watch: &watch };
        session.start(&start).expect("the programs are good");
        for _ in 0..EPISODE_LENGTH {
            action = action.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // The last action fails in some states, which would end the episode.
            let index = ActionIndex((action >> 16) % 7);
            let began = timed.is_some().then(Instant::now);
            black_box(session.apply(index).expect("an episode is under way"));
            if let Some(space) = observed {
                black_box(session.observe(space).expect("it was recorded"));
            }
            if let (Some(began), Some(timed)) = (began, timed.as_deref_mut()) {
                timed.push(u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX));
            }
        }
    }
}

/// Records the steps. Returns the wall time until all are durable, and the CPU time.
fn record(timed: Option<&mut Vec<u32>>) -> (f64, f64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lake = Lake::create(folder.path().join("lake"), &everything()).expect("an empty folder");
    let began = Instant::now();
    let ((), cpu) = cpu_of(|| {
        let mut writer = lake.writer().expect("nobody else writes");
        let run = writer.begin_run("{}", 0).expect("the disk takes a row");
        let environment = ToyEnvironment::default();
        let recording =
            Recording::begin(writer, environment.spec(), run, &RecordingOptions::default())
                .expect("the lake is of this environment");
        let mut recorder = recording.recorder(environment.session().expect("it is pure"));
        play(&mut recorder, STEPS, None, timed);
        drop(recorder);
        recording.close().expect("the disk takes the rows");
    });
    (began.elapsed().as_secs_f64(), cpu.as_secs_f64())
}

pub(crate) fn run() {
    heading("The recorder alone: a million steps of the toy environment by one process");
    let ((), plain) = cpu_of(|| {
        let mut session = ToyEnvironment::default().session().expect("it is pure");
        play(session.as_mut(), STEPS, None, None);
    });
    let (wall, cpu) = record(None);
    let steps = f64::from(STEPS);
    line("recorded and durable, steps/s", &format!("{:.0}", steps / wall), "target 300,000");
    line("the same per CPU second", &format!("{:.0}", steps / cpu), "");
    line("not recorded, steps per CPU second", &format!("{:.0}", steps / plain.as_secs_f64()), "");
    let mut nanoseconds = Vec::with_capacity(STEPS as usize);
    record(Some(&mut nanoseconds));
    nanoseconds.sort_unstable();
    let at =
        |per_mille: usize| f64::from(nanoseconds[nanoseconds.len() * per_mille / 1000]) / 1000.0;
    for (name, per_mille, target) in
        [("p50", 500, ""), ("p99", 990, "target 20 µs"), ("p99.9", 999, "")]
    {
        line(
            &format!("a caller's cost of one recorded step, {name}"),
            &format!("{:.2} µs", at(per_mille)),
            target,
        );
    }
}
