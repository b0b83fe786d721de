//! Recorded stepping against its floor: the same episodes by passes alone, by a session, and recorded from
//! a worker process.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int16Type, Int32Type, Int64Type};
use steplake::env::llvm::{LlvmEnvironment, PassRunner};
use steplake::env::{Environment, Start, Watch};
use steplake::model::{ActionIndex, ActionSpace, Baselines};
use steplake::store::{Lake, ScanColumns, Table};

use crate::campaign::{ACTION_SPACE, Loaded, Measured, record};
use crate::{cpu_of, heading, line};

/// The episodes of each program.
const EPISODES_EACH: u64 = 8;

/// How often the three ways take turns: on a shared machine, the first of a run may get another core's speed than
/// the last.
const ROUNDS: usize = 3;

/// An episode that was recorded.
struct Episode {
    uri: String,
    actions: Vec<ActionIndex>,
    /// Whether its last step failed: what kills LLVM is not run in this process.
    failed: bool,
}

/// The episodes of a lake, in order.
fn episodes(lake: &Path) -> Vec<Episode> {
    let snapshot = Lake::open(lake).and_then(|lake| lake.snapshot()).expect("it was just recorded");
    let columns =
        ScanColumns::Named(&["episode_id", "step_index", "benchmark_uri", "action", "state_id"]);
    let mut episodes: Vec<Episode> = Vec::new();
    let mut last = None;
    for batch in snapshot.scan(Table::Steps, columns) {
        let batch = batch.expect("it was just recorded");
        let ids = batch["episode_id"].as_primitive::<Int64Type>();
        let actions = batch["action"].as_primitive::<Int16Type>();
        let uris = batch["benchmark_uri"].as_dictionary::<Int32Type>();
        let names = uris.values().as_string::<i32>();
        for row in 0..batch.num_rows() {
            if last != Some(ids.value(row)) {
                last = Some(ids.value(row));
                let uri =
                    names.value(uris.key(row).expect("every step has a benchmark")).to_owned();
                episodes.push(Episode { uri, actions: Vec::new(), failed: false });
            }
            let episode = episodes.last_mut().expect("one was just pushed");
            if actions.is_valid(row) {
                episode.actions.push(ActionIndex(actions.value(row).cast_unsigned()));
                episode.failed |= batch["state_id"].is_null(row);
            }
        }
    }
    for episode in &mut episodes {
        if episode.failed {
            episode.actions.pop();
        }
    }
    episodes
}

/// Passes and nothing else.
fn passes_alone(programs: &Loaded, space: &ActionSpace, episodes: &[Episode]) -> Measured {
    let mut runner = PassRunner::new().expect("LLVM is there");
    let mut steps = 0;
    let began = std::time::Instant::now();
    let ((), cpu) = cpu_of(|| {
        for episode in episodes {
            runner.load(&programs.get(&episode.uri).program).expect("the program is good");
            for &action in &episode.actions {
                let action = space.get(action).expect("it was recorded");
                runner.run(&action.pipeline).expect("the pipeline is good");
                steps += 1;
            }
        }
    });
    Measured { steps, cpu, wall: began.elapsed() }
}

fn start<'a>(
    programs: &'a Loaded,
    uri: &str,
    baselines: Option<&'a Baselines>,
    watch: &'a Watch,
) -> Start<'a> {
    Start { benchmark: programs.get(uri), action_space: ACTION_SPACE, baselines, watch }
}

/// States, rewards and canonical form, in this process; and the CPU time of the programs' baselines.
fn session(
    programs: &Loaded,
    environment: &LlvmEnvironment,
    episodes: &[Episode],
) -> (Measured, Duration) {
    let mut session = environment.session().expect("LLVM is there");
    let watch = Watch::default();
    let mut baselines = std::collections::HashMap::new();
    let ((), first) = cpu_of(|| {
        for uri in programs.uris() {
            let start = start(programs, uri.as_str(), None, &watch);
            let started = session.start(&start).expect("the program is good");
            baselines.insert(uri.to_string(), started.baselines);
        }
    });
    let (mut steps, began) = (0, std::time::Instant::now());
    let ((), cpu) = cpu_of(|| {
        for episode in episodes {
            let known = Some(&baselines[&episode.uri]);
            let start = start(programs, &episode.uri, known, &watch);
            session.start(&start).expect("the program is good");
            session
                .multistep(&episode.actions, &mut |_, _| {
                    steps += 1;
                    Ok(ControlFlow::Continue(()))
                })
                .expect("the actions are good");
        }
    });
    (Measured { steps, cpu, wall: began.elapsed() }, first)
}

/// Bytes on disk of what describes states.
fn state_bytes(lake: &Path) -> (u64, u64) {
    let snapshot = Lake::open(lake).and_then(|lake| lake.snapshot()).expect("it was just recorded");
    let bytes = |table| snapshot.segments(table).iter().map(|segment| segment.bytes).sum::<u64>();
    let all = [Table::Steps, Table::Observations, Table::Ir].into_iter().map(bytes).sum();
    (all, snapshot.rows(Table::Observations))
}

fn micros(run: &Measured) -> f64 {
    run.cpu.as_secs_f64() * 1e6 / run.steps as f64
}

/// The three ways of one round, one after another.
struct Round {
    alone: Measured,
    session: Measured,
    recorded: Measured,
    /// CPU time of finding out the programs' baselines.
    baselines: Duration,
}

impl Round {
    /// The recorded way without what is found out once for each program.
    fn known(&self) -> Measured {
        Measured { cpu: self.recorded.cpu.saturating_sub(self.baselines), ..self.recorded }
    }
}

/// A figure of every round: the median, the least and the greatest.
fn spread(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> [f64; 3] {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    [figures[figures.len() / 2], figures[0], figures[figures.len() - 1]]
}

/// A line for a way: its steps per CPU second against passes alone.
fn line_of(what: &str, rounds: &[Round], way: impl Fn(&Round) -> Measured, target: &str) {
    let [median, least, most] =
        spread(rounds, |round| 100.0 * way(round).per_cpu_second() / round.alone.per_cpu_second());
    line(what, &format!("{median:.1}%"), &format!("{target}({least:.1} to {most:.1})"));
    let [micros, ..] = spread(rounds, |round| micros(&way(round)));
    line("  CPU per step", &format!("{micros:.0} µs"), "");
}

pub(crate) fn run() {
    heading("Recorded stepping against its floor: Debian programs, random episodes of 50 steps");
    let programs = Loaded::new(&[
        "benchmark://debian-v0/zlib/*",
        "benchmark://debian-v0/bzip2/*",
        "benchmark://debian-v0/lz4/lib/*",
    ]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("lake");
    let count = programs.uris().len() as u64;
    record(&path, &programs, EPISODES_EACH * count, 1);
    let episodes = episodes(&path);
    let failures = episodes.iter().filter(|episode| episode.failed).count();
    let environment = LlvmEnvironment::new();
    let space =
        environment.spec().action_space(ACTION_SPACE).expect("it is LLVM's default").clone();
    let rounds: Vec<Round> = (0..ROUNDS)
        .map(|number| {
            let alone = passes_alone(&programs, &space, &episodes);
            let (session, baselines) = session(&programs, &environment, &episodes);
            let again = folder.path().join(format!("lake-{number}"));
            let recorded = record(&again, &programs, EPISODES_EACH * count, 1);
            Round { alone, session, recorded, baselines }
        })
        .collect();
    println!(
        "  {count} programs, {} episodes, {} steps, {failures} failures; medians of {ROUNDS} rounds",
        episodes.len(),
        rounds[0].recorded.steps
    );
    let [per_second, ..] = spread(&rounds, |round| round.alone.per_cpu_second());
    line("passes alone, steps per CPU second", &format!("{per_second:.0}"), "");
    let [cpu, ..] = spread(&rounds, |round| micros(&round.alone));
    line("  CPU per step", &format!("{cpu:.0} µs"), "");
    line_of(
        "session: states, no-ops, rewards, against passes alone",
        &rounds,
        |round| round.session,
        "",
    );
    line_of("recorded from a worker, IR and features, sealed", &rounds, |round| round.recorded, "");
    line_of("  without the programs' baselines", &rounds, Round::known, "target 55% ");
    let [per_second, ..] = spread(&rounds, |round| round.recorded.per_cpu_second());
    line("recorded steps per CPU second", &format!("{per_second:.0}"), "");
    let [each, ..] = spread(&rounds, |round| round.baselines.as_secs_f64() * 1e3 / count as f64);
    line("baselines and first state of a program, once", &format!("{each:.1} ms"), "");
    let (bytes, states) = state_bytes(&path);
    line(
        "bytes on disk per unique state, IR included",
        &format!("{:.0}", bytes as f64 / states as f64),
        "peer 16,800 to 24,600 a row",
    );
    line("unique states", &states.to_string(), "");
}

/// What CompilerGym 0.2.5's shipped logger does on such programs, steps per CPU second, with and without its
/// graph column; and what its unlogged step costs.
const PEER_STEPS: f64 = 1.0;
const PEER_STEPS_NO_GRAPH: f64 = 67.0;
const PEER_UNLOGGED_STEPS: f64 = 1000.0 / 2.63;

pub(crate) fn run_peer() {
    heading("Against the peer: 22 modules of zlib, bzip2 and csmith, random actions, one job");
    let programs = Loaded::new(&[
        "benchmark://debian-v0/bzip2/*",
        "benchmark://debian-v0/zlib/crc32.c",
        "benchmark://debian-v0/zlib/deflate.c",
        "benchmark://debian-v0/zlib/infback.c",
        "benchmark://debian-v0/zlib/inflate.c",
        "benchmark://debian-v0/zlib/trees.c",
        "generator://csmith-v0/0..3",
    ]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let recorded = record(
        &folder.path().join("lake"),
        &programs,
        EPISODES_EACH * programs.uris().len() as u64,
        1,
    );
    let rate = recorded.per_cpu_second();
    line("programs", &programs.uris().len().to_string(), "");
    line("recorded, steps per CPU second", &format!("{rate:.0}"), "target 400");
    line("times the peer's logger", &format!("{:.0}x", rate / PEER_STEPS), "");
    line(
        "times the peer's logger without its graphs",
        &format!("{:.1}x", rate / PEER_STEPS_NO_GRAPH),
        "",
    );
    line("times the peer without a logger", &format!("{:.1}x", rate / PEER_UNLOGGED_STEPS), "");
}
