//! Readers of segments for DataFusion. They read through the store, which checks that the bytes are
//! those that were written.

use std::collections::HashMap;
use std::iter::once;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    ParquetAccessPlan, ParquetFileMetrics, ParquetFileReaderFactory,
};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader,
};
use parquet::file::statistics::Statistics as ParquetStatistics;

use crate::rules::keys::KeyFilter;

use steplake_lake::{LakeError, Segment, SegmentFile, Snapshot};

/// The most keys that are looked for in filters. Some of many keys are in almost any file.
const KEYS_MAX: usize = 64;

/// Opens the segments of a table. Each footer and each filter of keys is read once, not once for
/// each scan.
#[derive(Debug, Clone)]
pub(crate) struct SegmentReaders {
    /// Keeps its files from being deleted.
    _snapshot: Arc<Snapshot>,
    /// Whether reads go to threads of their own.
    reads_apart: bool,
    footers: Footers,
    filters: KeyFilters,
}

/// The Bloom filters of row groups, each by its file and its place there; none for a file without.
type KeyFilters = Arc<Mutex<HashMap<(PathBuf, usize), Option<Arc<Sbbf>>>>>;

type Footers = Arc<Mutex<HashMap<PathBuf, Arc<ParquetMetaData>>>>;

impl SegmentReaders {
    pub(crate) fn new(snapshot: Arc<Snapshot>, reads_apart: bool) -> Self {
        let (footers, filters) = (Footers::default(), KeyFilters::default());
        Self { _snapshot: snapshot, reads_apart, footers, filters }
    }

    /// The row groups of a segment that may have rows with one of these keys, by the filters of its
    /// leading keys. If it has none, or there are many keys, all may.
    ///
    /// # Errors
    ///
    /// If the segment cannot be read.
    pub(crate) async fn row_groups(
        &self,
        segment: &Segment,
        keys: &KeyFilter,
    ) -> Result<RowGroups> {
        if segment.table.key()[0] != keys.column || keys.keys.len() > KEYS_MAX {
            return Ok(RowGroups::All);
        }
        let metrics = ParquetFileMetrics::new(0, "", &ExecutionPlanMetricsSet::new());
        let mut reader = self.reader(segment.clone(), metrics);
        let footer = reader.get_metadata(None).await?;
        let columns = footer.file_metadata().schema_descr();
        let column = columns.columns().iter().position(|it| it.path().parts() == [&*keys.column]);
        let Some(column) = column else { return Ok(RowGroups::All) };
        let mut plan = ParquetAccessPlan::new_none(footer.num_row_groups());
        let mut end = 0;
        for (place, group) in footer.row_groups().iter().enumerate() {
            let rows = end..end + group.num_rows().cast_unsigned();
            end = rows.end;
            let own: Vec<i64> = within(group.column(column), keys).collect();
            if own.is_empty() {
                continue;
            }
            let Some(filter) = self.filter(&mut reader, &footer, place).await? else {
                return Ok(RowGroups::All);
            };
            if own.iter().any(|key| filter.check(key)) {
                plan.scan(place);
                if !segment.deleted().is_empty() {
                    plan.scan_selection(place, segment.deleted().live_selection(once(rows)));
                }
            }
        }
        let is_empty = plan.row_group_indexes().is_empty();
        Ok(if is_empty { RowGroups::None } else { RowGroups::Some(plan) })
    }

    /// The filter of a row group.
    async fn filter(
        &self,
        reader: &mut SegmentReader,
        footer: &Arc<ParquetMetaData>,
        group: usize,
    ) -> Result<Option<Arc<Sbbf>>> {
        let name = (reader.segment.path.clone(), group);
        if let Some(known) = self.filters.lock().get(&name) {
            return Ok(known.clone());
        }
        let (file, footer) = (reader.open()?, Arc::clone(footer));
        let filter = read(self.reads_apart, move || file.key_filter(&footer, group)).await?;
        let filter = filter.map(Arc::new);
        self.filters.lock().insert(name, filter.clone());
        Ok(filter)
    }

    fn reader(&self, segment: Segment, metrics: ParquetFileMetrics) -> SegmentReader {
        let (footers, reads_apart) = (Arc::clone(&self.footers), self.reads_apart);
        SegmentReader { segment, file: None, reads_apart, footers, metrics }
    }
}

impl ParquetFileReaderFactory for SegmentReaders {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let location = file.object_meta.location.as_ref();
        let metrics = ParquetFileMetrics::new(partition_index, location, metrics);
        let segment = file
            .extension::<Segment>()
            .ok_or_else(|| exec_datafusion_err!("{location} is no segment of the lake"))?;
        Ok(Box::new(self.reader(segment.clone(), metrics)))
    }
}

/// The row groups of a segment that a scan reads.
#[derive(Debug, Clone)]
pub(crate) enum RowGroups {
    None,
    Some(ParquetAccessPlan),
    All,
}

/// The keys that a column of a row group may have, by its least and greatest value.
fn within(column: &ColumnChunkMetaData, keys: &KeyFilter) -> impl Iterator<Item = i64> {
    let bounds = match column.statistics() {
        Some(ParquetStatistics::Int64(known)) => known.min_opt().zip(known.max_opt()),
        _ => None,
    };
    let (least, greatest) = bounds.map_or((i64::MIN, i64::MAX), |(least, most)| (*least, *most));
    let in_order = (least <= greatest).then(|| keys.keys.range(least..=greatest).copied());
    in_order.into_iter().flatten()
}

/// A segment under one scan.
struct SegmentReader {
    segment: Segment,
    file: Option<SegmentFile>,
    reads_apart: bool,
    footers: Footers,
    metrics: ParquetFileMetrics,
}

impl SegmentReader {
    /// The open file. It stays the same for the whole scan, since the segment may be retired
    /// meanwhile.
    fn open(&mut self) -> Result<SegmentFile, ParquetError> {
        if let Some(file) = &self.file {
            return Ok(file.clone());
        }
        let file = self.segment.open().map_err(boxed)?;
        Ok(self.file.insert(file).clone())
    }
}

impl AsyncFileReader for SegmentReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        async move {
            let mut parts = self.get_byte_ranges(vec![range]).await?;
            parts.pop().ok_or_else(|| ParquetError::General("a range was not read".into()))
        }
        .boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        let bytes = ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        self.metrics.bytes_scanned.add(usize::try_from(bytes).unwrap_or(usize::MAX));
        async move {
            let (file, apart) = (self.open()?, self.reads_apart);
            read(apart, move || file.read_ranges(&ranges).map_err(boxed)).await
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move {
            let policy =
                options.map_or(PageIndexPolicy::Skip, ArrowReaderOptions::column_index_policy);
            let known = self.footers.lock().get(&self.segment.path).cloned();
            if let Some(known) = known
                && (known.column_index().is_some() || policy == PageIndexPolicy::Skip)
            {
                return Ok(known);
            }
            let (file, apart) = (self.open()?, self.reads_apart);
            let footer = read(apart, move || {
                let reader = ParquetMetaDataReader::new().with_page_index_policy(policy);
                reader.parse_and_finish(&file).map(Arc::new)
            });
            let footer = footer.await?;
            self.footers.lock().insert(self.segment.path.clone(), Arc::clone(&footer));
            Ok(footer)
        }
        .boxed()
    }
}

/// Reads from the disk, here or on a thread that may block (`apart`).
async fn read<T: Send + 'static>(
    apart: bool,
    read: impl FnOnce() -> parquet::errors::Result<T> + Send + 'static,
) -> parquet::errors::Result<T> {
    if !apart {
        return read();
    }
    tokio::task::spawn_blocking(read).await.map_err(|error| ParquetError::External(error.into()))?
}

/// Boxes an error of the store, so that it can travel through DataFusion.
fn boxed(error: LakeError) -> ParquetError {
    ParquetError::External(Box::new(error))
}
