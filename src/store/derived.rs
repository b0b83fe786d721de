//! Derived tables: made from the others, and made anew as a whole.

use super::segment::{FinishedSegment, SegmentWriter};
use super::{Lake, Segment, StoreError, Table, Writer, catalog};
use arrow::array::RecordBatch;

/// Rows of a segment of a derived table.
const SEGMENT_ROWS_MAX: u64 = 1 << 23;

/// New content for the derived tables, written beside the old one.
///
/// Nothing of it is part of the lake before [`Writer::replace`]; dropped before that, it leaves
/// files that the next writer removes.
#[derive(Debug)]
pub struct Replacement {
    lake: Lake,
    open: Vec<SegmentWriter>,
    finished: Vec<FinishedSegment>,
}

impl Replacement {
    /// Adds rows to a derived table. They come in the order of the table's key.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does.
    ///
    /// # Panics
    ///
    /// When the table is not a derived one, or the batch has other columns.
    pub fn write(&mut self, table: Table, batch: &RecordBatch) -> Result<(), StoreError> {
        assert!(table.is_derived(), "{table} is no derived table");
        let schema = self.lake.schemas.get(table);
        assert_eq!(batch.schema_ref(), schema, "the batch has other columns than {table}");
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let known = self.open.iter().position(|writer| writer.table() == table);
        let place = known.unwrap_or(self.open.len());
        if known.is_none() {
            self.open.push(SegmentWriter::create(&self.lake.segment_place(), table, schema)?);
        }
        self.open[place].write(batch)?;
        if self.open[place].rows() >= SEGMENT_ROWS_MAX {
            let writer = self.open.swap_remove(place);
            self.finished.push(writer.finish()?);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        for writer in self.open.drain(..) {
            self.finished.push(writer.finish()?);
        }
        Ok(())
    }
}

impl Writer {
    /// Begins new content for all derived tables. A table that gets no rows will be empty.
    pub fn replacement(&self) -> Replacement {
        Replacement { lake: self.lake.clone(), open: Vec::new(), finished: Vec::new() }
    }

    /// Puts new content in the place of the old one, in all derived tables at once, in one
    /// transaction that also keeps `inputs`, the digest of what it was made from. A snapshot has
    /// either the old tables or the new ones. The old files go at once, since whoever reads
    /// `state_transitions/*.parquet` would count their rows twice; a reader with an older snapshot
    /// that has not opened them yet is told to ask again.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does. The old content is then still there.
    pub fn replace(
        &mut self,
        mut replacement: Replacement,
        inputs: &str,
    ) -> Result<Vec<Segment>, StoreError> {
        replacement.finish()?;
        let segments =
            replacement.finished.into_iter().map(|finished| finished.segment).collect::<Vec<_>>();
        let (path, lake) = (self.log(), self.lake.path.clone());
        let transaction = self.catalog.write()?;
        let before =
            catalog::listed_paths(&transaction, &lake).map_err(StoreError::sqlite(&path))?;
        let replace = || {
            for table in Table::ALL.into_iter().filter(|table| table.is_derived()) {
                transaction
                    .execute("DELETE FROM segments WHERE table_name = ?1", [table.name()])?;
            }
            for segment in &segments {
                catalog::insert_segment(&transaction, &lake, segment)?;
            }
            let keep = "INSERT OR REPLACE INTO derivations VALUES ('dedup', ?1)";
            transaction.execute(keep, [inputs]).map(drop)
        };
        replace().map_err(StoreError::sqlite(&path))?;
        self.lake.disk.commit(transaction, &path)?;
        let after = self.catalog.reading(|log| catalog::listed_paths(log, &lake))?;
        for replaced in before.difference(&after) {
            // What cannot be removed now, the next writer removes.
            let _ = self.lake.disk.remove(replaced);
        }
        Ok(segments)
    }
}
