//! The tables of a lake as DataFusion sees them: sealed segments and hot batches of one snapshot.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, Result, Statistics};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::ParquetAccessPlan;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;

use super::chained_segments::ChainedSegments;
use super::merged_scan::MergedScan;
use super::partition_segments::{
    LiveRows, SegmentPartitions, file_with_plan, partition_segments, statistics,
};
use super::readers::{RowGroups, SegmentReaders};
use crate::forward::inexact;
use crate::options::EngineOptions;
use crate::rules::keys::{KeyFilter, key_filters};
use steplake_lake::{Segment, Snapshot, Table};

/// One table of one snapshot. A scan reads the hot batches and those segments that may match the
/// filters, without the rows that are deleted in a segment. Filters, columns and limits are pushed
/// down into both. The scan declares the order of the segments, so that DataFusion does not gather
/// the rows of one episode or state again.
#[derive(Debug)]
pub(crate) struct LakeTable {
    schema: SchemaRef,
    segments: Vec<Segment>,
    hot: Vec<RecordBatch>,
    readers: SegmentReaders,
    live: LiveRows,
}

/// The most columns of a scan that is merged. Questions that gain by the order read few; a copy of
/// all columns costs more than it saves.
const MERGED_COLUMNS_MAX: usize = 8;

/// What a scan reads of its table.
#[derive(Debug, Clone, Copy)]
struct Columns<'a> {
    projection: Option<&'a Vec<usize>>,
    limit: Option<usize>,
}

impl Columns<'_> {
    /// The place of the leading key among these columns, if segments are merged by it.
    fn merged_by(self, segments: &[&Segment], schema: &Schema) -> Option<usize> {
        let columns = self.projection.filter(|columns| columns.len() <= MERGED_COLUMNS_MAX)?;
        let key = schema.index_of(segments.first()?.table.key()[0]).ok()?;
        columns.iter().position(|&column| column == key)
    }
}

impl LakeTable {
    pub(crate) fn new(snapshot: &Arc<Snapshot>, table: Table, options: &EngineOptions) -> Self {
        Self {
            schema: snapshot.schema(table),
            segments: snapshot.segments(table).to_vec(),
            hot: snapshot.hot(table).to_vec(),
            readers: SegmentReaders::new(Arc::clone(snapshot), options.reads_apart),
            live: LiveRows::default(),
        }
    }

    /// The row groups of a segment that may have rows with the keys of one of the filters.
    async fn row_groups(&self, segment: &Segment, keys: &[KeyFilter]) -> Result<RowGroups> {
        for key in keys {
            match self.readers.row_groups(segment, key).await? {
                RowGroups::All => {}
                some => return Ok(some),
            }
        }
        Ok(RowGroups::All)
    }

    /// The segments' part of a scan.
    fn scan_segments(
        &self,
        state: &dyn Session,
        segments: &[&Segment],
        (keys, mut plans): (&[KeyFilter], HashMap<PathBuf, ParquetAccessPlan>),
        columns: Columns<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filter = conjunction(keys.iter().map(KeyFilter::expr));
        let count = state.config().target_partitions();
        let mut partitions = partition_segments(segments, &self.schema, &self.live, count)?;
        if !plans.is_empty() {
            let planned = |file: PartitionedFile| {
                let segment = file.extension::<Segment>();
                match segment.and_then(|segment| plans.remove(&segment.path)) {
                    Some(plan) => file_with_plan(file, plan),
                    None => file,
                }
            };
            let files = partitions.groups.into_iter().flat_map(FileGroup::into_inner);
            // Few row groups are read, by one partition.
            partitions.groups = vec![files.map(planned).collect::<Vec<_>>().into()];
            partitions.partitioning = None;
        } else if partitions.ordering.is_empty()
            && let Some(key) = columns.merged_by(segments, &self.schema)
            && let Some(chains) = ChainedSegments::new(segments, &self.schema, &self.live, count)
        {
            return self.scan_merged(state, &chains, filter.as_ref(), key, columns);
        }
        self.scan_files(state, filter, partitions, statistics(&self.schema, segments), columns)
    }

    /// A scan of files.
    fn scan_files(
        &self,
        state: &dyn Session,
        filter: Option<Expr>,
        partitions: SegmentPartitions,
        statistics: Statistics,
        columns: Columns<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let url = ObjectStoreUrl::local_filesystem();
        let options = TableParquetOptions {
            global: state.config_options().execution.parquet.clone(),
            ..TableParquetOptions::default()
        };
        let mut source = ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(self.readers.clone()));
        if let Some(filter) = filter {
            let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
            source = source.with_predicate(state.create_physical_expr(filter, &schema)?);
        }
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(partitions.groups)
            .with_output_ordering(partitions.ordering)
            .with_output_partitioning(partitions.partitioning)
            .with_statistics(statistics)
            .with_projection_indices(columns.projection.cloned())?
            .with_limit(columns.limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// A scan of chains of segments, which are merged by their leading key, the column at `key` of
    /// the projection.
    fn scan_merged(
        &self,
        state: &dyn Session,
        chains: &ChainedSegments<'_>,
        filter: Option<&Expr>,
        key: usize,
        columns: Columns<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut scans = Vec::new();
        let ranges = chains.ranges();
        for &range in &*ranges {
            for chain in chains.within(range)? {
                let mut known = statistics(&self.schema, &chain.segments);
                if chain.filter.is_some() {
                    // Its files have the rows of several ranges.
                    let share = |number: Precision<usize>| {
                        number.to_inexact().map(|all| all.div_ceil(ranges.len()))
                    };
                    known.num_rows = share(known.num_rows);
                    known.total_byte_size = share(known.total_byte_size);
                }
                let filter = conjunction(filter.cloned().into_iter().chain(chain.filter));
                scans.push(self.scan_files(state, filter, chain.files, known, columns)?);
            }
        }
        let schema = scans[0].schema();
        let (ordering, partitioning) = chains.merged(schema.field(key).name(), key);
        Ok(Arc::new(MergedScan::new(scans, ranges, key, ordering, partitioning)))
    }

    /// The hot batches' part of a scan.
    fn scan_hot(&self, columns: Columns<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let config = MemorySourceConfig::try_new(
            std::slice::from_ref(&self.hot),
            Arc::clone(&self.schema),
            columns.projection.cloned(),
        )?
        .with_show_sizes(false)
        .with_limit(columns.limit);
        Ok(DataSourceExec::from_data_source(config))
    }
}

#[async_trait]
impl TableProvider for LakeTable {
    inexact!(schema, Base);

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let keys = key_filters(filters, &self.schema);
        let (mut segments, mut plans) = (Vec::new(), HashMap::new());
        for segment in &self.segments {
            if keys.iter().all(|key| key.may_be_in(segment)) {
                match self.row_groups(segment, &keys).await? {
                    RowGroups::None => continue,
                    RowGroups::Some(plan) => drop(plans.insert(segment.path.clone(), plan)),
                    RowGroups::All => {}
                }
                segments.push(segment);
            }
        }
        let keys = (&keys[..], plans);
        let columns = Columns { projection, limit };
        let has_hot = self.hot.iter().any(|batch| batch.num_rows() > 0);
        match (segments.is_empty(), has_hot) {
            (true, _) => self.scan_hot(columns),
            (false, false) => self.scan_segments(state, &segments, keys, columns),
            (false, true) => UnionExec::try_new(vec![
                self.scan_segments(state, &segments, keys, columns)?,
                self.scan_hot(columns)?,
            ]),
        }
    }
}
