//! The tables of a lake as DataFusion sees them: sealed segments and hot batches of one snapshot.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;

use super::partition_segments::{partition_segments, statistics};
use super::readers::SegmentReaders;
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
}

impl LakeTable {
    pub(crate) fn new(snapshot: &Arc<Snapshot>, table: Table, options: &EngineOptions) -> Self {
        Self {
            schema: snapshot.schema(table),
            segments: snapshot.segments(table).to_vec(),
            hot: snapshot.hot(table).to_vec(),
            readers: SegmentReaders::new(Arc::clone(snapshot), options.reads_apart),
        }
    }

    /// The segments' part of a scan.
    fn scan_segments(
        &self,
        state: &dyn Session,
        segments: &[&Segment],
        keys: &[KeyFilter],
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let url = ObjectStoreUrl::local_filesystem();
        let options = TableParquetOptions {
            global: state.config_options().execution.parquet.clone(),
            ..TableParquetOptions::default()
        };
        let mut source = ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(self.readers.clone()));
        if let Some(filter) = conjunction(keys.iter().map(KeyFilter::expr)) {
            let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
            source = source.with_predicate(state.create_physical_expr(filter, &schema)?);
        }
        let count = state.config().target_partitions();
        let partitions = partition_segments(segments, &self.schema, count)?;
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(partitions.groups)
            .with_output_ordering(partitions.ordering)
            .with_output_partitioning(partitions.partitioning)
            .with_statistics(statistics(&self.schema, segments))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    /// The hot batches' part of a scan.
    fn scan_hot(
        &self,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = MemorySourceConfig::try_new(
            std::slice::from_ref(&self.hot),
            Arc::clone(&self.schema),
            projection.cloned(),
        )?
        .with_show_sizes(false)
        .with_limit(limit);
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
        let mut segments = Vec::new();
        for segment in &self.segments {
            let mut may_match = true;
            for key in &keys {
                may_match = may_match
                    && key.may_be_in(segment)
                    && self.readers.may_have(segment, key).await?;
            }
            if may_match {
                segments.push(segment);
            }
        }
        let has_hot = self.hot.iter().any(|batch| batch.num_rows() > 0);
        match (segments.is_empty(), has_hot) {
            (true, _) => self.scan_hot(projection, limit),
            (false, false) => self.scan_segments(state, &segments, &keys, projection, limit),
            (false, true) => UnionExec::try_new(vec![
                self.scan_segments(state, &segments, &keys, projection, limit)?,
                self.scan_hot(projection, limit)?,
            ]),
        }
    }
}
