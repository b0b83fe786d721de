//! `Benchmark`: a program with its name.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use steplake::model::{self, BenchmarkUri};

use crate::errors::{Failure, raise};

/// A program with its name and where it comes from.
#[pyclass(frozen, module = "steplake")]
pub(crate) struct Benchmark {
    pub(crate) benchmark: model::Benchmark,
}

impl Benchmark {
    pub(crate) fn of(benchmark: model::Benchmark) -> Self {
        Self { benchmark }
    }
}

#[pymethods]
impl Benchmark {
    #[new]
    #[pyo3(signature = (uri, program, *, family="", licence=""))]
    fn new(uri: &str, program: &[u8], family: &str, licence: &str) -> PyResult<Self> {
        let uri: BenchmarkUri = uri.parse().map_err(|error: model::BenchmarkUriError| {
            raise(Failure::new("BadBenchmark", error.to_string()))
        })?;
        let provenance = model::Provenance {
            family: family.to_owned(),
            licence: licence.to_owned(),
            ..model::Provenance::default()
        };
        let benchmark = model::Benchmark { uri, program: program.into(), provenance };
        Ok(Self::of(benchmark))
    }

    #[getter]
    fn uri(&self) -> &str {
        self.benchmark.uri.as_str()
    }

    #[getter]
    fn program<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.benchmark.program)
    }

    #[getter]
    fn family(&self) -> &str {
        &self.benchmark.provenance.family
    }

    #[getter]
    fn licence(&self) -> &str {
        &self.benchmark.provenance.licence
    }

    #[getter]
    fn origin(&self) -> &str {
        &self.benchmark.provenance.origin
    }

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
        this: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (own, keywords) = (this.get(), PyDict::new(py));
        keywords.set_item("family", own.family())?;
        keywords.set_item("licence", own.licence())?;
        let partial = py.import("functools")?.getattr("partial")?;
        let make = partial.call((this.get_type(),), Some(&keywords))?;
        Ok((make, (own.uri(), own.program(py)).into_pyobject(py)?.into_any()))
    }
}
