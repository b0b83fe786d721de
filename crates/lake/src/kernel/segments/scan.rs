//! Scans of one table: batches from segments and from hot rows.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::file::metadata::PageIndexPolicy;

use super::reading::{RowChoice, SegmentRows};
use super::segment::Segment;
use crate::kernel::error::LakeError;
use crate::kernel::schema::encode::Schemas;
use crate::kernel::schema::table::has_large_rows;

/// The greatest number of rows in a batch of a scan.
pub(crate) const SCAN_ROWS_MAX: usize = 16_384;

/// The same where rows may have kilobytes.
const SCAN_LARGE_ROWS_MAX: usize = 1024;

/// Which columns a scan reads.
#[derive(Debug, Clone, Copy)]
pub enum ScanColumns<'a> {
    /// Every column.
    All,
    /// The columns with these names.
    Named(&'a [&'a str]),
}

impl ScanColumns<'_> {
    /// Their places in a table's schema, in its order.
    pub(crate) fn places(self, schema: &SchemaRef) -> Vec<usize> {
        let mut places = match self {
            Self::All => (0..schema.fields().len()).collect(),
            Self::Named(names) => {
                let place = |name: &&str| {
                    schema.index_of(name).expect("a scan asks for columns that are there")
                };
                names.iter().map(place).collect::<Vec<_>>()
            }
        };
        places.sort_unstable();
        places
    }
}

/// Rows in batches. The iterator ends after an error.
pub type RecordBatches<'a> = Box<dyn Iterator<Item = Result<RecordBatch, LakeError>> + Send + 'a>;

/// The rows of segments and hot batches of one table, at most `rows_max` at a time.
pub(crate) fn scan<'a>(
    schema: &'a SchemaRef,
    segments: &'a [Segment],
    hot: &'a [RecordBatch],
    columns: ScanColumns<'_>,
    rows_max: usize,
) -> RecordBatches<'a> {
    let places = columns.places(schema);
    let projected = schema.project(&places).expect("the places are of the schema");
    let large = if has_large_rows(&projected) { SCAN_LARGE_ROWS_MAX } else { rows_max };
    let (rows_max, of_hot) = (rows_max.min(large), places.clone());
    let open = move |segment: &Segment| {
        segment.reader(schema, &places, PageIndexPolicy::Skip, |_| RowChoice::all(rows_max))
    };
    let hot = hot
        .iter()
        .map(move |batch| Ok(batch.project(&of_hot).expect("the places are of the schema")));
    let (mut batches, mut failed) = (rows(segments.iter().map(open)).chain(hot), false);
    Box::new(std::iter::from_fn(move || {
        let next = if failed { None } else { batches.next() };
        failed |= matches!(next, Some(Err(_)));
        next
    }))
}

/// The rows of segments that are opened one after another.
pub(crate) fn rows(
    opened: impl Iterator<Item = Result<SegmentRows, LakeError>>,
) -> impl Iterator<Item = Result<RecordBatch, LakeError>> {
    opened.flat_map(|opened| {
        let (rows, error) = opened.map_or_else(|error| (None, Some(error)), |it| (Some(it), None));
        rows.into_iter().flatten().chain(error.map(Err))
    })
}

impl Segment {
    /// Reads the rows as [`Snapshot::scan`](crate::kernel::Snapshot::scan) reads a table.
    pub(crate) fn scan<'a>(
        &'a self,
        schemas: &'a Schemas,
        columns: ScanColumns<'_>,
    ) -> RecordBatches<'a> {
        let this = std::slice::from_ref(self);
        scan(schemas.get(self.table), this, &[], columns, SCAN_ROWS_MAX)
    }
}
