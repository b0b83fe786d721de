//! `Environment`: a compiler problem, its spaces and its programs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use steplake::assembly::catalogue::Catalogue;
use steplake::assembly::environments::{environment, live, worker_config};
use steplake::datasets::GivenPrograms;
use steplake::env::worker::WorkerConfig;
use steplake::generate::Programs;
use steplake::model::{EnvironmentSpec, Scale};

use crate::benchmark::Benchmark;
use crate::compiler::OwnEnvironment;
use crate::declaration::Declaration;
use crate::errors::{Failure, raise};
use crate::progress::Progress;
use crate::runtime::work_for;
use crate::session::Session;
use crate::values::kind;

/// A compiler problem. Its sessions live in worker processes; if its compiler is a Python class, in
/// this process.
#[pyclass(frozen, module = "steplake._steplake")]
pub(crate) struct Environment {
    pub(crate) live: Box<dyn steplake::env::Environment>,
    config: WorkerConfig,
    catalogue: OnceLock<Arc<Catalogue>>,
}

impl Environment {
    pub(crate) fn spec(&self) -> &EnvironmentSpec {
        self.live.spec()
    }

    /// The CPU seconds of a step, and the address space of a worker in MiB.
    pub(crate) fn limits(&self) -> (u64, u64) {
        (self.config.step_cpu_max.as_secs(), self.config.memory_bytes_max >> 20)
    }

    /// Whether the compiler is a Python class.
    pub(crate) fn is_own(&self) -> bool {
        self.catalogue.get().is_some_and(|known| matches!(**known, Catalogue::Given(_)))
    }

    /// The programs; nothing is read before they are wanted.
    pub(crate) fn catalogue(&self) -> PyResult<Arc<Catalogue>> {
        if let Some(catalogue) = self.catalogue.get() {
            return Ok(Arc::clone(catalogue));
        }
        let catalogue = Catalogue::new(self.spec(), &self.config);
        let catalogue = Arc::new(catalogue.map_err(|error| raise(error.into()))?);
        Ok(Arc::clone(self.catalogue.get_or_init(|| catalogue)))
    }
}

/// A dataset: name, URI, description, licence, size, and a pattern to begin with.
type About = (String, String, String, String, Option<u64>, String);

#[pymethods]
impl Environment {
    #[new]
    #[pyo3(signature = (name, *, step_cpu_seconds=None, worker_memory_mib=None))]
    fn new(
        name: &str,
        step_cpu_seconds: Option<u64>,
        worker_memory_mib: Option<u64>,
    ) -> PyResult<Self> {
        let mut config = worker_config();
        if let Some(seconds) = step_cpu_seconds {
            config.step_cpu_max = Duration::from_secs(seconds);
        }
        if let Some(mib) = worker_memory_mib {
            config.memory_bytes_max = mib.saturating_mul(1 << 20);
        }
        let here = environment(name).map_err(|error| raise(error.into()))?;
        let live = live(here, config.clone());
        Ok(Self { live, config, catalogue: OnceLock::new() })
    }

    /// An environment whose compiler is a Python class: `make` returns a new instance for each
    /// episode.
    #[staticmethod]
    fn own(
        make: Py<PyAny>,
        class_name: String,
        declaration: Declaration,
        programs: Vec<(String, Vec<u8>)>,
    ) -> PyResult<Self> {
        let wrong = |problem: String| raise(Failure::usage(format!("{class_name}: {problem}")));
        let spec = declaration.spec().map_err(wrong)?;
        let programs = programs.into_iter().map(|(name, program)| (name, program.into()));
        let programs = GivenPrograms::new(&spec.name, programs);
        let catalogue = Catalogue::Given(programs.map_err(|error| raise(error.into()))?);
        let live = Box::new(OwnEnvironment::new(spec, class_name, make));
        let catalogue = OnceLock::from(Arc::new(catalogue));
        Ok(Self { live, config: worker_config(), catalogue })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.spec().name
    }

    #[getter]
    fn compiler(&self) -> &str {
        &self.spec().compiler
    }

    #[getter]
    fn target(&self) -> &str {
        &self.spec().target
    }

    #[getter]
    fn state_space(&self) -> &str {
        &self.spec().state_space
    }

    /// The action spaces: name, and for each action its name, pipeline and flags.
    #[getter]
    fn action_spaces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let spaces = PyDict::new(py);
        for space in &self.spec().action_spaces {
            let actions = space.actions.iter().map(|action| {
                let flags = PyDict::new(py);
                flags.set_item("replayable", action.flags.replayable)?;
                flags.set_item("crashes", action.flags.crashes)?;
                flags.set_item("slow", action.flags.slow)?;
                flags.set_item("never_changes", action.flags.never_changes)?;
                Ok((action.name.clone(), action.pipeline.clone(), flags))
            });
            spaces.set_item(&space.name, actions.collect::<PyResult<Vec<_>>>()?)?;
        }
        Ok(spaces)
    }

    /// The observation spaces: name, type, names of features, whether of the benchmark alone.
    #[getter]
    fn observation_spaces(&self) -> Vec<(&str, &str, Vec<&str>, bool)> {
        let spaces = self.spec().observation_spaces.iter();
        let spaces = spaces.map(|space| {
            let features = space.features.iter().map(AsRef::as_ref).collect();
            (space.name.as_ref(), kind(space.value_type), features, space.of_benchmark)
        });
        spaces.collect()
    }

    /// The reward spaces: name, cost, and the baseline to which it is scaled.
    #[getter]
    fn reward_spaces(&self) -> Vec<(&str, &str, Option<&str>)> {
        let spaces = self.spec().reward_spaces.iter().map(|space| {
            let scale = match &space.scale {
                Scale::Absolute => None,
                Scale::Initial => Some(space.initial.as_ref()),
                Scale::Baseline(name) => Some(name.as_ref()),
            };
            (space.name.as_ref(), space.cost.as_ref(), scale)
        });
        spaces.collect()
    }

    /// Opens a session without an episode.
    fn session(&self) -> PyResult<Session> {
        Session::open(self.live.as_ref(), self.catalogue()?)
    }

    /// Returns the benchmark that a URI names.
    fn benchmark(&self, py: Python<'_>, uri: &str) -> PyResult<Benchmark> {
        let catalogue = self.catalogue()?;
        let load = || -> Result<_, Failure> {
            let uri = catalogue.one(uri).map_err(benchmark_failure)?;
            catalogue.load(&uri).map_err(|error| benchmark_failure(error.into()))
        };
        work_for(py, &Progress::none(), || {}, load).map(Benchmark::of)
    }

    /// Returns the URIs that patterns name.
    fn benchmarks(&self, py: Python<'_>, patterns: Vec<String>) -> PyResult<Vec<String>> {
        let catalogue = self.catalogue()?;
        let found = work_for(
            py,
            &Progress::none(),
            || {},
            || catalogue.expand(&patterns).map_err(benchmark_failure),
        )?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    /// The datasets: name, URI, description, licence, size and a pattern to begin with.
    fn datasets(&self) -> PyResult<Vec<About>> {
        Ok(match self.catalogue()?.as_ref() {
            Catalogue::Toy => {
                let uri = format!("generator://{}", self.spec().name);
                let example = format!("{uri}/0..9");
                let name = self.spec().name.to_string();
                let description = "Programs of the toy environment, by seed".to_owned();
                vec![(name, uri, description, "MIT".to_owned(), None, example)]
            }
            Catalogue::Given(programs) => {
                let (name, uri) = (self.spec().name.to_string(), programs.uri());
                let description = format!("The programs of {name}");
                let size = u64::try_from(programs.size()).ok();
                let first = programs.first().map(ToString::to_string);
                let about = |first| (name, uri, description, String::new(), size, first);
                first.map(about).into_iter().collect()
            }
            Catalogue::Datasets(datasets, _) => {
                let owned = str::to_owned;
                let about = datasets.about().map(|one| {
                    let (name, uri) = (owned(one.name), owned(one.uri));
                    let (description, licence) = (owned(one.description), owned(one.licence));
                    (name, uri, description, licence, one.size, owned(one.example))
                });
                about.collect()
            }
        })
    }
}

fn benchmark_failure(error: steplake::assembly::command_error::CommandError) -> Failure {
    use steplake::assembly::command_error::Code;
    match error.code() {
        Code::Usage => Failure::new("BadBenchmark", error.to_string()),
        _ => error.into(),
    }
}
