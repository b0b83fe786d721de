//! The aggregate function `sum`, which adds up in a wider type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef,
    Int64Type, UInt64Type,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, EmitTo,
    GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature, TypeSignature, TypeSignatureClass,
};

use super::sql_type;
use crate::errors::error::QueryError;
use crate::forward::forward;

/// `sum(x)`, with the types and names of DataFusion's. What does not fit into the type of the
/// result is an error, and does not depend on the order of the rows. It takes no intervals, for
/// which there is no wider type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sum {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl Sum {
    pub(crate) fn new() -> Self {
        let inner = sum_udaf();
        let mut signature = inner.signature().clone();
        if let TypeSignature::OneOf(ways) = &mut signature.type_signature {
            ways.retain(|way| *way != TypeSignature::Coercible(vec![interval()]));
        }
        Self { inner, signature }
    }
}

fn interval() -> Coercion {
    Coercion::new_exact(TypeSignatureClass::Interval)
}

/// The type that values of a type are added up in: no number of rows fills it. `None` if values of
/// that type do not wrap, or if there is no wider one.
fn wide(kind: &DataType) -> Option<DataType> {
    match kind {
        DataType::Int64 | DataType::UInt64 | DataType::Duration(_) => {
            Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))
        }
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => {
            Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale))
        }
        DataType::Decimal128(_, scale) => {
            Some(DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale))
        }
        _ => None,
    }
}

fn wide_field(kind: &DataType) -> Option<FieldRef> {
    Some(Arc::new(Field::new("sum", wide(kind)?, true)))
}

impl AggregateUDFImpl for Sum {
    forward! { inner:
        fn name() -> &str;
        fn groups_accumulator_supported(args: AccumulatorArgs<'_>) -> bool;
        fn documentation() -> Option<&Documentation>;
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            // NULL without a type.
            [DataType::Null] => Ok(DataType::Int64),
            types => self.inner.return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let kind = args.return_type().clone();
        let Some(return_field) = wide_field(&kind) else { return self.inner.accumulator(args) };
        let inner = self.inner.accumulator(AccumulatorArgs { return_field, ..args })?;
        Ok(Box::new(Narrowed { inner, kind }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        match wide_field(args.return_type()) {
            Some(return_field) => self.inner.state_fields(StateFieldsArgs { return_field, ..args }),
            None => self.inner.state_fields(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let kind = args.return_type().clone();
        let Some(return_field) = wide_field(&kind) else {
            return self.inner.create_groups_accumulator(args);
        };
        let args = AccumulatorArgs { return_field, ..args };
        Ok(Box::new(Narrowed { inner: self.inner.create_groups_accumulator(args)?, kind }))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let kind = args.return_type().clone();
        let Some(return_field) = wide_field(&kind) else {
            return self.inner.create_sliding_accumulator(args);
        };
        let inner = if args.is_distinct && kind == DataType::Int64 {
            Box::new(DistinctInFrame::default())
        } else {
            let args = AccumulatorArgs { return_field, ..args };
            self.inner.create_sliding_accumulator(args)?
        };
        Ok(Box::new(Narrowed { inner, kind }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, kind: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(kind)
    }
}

/// Adds up in a wider type than that of its values and its result.
#[derive(Debug)]
struct Narrowed<A> {
    inner: A,
    kind: DataType,
}

impl<A> Narrowed<A> {
    /// The values in the wider type.
    fn widened(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let values = match values[0].data_type() {
            DataType::Int64 => decimals(values[0].as_primitive::<Int64Type>().unary(i128::from))?,
            DataType::UInt64 => decimals(values[0].as_primitive::<UInt64Type>().unary(i128::from))?,
            DataType::Null => decimals(Decimal128Array::new_null(values[0].len()))?,
            DataType::Duration(_) => {
                let whole = cast(&values[0], &DataType::Int64)?;
                decimals(whole.as_primitive::<Int64Type>().unary(i128::from))?
            }
            kind => match wide(kind) {
                Some(wide) => cast(&values[0], &wide)?,
                None => Arc::clone(&values[0]),
            },
        };
        Ok(vec![values])
    }

    /// The sums in the type of the result.
    fn narrowed(&self, sums: &ArrayRef) -> Result<ArrayRef> {
        let whole = match &self.kind {
            DataType::Duration(_) => &DataType::Int64,
            kind => kind,
        };
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let fitting = cast_with_options(sums, whole, &options).map_err(|_too_large| {
            QueryError::sql(
                format!(
                    "a sum does not fit into {}: add up a wider type, as in sum(CAST(x AS DECIMAL(38, 0)))",
                    sql_type(&self.kind)
                ),
                None,
            )
        })?;
        Ok(if whole == &self.kind { fitting } else { cast(&fitting, &self.kind)? })
    }
}

fn decimals(values: Decimal128Array) -> Result<ArrayRef> {
    Ok(Arc::new(values.with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0)?))
}

impl Accumulator for Narrowed<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = Self::widened(values)?;
        self.inner.update_batch(&values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&self.narrowed(&sum)?, 0)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = Self::widened(values)?;
        self.inner.retract_batch(&values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl GroupsAccumulator for Narrowed<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        let values = Self::widened(values)?;
        self.inner.update_batch(&values, groups, filter, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = self.inner.evaluate(emit_to)?;
        self.narrowed(&sums)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total_groups: usize,
    ) -> Result<()> {
        self.inner.merge_batch(states, groups, total_groups)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = Self::widened(values)?;
        self.inner.convert_to_state(&values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// The sum of the distinct integers in a frame of a window, which rows enter and leave.
#[derive(Debug, Default)]
struct DistinctInFrame {
    /// The rows of each value in the frame.
    rows: HashMap<i128, u64>,
    sum: i128,
}

impl Accumulator for DistinctInFrame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Decimal128Type>().iter().flatten() {
            let rows = self.rows.entry(value).or_default();
            if *rows == 0 {
                self.sum += value;
            }
            *rows += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Decimal128Type>().iter().flatten() {
            if let Some(rows) = self.rows.get_mut(&value) {
                *rows -= 1;
                if *rows == 0 {
                    self.rows.remove(&value);
                    self.sum -= value;
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = (!self.rows.is_empty()).then_some(self.sum);
        Ok(ScalarValue::Decimal128(sum, DECIMAL128_MAX_PRECISION, 0))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.rows.capacity() * size_of::<(i128, u64)>()
    }

    /// Frames of a window are computed in one place.
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        datafusion::common::internal_err!("a sum in a frame has no state")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        datafusion::common::internal_err!("a sum in a frame has no state")
    }
}
