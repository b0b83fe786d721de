//! A state on the device: inputs, the check of what it computes, and then its time.

use std::collections::BTreeSet;

use steplake::env::loops::cuda::CudaSource;
use steplake::env::loops::dag::{Dag, Operation};
use steplake::env::loops::reference::{Reference, element};
use steplake::env::loops::state::State;

use crate::device::{Arrays, Device, Loaded};

/// The most elements of an output that are all checked; of a larger one as many are drawn.
const CHECKED_MAX: u64 = 2048;

/// How often what is measured is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    /// The timed runs.
    pub(crate) samples: u32,
    /// The runs before them.
    pub(crate) warmups: u32,
    /// The seed of the inputs.
    pub(crate) seed: u64,
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The seconds of each run.
    pub(crate) samples_s: Vec<f64>,
    /// The number of elements that were compared with the reference.
    pub(crate) checked: u64,
    /// The kernel digest.
    pub(crate) kernels: String,
}

/// Runs a state, compares its outputs with the reference, and times it.
///
/// # Errors
///
/// If the device refuses, or a result is wrong: then there is no time.
pub(crate) fn run(device: &Device, state: &State, turns: &Turns) -> Result<Ran, String> {
    let source = CudaSource::of(state);
    let loaded = device.load(&source)?;
    let mut arrays = arrays(device, &state.dag, &loaded, turns.seed)?;
    device.launch(&loaded, &mut arrays)?;
    let checked = check(device, &state.dag, &arrays, turns.seed)?;
    let samples_s = time(device, turns, 1, &mut || device.launch(&loaded, &mut arrays))?;
    Ok(Ran { samples_s, checked, kernels: source.digest() })
}

/// Times work: each sample is the time of one run, as the mean of `times`.
pub(crate) fn time(
    device: &Device,
    turns: &Turns,
    times: u32,
    work: &mut dyn FnMut() -> Result<(), String>,
) -> Result<Vec<f64>, String> {
    device.seconds(turns.warmups, work)?;
    let sample = |_| device.seconds(times, work).map(|seconds| seconds / f64::from(times));
    (0..turns.samples).map(sample).collect()
}

/// The arrays of a program, with the inputs of a seed.
pub(crate) fn arrays(
    device: &Device,
    dag: &Dag,
    loaded: &Loaded,
    seed: u64,
) -> Result<Arrays, String> {
    let input = |(number, node)| {
        let operation = &dag.node(node).operation;
        let is_positive = matches!(operation, Operation::Input { is_positive: true, .. });
        let places = 0..dag.elements(node);
        let numbers = places.map(|place| element(seed, number, place, is_positive));
        device.array(&numbers.collect::<Vec<_>>())
    };
    let outputs = dag.outputs().iter().map(|output| device.zeros(dag.elements(output.node)));
    Ok(Arrays {
        inputs: (0..).zip(dag.inputs()).map(input).collect::<Result<_, _>>()?,
        outputs: outputs.collect::<Result<_, _>>()?,
        scratch: device.zeros(loaded.scratch_places)?,
    })
}

/// Compares the outputs with the reference. Returns the number of compared elements.
pub(crate) fn check(device: &Device, dag: &Dag, arrays: &Arrays, seed: u64) -> Result<u64, String> {
    let mut reference = Reference::new(dag, seed);
    let mut checked = 0;
    for (output, array) in dag.outputs().iter().zip(&arrays.outputs) {
        let numbers = device.numbers(array)?;
        for place in places(dag.elements(output.node)) {
            let index = reference.index(output.node, place);
            let right = reference.value(output.node, &index);
            let found = usize::try_from(place).ok().and_then(|place| numbers.get(place));
            let found = f64::from(*found.ok_or("an output is too short")?);
            // A comparison with NaN fails.
            let is_near = (found - right.value).abs() <= right.error;
            if !is_near {
                return Err(format!(
                    "the result is wrong: {} at {place} is {found}, not {} within {}",
                    output.node, right.value, right.error
                ));
            }
            checked += 1;
        }
    }
    Ok(checked)
}

/// The elements that are compared: all of a small array, of a large one the first, the last and
/// some between, at distances that no size of a tile divides.
fn places(elements: u64) -> BTreeSet<u64> {
    if elements <= CHECKED_MAX {
        return (0..elements).collect();
    }
    let distance = (elements / CHECKED_MAX) | 1;
    let between = (0..CHECKED_MAX).map(|at| (at * distance + at * at % 251) % elements);
    between.chain([0, elements - 1]).collect()
}
