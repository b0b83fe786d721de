//! The aggregate function `mode`.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Signature, Volatility};

use super::action_list::one_list;
use crate::errors::error::QueryError;

/// `mode(value)`: the most frequent value, and of equally frequent ones the smallest. Null does not
/// count.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Mode {
    signature: Signature,
}

impl Mode {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Mode {
    fn name(&self) -> &'static str {
        "mode"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if types[0].is_nested() {
            let message = "`mode` takes numbers, texts and the like: count what lists and structures there \
                           are with GROUP BY";
            return Err(QueryError::sql(message.to_owned(), None).into());
        }
        Ok(types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let kind = args.return_type().clone();
        Ok(Box::new(ValueCounts { kind, counts: HashMap::new(), value_bytes: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let list = |name, kind: &DataType| {
            let item = Field::new_list_field(kind.clone(), true);
            Arc::new(Field::new_list(format!("{}[{name}]", args.name), item, true))
        };
        Ok(vec![list("values", args.return_type()), list("counts", &DataType::Int64)])
    }
}

/// The values of a group, and how often each of them came.
#[derive(Debug)]
struct ValueCounts {
    kind: DataType,
    counts: HashMap<ScalarValue, i64>,
    /// The memory of the values beyond that of the table.
    value_bytes: usize,
}

impl ValueCounts {
    fn add(&mut self, value: ScalarValue, times: i64) {
        let bytes = value.size() - size_of::<ScalarValue>();
        *self.counts.entry(value).or_insert_with(|| {
            self.value_bytes += bytes;
            0
        }) += times;
    }

    fn values(array: &dyn Array) -> impl Iterator<Item = Result<ScalarValue>> + '_ {
        let nulls = array.logical_nulls();
        let is_valid = move |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        let values =
            (0..array.len()).filter(is_valid).map(|row| ScalarValue::try_from_array(array, row));
        values.map(|value| value.map(canonical))
    }
}

/// Makes equal numbers one value, whatever their bits.
fn canonical(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float32(Some(0.0)) => ScalarValue::Float32(Some(0.0)),
        ScalarValue::Float64(Some(0.0)) => ScalarValue::Float64(Some(0.0)),
        ScalarValue::Float32(Some(it)) if it.is_nan() => ScalarValue::Float32(Some(f32::NAN)),
        ScalarValue::Float64(Some(it)) if it.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
        value => value,
    }
}

impl Accumulator for ValueCounts {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        Self::values(&columns[0]).try_for_each(|value| {
            self.add(value?, 1);
            Ok(())
        })
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        for value in Self::values(&columns[0]) {
            let value = value?;
            if let Some(count) = self.counts.get_mut(&value) {
                *count -= 1;
                if *count == 0 {
                    self.value_bytes -= value.size() - size_of::<ScalarValue>();
                    self.counts.remove(&value);
                }
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>().iter().zip(states[1].as_list::<i32>().iter());
        for (values, counts) in lists {
            let (Some(values), Some(counts)) = (values, counts) else { continue };
            for (value, &times) in
                Self::values(&values).zip(counts.as_primitive::<Int64Type>().values())
            {
                self.add(value?, times);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (values, counts): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.counts).into_iter().unzip();
        let values = ScalarValue::new_list(&values, &self.kind, true);
        let counts = Arc::new(Int64Array::from(counts));
        let counts = one_list(counts, Field::new_list_field(DataType::Int64, true));
        Ok(vec![ScalarValue::List(values), counts])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let best = self.counts.iter().max_by(|(one, count), (other, count_of_other)| {
            let smaller = other.partial_cmp(one).unwrap_or(Ordering::Equal);
            count.cmp(count_of_other).then(smaller)
        });
        match best {
            Some((value, _)) => Ok(value.clone()),
            None => ScalarValue::try_from(&self.kind),
        }
    }

    fn size(&self) -> usize {
        let entry = size_of::<(ScalarValue, i64)>();
        size_of::<Self>() + self.counts.capacity() * entry + self.value_bytes
    }
}
