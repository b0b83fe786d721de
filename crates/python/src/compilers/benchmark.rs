//! `Benchmark`: a program with its name.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use steplake::model::{self, BenchmarkUri};

use crate::interpreter::errors::{PendingException, raise};

/// A program with its name and where it comes from.
#[pyclass(frozen, module = "steplake")]
pub(crate) struct Benchmark {
    pub(crate) benchmark: model::Benchmark,
    /// Whether the caller has named the program, and not a dataset.
    pub(crate) is_named_by_caller: bool,
}

impl Benchmark {
    pub(crate) fn of(benchmark: model::Benchmark) -> Self {
        Self { benchmark, is_named_by_caller: false }
    }
}

fn parse(uri: &str) -> PyResult<BenchmarkUri> {
    uri.parse().map_err(|error: model::BenchmarkUriError| {
        raise(PendingException::new("BadBenchmark", error.to_string()))
    })
}

/// Returns the benchmark that was pickled as these parts.
#[pyfunction]
pub(crate) fn unpickled_benchmark(
    uri: &str,
    program: &[u8],
    provenance: [String; 4],
    execution: Option<&str>,
    is_named_by_caller: bool,
) -> PyResult<Benchmark> {
    let [family, licence, origin, compile_command] = provenance;
    let provenance = model::Provenance { family, licence, origin, compile_command };
    let execution = execution.map(model::Execution::from_json).transpose();
    let execution =
        execution.map_err(|error| raise(PendingException::new("BadBenchmark", error)))?;
    let benchmark =
        model::Benchmark { uri: parse(uri)?, program: program.into(), provenance, execution };
    Ok(Benchmark { benchmark, is_named_by_caller })
}

#[pymethods]
impl Benchmark {
    #[new]
    #[pyo3(signature = (uri, program, *, family="", licence=""))]
    fn new(uri: &str, program: &[u8], family: &str, licence: &str) -> PyResult<Self> {
        let uri = parse(uri)?;
        let provenance = model::Provenance {
            family: family.to_owned(),
            licence: licence.to_owned(),
            ..model::Provenance::default()
        };
        let benchmark =
            model::Benchmark { uri, program: program.into(), provenance, execution: None };
        Ok(Self { benchmark, is_named_by_caller: true })
    }

    /// The URI that names it.
    #[getter]
    fn uri(&self) -> &str {
        self.benchmark.uri.as_str()
    }

    /// The program as the compiler reads it; for LLVM, bitcode.
    #[getter]
    fn program<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.benchmark.program)
    }

    /// The family of the program, such as ``csmith``: the unit of train and test splits.
    #[getter]
    fn family(&self) -> &str {
        &self.benchmark.provenance.family
    }

    /// The licence, as an SPDX expression if it is known as one.
    #[getter]
    fn licence(&self) -> &str {
        &self.benchmark.provenance.licence
    }

    /// Where the source was taken from.
    #[getter]
    fn origin(&self) -> &str {
        &self.benchmark.provenance.origin
    }

    /// The command that made the program from its source.
    #[getter]
    fn compile_command(&self) -> &str {
        &self.benchmark.provenance.compile_command
    }

    fn __repr__(&self) -> String {
        format!("Benchmark('{}', {} bytes)", self.uri(), self.benchmark.program.len())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.benchmark == other.benchmark
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.uri().into_pyobject(py)?.hash()
    }

    /// Pickles as its parts.
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let of = &self.benchmark.provenance;
        let program = self.program(py);
        let texts = [&of.family, &of.licence, &of.origin, &of.compile_command];
        let execution = self.benchmark.execution.as_ref().map(model::Execution::to_json);
        let parts = (self.uri(), program, texts, execution, self.is_named_by_caller);
        let unpickled = py.import("steplake._steplake")?.getattr("unpickled_benchmark")?;
        Ok((unpickled, parts.into_pyobject(py)?))
    }
}
