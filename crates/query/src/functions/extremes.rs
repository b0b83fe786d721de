//! The aggregate functions `arg_min` and `arg_max`.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Expr, Signature, SortExpr, Volatility,
};

use crate::errors::error::QueryError;

/// `arg_min(value, by)` and `arg_max(value, by)`: the value in the row where `by` is least or
/// greatest. Rows in which one of them is null do not count. Of several values with equal `by`, it
/// is the smallest, unless an ORDER BY in the brackets names another one.
///
/// Planning makes `first_value(value ORDER BY by, value)` of a call.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ArgExtreme {
    name: &'static str,
    aliases: [String; 1],
    is_least: bool,
    signature: Signature,
}

impl ArgExtreme {
    /// `arg_min`.
    pub(super) fn least() -> Self {
        Self::named("arg_min", "min_by", true)
    }

    /// `arg_max`.
    pub(super) fn greatest() -> Self {
        Self::named("arg_max", "max_by", false)
    }

    fn named(name: &'static str, alias: &str, is_least: bool) -> Self {
        let signature = Signature::any(2, Volatility::Immutable);
        Self { name, aliases: [alias.to_owned()], is_least, signature }
    }
}

impl AggregateUDFImpl for ArgExtreme {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    /// The column of an observation space says more than a type, and `first_value` keeps that.
    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        let field = first_value_udaf().return_field(&arguments[..1])?;
        Ok(Arc::new(field.as_ref().clone().with_name(self.name)))
    }

    /// Planning leaves only calls with OVER.
    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let message = format!(
            "`{}(…) OVER` is not supported: write first_value(…) OVER (… ORDER BY …)",
            self.name
        );
        Err(QueryError::sql(message, None).into())
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let is_least = self.is_least;
        Some(Box::new(move |call, _| Ok(first_value(call, is_least))))
    }
}

/// The call of `first_value` that means the same.
fn first_value(call: AggregateFunction, is_least: bool) -> Expr {
    let AggregateFunctionParams { mut args, distinct, filter, mut order_by, null_treatment } =
        call.params;
    let by = args.pop().expect("two arguments");
    let both = args[0].clone().is_not_null().and(by.clone().is_not_null());
    let filter = match filter {
        Some(filter) => filter.and(both),
        None => both,
    };
    order_by.insert(0, SortExpr::new(by, is_least, false));
    order_by.push(SortExpr::new(args[0].clone(), true, false));
    let (first, filter) = (first_value_udaf(), Some(Box::new(filter)));
    let call = AggregateFunction::new_udf(first, args, distinct, filter, order_by, null_treatment);
    Expr::AggregateFunction(call)
}
