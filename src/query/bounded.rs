//! Bounds for DataFusion's functions whose result may be far larger than their arguments.
//! DataFusion makes the result of a call in one piece and counts it in no memory pool, so its size
//! is estimated before the call.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::error::QueryError;

/// The bytes that one call, for one batch of rows, may make.
const BYTES_MAX: u128 = 64 << 20;

/// The same, where the estimate is usually far above the size of the result.
const BYTES_GUESSED_MAX: u128 = 1 << 30;

/// The least bytes of an item of a list.
const ITEM_BYTES: u128 = 16;

/// How the size of a function's result depends on its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// `repeat(text, times)`.
    RepeatedText,
    /// `lpad(text, characters [, fill])`, and `rpad`.
    PaddedText,
    /// `replace(text, from, to)`.
    ReplacedText,
    /// `regexp_replace(text, pattern, to [, flags])`.
    MatchedText,
    /// `range([start,] stop [, step])`, and `generate_series`.
    Series,
    /// `array_repeat(item, times)`.
    RepeatedItem,
    /// `array_resize(list, items [, item])`.
    ResizedList,
}

const FUNCTIONS: [(&str, Growth); 9] = [
    ("repeat", Growth::RepeatedText),
    ("lpad", Growth::PaddedText),
    ("rpad", Growth::PaddedText),
    ("replace", Growth::ReplacedText),
    ("regexp_replace", Growth::MatchedText),
    ("range", Growth::Series),
    ("generate_series", Growth::Series),
    ("array_repeat", Growth::RepeatedItem),
    ("array_resize", Growth::ResizedList),
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

/// A function that refuses a call whose result would be too large. Other results are unchanged.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let max = match self.growth {
            Growth::MatchedText => BYTES_GUESSED_MAX,
            _ => BYTES_MAX,
        };
        let bytes = self.growth.bytes(&Arguments::new(&args)?)?;
        if bytes > max {
            let error = QueryError::TooLarge(format!(
                "{}() would make {bytes} bytes at once, and the limit is {max}: ask for shorter values, or for fewer \
                 rows at a time",
                self.name()
            ));
            return Err(error.into());
        }
        self.inner.invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The arguments of a function, row by row.
struct Arguments {
    columns: Vec<ArrayRef>,
    rows: usize,
}

impl Arguments {
    fn new(args: &ScalarFunctionArgs) -> Result<Self> {
        let columns = args.args.iter().map(|value| match value {
            ColumnarValue::Array(column) => Ok(Arc::clone(column)),
            ColumnarValue::Scalar(value) => value.to_array(),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        Ok(Self { columns, rows: if constant { 1 } else { args.number_rows } })
    }

    /// The column of an argument and the index of a row in it; none if the value is null.
    fn at(&self, argument: usize, row: usize) -> Option<(&ArrayRef, usize)> {
        let column = self.columns.get(argument)?;
        // A constant has one row.
        let row = if column.len() == 1 { 0 } else { row };
        column.is_valid(row).then_some((column, row))
    }

    fn text(&self, argument: usize, row: usize) -> Option<&str> {
        let (column, row) = self.at(argument, row)?;
        match column.data_type() {
            DataType::Utf8 => Some(column.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Some(column.as_string::<i64>().value(row)),
            DataType::Utf8View => Some(column.as_string_view().value(row)),
            _ => None,
        }
    }

    fn text_bytes(&self, argument: usize, row: usize) -> u128 {
        self.text(argument, row).map_or(0, |text| text.len() as u128)
    }

    fn count(&self, argument: usize, row: usize) -> u128 {
        let count = self
            .at(argument, row)
            .and_then(|(column, row)| Some(column.as_primitive_opt::<Int64Type>()?.value(row)));
        count.and_then(|count| u128::try_from(count).ok()).unwrap_or_default()
    }

    fn sum(&self, of_row: impl Fn(usize) -> u128) -> u128 {
        (0..self.rows).map(of_row).fold(0, u128::saturating_add)
    }
}

impl Growth {
    /// An upper bound of the bytes that a call makes.
    fn bytes(self, args: &Arguments) -> Result<u128> {
        let bytes = match self {
            Self::RepeatedText => {
                args.sum(|row| args.text_bytes(0, row).saturating_mul(args.count(1, row)))
            }
            Self::PaddedText => args.sum(|row| {
                let fill = args.text(2, row).unwrap_or(" ");
                let character_bytes = fill.chars().map(char::len_utf8).max().unwrap_or(1);
                // The text is cut or filled to so many characters.
                let filled = args.count(1, row).saturating_mul(character_bytes as u128);
                args.text_bytes(0, row).saturating_add(filled)
            }),
            Self::ReplacedText => replaced(args),
            Self::MatchedText => args.sum(|row| {
                let text = args.text_bytes(0, row);
                let is_once = !args.text(3, row).is_some_and(|flags| flags.contains('g'));
                // The replacement may refer to groups of the pattern many times.
                let to = args.text(2, row).unwrap_or_default();
                let groups = to.matches(['\\', '$']).count() as u128;
                let places = if is_once { 1 } else { text + 1 };
                let put = places.saturating_mul(to.len() as u128);
                text.saturating_add(put).saturating_add(text.saturating_mul(groups))
            }),
            Self::Series => return series(args),
            Self::RepeatedItem => items(args, 0),
            Self::ResizedList => {
                let listed = args.columns[0].get_array_memory_size() as u128;
                listed.saturating_add(items(args, 2))
            }
        };
        Ok(bytes)
    }
}

/// The matches are counted only if there could be too many.
fn replaced(args: &Arguments) -> u128 {
    let put = |row, places: u128| {
        args.text_bytes(0, row).saturating_add(places.saturating_mul(args.text_bytes(2, row)))
    };
    let guessed = args.sum(|row| put(row, args.text_bytes(0, row) + 1));
    if guessed <= BYTES_MAX {
        return guessed;
    }
    args.sum(|row| match (args.text(0, row), args.text(1, row)) {
        (Some(text), Some(from)) => put(row, text.matches(from).count() as u128),
        _ => 0,
    })
}

/// The bytes of lists that repeat the item in `argument`.
fn items(args: &Arguments, argument: usize) -> u128 {
    let column = args.columns.get(argument);
    // A list that grows without a given item is filled with nulls of its item type.
    let kind = column.map_or_else(
        || match args.columns[0].data_type() {
            DataType::List(item) | DataType::LargeList(item) => item.data_type(),
            other => other,
        },
        |column| column.data_type(),
    );
    let least = width(kind).max(ITEM_BYTES);
    let all = column.map_or(0, |column| column.get_array_memory_size() as u128);
    let guessed = args.sum(|row| args.count(1, row).saturating_mul(least.max(all)));
    if guessed <= BYTES_MAX {
        return guessed;
    }
    args.sum(|row| {
        let item = args.at(argument, row).map(|(column, row)| column.slice(row, 1).to_data());
        let own = item.and_then(|item| item.get_slice_memory_size().ok()).unwrap_or_default();
        args.count(1, row).saturating_mul(least.max(own as u128))
    })
}

/// The bytes of a value of a type with a fixed width; a null takes as many.
fn width(kind: &DataType) -> u128 {
    match kind {
        DataType::FixedSizeBinary(bytes) => u128::try_from(*bytes).unwrap_or_default(),
        DataType::FixedSizeList(item, items) => {
            u128::try_from(*items).unwrap_or_default().saturating_mul(width(item.data_type()))
        }
        DataType::Struct(fields) => fields.iter().map(|field| width(field.data_type())).sum(),
        other => other.primitive_width().unwrap_or_default() as u128,
    }
}

const NANOS_A_DAY: i128 = 86_400_000_000_000;

/// A column of numbers, dates or times as integers, and their unit in nanoseconds.
fn whole(column: &ArrayRef) -> Result<(Arguments, i128)> {
    let unit = match column.data_type() {
        DataType::Date32 => NANOS_A_DAY,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1000,
        _ => 1,
    };
    let column = cast(column, &DataType::Int64)?;
    Ok((Arguments { rows: column.len(), columns: vec![column] }, unit))
}

/// The bytes of series of numbers, dates or times: the number of steps between the ends.
fn series(args: &Arguments) -> Result<u128> {
    let (start, stop, step) = match args.columns.as_slice() {
        [start, stop, step, ..] => (Some(whole(start)?), whole(stop)?, Some(step)),
        [start, stop] => (Some(whole(start)?), whole(stop)?, None),
        columns => (None, whole(&columns[0])?, None),
    };
    let end = |(column, unit): &(Arguments, i128), row| {
        let (column, row) = column.at(0, row)?;
        Some(i128::from(column.as_primitive::<Int64Type>().value(row)) * unit)
    };
    let strides = match step {
        Some(step) if !matches!(step.data_type(), DataType::Interval(_)) => Some(whole(step)?.0),
        Some(step) => Some(Arguments { columns: vec![Arc::clone(step)], rows: args.rows }),
        None => None,
    };
    let mut items = 0_u128;
    for row in 0..args.rows {
        let start = start.as_ref().map_or(Some(0), |start| end(start, row));
        let (Some(start), Some(stop)) = (start, end(&stop, row)) else { continue };
        let stride = match strides.as_ref().map(|strides| strides.at(0, row)) {
            None => 1,
            Some(None) => continue,
            Some(Some((column, row))) => stride(column, row)?,
        };
        // The function itself refuses a step of 0.
        let steps = (stop - start).checked_div(stride).unwrap_or_default();
        items = items.saturating_add(u128::try_from(steps + 1).unwrap_or_default());
    }
    Ok(items.saturating_mul(8))
}

/// A lower bound of a step, in units of its series.
fn stride(column: &ArrayRef, row: usize) -> Result<i128> {
    let Some(intervals) = column.as_primitive_opt::<IntervalMonthDayNanoType>() else {
        return Ok(column.as_primitive::<Int64Type>().value(row).into());
    };
    let (months, days, nanos) = IntervalMonthDayNanoType::to_parts(intervals.value(row));
    let parts = [i128::from(months), i128::from(days), i128::from(nanos)];
    if parts.iter().any(|part| *part < 0) && parts.iter().any(|part| *part > 0) {
        let error = QueryError::TooLarge(
            "a step with positive and negative parts may not advance: give all its parts one sign"
                .to_owned(),
        );
        return Err(error.into());
    }
    // The shortest month has 28 days; the day on which clocks go forward has 23 hours.
    Ok((parts[0] * 28 + parts[1]) * (NANOS_A_DAY / 24 * 23) + parts[2])
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
