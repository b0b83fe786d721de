//! Values of a statement's parameters.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};
use steplake::model::StateId;
use steplake::query::ScalarValue;

use crate::interpreter::errors::{PendingException, raise};

/// Reads parameters: a mapping for `$name`, any other iterable for `?` and `$1`.
pub(crate) fn values(given: &Bound<'_, PyAny>) -> PyResult<Vec<(String, ScalarValue)>> {
    if let Ok(named) = given.cast::<PyDict>() {
        let named = named.iter().map(|(name, value)| Ok((name.extract()?, scalar(&value)?)));
        return named.collect();
    }
    if given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>() {
        return Err(raise(PendingException::usage(
            "give the parameters as a list, for `?` and `$1`, or as a dict, for `$name`",
        )));
    }
    given.try_iter()?.map(|value| Ok((String::new(), scalar(&value?)?))).collect()
}

fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    if value.is_none() {
        return Ok(ScalarValue::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(ScalarValue::from(value.extract::<bool>()?));
    }
    if value.is_instance_of::<PyInt>() || value.hasattr("__index__")? {
        return Ok(ScalarValue::from(value.extract::<i64>()?));
    }
    if value.is_instance_of::<PyFloat>() || value.hasattr("__float__")? {
        return Ok(ScalarValue::from(value.extract::<f64>()?));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(ScalarValue::from(text.to_str()?));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return Ok(match i32::try_from(bytes.len()) {
            Ok(length) if bytes.len() == StateId::LEN => {
                ScalarValue::FixedSizeBinary(length, Some(bytes.to_vec()))
            }
            _ => ScalarValue::Binary(Some(bytes.to_vec())),
        });
    }
    let class = value.get_type().name()?.to_string();
    Err(raise(PendingException::usage(format!(
        "a parameter is a bool, int, float, str, bytes or None, and not a {class}"
    ))))
}
