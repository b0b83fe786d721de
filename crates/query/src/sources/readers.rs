//! Readers of segments for DataFusion. They read through the store, which checks that the bytes are
//! those that were written.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    ParquetFileMetrics, ParquetFileReaderFactory,
};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use steplake_lake::{LakeError, Segment, SegmentFile, Snapshot};

/// Opens the segments of a table. Each footer is read once, not once for each scan.
#[derive(Debug, Clone)]
pub(crate) struct SegmentReaders {
    /// Keeps its files from being deleted.
    _snapshot: Arc<Snapshot>,
    /// Whether reads go to threads of their own.
    reads_apart: bool,
    footers: Footers,
}

type Footers = Arc<Mutex<HashMap<PathBuf, Arc<ParquetMetaData>>>>;

impl SegmentReaders {
    pub(crate) fn new(snapshot: Arc<Snapshot>, reads_apart: bool) -> Self {
        Self { _snapshot: snapshot, reads_apart, footers: Footers::default() }
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
        let (segment, footers) = (segment.clone(), Arc::clone(&self.footers));
        let reads_apart = self.reads_apart;
        Ok(Box::new(SegmentReader { segment, file: None, reads_apart, footers, metrics }))
    }
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
