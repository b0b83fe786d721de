//! The aggregate function `avg`, for numbers alone.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::common::types::{NativeType, logical_float64};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, GroupsAccumulator,
    ReversedUDAF, Signature, TypeSignature, TypeSignatureClass, Volatility,
};

use crate::errors::error::QueryError;
use crate::forward::forward;

/// DataFusion's `avg(x)`, but not for durations, whose sum wraps there.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Average {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl Average {
    pub(crate) fn new() -> Self {
        use TypeSignatureClass::{Decimal, Float, Integer, Native};
        let number = Native(logical_float64());
        let classes = vec![
            Coercion::new_implicit(number, vec![Integer, Float], NativeType::Float64),
            Coercion::new_exact(Decimal),
        ];
        let ways = classes.into_iter().map(|class| TypeSignature::Coercible(vec![class]));
        let signature = Signature::one_of(ways.collect(), Volatility::Immutable);
        Self { inner: avg_udaf(), signature }
    }
}

impl AggregateUDFImpl for Average {
    forward! { inner:
        fn name() -> &str;
        fn aliases() -> &[String];
        fn accumulator(args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>>;
        fn state_fields(args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>>;
        fn groups_accumulator_supported(args: AccumulatorArgs<'_>) -> bool;
        fn create_groups_accumulator(
            args: AccumulatorArgs<'_>
        ) -> Result<Box<dyn GroupsAccumulator>>;
        fn documentation() -> Option<&Documentation>;
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if matches!(types, [DataType::Null]) {
            let message = "`avg` takes a number; it was given NULL: write CAST(NULL AS DOUBLE)";
            return Err(QueryError::sql(message.to_owned(), None).into());
        }
        self.inner.return_type(types)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}
