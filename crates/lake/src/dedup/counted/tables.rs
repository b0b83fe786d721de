//! The Parquet files of tables that another program wrote.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use crate::kernel::files::disk::entries;
use crate::kernel::files::guarded::guarded;
use crate::kernel::segments::reading::widened;
use crate::kernel::{LakeError, Snapshot, Table};

/// The greatest number of rows in a batch.
const BATCH_ROWS: usize = 4096;
/// The end of the names of the files.
const ENDING: &str = ".parquet";

/// The files of a folder whose names end so, in the order of their names. Files that begin with a
/// dot or a line are what a job leaves beside them.
pub(super) fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, LakeError> {
    let name = |entry: std::fs::DirEntry| entry.file_name().into_string().ok();
    let is_own = |name: &String| name.ends_with(ending) && !name.starts_with(['.', '_']);
    let mut names = entries(folder)?.into_iter().filter_map(name).collect::<Vec<_>>();
    names.retain(is_own);
    // The number of a part has five digits, or more where these do not suffice.
    names.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// The files of one table.
#[derive(Debug)]
pub(super) struct TableFiles {
    folder: PathBuf,
    /// The columns that the files have, with the types of the lake.
    written: SchemaRef,
    /// The columns of the lake.
    own: SchemaRef,
}

impl TableFiles {
    /// The files of a table in the folder of all tables, with these columns of the lake.
    pub(super) fn of(folder: &Path, table: Table, written: SchemaRef, snapshot: &Snapshot) -> Self {
        Self { folder: folder.join(table.name()), written, own: snapshot.schema(table) }
    }

    /// The rows of all files, with the columns of the lake.
    pub(super) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, LakeError>> + '_ {
        let (paths, failed) = match files(&self.folder, ENDING) {
            Ok(paths) => (paths, None),
            Err(error) => (Vec::new(), Some(Err(error))),
        };
        let rows = paths.into_iter().flat_map(|path| match self.open(&path) {
            Ok(reader) => Rows { files: self, path, reader: Some(reader), failed: None },
            Err(error) => Rows { files: self, path, reader: None, failed: Some(error) },
        });
        failed.into_iter().chain(rows)
    }

    fn open(&self, path: &Path) -> Result<ParquetRecordBatchReader, LakeError> {
        let file = File::open(path).map_err(LakeError::io("open", path))?;
        let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file));
        let builder = builder.map_err(|error| unreadable(path, &error))?;
        self.demand_columns(builder.schema()).map_err(|what| refused(path, what))?;
        let reader = guarded(|| builder.with_batch_size(BATCH_ROWS).build());
        reader.map_err(|error| unreadable(path, &error))
    }

    /// Compares the columns of a file with those of the lake. Other programs may not know state ids
    /// as values of a fixed length, nor that a column is never null.
    fn demand_columns(&self, found: &Schema) -> Result<(), String> {
        let is_binary = |field: &Field| matches!(field.data_type(), DataType::Binary);
        let is_id = |field: &Field| matches!(field.data_type(), DataType::FixedSizeBinary(_));
        let fits = |found: &Field, own: &Field| {
            found.name() == own.name()
                && (found.data_type() == own.data_type() || is_id(own) && is_binary(found))
        };
        let mut pairs = found.fields().iter().zip(self.written.fields());
        if found.fields().len() == self.written.fields().len()
            && pairs.all(|(found, own)| fits(found, own))
        {
            return Ok(());
        }
        let names = |schema: &Schema| {
            let column = |field: &Arc<Field>| format!("{} {}", field.name(), field.data_type());
            schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
        };
        Err(format!("it has the columns {}, and not {}", names(found), names(&self.written)))
    }

    /// Gives a batch the columns of the lake.
    fn own(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let cast = |(column, field): (&ArrayRef, &Arc<Field>)| {
            cast_with_options(column, field.data_type(), &options)
        };
        let columns = batch.columns().iter().zip(self.written.fields()).map(cast);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        widened(&RecordBatch::try_new(Arc::clone(&self.written), columns)?, &self.own)
    }
}

/// The rows of one file. The iterator ends after an error.
struct Rows<'a> {
    files: &'a TableFiles,
    path: PathBuf,
    reader: Option<ParquetRecordBatchReader>,
    failed: Option<LakeError>,
}

impl Iterator for Rows<'_> {
    type Item = Result<RecordBatch, LakeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let reader = self.reader.as_mut()?;
        let batch = guarded(|| reader.next().transpose());
        let batch = batch.map_err(|error| unreadable(&self.path, &error)).transpose()?;
        let own = |batch: RecordBatch| {
            let what = |error: ArrowError| refused(&self.path, error.to_string());
            self.files.own(&batch).map_err(what)
        };
        let batch = batch.and_then(own);
        if batch.is_err() {
            self.reader = None;
        }
        Some(batch)
    }
}

fn unreadable(path: &Path, error: &str) -> LakeError {
    refused(path, format!("it cannot be read as Parquet ({error})"))
}

fn refused(path: &Path, what: String) -> LakeError {
    LakeError::OtherTables { path: path.to_owned(), what }
}
