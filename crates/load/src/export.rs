//! Datasets as plain Parquet, in a random order, for readers that know nothing of lakes.

use std::fs::{self, File};
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, FixedSizeListArray, Float32Array, Float64Array,
    Int32Array, Int64Array, RecordBatch, StringArray, UInt8Array,
};
use arrow::datatypes::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::dataset::{DatasetColumn, TrainingDataset};
use super::error::LoadError;
use crate::epochs::permutation::Permutation;
use crate::matrices::numbers::{NumberType, Numbers};

/// Rows of a row group: readers that shuffle decode whole ones.
pub const ROW_GROUP_ROWS: NonZeroU32 = NonZeroU32::new(16_384).expect("it is not 0");
/// Row groups of a file.
const FILE_ROW_GROUPS: u32 = 64;

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFile {
    /// Its path in the folder of the export, such as `data/train-00000-of-00002.parquet`.
    pub name: String,
    /// The part of a split that its rows are of.
    pub part: String,
    /// Its rows.
    pub rows: u32,
}

/// Writes parts of a dataset, such as `train` and `test`, into the folder `data` of `folder`.
///
/// The rows of a part are shuffled over all its files, so a reader that goes through them in order
/// gets them shuffled. Row groups have `group_rows` rows, except for the last ones of files. The
/// column `split` names the part, and so do the names of files, in the form that Hugging Face's
/// `datasets` knows. Equal arguments give equal files.
///
/// # Errors
///
/// [`LoadError::Export`] if a file cannot be written.
///
/// # Panics
///
/// If the items of a part are no rows, or if a part has a column called `split`.
pub fn export(
    parts: &[(&str, &TrainingDataset)],
    seed: u64,
    group_rows: NonZeroU32,
    folder: &Path,
) -> Result<Vec<ExportedFile>, LoadError> {
    let mut files = Vec::new();
    for (_, dataset) in parts {
        dataset.demand_values()?;
    }
    for (part, dataset) in parts {
        let file_rows = group_rows.get().saturating_mul(FILE_ROW_GROUPS);
        let count = dataset.places().div_ceil(file_rows).max(1);
        let order = Permutation::new(dataset.places(), seed, 0);
        for number in 0..count {
            let name = format!("data/{part}-{number:05}-of-{count:05}.parquet");
            let begin = number * file_rows;
            let end = begin + file_rows.min(dataset.places() - begin);
            let path = folder.join(&name);
            let places = (begin..end).map(|place| order.row(place));
            write(&path, part, dataset, group_rows, places)
                .map_err(|error| LoadError::Export { path, error })?;
            files.push(ExportedFile { name, part: (*part).to_owned(), rows: end - begin });
        }
    }
    Ok(files)
}

fn write(
    path: &PathBuf,
    part: &str,
    dataset: &TrainingDataset,
    group_rows: NonZeroU32,
    places: impl Iterator<Item = u32>,
) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let schema = schema(dataset);
    let file = File::create_new(path)?;
    let properties = properties(dataset, group_rows.get() as usize);
    let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))?;
    let mut places = places.peekable();
    while places.peek().is_some() {
        let some: Vec<u32> = places.by_ref().take(group_rows.get() as usize).collect();
        let columns = dataset.gather(&some).map_err(io::Error::other)?.columns;
        let mut arrays: Vec<ArrayRef> = dataset
            .columns()
            .iter()
            .zip(columns)
            .map(|(column, some)| array(column, some))
            .collect();
        arrays.push(Arc::new(StringArray::from_iter_values(some.iter().map(|_| part))));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(io::Error::other)?;
        writer.write(&batch)?;
        writer.flush()?;
    }
    writer.into_inner()?.sync_all()
}

fn properties(dataset: &TrainingDataset, group_rows: usize) -> WriterProperties {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3).expect("3 is a level of zstd"));
    let mut properties = WriterProperties::builder()
        .set_compression(zstd)
        .set_max_row_group_row_count(Some(group_rows));
    // Most ids of a row group differ. Vectors have a dictionary: not every reader knows
    // BYTE_STREAM_SPLIT on integers.
    for column in dataset.columns().iter().filter(|column| column.is_id()) {
        let path = ColumnPath::from(column.name.as_str());
        properties = properties.set_column_dictionary_enabled(path, false);
    }
    properties.build()
}

fn schema(dataset: &TrainingDataset) -> SchemaRef {
    let mut fields: Vec<Field> = dataset
        .columns()
        .iter()
        .map(|column| {
            // The types alone: arrays without rows have those of any.
            let none = array(column, column.no_numbers());
            Field::new(&column.name, none.data_type().clone(), false)
        })
        .collect();
    fields.push(Field::new("split", arrow::datatypes::DataType::Utf8, false));
    Arc::new(Schema::new(fields))
}

/// The numbers of a column as an array. State ids are bytes.
fn array(column: &DatasetColumn, numbers: Numbers) -> ArrayRef {
    let flat: ArrayRef = match numbers {
        Numbers::U8(bytes) if column.is_id() => {
            let width = column.width.expect("an id has several bytes");
            return Arc::new(BinaryArray::from_iter_values(bytes.chunks(width)));
        }
        Numbers::U8(numbers) if column.number_type == NumberType::Bool => {
            Arc::new(numbers.into_iter().map(|number| Some(number != 0)).collect::<BooleanArray>())
        }
        Numbers::U8(numbers) => Arc::new(UInt8Array::from(numbers)),
        Numbers::I32(numbers) => Arc::new(Int32Array::from(numbers)),
        Numbers::I64(numbers) => Arc::new(Int64Array::from(numbers)),
        Numbers::F32(numbers) => Arc::new(Float32Array::from(numbers)),
        Numbers::F64(numbers) => Arc::new(Float64Array::from(numbers)),
    };
    match column.width {
        None => flat,
        Some(width) => {
            let item = Arc::new(Field::new("element", flat.data_type().clone(), false));
            let width = i32::try_from(width).expect("a vector has few numbers");
            Arc::new(FixedSizeListArray::new(item, width, flat, None))
        }
    }
}
