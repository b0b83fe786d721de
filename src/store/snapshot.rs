use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use super::batch::Schemas;
use super::catalog::{self, Catalog};
use super::{Identity, Lake, RunRow, Scan, ScanColumns, Segment, StoreError, Table};
use crate::model::StateId;

/// All rows of one moment: sealed ones by the files that hold them, hot ones in memory.
#[derive(Debug)]
pub struct Snapshot {
    path: PathBuf,
    identity: Arc<Identity>,
    schemas: Schemas,
    segments: [Vec<Segment>; Table::ALL.len()],
    hot: [Vec<RecordBatch>; Table::ALL.len()],
    runs: Vec<RunRow>,
    dedup_inputs: Option<String>,
    /// The footers of the segments of `ir`, read at first need.
    pub(super) ir_footers: Vec<OnceLock<ArrowReaderMetadata>>,
    /// Where the hot rows of `ir` are: batch and row. Made at first need.
    pub(super) ir_hot: OnceLock<HashMap<StateId, (usize, usize)>>,
}

impl Snapshot {
    pub(super) fn read(lake: &Lake, catalog: &Catalog) -> Result<Self, StoreError> {
        let transaction = catalog.read()?;
        let read = || {
            let segments = catalog::segments(&transaction, &lake.path)?;
            let runs = catalog::runs(&transaction)?;
            let dedup_inputs = catalog::derivation(&transaction, "dedup")?;
            Ok((segments, runs, dedup_inputs, catalog::frames(&transaction)?))
        };
        let (listed, runs, dedup_inputs, frames) = read().map_err(catalog.error())?;
        drop(transaction);
        let mut segments = [const { Vec::new() }; Table::ALL.len()];
        for segment in listed {
            segments[segment.table as usize].push(segment);
        }
        let mut hot = [const { Vec::new() }; Table::ALL.len()];
        for placed in frames {
            let table = placed.frame.table;
            let batch = placed.frame.decode(lake.schemas.get(table), placed.seq, catalog.path())?;
            hot[table as usize].push(batch);
        }
        let ir_footers = segments[Table::Ir as usize].iter().map(|_| OnceLock::new()).collect();
        Ok(Self {
            path: lake.path.clone(),
            identity: Arc::clone(&lake.identity),
            schemas: lake.schemas.clone(),
            segments,
            hot,
            runs,
            dedup_inputs,
            ir_footers,
            ir_hot: OnceLock::new(),
        })
    }

    /// Where the lake lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the lake is a lake of.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The columns of a table, the same for sealed and hot rows.
    pub fn schema(&self, table: Table) -> SchemaRef {
        Arc::clone(self.schemas.get(table))
    }

    /// The files that hold a table's sealed rows, oldest first.
    pub fn segments(&self, table: Table) -> &[Segment] {
        &self.segments[table as usize]
    }

    /// A table's hot rows; those of open episodes are among them. They come in no order that says
    /// anything: a seal, and taking open episodes back, append what stays of a frame anew.
    pub fn hot(&self, table: Table) -> &[RecordBatch] {
        &self.hot[table as usize]
    }

    /// How many rows a table has.
    pub fn rows(&self, table: Table) -> u64 {
        let sealed = self.segments(table).iter().map(|segment| segment.rows).sum::<u64>();
        sealed + self.hot(table).iter().map(|batch| batch.num_rows() as u64).sum::<u64>()
    }

    /// The runs, in the order in which they were begun.
    pub fn runs(&self) -> &[RunRow] {
        &self.runs
    }

    /// The digest of what the derived tables were made from; none before the first dedup.
    pub fn dedup_inputs(&self) -> Option<&str> {
        self.dedup_inputs.as_deref()
    }

    /// Reads a table batch by batch, sealed rows before hot ones, a bounded number of rows at a
    /// time. A batch has the columns asked for in the table's order.
    ///
    /// # Panics
    ///
    /// When the table has no column of one of these names.
    pub fn scan(&self, table: Table, columns: ScanColumns<'_>) -> Scan<'_> {
        Scan::new(self.schemas.get(table), self.segments(table), self.hot(table), columns)
    }

    /// Reads one segment of this snapshot as [`scan`](Self::scan) reads a table.
    ///
    /// # Panics
    ///
    /// When the table has no column of one of these names.
    pub fn scan_segment<'a>(&'a self, segment: &'a Segment, columns: ScanColumns<'_>) -> Scan<'a> {
        Scan::new(self.schemas.get(segment.table), std::slice::from_ref(segment), &[], columns)
    }
}
