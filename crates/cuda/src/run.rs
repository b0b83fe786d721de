//! A state on the device: inputs, the check of what it computes, and then its time.

use clap::Args;
use steplake::env::loops::check::{self, Mismatch};
use steplake::env::loops::cuda::CudaSource;
use steplake::env::loops::dag::{Dag, Operation};
use steplake::env::loops::reference::element;
use steplake::env::loops::state::LoopsState;
use steplake::measure::KernelError;

use crate::device::{Arrays, Device};

/// How often what is measured is run.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Turns {
    /// The number of timed runs.
    #[arg(
        long,
        default_value = "30",
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    pub(crate) samples: u32,

    /// The number of runs before them.
    #[arg(long, default_value = "5", value_name = "N")]
    pub(crate) warmups: u32,

    /// The seed of the inputs.
    #[arg(long, default_value = "0", value_name = "S")]
    pub(crate) seed: u64,
}

/// What a run found.
#[derive(Debug)]
pub(crate) struct RunResult {
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
pub(crate) fn run(device: &Device, state: &LoopsState, turns: &Turns) -> Result<RunResult, String> {
    let source = CudaSource::of(state);
    let loaded = device.load(&source)?;
    let mut arrays = arrays(device, &state.dag, loaded.scratch_places, turns.seed)?;
    device.launch(&loaded, &mut arrays)?;
    let wrong = |error: KernelError| error.to_string();
    let checked = check(device, &state.dag, &arrays, turns.seed).map_err(wrong)?;
    let samples_s = time(device, turns, 1, &mut || device.launch(&loaded, &mut arrays))?;
    check(device, &state.dag, &arrays, turns.seed)
        .map_err(|what| format!("after the timed runs, {what}"))?;
    Ok(RunResult { samples_s, checked, kernels: source.digest() })
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
    scratch_places: u64,
    seed: u64,
) -> Result<Arrays, String> {
    let input = |(number, node)| {
        let operation = &dag.node(node).operation;
        let is_positive = matches!(operation, Operation::Input { is_positive: true, .. });
        let places = 0..dag.elements(node);
        let numbers = places.map(|place| element(seed, number, place, is_positive));
        device.array(&numbers.collect::<Vec<_>>())
    };
    // What a kernel leaves out is no number, and so is a sum that it does not begin.
    let nothing = |places: u64| {
        let places = usize::try_from(places).map_err(|error| error.to_string())?;
        device.array(&vec![f32::NAN; places.max(1)])
    };
    let outputs = dag.outputs().iter().map(|output| nothing(dag.elements(output.node)));
    Ok(Arrays {
        inputs: (0..).zip(dag.inputs()).map(input).collect::<Result<_, _>>()?,
        outputs: outputs.collect::<Result<_, _>>()?,
        scratch: nothing(scratch_places)?,
    })
}

/// Compares elements of the outputs with the reference. Returns how many.
///
/// # Errors
///
/// [`KernelError::Wrong`], [`KernelError::Unchecked`], or that the device refuses.
pub(crate) fn check(
    device: &Device,
    dag: &Dag,
    arrays: &Arrays,
    seed: u64,
) -> Result<u64, KernelError> {
    let outputs = arrays.outputs.iter().map(|array| device.numbers(array));
    let outputs = outputs.collect::<Result<Vec<_>, _>>().map_err(KernelError::Device)?;
    let shown = check::elements(dag, seed);
    let number = |&(output, place): &(usize, u64)| {
        outputs.get(output)?.get(usize::try_from(place).ok()?).copied()
    };
    let found = shown.iter().map(number).collect::<Option<Vec<_>>>();
    let found = found.ok_or_else(|| KernelError::Wrong("an output is too short".to_owned()))?;
    check::compare(dag, seed, &shown, &found).map_err(|mismatch| match mismatch {
        Mismatch::Wrong(what) => KernelError::Wrong(what),
        Mismatch::Unchecked => KernelError::Unchecked(mismatch.to_string()),
    })?;
    Ok(shown.len() as u64)
}
