use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::file::metadata::PageIndexPolicy;

use super::error::LakeError;
use super::guarded::guarded;
use super::reading::SegmentFile;
use super::segment::Segment;

/// Rows of a batch of a scan at most.
const SCAN_ROWS_MAX: usize = 16_384;

/// Which columns a scan reads.
#[derive(Debug, Clone, Copy)]
pub enum ScanColumns<'a> {
    /// Every column.
    All,
    /// Those of these names.
    Named(&'a [&'a str]),
}

impl ScanColumns<'_> {
    /// Where they stand in a table's schema, in its order.
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

/// The rows of a table, batch by batch. After an error there is nothing more.
#[derive(Debug)]
pub struct Scan<'a> {
    schema: &'a SchemaRef,
    places: Vec<usize>,
    segments: std::slice::Iter<'a, Segment>,
    reader: Option<(SegmentFile, ParquetRecordBatchReader)>,
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

    fn open(
        &self,
        segment: &Segment,
    ) -> Result<(SegmentFile, ParquetRecordBatchReader), LakeError> {
        segment.reader(self.schema, PageIndexPolicy::Skip, |builder| {
            let places = self.places.iter().copied();
            let mask = ProjectionMask::roots(builder.parquet_schema(), places);
            builder.with_projection(mask).with_batch_size(self.rows_max)
        })
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, LakeError> {
        loop {
            if let Some((file, reader)) = &mut self.reader {
                match guarded(|| reader.next().transpose()) {
                    Ok(None) => self.reader = None,
                    batch => return batch.map_err(|error| file.unreadable(&error)),
                }
            }
            match self.segments.next() {
                Some(segment) => self.reader = Some(self.open(segment)?),
                None => break,
            }
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
