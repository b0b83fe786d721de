//! The pages of a segment that may hold wanted state keys.

use std::ops::Range;

use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::Statistics;

use super::reading::RowChoice;

/// Chooses the pages that may hold wanted keys. `meets` says whether there may be one between a
/// least and a greatest key. Without a page index, whole row groups are read.
pub(crate) fn choose(footer: &ParquetMetaData, meets: impl Fn(i64, i64) -> bool) -> RowChoice {
    let schema = footer.file_metadata().schema_descr();
    let column = schema.columns().iter().position(|column| column.name() == "state_key");
    let column = column.expect("the table has state keys");
    let (mut groups, mut rows, mut total) = (Vec::new(), Vec::new(), 0);
    for (place, group) in footer.row_groups().iter().enumerate() {
        if let Some(Statistics::Int64(keys)) = group.column(column).statistics()
            && let (Some(&least), Some(&greatest)) = (keys.min_opt(), keys.max_opt())
            && !meets(least, greatest)
        {
            continue;
        }
        let length = usize::try_from(group.num_rows()).unwrap_or(0);
        let pages = pages(footer, place, column, length).into_iter();
        let wanted = pages.filter(|(least, greatest, _)| meets(*least, *greatest));
        let before = rows.len();
        rows.extend(wanted.map(|(_, _, page)| total + page.start..total + page.end));
        if rows.len() > before {
            groups.push(place);
            total += length;
        }
    }
    let selected = rows.iter().map(ExactSizeIterator::len).sum::<usize>();
    let selection =
        (selected < total).then(|| RowSelection::from_consecutive_ranges(rows.into_iter(), total));
    RowChoice { groups: Some(groups), rows: selection, ..RowChoice::default() }
}

/// The pages of a column of a row group: least value, greatest value, and rows. Without a page
/// index, the row group counts as one page.
fn pages(
    footer: &ParquetMetaData,
    group: usize,
    column: usize,
    rows: usize,
) -> Vec<(i64, i64, Range<usize>)> {
    let values = footer.column_index().and_then(|index| index.get(group)?.get(column));
    let places = footer.offset_index().and_then(|index| index.get(group)?.get(column));
    let (Some(ColumnIndexMetaData::INT64(values)), Some(places)) = (values, places) else {
        return vec![(i64::MIN, i64::MAX, 0..rows)];
    };
    let places = places.page_locations();
    let first = |page: usize| usize::try_from(places.get(page)?.first_row_index).ok();
    let page = |page: usize| {
        let least = values.min_value(page).copied().unwrap_or(i64::MIN);
        let greatest = values.max_value(page).copied().unwrap_or(i64::MAX);
        let start = first(page).unwrap_or(rows).min(rows);
        let end = first(page + 1).unwrap_or(rows).clamp(start, rows);
        (least, greatest, start..end)
    };
    (0..places.len()).map(page).collect()
}
