//! Estimates the size of the result of a call.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use crate::errors::error::QueryError;

/// The bytes that one call, for one batch of rows, may make.
pub(super) const BYTES_MAX: u128 = 64 << 20;

/// The least bytes of an item of a list, if its type has no fixed width.
const ITEM_BYTES: u128 = 16;

/// How the size of a function's result depends on its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Growth {
    /// All arguments one after another: `concat(text, …)`, `array_append(list, item)`.
    Sum,
    /// `encode(bytes, 'hex')`.
    Digits,
    /// `array_to_string(list, delimiter)`.
    Delimited,
    /// `string_to_array(text, delimiter)`.
    Items,
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

/// The arguments of a function, row by row.
pub(super) struct RowArguments {
    columns: Vec<ArrayRef>,
    rows: usize,
}

impl RowArguments {
    /// The arguments of a call; those of a constant have one row.
    pub(super) fn new(args: &ScalarFunctionArgs, is_constant: bool) -> Result<Self> {
        let columns = args.args.iter().map(|value| match value {
            ColumnarValue::Array(column) => Ok(Arc::clone(column)),
            ColumnarValue::Scalar(value) => value.to_array(),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Self { columns, rows: if is_constant { 1 } else { args.number_rows } })
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

    /// The bytes of an argument in all rows.
    fn bytes(&self, argument: usize) -> u128 {
        let Some(column) = self.columns.get(argument) else { return 0 };
        let bytes = match column.data_type() {
            DataType::Utf8 => values(column.as_string::<i32>().value_offsets()),
            DataType::LargeUtf8 => values(column.as_string::<i64>().value_offsets()),
            _ => column.to_data().get_slice_memory_size().unwrap_or_default() as u128,
        };
        let is_repeated = column.len() == 1 && self.rows > 1;
        if is_repeated { bytes.saturating_mul(self.rows as u128) } else { bytes }
    }

    /// The items of all lists in an argument.
    fn items(&self, argument: usize) -> u128 {
        let listed = self.columns.get(argument).and_then(|column| column.as_list_opt::<i32>());
        let items = listed.map_or(0, |lists| values(lists.value_offsets()));
        if listed.is_some_and(|lists| lists.len() == 1) { items * self.rows as u128 } else { items }
    }
}

/// The number of values between the first and the last offset.
fn values<O: Copy + TryInto<u128>>(offsets: &[O]) -> u128 {
    let at = |offset: Option<&O>| offset.and_then(|&offset| offset.try_into().ok());
    at(offsets.last()).unwrap_or_default() - at(offsets.first()).unwrap_or_default()
}

impl Growth {
    /// An upper bound of the bytes that a call makes.
    pub(super) fn bytes(self, args: &RowArguments) -> Result<u128> {
        let all = || (0..args.columns.len()).map(|argument| args.bytes(argument)).sum::<u128>();
        let bytes = match self {
            Self::Sum => all(),
            Self::Digits => all().saturating_mul(2),
            Self::Delimited => {
                let longest = (0..args.rows).map(|row| args.text_bytes(1, row)).max();
                let between = longest.unwrap_or_default().saturating_mul(args.items(0));
                // A number of eight bytes has up to twenty digits.
                args.bytes(0).saturating_mul(3).saturating_add(between)
            }
            Self::Items => args.bytes(0).saturating_mul(ITEM_BYTES),
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
fn replaced(args: &RowArguments) -> u128 {
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
fn items(args: &RowArguments, argument: usize) -> u128 {
    let column = args.columns.get(argument);
    // A list that grows without a given item is filled with nulls of its item type.
    let kind = column.map_or_else(
        || match args.columns[0].data_type() {
            DataType::List(item) | DataType::LargeList(item) => item.data_type(),
            other => other,
        },
        |column| column.data_type(),
    );
    let least = match width(kind) {
        0 => ITEM_BYTES,
        fixed => fixed,
    };
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
fn whole(column: &ArrayRef) -> Result<(RowArguments, i128)> {
    let unit = match column.data_type() {
        DataType::Date32 => NANOS_A_DAY,
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1000,
        _ => 1,
    };
    let column = cast(column, &DataType::Int64)?;
    Ok((RowArguments { rows: column.len(), columns: vec![column] }, unit))
}

/// The bytes of series of numbers, dates or times: the number of steps between the ends.
fn series(args: &RowArguments) -> Result<u128> {
    let (start, stop, step) = match args.columns.as_slice() {
        [start, stop, step, ..] => (Some(whole(start)?), whole(stop)?, Some(step)),
        [start, stop] => (Some(whole(start)?), whole(stop)?, None),
        columns => (None, whole(&columns[0])?, None),
    };
    let end = |(column, unit): &(RowArguments, i128), row| {
        let (column, row) = column.at(0, row)?;
        Some(i128::from(column.as_primitive::<Int64Type>().value(row)) * unit)
    };
    let strides = match step {
        Some(step) if !matches!(step.data_type(), DataType::Interval(_)) => Some(whole(step)?.0),
        Some(step) => Some(RowArguments { columns: vec![Arc::clone(step)], rows: args.rows }),
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
