use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::PageIndexPolicy;

use super::reading::{SegmentFile, guarded};
use super::{Segment, StoreError};

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

/// The rows of a table, batch by batch. After an error there is nothing more.
#[derive(Debug)]
pub struct Scan<'a> {
    schema: &'a SchemaRef,
    places: Vec<usize>,
    segments: std::slice::Iter<'a, Segment>,
    reader: Option<(SegmentFile, ParquetRecordBatchReader)>,
    hot: std::slice::Iter<'a, RecordBatch>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        schema: &'a SchemaRef,
        segments: &'a [Segment],
        hot: &'a [RecordBatch],
        columns: ScanColumns<'_>,
    ) -> Self {
        let mut places = match columns {
            ScanColumns::All => (0..schema.fields().len()).collect(),
            ScanColumns::Named(names) => {
                let place = |name: &&str| {
                    schema.index_of(name).expect("a scan asks for columns that are there")
                };
                names.iter().map(place).collect::<Vec<_>>()
            }
        };
        places.sort_unstable();
        Self { schema, places, segments: segments.iter(), reader: None, hot: hot.iter() }
    }

    fn open(
        &self,
        segment: &Segment,
    ) -> Result<(SegmentFile, ParquetRecordBatchReader), StoreError> {
        let file = segment.open()?;
        let footer = segment.footer(&file, PageIndexPolicy::Skip)?;
        if footer.schema().fields() != self.schema.fields() {
            return Err(StoreError::corrupt(
                &segment.path,
                "it has other columns than lake.json says",
            ));
        }
        let mask = ProjectionMask::roots(footer.parquet_schema(), self.places.iter().copied());
        let build = || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), footer)
                .with_projection(mask)
                .with_batch_size(SCAN_ROWS_MAX)
                .build()
        };
        let reader = guarded(build).map_err(|error| file.unreadable(&error))?;
        Ok((file, reader))
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, StoreError> {
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
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            (self.segments, self.hot, self.reader) = ([].iter(), [].iter(), None);
        }
        next.transpose()
    }
}
