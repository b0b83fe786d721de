use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::file::metadata::PageIndexPolicy;

use super::error::LakeError;
use super::reading::SegmentRows;
use super::segment::Segment;

/// The greatest number of rows in a batch of a scan.
const SCAN_ROWS_MAX: usize = 16_384;

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

/// The rows of a table, in batches. The iterator ends after an error.
#[derive(Debug)]
pub struct Scan<'a> {
    schema: &'a SchemaRef,
    places: Vec<usize>,
    segments: std::slice::Iter<'a, Segment>,
    reader: Option<SegmentRows>,
    hot: std::slice::Iter<'a, RecordBatch>,
    rows_max: usize,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(
        schema: &'a SchemaRef,
        segments: &'a [Segment],
        hot: &'a [RecordBatch],
        columns: ScanColumns<'_>,
    ) -> Self {
        let places = columns.places(schema);
        let (segments, hot, rows_max) = (segments.iter(), hot.iter(), SCAN_ROWS_MAX);
        Self { schema, places, segments, reader: None, hot, rows_max }
    }

    /// Reads at most so many rows at a time.
    pub(crate) fn with_batch_rows(self, rows_max: usize) -> Self {
        Self { rows_max, ..self }
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, LakeError> {
        loop {
            if let Some(reader) = &mut self.reader {
                match reader.next().transpose()? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.reader = None,
                }
            }
            let Some(segment) = self.segments.next() else { break };
            let open =
                segment.reader(self.schema, &self.places, PageIndexPolicy::Skip, |builder| {
                    builder.with_batch_size(self.rows_max)
                });
            self.reader = Some(open?);
        }
        let project = |batch: &RecordBatch| {
            batch.project(&self.places).expect("the places are of the schema")
        };
        Ok(self.hot.next().map(project))
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<RecordBatch, LakeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            (self.segments, self.hot, self.reader) = ([].iter(), [].iter(), None);
        }
        next.transpose()
    }
}
