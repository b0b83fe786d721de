//! The function `feature`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{ArrowNativeType, DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::apply;
use crate::rules::signatures;
use steplake_lake::{FEATURES_KEY, SPACE_KEY};
use steplake_model::suggestions::meant;

/// `feature(vector, 'name')`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Feature {
    signature: Signature,
}

impl Feature {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

/// An observation space, as the metadata of its column tells of it.
pub(super) struct VectorSpace {
    pub(super) name: String,
    pub(super) features: Vec<String>,
}

impl VectorSpace {
    /// The space that a function called `function` is given a vector of.
    pub(super) fn of(function: &str, vector: &Field) -> Result<Self> {
        let kind = vector.data_type();
        if !matches!(kind, DataType::List(_)) {
            let found = signatures::named(kind);
            return plan_err!("{function}() wants an observation vector, not {found}");
        }
        let found = vector.metadata().get(SPACE_KEY).zip(vector.metadata().get(FEATURES_KEY));
        let Some((name, features)) = found else {
            return plan_err!(
                "{function}() wants a column of an observation space: `{}` has \
                 no names for its numbers",
                vector.name()
            );
        };
        let features = serde_json::from_str(features)
            .map_err(|error| exec_datafusion_err!("the features of {name}: {error}"))?;
        Ok(Self { name: name.clone(), features })
    }

    /// The place of the number called `name`.
    fn place(&self, name: &str) -> Result<usize> {
        if let Some(place) = self.features.iter().position(|feature| feature == name) {
            return Ok(place);
        }
        let all: Vec<&str> = self.features.iter().map(String::as_str).collect();
        let hint = meant(name, &all);
        plan_err!("there is no feature `{name}` in `{}`: {hint}", self.name)
    }
}

/// The text of a constant.
fn text(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}

impl ScalarUDFImpl for Feature {
    fn name(&self) -> &'static str {
        "feature"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of feature() depends on its vector")
    }

    /// A name that is known while planning is checked then, so that the error comes before any
    /// work.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let vector = &args.arg_fields[0];
        let space = VectorSpace::of(self.name(), vector)?;
        if let Some(name) = args.scalar_arguments[1].and_then(text) {
            space.place(name)?;
        }
        Ok(Arc::new(Field::new(self.name(), number_type(vector.data_type()), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ColumnarValue::Scalar(name) = &args.args[1] else {
            return exec_err!("the name that feature() is given must be a constant");
        };
        let Some(name) = text(name) else {
            return exec_err!("the name that feature() is given must be a text");
        };
        let place = VectorSpace::of(self.name(), &args.arg_fields[0])?.place(name)?;
        apply(&args.args[0], |vectors| number_at(vectors, place))
    }
}

/// The number at `place` of each vector.
fn number_at(vectors: &ArrayRef, place: usize) -> Result<ArrayRef> {
    let vectors = vectors.as_list::<i32>();
    let rows = (0..vectors.len()).map(|row| {
        let [start, end] = [row, row + 1].map(|at| vectors.value_offsets()[at].as_usize());
        let is_there = vectors.is_valid(row) && start + place < end;
        is_there.then(|| u32::try_from(start + place).ok()).flatten()
    });
    let numbers = take(vectors.values(), &rows.collect::<UInt32Array>(), None)?;
    Ok(cast(&numbers, &number_type(vectors.data_type()))?)
}

/// The type of a number of a vector: 64 bits of the same kind.
pub(super) fn number_type(vector: &DataType) -> DataType {
    match vector {
        DataType::List(item) if item.data_type().is_floating() => DataType::Float64,
        _ => DataType::Int64,
    }
}
