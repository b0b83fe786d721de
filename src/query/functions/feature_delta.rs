use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, Int64Array, Int64Builder, ListBuilder,
    StringBuilder, StructBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::feature::spaces;
use super::memory::{memory_of, reserve_built};
use crate::lake::{Identity, RecordedObservation};
use crate::query::signatures;
use crate::query::suggestions::list;

/// The bytes of a number that differs, in addition to its name.
const CHANGE_BYTES: usize = 2 * size_of::<i64>() + size_of::<i32>();

/// `feature_delta(before, after)`.
#[derive(Debug)]
pub(super) struct FeatureDelta {
    signature: Signature,
    identity: Arc<Identity>,
}

impl FeatureDelta {
    pub(super) fn new(identity: Arc<Identity>) -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable), identity }
    }

    /// The identity of the lakes that it is for.
    pub(super) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// The observation space of both vectors: the one with a column's name, or else the only one of
    /// their length.
    fn space(&self, vectors: &[FieldRef]) -> Result<&RecordedObservation> {
        let [before, after] = vectors else {
            return plan_err!("feature_delta() wants two observation vectors");
        };
        let (DataType::FixedSizeList(_, width), DataType::FixedSizeList(_, other)) =
            (before.data_type(), after.data_type())
        else {
            return plan_err!(
                "feature_delta() wants two observation vectors, not {} and {}",
                signatures::named(before.data_type()),
                signatures::named(after.data_type())
            );
        };
        if width != other {
            return plan_err!("feature_delta() wants two vectors of one observation space");
        }
        let spaces = spaces(&self.identity, *width, &[before.name(), after.name()]);
        match spaces[..] {
            [space] => Ok(space),
            [] => plan_err!("no observation space with vectors of this length is recorded"),
            _ => {
                let names: Vec<&str> = spaces.iter().map(|space| space.name.as_str()).collect();
                plan_err!("these vectors may be of {}: use the columns themselves", list(&names))
            }
        }
    }
}

fn change_fields() -> Fields {
    Fields::from(vec![
        Field::new("feature", DataType::Utf8, false),
        Field::new("before", DataType::Int64, false),
        Field::new("after", DataType::Int64, false),
    ])
}

fn item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(change_fields()), true))
}

/// The numbers of a vector.
fn numbers(vectors: &FixedSizeListArray, row: usize) -> Result<Int64Array> {
    let vector = vectors.value(row);
    Ok(cast(&vector, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// The numbers that differ in each row.
fn changes(
    before: &ArrayRef,
    after: &ArrayRef,
    names: &[String],
    memory: &MemoryReservation,
) -> Result<ArrayRef> {
    let (before, after) = (before.as_fixed_size_list(), after.as_fixed_size_list());
    let builder = StructBuilder::from_fields(change_fields(), 0);
    let mut lists = ListBuilder::new(builder).with_field(item());
    for row in 0..before.len() {
        if before.is_null(row) || after.is_null(row) {
            lists.append(false);
            continue;
        }
        let (before, after) = (numbers(before, row)?, numbers(after, row)?);
        for (place, name) in names.iter().enumerate().take(before.len()) {
            if before.value(place) == after.value(place) {
                continue;
            }
            reserve_built::<u8>(memory, name.len() + CHANGE_BYTES)?;
            let change = lists.values();
            let text = change.field_builder::<StringBuilder>(0).expect("the first one is a text");
            text.append_value(name);
            for (field, value) in [(1, before.value(place)), (2, after.value(place))] {
                let number = change.field_builder::<Int64Builder>(field);
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

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(item()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.space(args.arg_fields)?;
        Ok(Arc::new(Field::new(self.name(), DataType::List(item()), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let space = self.space(&args.arg_fields)?;
        let vectors = ColumnarValue::values_to_arrays(&args.args)?;
        let memory = memory_of(self.name(), &args.config_options);
        let changes = changes(&vectors[0], &vectors[1], &space.features, &memory)?;
        Ok(ColumnarValue::Array(changes))
    }
}

impl PartialEq for FeatureDelta {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }
}

impl Eq for FeatureDelta {}

impl Hash for FeatureDelta {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}
