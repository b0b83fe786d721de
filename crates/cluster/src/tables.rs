//! Tables of a lake that can be serialised: paths of Parquet files, and rows that are in no file.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, Int64Array, RecordBatch, StringArray};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics, exec_datafusion_err};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::object_store::path::Path as StorePath;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
use steplake::lake::Segment;

/// The path of the lake, here and on the executors.
#[derive(Debug, Clone)]
pub(crate) struct Mount {
    /// The path in this process.
    pub(crate) local: PathBuf,
    /// The path on executors.
    pub(crate) remote: PathBuf,
}

impl Mount {
    fn file(&self, segment: &Segment) -> File {
        let inner = segment.path.strip_prefix(&self.local).map(|inner| self.remote.join(inner));
        let remote = inner.unwrap_or_else(|_outside| segment.path.clone());
        let (bytes, rows) = (segment.bytes, segment.rows);
        File { local: Some(segment.path.clone()), remote, bytes, rows }
    }
}

/// A file of a table.
#[derive(Debug, Clone)]
struct File {
    /// The path in this process, if this process has opened the lake.
    local: Option<PathBuf>,
    /// The path on executors.
    remote: PathBuf,
    bytes: u64,
    rows: u64,
}

/// A self-contained table: a scheduler plans a query over it without the lake, and an executor
/// needs only the files.
#[derive(Debug, Clone)]
pub(crate) struct ShippedTable {
    schema: SchemaRef,
    files: Vec<File>,
    /// The rows that are in no file, in one batch.
    rows: RecordBatch,
}

impl ShippedTable {
    /// Creates a table of files of the lake and of rows that are in no file.
    pub(crate) fn new(
        schema: &SchemaRef,
        segments: &[Segment],
        mount: &Mount,
        rows: &[RecordBatch],
    ) -> Result<Self> {
        let plain = plain(schema);
        let rows = concat_batches(schema, rows)?;
        let columns = rows.columns().iter().zip(plain.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()));
        let columns = columns.collect::<Result<_, _>>()?;
        Ok(Self {
            files: segments.iter().map(|own| mount.file(own)).collect(),
            rows: RecordBatch::try_new(Arc::clone(&plain), columns)?,
            schema: plain,
        })
    }

    /// Creates a table of rows alone.
    pub(crate) fn of(rows: RecordBatch) -> Self {
        Self { schema: rows.schema(), files: Vec::new(), rows }
    }

    /// Writes two Arrow streams: the files, then the rows.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let (mut paths, mut sizes, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let whole = |number: u64| i64::try_from(number).map_err(|e| exec_datafusion_err!("{e}"));
        for file in &self.files {
            let path = file.remote.to_str();
            paths.push(path.ok_or_else(|| {
                exec_datafusion_err!("the path {} is not UTF-8", file.remote.display())
            })?);
            sizes.push(whole(file.bytes)?);
            counts.push(whole(file.rows)?);
        }
        let files = RecordBatch::try_new(
            files_schema(),
            vec![
                Arc::new(StringArray::from(paths)),
                Arc::new(Int64Array::from(sizes)),
                Arc::new(Int64Array::from(counts)),
            ],
        )?;
        for batch in [&files, &self.rows] {
            let mut writer = StreamWriter::try_new(&mut *bytes, batch.schema_ref())?;
            writer.write(batch)?;
            writer.finish()?;
        }
        Ok(())
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Self> {
        let files = only_batch(&mut bytes)?;
        let rows = only_batch(&mut bytes)?;
        let paths = files["path"].as_string::<i32>();
        let number = |column: &str, row: usize| {
            u64::try_from(files[column].as_primitive::<Int64Type>().value(row))
                .map_err(|error| exec_datafusion_err!("{error}"))
        };
        let file = |row| {
            let remote = paths.value(row).into();
            Ok(File {
                local: None,
                remote,
                bytes: number("bytes", row)?,
                rows: number("rows", row)?,
            })
        };
        let files = (0..paths.len()).map(file).collect::<Result<_>>()?;
        Ok(Self { schema: rows.schema(), files, rows })
    }

    fn scan_files(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = TableParquetOptions {
            global: state.config_options().execution.parquet.clone(),
            ..TableParquetOptions::default()
        };
        let source =
            ParquetSource::new(Arc::clone(&self.schema)).with_table_parquet_options(options);
        let mut files: Vec<&File> = self.files.iter().collect();
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let rows: u64 = files.iter().map(|file| file.rows).sum();
        files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        let partitions = state.config().target_partitions().clamp(1, files.len().max(1));
        let mut groups = vec![Vec::new(); partitions];
        for (index, file) in files.into_iter().enumerate() {
            // A scheduler plans over files that only executors can open.
            let path = match &file.local {
                Some(path) => path.canonicalize()?,
                None => file.remote.clone(),
            };
            let mut part = PartitionedFile::new("", file.bytes);
            part.object_meta.location = StorePath::from_absolute_path(&path)?;
            groups[index % partitions].push(part);
        }
        let mut statistics = Statistics::new_unknown(&self.schema);
        let count = |number: u64| usize::try_from(number).ok();
        statistics.num_rows = count(rows).map_or(Precision::Absent, Precision::Exact);
        statistics.total_byte_size = count(bytes).map_or(Precision::Absent, Precision::Inexact);
        let config =
            FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
                .with_file_groups(groups.into_iter().map(FileGroup::new).collect())
                .with_statistics(statistics)
                .with_projection_indices(projection.cloned())?
                .with_limit(limit)
                .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    fn scan_rows(
        &self,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // With one partition, a limit would become part of the scan, and Ballista 55 loses it when
        // it sends the scan to an executor. With two partitions, the operator that merges them
        // applies the limit.
        let partitions = [vec![self.rows.clone()], Vec::new()];
        let config = MemorySourceConfig::try_new(
            &partitions,
            Arc::clone(&self.schema),
            projection.cloned(),
        )?;
        let config = config.with_show_sizes(false).with_limit(limit);
        Ok(DataSourceExec::from_data_source(config))
    }
}

#[async_trait::async_trait]
impl TableProvider for ShippedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (self.files.is_empty(), self.rows.num_rows() == 0) {
            (true, _) => self.scan_rows(projection, limit),
            (false, true) => self.scan_files(state, projection, limit),
            (false, false) => UnionExec::try_new(vec![
                self.scan_files(state, projection, limit)?,
                self.scan_rows(projection, limit)?,
            ]),
        }
    }
}

/// Replaces dictionaries by plain values: some channels between executors lose dictionaries, and a
/// column must have the same type on every channel.
fn plain(schema: &Schema) -> SchemaRef {
    let plain = |field: &FieldRef| match field.data_type() {
        DataType::Dictionary(_, value) => {
            Arc::new(field.as_ref().clone().with_data_type(value.as_ref().clone()))
        }
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(plain).collect::<Vec<_>>()))
}

fn files_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("path", DataType::Utf8, false),
        Field::new("bytes", DataType::Int64, false),
        Field::new("rows", DataType::Int64, false),
    ]))
}

/// Reads the batch of the next stream.
fn only_batch(bytes: &mut &[u8]) -> Result<RecordBatch> {
    let mut reader = StreamReader::try_new(&mut *bytes, None)?;
    let batch = reader.next().ok_or_else(|| exec_datafusion_err!("a table without a batch"))??;
    match reader.next() {
        None => Ok(batch),
        Some(_) => Err(exec_datafusion_err!("a table of several batches")),
    }
}
