//! `Lake`: the questions to a lake, and its upkeep.

use std::fmt::Write as _;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use steplake::info;
use steplake::lake::SnapshotId;
use steplake::measurement::MeasureRequest;
use steplake::query::{self, EngineOptions, QueryError, Statement};
use steplake::verification::VerifyOptions;

use crate::compilers::measurement::{MeasureReport, measured_space, measured_states, run_measure};
use crate::interpreter::errors::{PendingException, raise};
use crate::interpreter::progress::Progress;
use crate::interpreter::runtime::{blocking, wait_for};
use crate::lakes::answer::Answer;
use crate::lakes::engines::Engines;
use crate::lakes::listed::{NamedQuery, Relation};
use crate::lakes::parameters::values;
use crate::lakes::states::state_id;
use crate::lakes::upkeep::{
    BackfillReport, Counting, DedupReport, Verification, run_backfill, run_compact, run_dedup,
    run_verify,
};

/// The most rows of a batch of an answer: each costs Python a call for each column.
const BATCH_ROWS: NonZeroUsize = NonZeroUsize::new(32_768).unwrap();

/// The usual number of samples of a state, as for the command.
const SAMPLES: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// One text, or several.
#[derive(FromPyObject)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn list(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::More(texts) => texts,
        }
    }
}

/// A lake that is read.
#[pyclass(frozen, subclass, module = "steplake._steplake")]
pub(crate) struct Lake {
    engines: Engines,
    memory_bytes_max: Option<NonZeroUsize>,
    progress: Option<bool>,
}

impl Lake {
    fn statement(
        &self,
        py: Python<'_>,
        text: &str,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Answer> {
        let values = params.map(values).transpose()?.unwrap_or_default();
        let statement = Statement { text: text.to_owned(), values, ..Statement::default() };
        Answer::new(py, self.engines.get(py)?, statement, self.progress)
    }
}

#[pymethods]
impl Lake {
    #[new]
    #[pyo3(signature = (path, snapshot=None, *, context=None, memory=None, progress=None))]
    fn new(
        path: PathBuf,
        snapshot: Option<i64>,
        context: Option<String>,
        memory: Option<usize>,
        progress: Option<bool>,
    ) -> PyResult<Self> {
        let memory_bytes_max = match memory {
            Some(bytes) => Some(NonZeroUsize::new(bytes).ok_or_else(|| {
                raise(PendingException::usage(
                    "a query needs some memory: give a number of bytes above 0",
                ))
            })?),
            None => None,
        };
        let batch_rows = Some(BATCH_ROWS);
        let options = EngineOptions { memory_bytes_max, batch_rows, ..EngineOptions::default() };
        let engines = Engines::new(path, context, snapshot, options);
        let lake = Self { engines, memory_bytes_max, progress };
        // A mistake in the path, or a snapshot that is gone, shows here.
        lake.engines.read_all()?;
        Ok(lake)
    }

    /// The folder of the lake.
    #[getter]
    fn path(&self) -> PathBuf {
        self.engines.path().to_owned()
    }

    /// The folder of the one context.
    #[getter]
    fn _folder(&self) -> PyResult<PathBuf> {
        Ok(self.engines.lake()?.path().to_owned())
    }

    /// The names of the contexts that are read: what was recorded with one compiler and one action
    /// space each.
    #[getter]
    fn contexts(&self) -> PyResult<Vec<String>> {
        Ok(self.engines.read_all()?.into_iter().map(|(name, _)| name).collect())
    }

    /// Return the lake with one of its contexts alone.
    ///
    /// Raises
    /// ------
    /// UsageError
    ///     If the lake has no such context.
    ///
    /// Examples
    /// --------
    /// >>> len(lake.context("llvm-v0").contexts)
    /// 1
    fn context<'py>(slf: &Bound<'py, Self>, name: String) -> PyResult<Bound<'py, PyAny>> {
        let (own, options) = (slf.get(), PyDict::new(slf.py()));
        options.set_item("context", name)?;
        options.set_item("memory", own.memory_bytes_max.map(NonZeroUsize::get))?;
        options.set_item("progress", own.progress)?;
        slf.get_type().call((own.path(), own.snapshot()), Some(&options))
    }

    /// The number of the snapshot that is read; None for the newest rows.
    #[getter]
    fn snapshot(&self) -> Option<i64> {
        self.engines.snapshot()
    }

    /// Ask a question in SQL.
    ///
    /// Parameters
    /// ----------
    /// query : str
    ///     One statement: SELECT, EXPLAIN, SHOW or DESCRIBE.
    /// params : list or dict, optional
    ///     The values of ``?`` and ``$1``, or of ``$name``: bool, int, float, str, bytes or None.
    ///
    /// Returns
    /// -------
    /// Answer
    ///     Nothing runs before its rows are asked for.
    ///
    /// Raises
    /// ------
    /// QueryError
    ///     If the text is wrong; the message says where.
    /// NotDeduplicated
    ///     If the question needs the state transitions, and no dedup has counted any.
    ///
    /// Examples
    /// --------
    /// >>> count = "SELECT count(*) FROM steps WHERE action = ?"
    /// >>> lake.sql(count, [3]).fetchone()
    /// (12,)
    #[pyo3(signature = (query, params=None))]
    fn sql(
        &self,
        py: Python<'_>,
        query: &str,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Answer> {
        self.statement(py, query, params)
    }

    /// Ask a named query; `queries` lists them.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     The name of the query.
    /// **params
    ///     The values of its parameters.
    ///
    /// Raises
    /// ------
    /// UsageError
    ///     If there is no such query or parameter.
    /// NotInLake
    ///     If a value names what the lake does not have.
    #[pyo3(signature = (name, **params))]
    fn query(
        &self,
        py: Python<'_>,
        name: String,
        params: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Answer> {
        let mut values = Vec::new();
        for (name, value) in params.into_iter().flatten() {
            values.push((name.extract::<String>()?, value.str()?.to_string()));
        }
        let engine = self.engines.get(py)?;
        let asked = Arc::clone(&engine);
        let statement =
            wait_for(
                py,
                &Progress::none(),
                async move { asked.named_statement(&name, &values).await },
            )?;
        Answer::new(py, engine, statement, self.progress)
    }

    /// The named queries, each with its parameters.
    #[staticmethod]
    fn queries() -> Vec<NamedQuery> {
        query::NamedQuery::list().iter().map(NamedQuery::new).collect()
    }

    /// The tables and views, each with its description, rows and columns.
    #[getter]
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<Relation>> {
        let engine = self.engines.get(py)?;
        let relations = wait_for(py, &Progress::none(), async move { engine.relations().await })?;
        Ok(relations.into_iter().map(Relation::new).collect())
    }

    /// The observation spaces of the lake, each with the names of the numbers of a vector; others
    /// have none.
    #[getter]
    fn observation_spaces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (snapshot, spaces) = (self.engines.read()?, PyDict::new(py));
        for space in &snapshot.identity().observations {
            spaces.set_item(&space.name, &space.features)?;
        }
        Ok(spaces)
    }

    /// The snapshots of the lake, oldest first.
    fn snapshots(&self, py: Python<'_>) -> PyResult<Answer> {
        self.statement(py, "SELECT * FROM snapshots ORDER BY snapshot_id", None)
    }

    /// What the lake is and holds: environment, compiler, spaces, tables, runs, as a dict.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let info = info::json(&self.engines.read()?).map_err(|error| raise(error.into()))?;
        py.import("json")?.call_method1("loads", (info.to_string(),))
    }

    /// Return the IR of a state as text; it is rebuilt if the lake does not store it.
    ///
    /// Parameters
    /// ----------
    /// state : str or bytes
    ///     The id of the state: 40 hexadecimal digits, or 20 bytes.
    ///
    /// Raises
    /// ------
    /// NoSuchState
    ///     If the lake does not have the state, or was not meant to keep its IR.
    fn ir(&self, py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<String> {
        let state = state_id(state)?;
        let engine = self.engines.get(py)?;
        let text = format!(
            "SELECT ir(state_id) AS ir FROM observations WHERE state_id = '{state}' LIMIT 1"
        );
        let found: Option<Option<String>> = wait_for(py, &Progress::none(), async move {
            use futures::TryStreamExt as _;
            let batches: Vec<_> = engine.sql(&text).await?.try_collect().await?;
            let column =
                batches.iter().find(|batch| batch.num_rows() > 0).map(|batch| batch.column(0));
            Ok::<_, QueryError>(column.map(|column| crate::lakes::batches::text(column, 0)))
        })?;
        match found {
            Some(Some(text)) => Ok(text),
            Some(None) => Err(raise(PendingException::new(
                "NoSuchState",
                format!("the lake has state {state} without its IR, and was not meant to keep it"),
            ))),
            None => Err(raise(PendingException::new(
                "NoSuchState",
                format!("the lake at {} has no state {state}", self.engines.path().display()),
            ))),
        }
    }

    /// Write the rows of closed episodes to Parquet, and return their number.
    ///
    /// Raises
    /// ------
    /// LakeBusy
    ///     If somebody is recording into the lake, who seals as well.
    fn seal(&self, py: Python<'_>) -> PyResult<u64> {
        let lake = self.engines.lake()?;
        let seal = move || lake.writer()?.seal();
        // Who stops waiting leaves the seal to end by itself.
        let report = wait_for(py, &Progress::none(), blocking(seal))?;
        Ok(report.rows)
    }

    /// Seal what is closed, and merge the small files of the recorded tables, so that look-ups open
    /// few files. Returns how many files were merged.
    ///
    /// Earlier snapshots have the old files until ``steplake expire`` and ``steplake gc``.
    ///
    /// Raises
    /// ------
    /// LakeBusy
    ///     If somebody records into the lake or maintains it.
    fn compact(&self, py: Python<'_>) -> PyResult<u64> {
        run_compact(py, &self.engines.lake()?, self.progress)
    }

    /// Seal what is closed, and count the steps that are not counted yet as state transitions.
    ///
    /// Parameters
    /// ----------
    /// full : bool, optional
    ///     Count all steps anew.
    /// counted : str or os.PathLike, optional
    ///     Seal nothing, and take the tables in this folder, which
    ///     ``steplake.spark.deduplicate`` wrote, in place of all that the lake has. Each row is
    ///     compared with the lake's steps. Steps that were sealed since stay uncounted.
    ///
    /// Raises
    /// ------
    /// UsageError
    ///     If `full` and `counted` are both given.
    /// LakeError
    ///     If these are not the tables of the steps of the lake; the message says why. The lake is
    ///     unchanged.
    /// LakeBusy
    ///     If somebody maintains the lake.
    #[pyo3(signature = (*, full=false, counted=None))]
    fn dedup(&self, py: Python<'_>, full: bool, counted: Option<PathBuf>) -> PyResult<DedupReport> {
        let how = match (full, counted) {
            (true, Some(_)) => {
                let said = "`counted` takes tables that are counted, and `full` counts: give one";
                return Err(raise(PendingException::usage(said)));
            }
            (_, Some(folder)) => Counting::Elsewhere(folder),
            (full, None) => Counting::Here { full },
        };
        run_dedup(py, &self.engines.lake()?, &how, self.progress)
    }

    /// Compute observations that states of the lake lack, by replay, on all cores.
    ///
    /// Later runs record these spaces by default. After an interruption or a kill, the same call
    /// continues.
    ///
    /// Parameters
    /// ----------
    /// spaces : str or list of str
    ///     The observation spaces, such as ``"Programl"``.
    /// jobs : int, optional
    ///     The number of worker processes; by default the number of cores.
    ///
    /// Returns
    /// -------
    /// BackfillReport
    ///     The states that have the observations now, and those left out; printed, a line about
    ///     both.
    ///
    /// Raises
    /// ------
    /// UsageError
    ///     If the environment has no such space.
    /// LakeBusy
    ///     If somebody records into the lake or maintains it.
    #[pyo3(signature = (spaces, *, jobs=None))]
    fn backfill(
        &self,
        py: Python<'_>,
        spaces: OneOrMore,
        jobs: Option<NonZeroUsize>,
    ) -> PyResult<BackfillReport> {
        run_backfill(py, &self.engines.lake()?, &spaces.list(), jobs, self.progress)
    }

    /// Run programs of recorded states on this machine, and record how long they take.
    ///
    /// Each state is rebuilt, compiled and run; its samples become a row of the table
    /// ``measurements``, and the named query ``speedups`` compares them. The states of one program
    /// take turns, and its first state is always among them. The rows of a program are durable when
    /// its last sample has been taken, and stay after Ctrl-C.
    ///
    /// Parameters
    /// ----------
    /// space : {"Runtime", "Buildtime"}, optional
    ///     What is measured.
    /// states : {"best", "best=N", "initial", "all"}, optional
    ///     Which states of each program besides its first one: the one, or the N, with the lowest
    ///     `cost`; none; or all that were reached.
    /// cost : str, optional
    ///     The space in which ``best`` is the lowest; by default the cost of the first reward.
    /// benchmarks : str or list of str, optional
    ///     URIs of programs, and patterns of them; by default all.
    /// samples : int, optional
    ///     The number of samples of each state.
    /// warmups : int, optional
    ///     The number of times before them, which are left out.
    /// cpu : int, optional
    ///     The core on which programs run; by default any. Builds use any.
    /// machine : str, optional
    ///     A name for this machine, where its kind alone does not tell it from others.
    ///
    /// Returns
    /// -------
    /// MeasureReport
    ///     What was measured, and why some states have no row; printed, it is the report.
    ///
    /// Raises
    /// ------
    /// UsageError
    ///     If no program was chosen that can be run.
    /// LakeBusy
    ///     If somebody records into the lake.
    #[expect(clippy::too_many_arguments, reason = "as many as the command has")]
    #[pyo3(signature = (
        space="Runtime", *, states="best", cost=None, benchmarks=None,
        samples=SAMPLES, warmups=1, cpu=None, machine=None,
    ))]
    fn measure(
        &self,
        py: Python<'_>,
        space: &str,
        states: &str,
        cost: Option<String>,
        benchmarks: Option<OneOrMore>,
        samples: NonZeroU32,
        warmups: u32,
        cpu: Option<usize>,
        machine: Option<String>,
    ) -> PyResult<MeasureReport> {
        let request = MeasureRequest {
            space: measured_space(space)?,
            states: measured_states(states)?,
            cost,
            benchmarks: benchmarks.map(OneOrMore::list).unwrap_or_default(),
            samples,
            warmups,
            cpu,
            machine,
            how_run: None,
        };
        run_measure(py, &self.engines.lake()?, &request, self.progress)
    }

    /// Check every byte of the lake, and every state id that its compiler can recompute.
    ///
    /// Parameters
    /// ----------
    /// replay : int, optional
    ///     How many random transitions to play again in the live environment.
    /// semantics : int, optional
    ///     How many random states of runnable programs to build and run. What differs from the
    ///     first state is minimised, becomes a row of the table ``miscompilations``, and is said in
    ///     the report.
    /// seed : int, optional
    ///     Fixes which ones.
    /// derived : bool, optional
    ///     Count the steps again, and compare each row of the derived tables with what follows.
    /// repair : bool, optional
    ///     Drop what is damaged first.
    ///
    /// Returns
    /// -------
    /// Verification
    ///     True if nothing is wrong; printed, it is the report.
    #[pyo3(signature = (*, replay=None, semantics=None, seed=0, derived=false, repair=false))]
    fn verify(
        &self,
        py: Python<'_>,
        replay: Option<usize>,
        semantics: Option<usize>,
        seed: i64,
        derived: bool,
        repair: bool,
    ) -> PyResult<Verification> {
        let snapshot = self.engines.snapshot().map(SnapshotId);
        let options =
            VerifyOptions { snapshot, replay, semantics, seed, derived, repair, how_run: None };
        run_verify(py, &self.engines.lake()?, &options, self.progress)
    }

    /// Lets go of the lake's files, so that they can be deleted. An answer whose rows are not read
    /// to the end keeps its own.
    fn close(&self) {
        self.engines.close();
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.engines.close();
    }

    /// Pickles as path, snapshot and options.
    fn __reduce__<'py>(
        this: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let lake = this.get();
        let class: Bound<'py, PyType> = this.get_type();
        let memory = lake.memory_bytes_max.map(NonZeroUsize::get);
        let keywords = PyDict::new(py);
        keywords.set_item("context", lake.engines.context())?;
        keywords.set_item("memory", memory)?;
        keywords.set_item("progress", lake.progress)?;
        let partial = py.import("functools")?.getattr("partial")?;
        let open = partial.call((class,), Some(&keywords))?;
        let arguments = (lake.path(), lake.snapshot()).into_pyobject(py)?;
        Ok((open, arguments.into_any()))
    }

    fn __repr__(&self) -> String {
        let mut arguments = format!("{:?}", self.engines.path().display().to_string());
        if let Some(number) = self.engines.snapshot() {
            let _ = write!(arguments, ", snapshot={number}");
        }
        if let Some(context) = self.engines.context() {
            let _ = write!(arguments, ", context={context:?}");
        }
        format!("steplake.open({arguments})")
    }
}
