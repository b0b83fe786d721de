//! `check_semantics`: whether a program still does what it does untouched.

use pyo3::prelude::*;
use steplake::environments::catalogue::inputs_folder;
use steplake::model::ActionIndex;
use steplake::model::line;
use steplake::semantics::{SemanticsError, Validation, validate};

use crate::compilers::benchmark::Benchmark;
use crate::compilers::environment::Environment;
use crate::interpreter::errors::{PendingException, raise};

/// Whether the meaning of a program was checked, what is wrong, and what was not checked and why.
type SemanticsResult = (bool, Vec<String>, Vec<String>);

/// Plays actions in two workers, and compares what the program does then with what it does
/// untouched.
#[pyfunction]
pub(crate) fn check_semantics(
    py: Python<'_>,
    environment: Py<Environment>,
    action_space: &str,
    benchmark: Py<Benchmark>,
    actions: Vec<u32>,
) -> PyResult<SemanticsResult> {
    let (environment, benchmark) = (environment.get(), &benchmark.get().benchmark);
    if benchmark.execution.as_ref().is_none_or(|execution| execution.run.is_none()) {
        return Ok((false, Vec::new(), vec!["nobody says how the program is run".to_owned()]));
    }
    let catalogue = environment.catalogue()?;
    let actions = actions.into_iter().map(ActionIndex).collect::<Vec<_>>();
    let done = py.detach(|| {
        let source = catalogue.source(&benchmark.uri);
        let interrupt = environment.interrupt();
        let (environment, inputs) = (environment.live.as_ref(), inputs_folder());
        match validate(environment, action_space, benchmark, source, inputs, &actions, interrupt) {
            Ok(validation) => Ok(checked(validation)),
            // That says nothing about the program.
            Err(error @ (SemanticsError::Machine(_) | SemanticsError::NoCode(_))) => {
                Ok((false, Vec::new(), vec![line(&error)]))
            }
            Err(SemanticsError::Session(error)) => Err(PendingException::from(error)),
            Err(error) => Err(PendingException::new("SteplakeError", line(&error))),
        }
    });
    done.map_err(raise)
}

fn checked(validation: Validation) -> SemanticsResult {
    let Validation { not_repeated, is_checked, remarks, difference, .. } = validation;
    let differs = difference.map(|difference| format!("after the actions, {}", difference.line()));
    (is_checked, not_repeated.into_iter().chain(differs).collect(), remarks)
}
