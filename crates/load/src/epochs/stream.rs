//! Rows read from Parquet in a random order, for what is larger than memory.

use std::fs::{self, File};
use std::io;
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{Float32Type, Float64Type, Int32Type, Int64Type, UInt8Type};
use bytes::Bytes;
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};

use super::permutation::Permutation;
use crate::dataset::{DatasetColumn, GatheredItems, TrainingDataset};
use crate::error::LoadError;
use crate::export::{ROW_GROUP_ROWS, export};
use crate::matrices::mapped::map;
use crate::matrices::matrix_cache::{MatrixCache, MatrixName};
use crate::matrices::numbers::{NumberType, Numbers};
use steplake_lake::guarded;

/// How rows to be streamed are laid out. More rows in a window are shuffled better, and take more
/// memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLayout {
    /// Rows of a row group.
    pub group_rows: NonZeroU32,
    /// Row groups of a window, whose rows are shuffled among each other.
    pub window_groups: NonZeroUsize,
}

impl Default for StreamLayout {
    /// The order of an epoch depends on it: another default would resume states elsewhere.
    fn default() -> Self {
        let window_groups = const { NonZeroUsize::new(8).expect("8 is not 0") };
        Self { group_rows: ROW_GROUP_ROWS, window_groups }
    }
}

/// Windows that are kept: threads that read ahead may have begun with the next one.
const WINDOWS_KEPT: usize = 2;

/// The rows of a dataset in Parquet files of the cache, joined and in a random order.
///
/// An epoch goes through the row groups in an order of its own, and shuffles the rows of a window
/// of them among each other. So it reads whole row groups, and holds two windows in memory, and
/// one for each reading thread, however large the dataset is. The order is one of the seed, the
/// epoch and the layout, and resumes from any place. A process of several reads the windows of
/// all: the order does not depend on how many there are.
#[derive(Debug, Clone)]
pub struct StreamedRows {
    files: Arc<[StreamedFile]>,
    /// All row groups: the file, the number in the file, and the rows.
    groups: Arc<[(usize, usize, u32)]>,
    columns: Arc<[DatasetColumn]>,
    layout: StreamLayout,
}

#[derive(Debug)]
struct StreamedFile {
    path: PathBuf,
    /// Mapped, since threads that share a file share its offset.
    content: Bytes,
    metadata: ArrowReaderMetadata,
}

impl StreamedRows {
    /// Opens the files of a dataset. They are written if the cache does not have them, which takes
    /// the time of reading all rows in a random order, and of compressing them.
    ///
    /// # Errors
    ///
    /// [`LoadError::NoStream`] for slices, episodes and graphs, and [`LoadError::Cache`].
    pub fn of(
        dataset: &TrainingDataset,
        cache: &MatrixCache,
        layout: StreamLayout,
    ) -> Result<Self, LoadError> {
        if !dataset.can_stream() {
            return Err(LoadError::NoStream);
        }
        let columns = dataset.columns().iter();
        let columns: Vec<String> = columns
            .map(|column| format!("{} {}", column.name, column.number_type.name()))
            .collect();
        let group_rows = layout.group_rows.to_string();
        let parts = ["stream", dataset.fingerprint(), &group_rows];
        let name = MatrixName::of(parts.into_iter().chain(columns.iter().map(String::as_str)));
        let make =
            |folder: &Path| export(&[("rows", dataset)], 0, layout.group_rows, folder).map(drop);
        let open = |folder: &Path| {
            let opened = Self::open(&folder.join("data"), dataset.columns(), layout)?;
            if opened.rows() == u64::from(dataset.places()) {
                return Ok(opened);
            }
            Err(LoadError::cache(folder)(io::Error::other("some of its files are missing")))
        };
        cache.folder(&name, open, make)
    }

    fn rows(&self) -> u64 {
        self.groups.iter().map(|(_, _, rows)| u64::from(*rows)).sum()
    }

    fn open(
        folder: &Path,
        columns: &[DatasetColumn],
        layout: StreamLayout,
    ) -> Result<Self, LoadError> {
        let failed = |error| LoadError::cache(folder)(error);
        let paths = fs::read_dir(folder).and_then(|entries| {
            entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()
        });
        let mut paths = paths.map_err(failed)?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
        paths.sort_unstable();
        let files = paths.into_iter().map(|path| {
            let opened = || -> io::Result<_> {
                let content = Bytes::from_owner(map(&File::open(&path)?)?);
                let load = || ArrowReaderMetadata::load(&content, ArrowReaderOptions::default());
                let metadata = guarded(load).map_err(io::Error::other)?;
                Ok((content, metadata))
            };
            let (content, metadata) = opened().map_err(LoadError::cache(&path))?;
            Ok(StreamedFile { path, content, metadata })
        });
        let files = files.collect::<Result<Arc<[_]>, LoadError>>()?;
        let groups = files.iter().enumerate().flat_map(|(file, opened)| {
            let groups = opened.metadata.metadata().row_groups().iter().enumerate();
            groups.map(move |(number, group)| {
                let rows = u32::try_from(group.num_rows()).expect("rows are counted in 32 bits");
                (file, number, rows)
            })
        });
        Ok(Self { groups: groups.collect(), files, columns: columns.into(), layout })
    }

    /// The rows in the order of an epoch.
    pub fn epoch(&self, seed: u64, epoch: u64) -> StreamedEpoch {
        let count = u32::try_from(self.groups.len()).expect("rows are counted in 32 bits");
        let order = Permutation::new(count, seed, epoch);
        let groups: Vec<usize> = (0..count).map(|place| order.row(place) as usize).collect();
        let mut windows = Vec::new();
        let mut begin = 0;
        for (number, groups) in (0..).zip(groups.chunks(self.layout.window_groups.get())) {
            let mut rows = 0;
            let begins = groups.iter().map(|&group| {
                let begin = rows;
                rows += self.groups[group].2;
                begin
            });
            let begins = begins.collect();
            // Windows of equal size would all be shuffled alike.
            let order = Permutation::new(rows, seed.rotate_left(32) ^ number, !epoch);
            windows.push(Window { begin, groups: groups.to_vec(), begins, order });
            begin += rows;
        }
        let kept = Arc::new(Mutex::new(Vec::new()));
        StreamedEpoch { rows: self.clone(), windows: windows.into(), kept }
    }

    /// Reads the rows of a row group.
    fn read(&self, group: usize) -> Result<Vec<Numbers>, LoadError> {
        let mut columns: Vec<Numbers> =
            self.columns.iter().map(DatasetColumn::no_numbers).collect();
        let (file, number, mut left) = self.groups[group];
        let StreamedFile { path, content, metadata } = &self.files[file];
        let read = || -> io::Result<()> {
            let names = self.columns.iter().map(|column| column.name.as_str());
            let mask = ProjectionMask::columns(metadata.parquet_schema(), names);
            let (content, metadata) = (content.clone(), metadata.clone());
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(content, metadata);
            let reader = reader.with_row_groups(vec![number]).with_projection(mask);
            for batch in reader.build()? {
                let batch = batch.map_err(io::Error::other)?;
                left = left.saturating_sub(u32::try_from(batch.num_rows()).unwrap_or(left));
                for (column, numbers) in self.columns.iter().zip(&mut columns) {
                    append(numbers, column, &batch)?;
                }
            }
            if left > 0 {
                return Err(io::Error::other("a row group has too few rows"));
            }
            Ok(())
        };
        guarded(read).map_err(|error| LoadError::cache(path)(io::Error::other(error)))?;
        Ok(columns)
    }
}

/// The rows of a dataset in the order of an epoch, read window by window.
#[derive(Debug, Clone)]
pub struct StreamedEpoch {
    rows: StreamedRows,
    windows: Arc<[Window]>,
    kept: Arc<Mutex<Vec<(usize, WindowRows)>>>,
}

/// The columns of each row group of a window, once a thread has read them.
type WindowRows = Arc<[Mutex<Option<Arc<GroupColumns>>>]>;

/// The columns of a row group.
type GroupColumns = Vec<Numbers>;

/// Row groups whose rows are shuffled among each other.
#[derive(Debug)]
struct Window {
    /// The place of the first row.
    begin: u32,
    groups: Vec<usize>,
    /// The row of the window at which each row group begins.
    begins: Vec<u32>,
    order: Permutation,
}

impl Window {
    /// The row at a place of the epoch: the place of its row group in the window, and its number
    /// there.
    fn row(&self, place: u32) -> (usize, usize) {
        let row = self.order.row(place - self.begin);
        let group = self.begins.partition_point(|begin| *begin <= row) - 1;
        (group, (row - self.begins[group]) as usize)
    }
}

impl StreamedEpoch {
    /// Reads the rows at these places of the order.
    ///
    /// # Errors
    ///
    /// [`LoadError::Cache`] if a file is damaged.
    ///
    /// # Panics
    ///
    /// If there is no such place.
    pub(crate) fn read(&self, places: Range<u32>) -> Result<GatheredItems, LoadError> {
        let mut columns: Vec<Numbers> =
            self.rows.columns.iter().map(DatasetColumn::no_numbers).collect();
        let mut at = places.start;
        while at < places.end {
            let number = self.windows.partition_point(|window| window.begin <= at) - 1;
            let window = &self.windows[number];
            let end = places.end.min(window.begin + window.order.len());
            let rows: Vec<(usize, usize)> = (at..end).map(|place| window.row(place)).collect();
            let read = self.window(number)?;
            for (number, (column, to)) in self.rows.columns.iter().zip(&mut columns).enumerate() {
                let from: Vec<&Numbers> = read.iter().map(|group| &group[number]).collect();
                to.append_rows(&from, column.width.unwrap_or(1), &rows);
            }
            at = end;
        }
        Ok(GatheredItems { columns, graphs: Vec::new(), lengths: None })
    }

    /// The columns of the row groups of a window. All threads that want it read some of them.
    fn window(&self, number: usize) -> Result<Vec<Arc<GroupColumns>>, LoadError> {
        let groups = &self.windows[number].groups;
        let slots = {
            let mut kept = self.kept.lock();
            if let Some((_, slots)) = kept.iter().find(|(kept, _)| *kept == number) {
                Arc::clone(slots)
            } else {
                let slots: WindowRows = groups.iter().map(|_| Mutex::default()).collect();
                kept.push((number, Arc::clone(&slots)));
                // An epoch goes on to later windows: a late thread reads an earlier one for itself.
                kept.sort_unstable_by_key(|(number, _)| *number);
                if kept.len() > WINDOWS_KEPT {
                    kept.remove(0);
                }
                slots
            }
        };
        let read = |slot: &mut Option<Arc<GroupColumns>>, group| match slot {
            Some(columns) => Ok(Arc::clone(columns)),
            None => Ok(Arc::clone(slot.insert(Arc::new(self.rows.read(group)?)))),
        };
        // First those that no other thread is at.
        for (slot, &group) in slots.iter().zip(groups) {
            if let Some(mut slot) = slot.try_lock() {
                read(&mut slot, group)?;
            }
        }
        slots.iter().zip(groups).map(|(slot, &group)| read(&mut slot.lock(), group)).collect()
    }
}

/// Appends the numbers of a column of a batch that an export wrote.
fn append(numbers: &mut Numbers, column: &DatasetColumn, batch: &RecordBatch) -> io::Result<()> {
    let other = || io::Error::other("the file has other columns: delete its folder");
    let array = batch.column_by_name(&column.name).ok_or_else(other)?;
    let flat: &ArrayRef = array.as_fixed_size_list_opt().map_or(array, |lists| lists.values());
    match numbers {
        Numbers::U8(numbers) if column.is_id() => {
            let ids = array.as_binary_opt::<i32>().ok_or_else(other)?;
            ids.iter().flatten().for_each(|id| numbers.extend_from_slice(id));
        }
        Numbers::U8(numbers) if column.number_type == NumberType::Bool => {
            let truths = flat.as_boolean_opt().ok_or_else(other)?.values();
            numbers.extend(truths.iter().map(u8::from));
        }
        Numbers::U8(numbers) => {
            let flat = flat.as_primitive_opt::<UInt8Type>().ok_or_else(other)?;
            numbers.extend_from_slice(flat.values());
        }
        Numbers::I32(numbers) => {
            let flat = flat.as_primitive_opt::<Int32Type>().ok_or_else(other)?;
            numbers.extend_from_slice(flat.values());
        }
        Numbers::I64(numbers) => {
            let flat = flat.as_primitive_opt::<Int64Type>().ok_or_else(other)?;
            numbers.extend_from_slice(flat.values());
        }
        Numbers::F32(numbers) => {
            let flat = flat.as_primitive_opt::<Float32Type>().ok_or_else(other)?;
            numbers.extend_from_slice(flat.values());
        }
        Numbers::F64(numbers) => {
            let flat = flat.as_primitive_opt::<Float64Type>().ok_or_else(other)?;
            numbers.extend_from_slice(flat.values());
        }
    }
    Ok(())
}
