//! The IR of single states: from the hot rows, or from the few pages of a segment that can hold it.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::Int32Type;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::statistics::Statistics;
use sha1::{Digest as _, Sha1};

use super::decode::{States, state_ids, state_keys};
use super::error::LakeError;
use super::guarded::guarded;
use super::reading::SegmentFile;
use super::segment::Segment;
use super::snapshot::Snapshot;
use super::sqlite;
use super::table::Table;
use crate::model::StateId;

/// Pages that may hold wanted rows: row group, first row in it, rows.
type PageSpans = BTreeMap<usize, Vec<(usize, usize)>>;

impl Snapshot {
    /// The bitcode of each state, in the order asked for; none where the lake does not hold it.
    /// Each is checked against its SHA-1.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub fn ir(&self, states: &[StateId]) -> Result<Vec<Option<Vec<u8>>>, LakeError> {
        let mut found: HashMap<StateId, Vec<u8>> = HashMap::new();
        let hot = self.hot(Table::Ir);
        let hot_places = self.ir_hot.get_or_init(|| hot_places(hot));
        let log = self.path().join(sqlite::FILE_NAME);
        let mut wanted: BTreeMap<i64, Vec<StateId>> = BTreeMap::new();
        for &state in states {
            match hot_places.get(&state) {
                Some(&(batch, row)) if !found.contains_key(&state) => {
                    let bitcode =
                        unpack(&hot[batch], row).map_err(|what| LakeError::corrupt(&log, what))?;
                    found.insert(state, bitcode);
                }
                Some(_) => {}
                None => wanted.entry(state.key()).or_default().push(state),
            }
        }
        for (segment, footer) in self.segments(Table::Ir).iter().zip(&self.ir_footers) {
            let in_range = |(least, greatest)| wanted.range(least..=greatest).next().is_some();
            if segment.key_range.is_some_and(in_range) {
                read_from(segment, footer, &wanted, &mut found)?;
            }
        }
        // The last one to ask for a state gets it, those before it a copy.
        let last = states.iter().zip(0..).collect::<HashMap<_, usize>>();
        let hand_out = |(place, state): (usize, &StateId)| {
            if last[state] == place { found.remove(state) } else { found.get(state).cloned() }
        };
        Ok(states.iter().enumerate().map(hand_out).collect())
    }
}

fn hot_places(hot: &[RecordBatch]) -> HashMap<StateId, (usize, usize)> {
    let mut places = HashMap::new();
    for (batch, rows) in hot.iter().enumerate() {
        for (row, state) in state_ids(rows, "state_id").enumerate() {
            places.extend(state.map(|state| (state, (batch, row))));
        }
    }
    places
}

fn read_from(
    segment: &Segment,
    footer: &OnceLock<ArrowReaderMetadata>,
    wanted: &BTreeMap<i64, Vec<StateId>>,
    found: &mut HashMap<StateId, Vec<u8>>,
) -> Result<(), LakeError> {
    let file = segment.open()?;
    let footer = if let Some(footer) = footer.get() {
        footer.clone()
    } else {
        let read = segment.footer(&file, PageIndexPolicy::Optional)?;
        footer.get_or_init(|| read).clone()
    };
    let spans = candidate_pages(footer.metadata(), wanted);
    for (group, spans) in spans {
        for batch in read_pages(&file, &footer, group, &spans)? {
            for (row, state) in state_ids(&batch, "state_id").flatten().enumerate() {
                if wanted.get(&state.key()).is_some_and(|states| states.contains(&state)) {
                    let bitcode = unpack(&batch, row)
                        .map_err(|what| LakeError::corrupt(&segment.path, what))?;
                    found.insert(state, bitcode);
                }
            }
        }
    }
    Ok(())
}

fn read_pages(
    file: &SegmentFile,
    footer: &ArrowReaderMetadata,
    group: usize,
    spans: &[(usize, usize)],
) -> Result<Vec<RecordBatch>, LakeError> {
    let mut selectors = Vec::new();
    let mut at = 0;
    for &(first, rows) in spans {
        selectors.push(RowSelector::skip(first - at));
        selectors.push(RowSelector::select(rows));
        at = first + rows;
    }
    let read = || {
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), footer.clone())
                .with_row_groups(vec![group])
                .with_row_selection(RowSelection::from(selectors))
                .with_projection(ProjectionMask::all())
                .build()?;
        reader.collect::<Result<Vec<_>, _>>().map_err(ParquetError::from)
    };
    guarded(read).map_err(|error| file.unreadable(&error))
}

/// The pages whose keys may be among those wanted: by the page index where there is one, else whole
/// row groups by their statistics.
fn candidate_pages(metadata: &ParquetMetaData, wanted: &BTreeMap<i64, Vec<StateId>>) -> PageSpans {
    let mut spans = PageSpans::new();
    let schema = metadata.file_metadata().schema_descr();
    let Some(column) =
        (0..schema.num_columns()).find(|&place| schema.column(place).name() == "state_key")
    else {
        return spans;
    };
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        let rows = usize::try_from(row_group.num_rows()).unwrap_or(0);
        let any = |least: i64, greatest: i64| {
            least <= greatest && wanted.range(least..=greatest).next().is_some()
        };
        if let Some(Statistics::Int64(statistics)) = row_group.column(column).statistics()
            && let (Some(&least), Some(&greatest)) = (statistics.min_opt(), statistics.max_opt())
            && !any(least, greatest)
        {
            continue;
        }
        match pages_of(metadata, group, column, rows) {
            None => spans.entry(group).or_default().push((0, rows)),
            Some(pages) => {
                let hits =
                    pages.into_iter().filter(|&(_, _, least, greatest)| any(least, greatest));
                let hits = hits.map(|(first, rows, _, _)| (first, rows)).collect::<Vec<_>>();
                if !hits.is_empty() {
                    spans.insert(group, hits);
                }
            }
        }
    }
    spans
}

/// The pages of a column of a row group: first row, rows, least and greatest value.
fn pages_of(
    metadata: &ParquetMetaData,
    group: usize,
    column: usize,
    rows: usize,
) -> Option<Vec<(usize, usize, i64, i64)>> {
    use parquet::file::page_index::column_index::ColumnIndexMetaData;
    let ColumnIndexMetaData::INT64(index) = metadata.column_index()?.get(group)?.get(column)?
    else {
        return None;
    };
    let locations = metadata.offset_index()?.get(group)?.get(column)?.page_locations();
    let firsts = locations.iter().map(|page| usize::try_from(page.first_row_index).ok());
    let firsts = firsts.collect::<Option<Vec<_>>>()?;
    let ends = firsts.iter().copied().skip(1).chain([rows]);
    let pages = firsts.iter().zip(ends).enumerate().map(|(page, (&first, end))| {
        Some((first, end.checked_sub(first)?, *index.min_value(page)?, *index.max_value(page)?))
    });
    pages.collect()
}

/// The SHA-1 by which stored bitcode proves itself, in the column of that name.
pub fn bitcode_sha1(bitcode: &[u8]) -> [u8; 20] {
    Sha1::digest(bitcode).into()
}

/// The bitcode in a row of `ir`; says what is wrong where it is not what its SHA-1 says. Whether it
/// is that of the row's state only a compiler can tell.
pub(crate) fn unpack(batch: &RecordBatch, row: usize) -> Result<Vec<u8>, String> {
    let state = States::of(batch, "state_id").get(row).ok_or("a row has no state")?;
    let compressed = batch["bitcode"].as_binary::<i32>().value(row);
    let bytes = batch["bytes"].as_primitive::<Int32Type>().value(row);
    let bytes = usize::try_from(bytes)
        .map_err(|error| format!("the IR of {state} has an impossible length ({error})"))?;
    let bitcode = zstd::bulk::decompress(compressed, bytes)
        .map_err(|error| format!("the IR of {state} cannot be decompressed ({error})"))?;
    if bitcode.len() != bytes {
        return Err(format!("the IR of {state} has another length than it says"));
    }
    if bitcode_sha1(&bitcode)[..] != *batch["bitcode_sha1"].as_fixed_size_binary().value(row) {
        return Err(format!("the IR of {state} is not what its SHA-1 says"));
    }
    if state_keys(batch).value(row) != state.key() {
        return Err(format!("the IR of {state} stands under another key"));
    }
    Ok(bitcode)
}
