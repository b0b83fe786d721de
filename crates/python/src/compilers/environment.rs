//! `Environment`: a compiler problem, its spaces and its programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use steplake::datasets::GivenPrograms;
use steplake::env::worker::WorkerConfig;
use steplake::environments::catalogue::Catalogue;
use steplake::environments::{STEP_CPU_SECONDS, WORKER_MEMORY_MIB, live};
use steplake::generate::ProgramProvider;
use steplake::model::{BenchmarkUri, EnvironmentSpec, MachineSpace, Scale};
use steplake::program_under_test::ProgramUnderTest;
use steplake::sandbox::Interrupt;

use crate::compilers::benchmark::Benchmark;
use crate::compilers::compiler::OwnEnvironment;
use crate::compilers::declaration::Declaration;
use crate::compilers::machine::Machine;
use crate::compilers::replay::{Coverage, Replay, Request};
use crate::compilers::session::Session;
use crate::compilers::values::kind;
use crate::compilers::worker;
use crate::interpreter::errors::{PendingException, interrupt, raise};
use crate::interpreter::progress::Progress;
use crate::interpreter::runtime::{blocking, wait_for};

/// A compiler problem. Its sessions live in worker processes; if its compiler is a Python class, in
/// this process.
#[pyclass(frozen, module = "steplake._steplake")]
pub(crate) struct Environment {
    pub(crate) live: Arc<dyn steplake::env::Environment>,
    config: WorkerConfig,
    catalogue: OnceLock<Arc<Catalogue>>,
    /// For `replay-v0` alone.
    replay: Option<Replay>,
}

impl Environment {
    pub(crate) fn spec(&self) -> &EnvironmentSpec {
        self.live.spec()
    }

    /// Comes when Python has a signal for whoever waits.
    pub(crate) fn interrupt(&self) -> Interrupt {
        self.config.interrupt.clone()
    }

    /// The CPU seconds of a step, and the address space of a worker in MiB.
    pub(crate) fn limits(&self) -> (u64, u64) {
        (self.config.step_cpu_max.as_secs(), self.config.memory_bytes_max >> 20)
    }

    /// Refuses a recording of what is recorded already.
    pub(crate) fn demand_compiler(&self) -> Result<(), PendingException> {
        match self.replay {
            Some(_) => Err(PendingException::usage(
                "the steps of replay-v0 are in its lake already: with missing_edge='live' it \
                 records the compiler's own steps there by itself",
            )),
            None => Ok(()),
        }
    }

    /// The spaces that belong to the machine. A lake that answers has no code.
    fn spaces_of_machine(&self) -> &'static [MachineSpace] {
        if self.replay.is_some() { &[] } else { ProgramUnderTest::spaces(self.spec()) }
    }

    /// What this machine does with the program of a session.
    pub(crate) fn machine(&self) -> Machine {
        let (environment, interrupt) = (Arc::clone(&self.live), self.config.interrupt.clone());
        Machine::new(environment, interrupt, self.spaces_of_machine())
    }

    fn replayed(&self) -> PyResult<&Replay> {
        let problem = || PendingException::usage(format!("{} replays no lake", self.spec().name));
        self.replay.as_ref().ok_or_else(|| raise(problem()))
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
        let catalogue = match &self.replay {
            Some(replay) => replay.catalogue(&self.config),
            None => Catalogue::of(self.live.as_ref(), &self.config).map_err(PendingException::from),
        };
        let catalogue = Arc::new(catalogue.map_err(raise)?);
        Ok(Arc::clone(self.catalogue.get_or_init(|| catalogue)))
    }
}

/// Returns limits of workers that Ctrl-C interrupts too.
fn worker_limits(step_cpu_seconds: u64, memory_mib: u64) -> PyResult<WorkerConfig> {
    let limits = worker::environments().limited_worker_config(step_cpu_seconds, memory_mib);
    let limits = limits.map_err(|error| raise(error.into()))?;
    Ok(WorkerConfig { interrupt: interrupt(), ..limits })
}

/// The names of the environments of this package; the default comes first.
#[pyfunction]
pub(crate) fn environments() -> Vec<&'static str> {
    steplake::compilers::names().collect()
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
        let seconds = step_cpu_seconds.unwrap_or(STEP_CPU_SECONDS);
        let mib = worker_memory_mib.unwrap_or(WORKER_MEMORY_MIB);
        let config = worker_limits(seconds, mib)?;
        let here = worker::environments().open(name).map_err(|error| raise(error.into()))?;
        let live = Arc::from(live(here, config.clone()));
        Ok(Self { live, config, catalogue: OnceLock::new(), replay: None })
    }

    /// Opens `replay-v0` over a lake.
    #[staticmethod]
    #[pyo3(signature = (
        lake, *, context=None, snapshot=None, missing_edge="error", step_cpu_seconds=None,
        worker_memory_mib=None,
    ))]
    fn replay(
        py: Python<'_>,
        lake: PathBuf,
        context: Option<String>,
        snapshot: Option<i64>,
        missing_edge: &str,
        step_cpu_seconds: Option<u64>,
        worker_memory_mib: Option<u64>,
    ) -> PyResult<Self> {
        let request = Request {
            lake,
            context,
            snapshot,
            missing_edge: missing_edge.to_owned(),
            step_cpu_seconds: step_cpu_seconds.unwrap_or(STEP_CPU_SECONDS),
            worker_memory_mib: worker_memory_mib.unwrap_or(WORKER_MEMORY_MIB),
        };
        let (seconds, mib) = (request.step_cpu_seconds, request.worker_memory_mib);
        let config = worker_limits(seconds, mib)?;
        let open = {
            let config = config.clone();
            move || Replay::open(&request, config)
        };
        let replay = wait_for(py, &Progress::none(), blocking(open))?;
        let live = Arc::clone(&replay.cached) as Arc<dyn steplake::env::Environment>;
        Ok(Self { live, config, catalogue: OnceLock::new(), replay: Some(replay) })
    }

    /// The name of the environment whose compiler made the states.
    #[getter]
    fn recorded_name(&self) -> &str {
        self.replay.as_ref().map_or(self.name(), |replay| &replay.recorded_name)
    }

    /// The URIs of the lake's benchmarks in order; None without a lake.
    fn recorded_benchmarks(&self) -> Option<Vec<&str>> {
        let replay = self.replay.as_ref()?;
        let mut uris: Vec<_> = replay.cached.benchmarks().map(|(uri, _)| uri).collect();
        uris.sort_unstable();
        Some(uris)
    }

    /// What the sessions were asked for, and what the lake knows.
    fn coverage(&self, py: Python<'_>) -> PyResult<Coverage> {
        let replay = self.replayed()?;
        py.detach(|| Coverage::of(&replay.cached)).map_err(raise)
    }

    /// Ends what the environment records by itself, and closes all its sessions then.
    fn end_recording(&self, py: Python<'_>) -> PyResult<()> {
        let Some(replay) = &self.replay else { return Ok(()) };
        py.detach(|| replay.end()).map_err(raise)
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
        let wrong =
            |problem: String| raise(PendingException::usage(format!("{class_name}: {problem}")));
        let spec = declaration.spec().map_err(wrong)?;
        let programs = programs.into_iter().map(|(name, program)| (name, program.into()));
        let programs = GivenPrograms::new(&spec.name, programs);
        let catalogue = Catalogue::Given(programs.map_err(|error| raise(error.into()))?);
        let live = Arc::new(OwnEnvironment::new(spec, class_name, make));
        let catalogue = OnceLock::from(Arc::new(catalogue));
        Ok(Self { live, config: worker::environments().worker_config(), catalogue, replay: None })
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

    /// The names of the spaces that belong to the machine. Their places come after those of the
    /// observation spaces.
    #[getter]
    fn machine_spaces(&self) -> Vec<&'static str> {
        self.spaces_of_machine().iter().map(|space| space.name()).collect()
    }

    /// The reward spaces: name, cost, the baseline to which it is scaled, and whether it is
    /// computed only where it is wanted.
    #[getter]
    fn reward_spaces(&self) -> Vec<(&str, &str, Option<&str>, bool)> {
        let spaces = self.spec().reward_spaces.iter().map(|space| {
            let scale = match &space.scale {
                Scale::Absolute => None,
                Scale::Initial => Some(space.initial.as_ref()),
                Scale::Baseline(name) => Some(name.as_ref()),
            };
            let on_request = self.spec().is_on_request(space);
            (space.name.as_ref(), space.cost.as_ref(), scale, on_request)
        });
        spaces.collect()
    }

    /// Opens a session without an episode.
    fn session(&self) -> PyResult<Session> {
        let run = self.replay.as_ref().and_then(Replay::run);
        let session = self.live.session().map_err(|error| raise(error.into()))?;
        Ok(Session::of(session, self.spec(), self.machine(), self.catalogue()?, run))
    }

    /// Returns the benchmark that a URI names.
    fn benchmark(&self, py: Python<'_>, uri: String) -> PyResult<Benchmark> {
        let catalogue = self.catalogue()?;
        let recorded = self.replay.as_ref().map(Replay::recorded);
        let load = move || {
            let found = load(&catalogue, &uri);
            // The lake may know a program that no dataset makes.
            match recorded {
                Some(recorded) if found.is_err() && recorded.has(&uri) => load(&recorded, &uri),
                _ => found,
            }
        };
        let benchmark = wait_for(py, &Progress::none(), blocking(load))?;
        Ok(Benchmark::of(benchmark))
    }

    /// Returns the URIs that patterns name.
    fn benchmarks(&self, py: Python<'_>, patterns: Vec<String>) -> PyResult<Vec<String>> {
        let catalogue = self.catalogue()?;
        let expand = move || catalogue.expand(&patterns).map_err(PendingException::from);
        let found = wait_for(py, &Progress::none(), blocking(expand))?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    /// The datasets: name, URI, description, licence, size and a pattern to begin with.
    fn datasets(&self) -> PyResult<Vec<About>> {
        Ok(match self.catalogue()?.as_ref() {
            Catalogue::Recorded(benchmarks) => recorded(benchmarks),
            // Only the commands of `steplake` play in services.
            Catalogue::Served(_) => Vec::new(),
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

/// Describes the datasets of a lake's benchmarks.
fn recorded(benchmarks: &BTreeSet<BenchmarkUri>) -> Vec<About> {
    let mut sizes = BTreeMap::new();
    for benchmark in benchmarks {
        *sizes.entry((benchmark.dataset_uri(), benchmark.dataset())).or_default() += 1;
    }
    let about = sizes.into_iter().map(|((uri, name), size)| {
        let description = "Benchmarks of the lake".to_owned();
        (name.to_owned(), uri.to_owned(), description, String::new(), Some(size), uri.to_owned())
    });
    about.collect()
}

fn load(catalogue: &Catalogue, uri: &str) -> Result<steplake::model::Benchmark, PendingException> {
    let uri = catalogue.one(uri)?;
    Ok(catalogue.load(&uri)?)
}
