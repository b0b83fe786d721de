//! The programs.

use super::NAME;
use super::planted::Plant;
use super::state::{ToyState, serialise};
use steplake_model::{Benchmark, BenchmarkUri, Provenance};
use steplake_programs::datasets::DatasetDescription;

pub(super) static PROGRAMS: DatasetDescription = DatasetDescription {
    name: NAME,
    uri: "generator://toy-v0",
    description: "Programs of the toy environment, by seed",
    licence: "MIT",
    size: None,
    example: "generator://toy-v0/0..9",
};

/// Returns the benchmark `generator://toy-v0/<seed>`: a program of 65,536 states whose initial
/// state is drawn from the seed.
pub fn benchmark(seed: u32) -> Benchmark {
    let start = seed.wrapping_mul(0x9e37_79b1) >> 16;
    program(&format!("generator://{NAME}/{seed}"), 1 << 16, start)
}

/// Returns a benchmark of `size` states called `uri` that begins at `start`.
///
/// # Panics
///
/// If `uri` is not a benchmark URI.
pub fn program(uri: &str, size: u32, start: u32) -> Benchmark {
    Benchmark {
        uri: uri.parse::<BenchmarkUri>().expect("the caller gives a benchmark URI"),
        program: serialise(size, start).into_bytes().into(),
        provenance: Provenance {
            family: "toy".into(),
            licence: "MIT".into(),
            ..Provenance::default()
        },
        execution: None,
    }
}

/// Returns a benchmark of `size` states called `uri` that begins at `start` and has a planted
/// failure, for tests.
///
/// # Panics
///
/// If `uri` is not a benchmark URI.
#[doc(hidden)]
pub fn planted(uri: &str, size: u32, start: u32, plant: Plant) -> Benchmark {
    let program = ToyState { size, number: start, plant: Some(plant) };
    Benchmark {
        program: program.serialise().into_bytes().into(),
        ..self::program(uri, size, start)
    }
}
