//! Bounds for DataFusion's functions whose result may be far larger than their arguments.
//! DataFusion makes the result of a call in one piece and counts it in no memory pool, so its size
//! is estimated before the call, and counted in the memory of the statement until it is gone.
//!
//! A constant is computed while the statement is planned, and copied from plan to plan and into
//! each row, so a constant may be smaller than the result of a call.

mod counted;
mod growth;
mod joined;
mod rule;

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

use self::counted::COUNTED_BYTES_MIN;
use self::growth::{BYTES_MAX, Growth, RowArguments};
use super::functions::FunctionMemory;
use crate::errors::error::QueryError;
use crate::forward::forward;

pub(super) use self::joined::{is_operator, operator};
pub(super) use self::rule::BoundedCalls;

/// The same, where the estimate is usually far above the size of the result, or where the arguments
/// are as large as the result.
const BYTES_GUESSED_MAX: u128 = 1 << 30;

/// The bytes that a constant may have while a statement is planned.
const CONSTANT_BYTES_MAX: u128 = 1 << 20;

/// The bytes that all of them may have together: they stand in the names of columns, once for each
/// expression that they are in.
const CONSTANTS_BYTES_MAX: u128 = 16 << 20;

const FUNCTIONS: [(&str, Growth); 22] = [
    ("array_append", Growth::Sum),
    ("array_concat", Growth::Sum),
    ("array_prepend", Growth::Sum),
    ("array_repeat", Growth::RepeatedItem),
    ("array_resize", Growth::ResizedList),
    ("array_to_string", Growth::Delimited),
    ("array_union", Growth::Sum),
    ("concat", Growth::Sum),
    ("concat_ws", Growth::Sum),
    ("encode", Growth::Digits),
    ("generate_series", Growth::Series),
    ("lpad", Growth::PaddedText),
    ("make_array", Growth::Sum),
    ("named_struct", Growth::Sum),
    ("overlay", Growth::Sum),
    ("range", Growth::Series),
    ("regexp_replace", Growth::MatchedText),
    ("repeat", Growth::RepeatedText),
    ("replace", Growth::ReplacedText),
    ("rpad", Growth::PaddedText),
    ("string_to_array", Growth::Items),
    ("struct", Growth::Sum),
];

/// Replaces the functions by bounded ones.
///
/// # Errors
///
/// If `registry` does not have one of them, or takes no function.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for (name, growth) in FUNCTIONS {
        let inner = registry.udf(name)?;
        registry.register_udf(Arc::new(ScalarUDF::from(Bounded { inner, growth })))?;
    }
    Ok(())
}

/// The bounded function in place of one that is not. Operators and literals of lists call
/// DataFusion's own.
fn bounded(function: &Arc<ScalarUDF>) -> Option<ScalarUDF> {
    let growth = match FUNCTIONS.iter().find(|(name, _)| *name == function.name()) {
        Some((_, growth)) => *growth,
        None if is_operator(function) => Growth::Sum,
        None => return None,
    };
    let is_bounded = function.inner().downcast_ref::<Bounded>().is_some();
    (!is_bounded).then(|| ScalarUDF::from(Bounded { inner: Arc::clone(function), growth }))
}

/// A function that refuses a call whose result would be too large. Other results are unchanged.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Bounded {
    /// Refuses a result of so many bytes.
    fn demand_fit(&self, bytes: u128) -> Result<()> {
        let max = match self.growth {
            Growth::MatchedText | Growth::Sum | Growth::Delimited | Growth::Items => {
                BYTES_GUESSED_MAX
            }
            _ => BYTES_MAX,
        };
        if bytes <= max { Ok(()) } else { Err(self.too_large(bytes, max)) }
    }

    fn too_large(&self, bytes: u128, max: u128) -> datafusion::common::DataFusionError {
        let error = QueryError::TooLarge(format!(
            "{}() would make {bytes} bytes at once, and the limit is {max}: ask for shorter values, or for fewer \
             rows at a time",
            self.name()
        ));
        error.into()
    }
}

impl ScalarUDFImpl for Bounded {
    forward! { inner:
        fn name() -> &str;
        fn aliases() -> &[String];
        fn schema_name(args: &[Expr]) -> Result<String>;
        fn signature() -> &Signature;
        fn coerce_types(types: &[DataType]) -> Result<Vec<DataType>>;
        fn return_type(types: &[DataType]) -> Result<DataType>;
        fn return_field_from_args(args: ReturnFieldArgs<'_>) -> Result<FieldRef>;
        fn evaluate_bounds(inputs: &[&Interval]) -> Result<Interval>;
        fn output_ordering(inputs: &[ExprProperties]) -> Result<SortProperties>;
        fn documentation() -> Option<&Documentation>;
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let bytes = self.growth.bytes(&RowArguments::new(&args, is_constant)?)?;
        let memory = FunctionMemory::of(&args.config_options);
        if is_constant && let Some(constants) = memory.constants() {
            // Planning goes on without it, and the value is computed again with the rows.
            let left = CONSTANTS_BYTES_MAX.saturating_sub(constants.size() as u128);
            let max = left.min(CONSTANT_BYTES_MAX);
            if bytes > max {
                return Err(self.too_large(bytes, max));
            }
            constants.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX))?;
            return self.inner.invoke_with_args(args);
        }
        // Whoever wants a column of a constant repeats it for each row.
        let number_rows = args.number_rows;
        let rows = if is_constant { number_rows.max(1) as u128 } else { 1 };
        let repeated = bytes.saturating_mul(rows);
        self.demand_fit(repeated)?;
        let is_large = bytes >= COUNTED_BYTES_MIN as u128;
        let counted = memory.reserve(self.name(), if is_large { repeated } else { bytes })?;
        let value = match self.inner.invoke_with_args(args)? {
            // The memory of a column can be counted until it is gone.
            ColumnarValue::Scalar(value) if is_large => {
                ColumnarValue::Array(value.to_array_of_size(number_rows)?)
            }
            value => value,
        };
        Ok(counted::until_gone(value, counted))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    /// The result of an expression in a session with the bounded functions and in a default
    /// session.
    async fn both(sql: &str) -> [Result<Vec<String>, String>; 2] {
        let bounded = SessionContext::new();
        register(&mut *bounded.state_ref().write()).unwrap();
        let mut found = Vec::new();
        for context in [bounded, SessionContext::new()] {
            let rows = async { context.sql(sql).await?.collect().await }.await;
            let shown = |batch: &arrow::array::RecordBatch| {
                format!("{:?} {:?}", batch.schema(), batch.columns())
            };
            let rows = rows.map(|batches| batches.iter().map(shown).collect::<Vec<_>>());
            found.push(rows.map_err(|error| error.strip_backtrace()));
        }
        found.try_into().unwrap()
    }

    #[tokio::test]
    async fn what_fits_is_what_it_was() {
        for sql in [
            "SELECT repeat('ab', 3), repeat(column1, column2) FROM (VALUES ('x', 2), (NULL, 3), ('y', NULL), ('z', -1))",
            "SELECT lpad('a', 5), rpad(column1, column2, 'äö') FROM (VALUES ('x', 7), (NULL, 3), ('yyy', 2))",
            "SELECT replace(column1, 'a', 'bcd'), regexp_replace(column1, '(a)', '[\\1]', 'g') FROM (VALUES ('banana'), (NULL))",
            "SELECT range(5), range(column1, column2), generate_series(column1, column2, 2) \
             FROM (VALUES (1, 5), (5, 1), (NULL, 1))",
            "SELECT range(10, 1, -3), generate_series(DATE '2024-01-01', DATE '2024-03-01', INTERVAL '1' MONTH)",
            "SELECT generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL '6' HOUR)",
            "SELECT array_repeat('ab', 3), list_repeat(column1, column2) FROM (VALUES ([1, 2], 2), ([], 3))",
            "SELECT array_resize([1, 2], 4, 7), list_resize(column1, 3) FROM (VALUES ([1]), ([1, 2, 3, 4]))",
        ] {
            let [bounded, as_it_comes] = both(sql).await;
            assert!(bounded.is_ok(), "{sql}: {bounded:?}");
            assert_eq!(bounded, as_it_comes, "{sql}");
        }
    }

    #[tokio::test]
    async fn what_does_not_fit_is_not_made() {
        for (call, function) in [
            ("repeat('x', 2000000000)", "repeat"),
            ("repeat(column1, 10000000)", "repeat"),
            ("lpad('x', 2000000000)", "lpad"),
            ("rpad(column1, 100000000, 'ä')", "rpad"),
            ("replace(repeat('x', 1000000), 'x', repeat('y', 1000))", "replace"),
            (
                "regexp_replace(repeat('x', 1000000), 'x', repeat('y', 10000), 'g')",
                "regexp_replace",
            ),
            ("range(1, 2000000000)", "range"),
            ("range(0, 9000000000000000000, 1)", "range"),
            (
                "generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2024-01-01', INTERVAL '1' SECOND)",
                "generate_series",
            ),
            ("array_repeat(1, 2000000000)", "array_repeat"),
            ("list_repeat(column1, 10000000)", "array_repeat"),
            ("array_resize([1], 2000000000, 2)", "array_resize"),
        ] {
            let sql = format!("SELECT {call} FROM (VALUES ('abcdefg'), ('abcdefg'))");
            let context = SessionContext::new();
            register(&mut *context.state_ref().write()).unwrap();
            let rows = async { context.sql(&sql).await?.collect().await }.await;
            let said = rows.unwrap_err().strip_backtrace();
            assert!(said.contains(&format!("{function}() would make ")), "{said}");
            assert!(
                said.contains("limit is 67108864") || said.contains("limit is 1073741824"),
                "{said}"
            );
        }
    }

    #[tokio::test]
    async fn a_step_that_leads_nowhere_is_refused() {
        let sql = "SELECT range(DATE '2024-01-31', DATE '2030-01-01', INTERVAL '1 month -31 days')";
        let context = SessionContext::new();
        register(&mut *context.state_ref().write()).unwrap();
        let rows = async { context.sql(sql).await?.collect().await }.await;
        let said = rows.unwrap_err().strip_backtrace();
        assert!(said.contains("one sign"), "{said}");
    }
}
