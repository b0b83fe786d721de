//! Derived tables that were counted elsewhere, and the comparison of derived tables with the steps.

mod compared;
mod faults;
mod refused;
mod taken;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};
use steplake::dedup::{DedupOptions, DedupReport, compare, dedup, take_counted};
use steplake::lake::{Lake, LakeError, ScanColumns, Table, to_the_end};
use steplake::upkeep::Finding;

use crate::fixtures::support::copy_folder;

const TABLES: [Table; 3] = [Table::StateTransitions, Table::Conflicts, Table::Failures];

/// What a job leaves: the tables with the columns and types that Spark writes, and the note.
#[derive(Debug, Clone)]
struct Output {
    tables: BTreeMap<Table, RecordBatch>,
    note: Value,
}

impl Output {
    /// What a job makes of the sealed steps of a lake.
    fn of(lake: &Lake) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        copy_folder(lake.path(), &copy);
        let counted = Lake::open(&copy).unwrap();
        let full = DedupOptions { full: true, ..DedupOptions::default() };
        dedup(&mut counted.maintenance().unwrap(), full, &mut to_the_end).unwrap();
        let sealed = counted.sealed().unwrap();
        let table = |table| {
            let batches = sealed.scan(table, ScanColumns::All).map(Result::unwrap);
            let batches = batches.collect::<Vec<_>>();
            (table, foreign(&concat_batches(&sealed.schema(table), &batches).unwrap()))
        };
        let tables = BTreeMap::from(TABLES.map(table));
        let rows = tables.iter().map(|(table, batch)| (table.name(), batch.num_rows()));
        let steps = lake.sealed().unwrap();
        let steps = steps.segments(Table::Steps).iter().map(|segment| &segment.digest[..16]);
        let runs = sealed.runs().iter().map(|run| (run.uid.clone(), json!(run.id.0)));
        let retracted = sealed.retracted_actions().into_iter();
        let space = &sealed.identity().action_space;
        let note = json!({
            "version": 1,
            "format": "parquet",
            "rows": rows.collect::<BTreeMap<_, _>>(),
            "lakes": [{
                "address": "file:///there",
                "version": sealed.id().0,
                "identity": sealed.identity(),
                "retracted": retracted.map(|at| &space.get(at).unwrap().name).collect::<Vec<_>>(),
                "runs": runs.collect::<serde_json::Map<_, _>>(),
                "steps": steps.collect::<Vec<_>>(),
            }],
        });
        Self { tables, note }
    }

    /// Writes each table as two files of disjoint ranges of keys, with what Spark leaves beside
    /// them.
    fn write(&self, folder: &Path) {
        for (table, batch) in &self.tables {
            let place = folder.join(table.name());
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("_SUCCESS"), "").unwrap();
            let half = batch.num_rows() / 2;
            for (part, from, to) in [(0, 0, half), (1, half, batch.num_rows())] {
                let path = place.join(format!("part-{part:05}-c000.zstd.parquet"));
                write_parquet(&path, &batch.slice(from, to - from));
                std::fs::write(place.join(format!(".part-{part:05}.parquet.crc")), "x").unwrap();
            }
        }
        let counted = folder.join("counted");
        std::fs::create_dir_all(&counted).unwrap();
        std::fs::write(counted.join("part-00000-c000.txt"), format!("{}\n", self.note)).unwrap();
    }

    /// The same with another column of a table.
    fn with_column(mut self, table: Table, name: &str, column: ArrayRef) -> Self {
        let batch = self.tables.get_mut(&table).unwrap();
        let (place, field) = batch.schema_ref().column_with_name(name).unwrap();
        let mut fields = batch.schema_ref().fields().to_vec();
        let field = field.clone().with_data_type(column.data_type().clone());
        fields[place] = Arc::new(field);
        let mut columns = batch.columns().to_vec();
        columns[place] = column;
        *batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        self
    }
}

/// A table as Spark writes it: ids as bytes of any length, and every column may be null.
fn foreign(batch: &RecordBatch) -> RecordBatch {
    let schema = batch.schema();
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let is_id = matches!(field.data_type(), DataType::FixedSizeBinary(_));
        let to = if is_id { DataType::Binary } else { field.data_type().clone() };
        columns.push(cast(column, &to).unwrap());
        fields.push(Field::new(field.name(), to, true));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn write_parquet(path: &Path, batch: &RecordBatch) {
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder().set_compression(zstd).build();
    let options =
        ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new_with_options(file, batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Takes tables that were counted elsewhere.
fn take(lake: &Lake, output: &Output) -> Result<DedupReport, LakeError> {
    let folder = tempfile::tempdir().unwrap();
    output.write(folder.path());
    let options = DedupOptions::default();
    take_counted(&mut lake.maintenance().unwrap(), folder.path(), options, &mut to_the_end)
}

/// What a comparison of the derived tables with the steps finds.
fn found(lake: &Lake) -> Vec<Finding> {
    let sealed = lake.sealed().unwrap();
    compare(lake, &sealed, DedupOptions::default(), &mut to_the_end).unwrap().findings
}
