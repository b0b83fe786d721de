//! Values of observation spaces, from Python and to Python.

use numpy::PyArray1;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PySequence, PyString};
use steplake::model::{List, Lists, ObservationSpace, Texts, Value, ValueType};

/// The words for the types of values.
const KINDS: [(&str, ValueType); 9] = [
    ("int", ValueType::Int),
    ("float", ValueType::Float),
    ("text", ValueType::Text),
    ("bytes", ValueType::Bytes),
    ("int_vector", ValueType::IntVector),
    ("float_vector", ValueType::FloatVector),
    ("text_list", ValueType::TextList),
    ("program_graph", ValueType::ProgramGraph),
    ("tokens", ValueType::Tokens),
];

/// Returns the word for a type of values.
pub(crate) fn kind(value_type: ValueType) -> &'static str {
    let known = KINDS.iter().find(|(_, known)| *known == value_type);
    known.map_or("", |(kind, _)| kind)
}

/// Returns the type of values that a word stands for.
pub(crate) fn value_type(kind: &str) -> Option<ValueType> {
    KINDS.iter().find(|(known, _)| *known == kind).map(|&(_, value_type)| value_type)
}

/// Converts a value: a vector becomes an array of numpy.
pub(crate) fn object(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Int(value) => value.into_bound_py_any(py)?,
        Value::Float(value) => value.into_bound_py_any(py)?,
        Value::Text(text) => text.into_bound_py_any(py)?,
        Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        Value::IntVector(values) => PyArray1::from_vec(py, values.into_vec()).into_any(),
        Value::FloatVector(values) => PyArray1::from_vec(py, values.into_vec()).into_any(),
        Value::TextList(texts) => texts.into_bound_py_any(py)?,
        Value::Lists(lists) => dict(py, &lists)?.into_any(),
    })
}

/// The lists of a struct by their names in a lake: numbers as arrays of numpy, texts as a list.
fn dict<'py>(py: Python<'py>, lists: &Lists) -> PyResult<Bound<'py, PyDict>> {
    let object = PyDict::new(py);
    for (name, list) in lists.named() {
        match list {
            List::Int8(items) => object.set_item(name, PyArray1::from_slice(py, items))?,
            List::Int32(items) => object.set_item(name, PyArray1::from_slice(py, items))?,
            List::Text(Texts { distinct, places }) => {
                let distinct: Vec<_> =
                    distinct.iter().map(|text| PyString::new(py, text)).collect();
                let texts = places.iter().map(|&place| &distinct[place as usize]);
                object.set_item(name, PyList::new(py, texts)?)?;
            }
        }
    }
    Ok(object)
}

pub(crate) fn objects(py: Python<'_>, values: Vec<Value>) -> PyResult<Bound<'_, PyList>> {
    let values = values.into_iter().map(|value| object(py, value));
    PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
}

/// Converts an object to a value of a space; `None` if it is none.
pub(crate) fn value(object: &Bound<'_, PyAny>, space: &ObservationSpace) -> Option<Value> {
    let value = match space.value_type {
        ValueType::Int => Value::Int(number(object)?),
        ValueType::Float => Value::Float(float(object)?),
        ValueType::Text => Value::Text(text(object)?),
        ValueType::Bytes => Value::Bytes(object.cast::<PyBytes>().ok()?.as_bytes().to_vec()),
        ValueType::IntVector => Value::IntVector(list(object, space, number)?.into()),
        ValueType::FloatVector => Value::FloatVector(list(object, space, float)?.into()),
        ValueType::TextList => Value::TextList(list(object, space, text)?),
        // No compiler of Python can declare them.
        ValueType::ProgramGraph | ValueType::Tokens => return None,
    };
    Some(value)
}

/// Says in words what the values of a space are.
pub(crate) fn expected(space: &ObservationSpace) -> String {
    let some = |numbers: &str| match &*space.features {
        [] => format!("a list of {numbers}"),
        names => format!("a list of {} {numbers} ({})", names.len(), names.join(", ")),
    };
    match space.value_type {
        ValueType::Int => "an integer of 64 bits".to_owned(),
        ValueType::Float => "a number that is not NaN".to_owned(),
        ValueType::Text => "a str".to_owned(),
        ValueType::Bytes => "bytes".to_owned(),
        ValueType::IntVector => some("integers of 32 bits"),
        ValueType::FloatVector => some("numbers that are not NaN"),
        ValueType::TextList => some("str"),
        ValueType::ProgramGraph => "the graph of a program".to_owned(),
        ValueType::Tokens => "the tokens of a program".to_owned(),
    }
}

/// An integer that fits. A truth value is none.
fn number<'py, T: FromPyObjectOwned<'py>>(object: &Bound<'py, PyAny>) -> Option<T> {
    object.extract().ok().filter(|_| !object.is_instance_of::<PyBool>())
}

fn float(object: &Bound<'_, PyAny>) -> Option<f64> {
    number(object).filter(|number: &f64| !number.is_nan())
}

fn text(object: &Bound<'_, PyAny>) -> Option<String> {
    object.extract().ok()
}

/// The items of a sequence or an array, as many as the space has features.
fn list<'py, T>(
    object: &Bound<'py, PyAny>,
    space: &ObservationSpace,
    item: fn(&Bound<'py, PyAny>) -> Option<T>,
) -> Option<Vec<T>> {
    // Arrays of numpy and tensors are no sequences.
    let items = object.call_method0("tolist").unwrap_or_else(|_no_array| object.clone());
    if items.is_instance_of::<PyString>() || items.is_instance_of::<PyBytes>() {
        return None;
    }
    let items = items.cast::<PySequence>().ok()?.try_iter().ok()?;
    let items = items.map(|one| item(&one.ok()?)).collect::<Option<Vec<T>>>()?;
    (space.features.is_empty() || items.len() == space.features.len()).then_some(items)
}
