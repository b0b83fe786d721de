//! The function `feature_delta`.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, ListBuilder, PrimitiveArray, PrimitiveBuilder,
    StringBuilder, StructBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, FieldRef, Fields, Float64Type, Int64Type,
};
use datafusion::common::{Result, plan_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::feature::{VectorSpace, number_type};
use super::memory::{memory_of, reserve_built};

/// The bytes of a number that differs, in addition to its name.
const CHANGE_BYTES: usize = 2 * size_of::<i64>() + size_of::<i32>();

/// `feature_delta(before, after)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct FeatureDelta {
    signature: Signature,
}

impl FeatureDelta {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }

    /// The names of the numbers of both vectors.
    fn features(&self, vectors: &[FieldRef]) -> Result<Vec<String>> {
        let [before, after] = vectors else {
            return plan_err!("feature_delta() wants two observation vectors");
        };
        let [one, other] = [before, after].map(|vector| VectorSpace::of(self.name(), vector));
        let (one, other) = (one?, other?);
        if one.name != other.name {
            return plan_err!(
                "feature_delta() wants two vectors of one observation space, not of {} and {}",
                one.name,
                other.name
            );
        }
        Ok(one.features)
    }
}

/// The parts of a change of numbers of this type.
fn change_fields(number: &DataType) -> Fields {
    Fields::from(vec![
        Field::new("feature", DataType::Utf8, false),
        Field::new("before", number.clone(), false),
        Field::new("after", number.clone(), false),
    ])
}

fn item(number: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(change_fields(number)), true))
}

/// The numbers of a vector.
fn numbers<T: ArrowPrimitiveType>(vectors: &ListArray, row: usize) -> Result<PrimitiveArray<T>> {
    let vector = vectors.value(row);
    Ok(cast(&vector, &T::DATA_TYPE)?.as_primitive::<T>().clone())
}

/// The numbers that differ in each row.
fn changes<T: ArrowPrimitiveType>(
    before: &ArrayRef,
    after: &ArrayRef,
    names: &[String],
    memory: &MemoryReservation,
) -> Result<ArrayRef> {
    let (before, after) = (before.as_list::<i32>(), after.as_list::<i32>());
    let builder = StructBuilder::from_fields(change_fields(&T::DATA_TYPE), 0);
    let mut lists = ListBuilder::new(builder).with_field(item(&T::DATA_TYPE));
    for row in 0..before.len() {
        if before.is_null(row) || after.is_null(row) {
            lists.append(false);
            continue;
        }
        let (before, after) = (numbers::<T>(before, row)?, numbers::<T>(after, row)?);
        for (place, name) in names.iter().enumerate().take(before.len().min(after.len())) {
            if before.value(place) == after.value(place) {
                continue;
            }
            reserve_built::<u8>(memory, name.len() + CHANGE_BYTES)?;
            let change = lists.values();
            let text = change.field_builder::<StringBuilder>(0).expect("the first one is a text");
            text.append_value(name);
            for (field, value) in [(1, before.value(place)), (2, after.value(place))] {
                let number = change.field_builder::<PrimitiveBuilder<T>>(field);
                number.expect("the others are numbers").append_value(value);
            }
            change.append(true);
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

impl ScalarUDFImpl for FeatureDelta {
    fn name(&self) -> &'static str {
        "feature_delta"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, vectors: &[DataType]) -> Result<DataType> {
        let number = vectors.first().map_or(DataType::Int64, number_type);
        Ok(DataType::List(item(&number)))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.features(args.arg_fields)?;
        let vectors = args.arg_fields.iter().map(|field| field.data_type().clone());
        let lists = self.return_type(&vectors.collect::<Vec<_>>())?;
        Ok(Arc::new(Field::new(self.name(), lists, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let features = self.features(&args.arg_fields)?;
        let vectors = ColumnarValue::values_to_arrays(&args.args)?;
        let memory = memory_of(self.name(), &args.config_options);
        let changes = match number_type(vectors[0].data_type()) {
            DataType::Float64 => changes::<Float64Type>,
            _ => changes::<Int64Type>,
        };
        Ok(ColumnarValue::Array(changes(&vectors[0], &vectors[1], &features, &memory)?))
    }
}
