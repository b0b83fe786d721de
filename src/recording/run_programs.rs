//! Programs of which the caller says how they are run.

use crate::Error;
use crate::environments::catalogue::Catalogue;
use crate::generate::ProgramProvider;
use crate::model::{Baselines, Benchmark, BenchmarkUri, Execution};

/// The programs of a catalogue. They are built and run as `execution` says, if there is one.
pub(super) struct RunPrograms<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) execution: Option<&'a Execution>,
}

impl ProgramProvider for RunPrograms<'_> {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, Error> {
        let mut benchmark = self.catalogue.load(uri)?;
        if let Some(execution) = self.execution {
            benchmark.execution = Some(execution.clone());
        }
        Ok(benchmark)
    }

    fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        self.catalogue.baselines(benchmark)
    }

    fn keep_baselines(&self, benchmark: &Benchmark, baselines: &Baselines) {
        self.catalogue.keep_baselines(benchmark, baselines);
    }
}
