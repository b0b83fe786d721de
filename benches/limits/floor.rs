//! Recorded stepping against its floor: the same episodes recorded from a worker process, and
//! played by passes alone.
//!
//! What is computed once per program is excluded and has rows of its own: baselines are known
//! beforehand, and the CPU time of finding first states is subtracted.

use std::path::Path;
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int32Type, Int64Type};
use steplake::env::llvm::{LlvmEnvironment, PassRunner};
use steplake::env::{Environment, Start, Watch};
use steplake::generate::PolicyName;
use steplake::lake::{Lake, ScanColumns, Table};
use steplake::model::{ActionIndex, ActionSpace, BenchmarkUri};

use crate::campaign::{Episodes, LIBRARY_FILES, Loaded, Measured, record, record_in};
use crate::listed::{Known, Listed};
use crate::{cpu_of, heading, line, spread};

/// The size of the measurement.
struct Size {
    /// Number of episodes of each program.
    episodes_each: u64,
    /// How often the ways take turns: on a shared machine, the first in a run may get a core of
    /// another speed than the last.
    rounds: usize,
    ways: &'static [Way],
}

const WHOLE: Size = Size { episodes_each: 8, rounds: 3, ways: &[KEYFRAMES, ALL_IR] };

/// `--quick`: only the ratio, in less than two minutes. All runs begin with it, to show something
/// early.
const QUICK: Size = Size { episodes_each: 2, rounds: 2, ways: &[KEYFRAMES] };

/// A way to record.
struct Way {
    name: &'static str,
    keyframes: u32,
    target: &'static str,
}

const KEYFRAMES: Way = Way { name: "K = 16", keyframes: 16, target: "target 80%" };
const ALL_IR: Way = Way { name: "all IR", keyframes: 1, target: "target 60%" };

/// A recorded episode.
struct Episode {
    uri: String,
    actions: Vec<ActionIndex>,
    /// Whether the last step failed: what kills LLVM must not run in this process.
    failed: bool,
}

/// Returns the episodes of a lake, in order.
fn episodes(lake: &Path) -> Vec<Episode> {
    let snapshot = Lake::open(lake).and_then(|lake| lake.snapshot()).expect("it was just recorded");
    let columns =
        ScanColumns::Named(&["episode_id", "step_index", "benchmark_uri", "action", "state_id"]);
    let mut episodes: Vec<Episode> = Vec::new();
    let mut last = None;
    for batch in snapshot.scan(Table::Steps, columns) {
        let batch = batch.expect("it was just recorded");
        let ids = batch["episode_id"].as_primitive::<Int64Type>();
        let actions = batch["action"].as_primitive::<Int32Type>();
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

/// Measures passes and nothing else.
fn passes_alone(programs: &Loaded, space: &ActionSpace, episodes: &[Episode]) -> Measured {
    let mut runner = PassRunner::new().expect("LLVM is there");
    let mut steps = 0;
    let began = Instant::now();
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

/// Starts all programs in a new session, given the baselines that are already `known`. Returns
/// their baselines and the CPU time, and prints a row with the time per program.
fn starts(programs: &Loaded, what: &str, known: &Known) -> (Known, Duration) {
    let environment = LlvmEnvironment::new();
    let action_space = environment.spec().action_spaces[0].name.as_str();
    let mut session = environment.session().expect("LLVM is there");
    let watch = Watch::default();
    let mut start = |uri: BenchmarkUri| {
        let (benchmark, baselines) = (programs.get(uri.as_str()), known.get(&uri));
        let start = Start { benchmark, action_space, baselines, watch: &watch };
        let started = session.start(&start).expect("the program is good");
        (uri, started.baselines)
    };
    let (found, cpu) = cpu_of(|| programs.uris().into_iter().map(&mut start).collect());
    let each = cpu.as_secs_f64() * 1e3 / programs.uris().len() as f64;
    line(what, &format!("{each:.1} ms"), "a program");
    (Known::new(found), cpu)
}

/// Returns the bytes on disk of what describes states, and the number of states.
fn state_bytes(lake: &Path) -> (u64, u64) {
    let snapshot = Lake::open(lake).and_then(|lake| lake.snapshot()).expect("it was just recorded");
    let bytes = |table| snapshot.segments(table).iter().map(|segment| segment.bytes).sum::<u64>();
    let all = [Table::Steps, Table::Observations, Table::Ir].into_iter().map(bytes).sum();
    (all, snapshot.rows(Table::Observations))
}

/// One round: the floor, and the recorded paths in order.
struct Round {
    alone: Measured,
    recorded: Vec<Measured>,
}

/// The measurements over one action space.
struct Floor<'a> {
    size: &'a Size,
    programs: &'a Loaded,
    /// CPU time to find the first states of the programs.
    first_states: Duration,
    environment: Listed,
    /// The episodes of the first recording.
    episodes: Vec<Episode>,
    rounds: Vec<Round>,
}

impl Floor<'_> {
    fn name(&self) -> &str {
        &self.environment.space().name
    }

    fn title(&self, what: &str) -> String {
        format!("{}, round {} of {}: {what}", self.name(), self.rounds.len() + 1, self.size.rounds)
    }

    /// Records the episodes in one way, and prints a row at once. Also returns what `look` finds in
    /// the lake.
    fn recorded<T>(&self, way: &Way, look: impl FnOnce(&Path) -> T) -> (Measured, T) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let count = self.size.episodes_each * self.programs.uris().len() as u64;
        let wanted = Episodes {
            count,
            jobs: 1,
            keyframes: Some(way.keyframes),
            observe: None,
            policy: PolicyName::RANDOM,
        };
        let lake = folder.path().join("lake");
        let mut measured = record_in(&self.environment, &lake, self.programs, &wanted);
        measured.cpu = measured.cpu.saturating_sub(self.first_states);
        let figure = format!("{:.0} µs", measured.micros());
        line(&self.title(&format!("recorded, {}", way.name)), &figure, "a step");
        (measured, look(&lake))
    }

    /// Measures all ways once. In the first round, the first way determines the steps.
    fn round(&mut self) {
        let (first, others) = self.size.ways.split_first().expect("a way is measured");
        let read = |lake: &Path| self.rounds.is_empty().then(|| episodes(lake));
        let (measured, found) = self.recorded(first, read);
        let mut recorded = vec![measured];
        if let Some(found) = found {
            self.episodes = found;
        }
        let alone = passes_alone(self.programs, self.environment.space(), &self.episodes);
        let figure = format!("{:.0} µs", alone.micros());
        line(&self.title("passes alone"), &figure, &compared(first, &measured, &alone));
        for way in others {
            let (measured, (bytes, states)) = self.recorded(way, state_bytes);
            println!("    {}; {bytes} bytes, {states} states", compared(way, &measured, &alone));
            recorded.push(measured);
        }
        self.rounds.push(Round { alone, recorded });
    }

    /// Prints the rows of all rounds.
    fn report(&self) {
        let failures = self.episodes.iter().filter(|episode| episode.failed).count();
        let (episodes, steps) = (self.episodes.len(), self.rounds[0].recorded[0].steps);
        println!("  {}: {episodes} episodes, {steps} steps, {failures} failures", self.name());
        let [alone, ..] = spread(&self.rounds, |round| round.alone.micros());
        line("  passes alone, CPU per step", &format!("{alone:.0} µs"), "");
        for (place, way) in self.size.ways.iter().enumerate() {
            let of = |round: &Round| share(&round.recorded[place], &round.alone);
            let [median, least, most] = spread(&self.rounds, of);
            let note = format!("{} ({least:.1} to {most:.1})", way.target);
            let what = format!("  recorded, {}, over passes alone", way.name);
            line(&what, &format!("{median:.1}%"), &note);
            let over = |round: &Round| round.recorded[place].micros() - round.alone.micros();
            let [median, least, most] = spread(&self.rounds, over);
            let note = format!("({least:.0} to {most:.0})");
            line("    overhead, CPU per step", &format!("{median:.0} µs"), &note);
            let [rate, ..] = spread(&self.rounds, |round| round.recorded[place].per_cpu_second());
            line("    recorded steps per CPU second", &format!("{rate:.0}"), "");
        }
    }
}

/// Returns steps per CPU second as a percentage of those of passes alone.
fn share(recorded: &Measured, alone: &Measured) -> f64 {
    100.0 * recorded.per_cpu_second() / alone.per_cpu_second()
}

fn compared(way: &Way, recorded: &Measured, alone: &Measured) -> String {
    let over = recorded.micros() - alone.micros();
    format!("{} is {:.1}%, {over:.0} µs over it", way.name, share(recorded, alone))
}

pub(crate) fn run(quick: bool) {
    heading("Recorded stepping against its floor: Debian programs, random episodes of 50 steps");
    let programs = Loaded::new(&LIBRARY_FILES);
    programs.describe();
    let (known, _) = starts(&programs, "first state and baselines, once", &Known::default());
    let (_, first_states) = starts(&programs, "  first state alone", &known);
    let measure = |size| measure(size, &programs, &known, first_states);
    measure(&QUICK);
    if !quick {
        measure(&WHOLE);
    }
}

fn measure(size: &Size, programs: &Loaded, known: &Known, first_states: Duration) {
    println!("  {} episodes of each program:", size.episodes_each);
    let mut floors = Listed::all(known).map(|environment| Floor {
        size,
        programs,
        first_states,
        environment,
        episodes: Vec::new(),
        rounds: Vec::new(),
    });
    for _ in 0..size.rounds {
        for floor in &mut floors {
            floor.round();
        }
    }
    println!("  medians of {} rounds, in which the ways take turns:", size.rounds);
    for floor in &floors {
        floor.report();
    }
}

/// Steps per CPU second of CompilerGym 0.2.5's shipped logger on such programs, with and without
/// its graph column; and those without a logger.
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
        WHOLE.episodes_each * programs.uris().len() as u64,
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
