//! Schedules beside what a GPU has otherwise: copies of memory, and `cuBLAS`.

use serde_json::{Map, Value, json};

use crate::contest::Contest;
use crate::copies::Copies;
use crate::device::Device;
use crate::rounds::{Rounds, take_turns};
use crate::schedules::{adds, products, swept};

/// The launches of a CUDA graph.
const GRAPH_LAUNCHES: u32 = 64;

/// Measures copies of arrays of so many bytes.
///
/// # Errors
///
/// If the device refuses, or a copy is wrong.
pub(crate) fn copy(device: &Device, bytes: u64, rounds: Rounds) -> Result<Value, String> {
    let mut copies = Copies::new(device, bytes / 4, rounds.seed)?;
    let count = copies.copiers.len();
    let times =
        take_turns(device, count, rounds.rounds, &mut |which| copies.launch(device, which))?;
    let each = copies.copiers.iter().zip(&times).map(|((name, _), times)| {
        ((*name).to_owned(), Value::from(times.billions_per_s(2 * bytes)))
    });
    let (name, speed) = copies.best(&times);
    Ok(json!({
        "bench": "copy",
        "array_bytes": bytes,
        "gb_per_s_of": each.collect::<Map<_, _>>(),
        "best": name,
        "gb_per_s": speed,
    }))
}

/// Measures addition in turns with copies that move as many bytes, launched one by one, and in CUDA
/// graphs, which show small sizes without the time of launches.
///
/// # Errors
///
/// If the device refuses, or a result is wrong.
pub(crate) fn add(device: &Device, elements: u64, rounds: Rounds) -> Result<Vec<Value>, String> {
    let mut contest = Contest::new(device, adds(elements), rounds.seed)?;
    // An addition moves three arrays, a copy two.
    let mut copies = Copies::new(device, elements / 2 * 3, rounds.seed)?;
    let own = contest.len();
    let mut graph = |which| device.graph(GRAPH_LAUNCHES, &mut || contest.launch(device, which));
    let graphs = (0..own).map(&mut graph).collect::<Result<Vec<_>, _>>()?;
    for graph in &graphs {
        contest.checked(device, &mut |_| graph.launch())?;
    }
    let copied = own + copies.copiers.len();
    let all = copied + own;
    let times = take_turns(device, all, rounds.rounds, &mut |which| match which {
        _ if which < own => contest.launch(device, which),
        _ if which < copied => copies.launch(device, which - own),
        _ => graphs[which - copied].launch(),
    })?;
    let (copier, copy_gb_per_s) = copies.best(&times[own..copied]);
    let line = |which: usize| {
        let mut line = contest.line("add", which, times[which]);
        line["elements"] = elements.into();
        line["graph_s"] = (times[copied + which].best_s / f64::from(GRAPH_LAUNCHES)).into();
        line["copy"] = copier.into();
        line["copy_gb_per_s"] = copy_gb_per_s.into();
        line["ratio"] = (contest.gb_per_s(times[which]) / copy_gb_per_s).into();
        line
    };
    Ok((0..own).map(line).collect())
}

/// Measures the product of square matrices in turns with `cuBLAS`. Where that is not there, the
/// lines say why.
///
/// # Errors
///
/// If the device refuses, or a result is wrong.
pub(crate) fn matmul(device: &Device, size: u32, rounds: Rounds) -> Result<Vec<Value>, String> {
    let mut contest = Contest::new(device, products(size.into()), rounds.seed)?;
    let own = contest.len();
    let blas = device.blas().and_then(|blas| {
        let what = contest.checked(device, &mut |contest| blas.multiply(size, &mut contest.arrays));
        what.map(|()| blas).map_err(|what| format!("cuBLAS: {what}"))
    });
    let all = own + usize::from(blas.is_ok());
    let times = take_turns(device, all, rounds.rounds, &mut |which| match &blas {
        Ok(blas) if which == own => blas.multiply(size, &mut contest.arrays),
        _ => contest.launch(device, which),
    })?;
    let beside = times.get(own).map(|&times| contest.gflops(times));
    let about = match &blas {
        Ok(blas) => blas.describe()?,
        Err(missing) => missing.clone(),
    };
    let line = |which: usize| {
        let mut line = contest.line("matmul", which, times[which]);
        line["size"] = size.into();
        line["cublas"] = about.as_str().into();
        line["cublas_gflops"] = beside.into();
        line["ratio"] = beside.map(|beside| contest.gflops(times[which]) / beside).into();
        line
    };
    Ok((0..own).map(line).collect())
}

/// Measures addition by each of some numbers of threads, which take turns.
///
/// # Errors
///
/// If the device refuses, or a result is wrong.
pub(crate) fn sweep(
    device: &Device,
    elements: u64,
    threads: &[u64],
    rounds: Rounds,
) -> Result<Vec<Value>, String> {
    let threads = threads.iter().copied().filter(|&threads| threads <= elements);
    let threads = threads.collect::<Vec<_>>();
    if threads.is_empty() {
        return Ok(Vec::new());
    }
    let schedules = threads.iter().map(|&threads| swept(elements, threads)).collect();
    let mut contest = Contest::new(device, schedules, rounds.seed)?;
    let times = take_turns(device, contest.len(), rounds.rounds, &mut |which| {
        contest.launch(device, which)
    })?;
    let line = |(which, &threads): (usize, &u64)| {
        let mut line = contest.line("sweep", which, times[which]);
        line["elements"] = elements.into();
        line["threads"] = threads.into();
        line
    };
    Ok(threads.iter().enumerate().map(line).collect())
}
