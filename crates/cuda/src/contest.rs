//! Schedules of one program on the device, with the check of what each computes.

use serde_json::{Value, json};
use steplake::env::loops::costs::Costs;
use steplake::env::loops::cuda::CudaSource;
use steplake::env::loops::dag::Dag;
use steplake::env::loops::programs::program;
use steplake::env::loops::state::LoopsState;

use crate::device::{Arrays, Device, Loaded};
use crate::rounds::Times;
use crate::run::{arrays, check};
use crate::schedules::NamedSchedule;

/// A schedule that is ready to run.
#[derive(Debug)]
struct Entrant {
    named: NamedSchedule,
    loaded: Loaded,
    digest: String,
}

/// Schedules of one program, and its arrays, which they share.
#[derive(Debug)]
pub(crate) struct Contest {
    entrants: Vec<Entrant>,
    dag: Dag,
    /// The arrays of the program.
    pub(crate) arrays: Arrays,
    /// The seed of the inputs.
    seed: u64,
    /// The elements of the outputs that were compared with the reference.
    checked: u64,
    operations: u64,
    bytes: u64,
}

impl Contest {
    /// Compiles schedules, runs each once, and compares the result with the reference.
    ///
    /// # Errors
    ///
    /// If the device refuses, or a result is wrong.
    pub(crate) fn new(
        device: &Device,
        schedules: Vec<NamedSchedule>,
        seed: u64,
    ) -> Result<Self, String> {
        let first = schedules.first().ok_or("there is no schedule to measure")?;
        let start = LoopsState::initial(program(&first.program)?);
        let (operations, bytes) = {
            let costs = Costs::new(&start);
            (costs.operations(), costs.compulsory_bytes())
        };
        let mut entrants = Vec::new();
        for named in schedules {
            let source = CudaSource::of(&named.state()?);
            let loaded = device.load(&source)?;
            entrants.push(Entrant { named, loaded, digest: source.digest() });
        }
        let dag = (*start.dag).clone();
        let scratch = entrants.iter().map(|entrant| entrant.loaded.scratch_places).max();
        let arrays = arrays(device, &dag, scratch.unwrap_or(0), seed)?;
        let mut contest = Self { entrants, dag, arrays, seed, checked: 0, operations, bytes };
        for which in 0..contest.len() {
            let name = contest.entrants[which].named.name.clone();
            contest.checked(device, &mut |contest| contest.launch(device, which)).map_err(
                |what| format!("{} ({name}): {what}", contest.entrants[which].named.program),
            )?;
        }
        Ok(contest)
    }

    /// Runs something that computes the program into its arrays, and compares the result with the
    /// reference.
    ///
    /// # Errors
    ///
    /// If the device refuses, or the result is wrong.
    pub(crate) fn checked(
        &mut self,
        device: &Device,
        launch: &mut dyn FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        // What an earlier run wrote must not count.
        self.arrays.outputs.iter_mut().try_for_each(|output| device.clear(output))?;
        launch(self)?;
        let checked = check(device, &self.dag, &self.arrays, self.seed);
        self.checked = checked.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// The number of schedules.
    pub(crate) fn len(&self) -> usize {
        self.entrants.len()
    }

    /// Launches a schedule once.
    ///
    /// # Errors
    ///
    /// If the device refuses.
    pub(crate) fn launch(&mut self, device: &Device, which: usize) -> Result<(), String> {
        device.launch(&self.entrants[which].loaded, &mut self.arrays)
    }

    /// The operations of the program in a second, in thousands of millions.
    pub(crate) fn gflops(&self, times: Times) -> f64 {
        times.billions_per_s(self.operations)
    }

    /// The bytes of inputs and outputs in a second, in thousands of millions.
    pub(crate) fn gb_per_s(&self, times: Times) -> f64 {
        times.billions_per_s(self.bytes)
    }

    /// What is said of a schedule.
    pub(crate) fn line(&self, bench: &str, which: usize, times: Times) -> Value {
        let Entrant { named, digest, .. } = &self.entrants[which];
        json!({
            "bench": bench,
            "program": named.program,
            "schedule": named.name,
            "actions": named.actions,
            "kernel_digest": digest,
            "checked": self.checked,
            "seed": self.seed,
            "best_s": times.best_s,
            "median_s": times.median_s,
            "gflops": self.gflops(times),
            "gb_per_s": self.gb_per_s(times),
        })
    }
}
