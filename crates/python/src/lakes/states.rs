//! Ids of states, as texts of 40 hexadecimal digits or as 20 bytes.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use steplake::model::StateId;

use crate::interpreter::errors::{PendingException, raise};

/// Reads the id of a state.
pub(crate) fn state_id(value: &Bound<'_, PyAny>) -> PyResult<StateId> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        let id: Result<[u8; StateId::LEN], _> = bytes.as_bytes().try_into();
        return id.map(StateId).map_err(|_length| wrong(value));
    }
    let text: String = value.extract().map_err(|_other| wrong(value))?;
    text.parse().map_err(|_other| wrong(value))
}

fn wrong(value: &Bound<'_, PyAny>) -> PyErr {
    let shown = value.repr().map_or_else(|_none| String::new(), |text| text.to_string());
    raise(PendingException::usage(format!(
        "{shown} is not a state id: give 40 hexadecimal digits, or 20 bytes"
    )))
}
