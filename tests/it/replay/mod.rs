//! The environment without a compiler: steps answered from a lake.

mod backfill;
mod elsewhere;
mod episodes;
mod graph;
mod live;
mod llvm;
mod missing_edges;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steplake::dedup::{DedupOptions, dedup};
use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::{Environment, Session, SessionError, Start, Started, Watch};
use steplake::generate::Stop;
use steplake::lake::{Lake, to_the_end};
use steplake::model::{Benchmark, EnvironmentSpec, Step};
use steplake::replay::cached::{CachedEnvironment, CachedOptions, MissingEdge};

use crate::fixtures::support::{play, toy_lake, toy_plan};

/// A lake with so many random episodes of three toy programs, sealed and deduplicated.
fn recorded(episodes: u64) -> (tempfile::TempDir, Lake) {
    let (folder, lake) = toy_lake();
    play(&lake, &toy_plan("random", Stop::Episodes(episodes), 2)).seal().unwrap();
    derive(&lake);
    (folder, lake)
}

fn derive(lake: &Lake) {
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
}

fn reopened(path: &Path) -> Lake {
    Lake::open(path).unwrap()
}

/// The environment of a lake, for the toy environment.
fn cached(lake: &Lake, missing_edge: MissingEdge) -> CachedEnvironment {
    open(lake, ToyEnvironment::default().spec(), missing_edge)
}

fn open(lake: &Lake, spec: &EnvironmentSpec, missing_edge: MissingEdge) -> CachedEnvironment {
    let options = CachedOptions { missing_edge, ..CachedOptions::default() };
    CachedEnvironment::open(Arc::new(lake.snapshot().unwrap()), spec, options).unwrap()
}

fn start(session: &mut dyn Session, benchmark: &Benchmark) -> Result<Started, SessionError> {
    start_in(session, benchmark, toy::NAME)
}

fn start_in(
    session: &mut dyn Session,
    benchmark: &Benchmark,
    action_space: &str,
) -> Result<Started, SessionError> {
    let watch = Watch::default();
    session.start(&Start { benchmark, action_space, baselines: None, watch: &watch })
}

/// A step without what was measured.
fn untimed(step: Step) -> Step {
    Step { wall_time: Duration::ZERO, ..step }
}

/// A toy program by the URI of a plan.
fn toy_benchmark(uri: &steplake::model::BenchmarkUri) -> Benchmark {
    toy::benchmark(uri.path().parse().unwrap())
}
