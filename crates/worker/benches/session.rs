//! Episodes in a worker process, for comparison with the same episodes from Python: see
//! `benches/python/main.py`, which runs this.
//!
//! Arguments: the worker's program, and a plan. Each line of the plan is an episode: the file of a
//! program, and the numbers of the actions. Every line of standard input plays the plan once, and
//! prints its steps and seconds.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use steplake::env::llvm;
use steplake::env::{Session, Start, Watch};
use steplake::environments::{Environments, live};
use steplake::model::{ActionIndex, Baselines, Benchmark, ObservationIndex, Provenance};

/// An episode to play.
struct Episode {
    benchmark: Benchmark,
    actions: Vec<ActionIndex>,
}

fn episodes(plan: &Path) -> Vec<Episode> {
    let text = std::fs::read_to_string(plan).expect("the plan can be read");
    let episode = |line: &str| {
        let mut words = line.split_whitespace();
        let file = words.next().expect("a line begins with a file");
        let actions = words.map(|word| ActionIndex(word.parse().expect("a number of an action")));
        let benchmark = Benchmark {
            uri: format!("file://{file}").parse().expect("the path is absolute"),
            program: std::fs::read(file).expect("the program can be read").into(),
            provenance: Provenance::default(),
            execution: None,
        };
        Episode { benchmark, actions: actions.collect() }
    };
    text.lines().map(episode).collect()
}

/// Plays the episodes as `CompilerEnv.reset` and `CompilerEnv.step` do, and returns the number of
/// steps.
fn play(
    session: &mut dyn Session,
    episodes: &[Episode],
    action_space: &str,
    observed: ObservationIndex,
    known: &mut HashMap<String, Baselines>,
) -> usize {
    let watch = Watch { spaces: vec![observed], ..Watch::default() };
    let mut steps = 0;
    for Episode { benchmark, actions } in episodes {
        let baselines = known.get(benchmark.uri.as_str());
        let start = Start { benchmark, action_space, baselines, watch: &watch };
        let started = session.start(&start).expect("the program is good");
        known.insert(benchmark.uri.to_string(), started.baselines);
        black_box(session.observe(observed).expect("LLVM computes it"));
        for &action in actions {
            let step = session.apply(action).expect("an episode is under way");
            steps += 1;
            if step.outcome.ends_episode() {
                break;
            }
            black_box(session.observe(observed).expect("LLVM computes it"));
        }
    }
    steps
}

fn main() {
    let mut arguments = std::env::args_os().skip(1).filter(|argument| argument != "--bench");
    let (Some(worker), Some(plan)) = (arguments.next(), arguments.next()) else {
        // `cargo bench` of everything runs it without arguments.
        return;
    };
    let environments = Environments::with_worker_program(Path::new(&worker));
    let environments = environments.expect("the worker's program can be opened");
    let environment = environments.open(llvm::NAME).expect("it is there");
    let environment = live(environment, environments.worker_config());
    let spec = environment.spec();
    let action_space = spec.action_spaces[0].name.as_str();
    let observed = spec.observation_index("Autophase").expect("LLVM has it");
    let episodes = episodes(Path::new(&plan));
    let mut session = environment.session().expect("the worker starts");
    let mut known = HashMap::new();
    for line in std::io::stdin().lines() {
        line.expect("standard input can be read");
        let began = Instant::now();
        let steps = play(session.as_mut(), &episodes, action_space, observed, &mut known);
        #[expect(clippy::print_stdout, reason = "the result")]
        {
            println!("{steps} {}", began.elapsed().as_secs_f64());
        }
    }
}
