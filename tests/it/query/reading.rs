//! Tests that SQL test files cannot express: which data is read, output formats, damaged files.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::fs;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use sha1::{Digest, Sha1};
use steplake::lake::{EpisodeRow, Identity, Lake, Rows, StepRow, Table};
use steplake::model::{ActionIndex, BenchmarkUri, Classified as _, EpisodeId, Remedy, StateId};
use steplake::query::{
    Engine, EngineOptions, Format, NamedQuery, QueryError, SpillSpace, TableLimits, write,
};

use crate::fixtures::small_lake::{self, Kept, state};
use crate::fixtures::support::{engine, renderer};
use crate::fixtures::toy_lake::ir_row;

async fn batches(engine: &Engine, sql: &str) -> Result<Vec<RecordBatch>, QueryError> {
    engine.sql(sql).await?.try_collect().await
}

/// An answer as one text, for answers that are plans.
async fn plan(engine: &Engine, sql: &str) -> String {
    let batches = batches(engine, sql).await.unwrap();
    arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
}

async fn written(engine: &Engine, sql: &str, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    write(engine.sql(sql).await.unwrap(), format, TableLimits::SCREEN, &mut out).await.unwrap();
    out
}

async fn shown(engine: &Engine, sql: &str, format: Format) -> String {
    String::from_utf8(written(engine, sql, format).await).unwrap()
}

/// Rows of a row group of `ir`.
const IR_ROW_GROUP_ROWS: u32 = 4096;
const ROW_GROUPS: u32 = 5;

/// A sealed lake with several row groups of IR, all in one segment.
pub(crate) fn record_many_states(path: &Path) -> Lake {
    let lake = Lake::create(path, &small_lake::identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let episode = EpisodeId::new(run, 0);
    let benchmark: BenchmarkUri = "generator://many-v0/0".parse().unwrap();
    let count = IR_ROW_GROUP_ROWS * ROW_GROUPS;
    let mut rows = Rows::default();
    for index in 0..count {
        rows.steps.push(StepRow {
            action: (index > 0).then_some(ActionIndex(0)),
            state: Some(numbered(index)),
            keyframe: true,
            ..StepRow::new(episode, index, benchmark.clone())
        });
        let program = index.to_string();
        rows.ir.push(ir_row(numbered(index), program.as_bytes()));
    }
    rows.episodes.push(EpisodeRow {
        policy: "random".to_owned(),
        steps: count - 1,
        ..EpisodeRow::new(episode, benchmark)
    });
    writer.append(&rows).unwrap();
    writer.seal().unwrap();
    drop(writer);
    lake
}

fn numbered(index: u32) -> StateId {
    StateId(Sha1::digest(index.to_string()).into())
}

#[tokio::test]
async fn a_state_is_looked_up_in_one_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record_many_states(&folder.path().join("lake"));
    let engine = engine(&lake).await;
    let wanted = numbered(77);
    for filter in [
        format!("state_id = '{wanted}'"),
        format!("state_id = X'{wanted}'"),
        format!("state('{wanted}') = state_id"),
        format!("state_id IN ('{wanted}')"),
        format!("state_key = {}", wanted.key()),
    ] {
        let sql = format!("EXPLAIN ANALYZE SELECT bitcode FROM ir WHERE {filter}");
        let plan = plan(&engine, &sql).await;
        // The scan names one of the row groups, by their filters of keys.
        let read = "row_groups_pruned_statistics=1 total → 1 matched";
        assert!(plan.contains(read), "{filter}:\n{plan}");
        assert!(plan.contains("output_rows=1,"), "{filter}:\n{plan}");
    }
}

#[tokio::test]
async fn a_segment_that_cannot_have_the_state_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::HalfSealed);
    let engine = engine(&lake).await;
    let explain =
        |id: String| format!("EXPLAIN SELECT * FROM observations WHERE state_id = '{id}'");
    let within = plan(&engine, &explain(state("a0").to_string())).await;
    assert!(within.contains("file_type=parquet"), "{within}");
    let beyond = plan(&engine, &explain(format!("7f{}", "f".repeat(38)))).await;
    assert!(!beyond.contains("file_type=parquet"), "{beyond}");
}

#[tokio::test]
async fn the_actions_of_one_episode_are_gathered_from_its_own_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::Sealed);
    let engine = engine(&lake).await;
    let sql = "EXPLAIN SELECT actions FROM steps_with_actions WHERE episode_id = 4294967297";
    let plan = plan(&engine, sql).await;
    let scans = plan.matches("file_type=parquet").count();
    let pruned = plan.matches("required_guarantees=[episode_id in (4294967297)]").count();
    assert!(scans == 2 && pruned == 2, "{plan}");
}

/// Every type of column, with nulls, an escape and NaN.
const EVERY_TYPE: &str = "SELECT s.state_id, hex(s.state_id) AS hex, s.benchmark_uri, \
     s.episode_id, s.step_index, s.action, a.rewards, a.actions, s.end_of_episode, \
     CASE WHEN s.step_index = 1 THEN 'NaN'::DOUBLE ELSE 0.5 END AS number, \
     'a \"quoted\", text' AS text \
     FROM steps AS s JOIN steps_with_actions AS a \
     ON a.episode_id = s.episode_id AND a.step_index = s.step_index \
     WHERE s.episode_id = 4294967298 ORDER BY s.step_index";

#[tokio::test]
async fn csv_has_a_header_hex_digits_and_lists_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::HalfSealed);
    let engine = engine(&lake).await;
    insta::assert_snapshot!(shown(&engine, EVERY_TYPE, Format::Csv).await);
    assert_eq!(shown(&engine, "SELECT action FROM steps LIMIT 0", Format::Csv).await, "action\n");
}

#[tokio::test]
async fn json_is_one_array_of_objects() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::HalfSealed);
    let engine = engine(&lake).await;
    let text = shown(&engine, EVERY_TYPE, Format::Json).await;
    let rows: serde_json::Value = serde_json::from_str(&text).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&rows).unwrap());
    assert_eq!(shown(&engine, "SELECT action FROM steps LIMIT 0", Format::Json).await, "[]\n");
    let exact = shown(&engine, "SELECT 9223372036854775807 AS n", Format::Json).await;
    assert_eq!(exact, "[{\"n\":9223372036854775807}]\n");
}

#[tokio::test]
async fn a_table_is_drawn_and_cut() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::Hot);
    let engine = engine(&lake).await;
    insta::assert_snapshot!(shown(&engine, EVERY_TYPE, Format::Table).await);
    let many = "SELECT unnest(range(0, 12345)) AS n";
    let mut out = Vec::new();
    let written =
        write(engine.sql(many).await.unwrap(), Format::Table, TableLimits::SCREEN, &mut out)
            .await
            .unwrap();
    assert!(written.cut && written.rows == 1000);
    assert!(String::from_utf8(out).unwrap().ends_with("formats for programs have all of them\n"));
    let exact = "SELECT unnest(range(0, 1000)) AS n";
    assert!(shown(&engine, exact, Format::Table).await.ends_with("\n1000 rows\n"));
    assert!(shown(&engine, "SELECT 1 WHERE false", Format::Table).await.ends_with("\n0 rows\n"));
}

#[tokio::test]
async fn a_table_shortens_what_other_formats_keep() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::Hot);
    let engine = engine(&lake).await;
    let sql = "SELECT repeat('x', 61) AS long, repeat('x', 60) AS fits, 2.0 / 3.0 AS share, \
               make_array(1.0 / 3.0, 0.5) AS shares, 1234567.5 AS much";
    let table = shown(&engine, sql, Format::Table).await;
    let cells: Vec<&str> = table.lines().nth(3).unwrap().split('|').map(str::trim).collect();
    let (long, fits) = (format!("{}…", "x".repeat(59)), "x".repeat(60));
    let [_, cells @ .., _] = cells.as_slice() else { panic!("{table}") };
    assert_eq!(cells, [&long, &fits, "0.666667", "[0.333333, 0.5]", "1234568.0"]);
    let csv = shown(&engine, sql, Format::Csv).await;
    assert!(csv.contains(&"x".repeat(61)) && csv.contains("0.6666666666666666"), "{csv}");
    let plan = shown(&engine, "EXPLAIN SELECT count(*) FROM steps", Format::Table).await;
    assert!(!plan.contains('…'), "{plan}");
}

#[tokio::test]
async fn arrow_and_parquet_files_hold_the_answer_in_plain_types() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::HalfSealed);
    let engine = engine(&lake).await;
    let sql = "SELECT benchmark_uri, actions, state_id FROM steps_with_actions \
               ORDER BY episode_id, step_index";
    let csv = shown(&engine, sql, Format::Csv).await;
    let arrow = written(&engine, sql, Format::Arrow).await;
    let arrow = arrow::ipc::reader::FileReader::try_new(Cursor::new(arrow), None).unwrap();
    let arrow: Vec<_> = arrow.map(Result::unwrap).collect();
    let path = folder.path().join("answer.parquet");
    fs::write(&path, written(&engine, sql, Format::Parquet).await).unwrap();
    let parquet = fs::File::open(path).unwrap();
    let parquet =
        parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(parquet, 1024).unwrap();
    let parquet: Vec<_> = parquet.map(Result::unwrap).collect();
    for batches in [&arrow, &parquet] {
        let types = batches[0].schema();
        assert_eq!(*types.field(0).data_type(), arrow::datatypes::DataType::Utf8);
        assert_eq!(*types.field(2).data_type(), arrow::datatypes::DataType::FixedSizeBinary(20));
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, csv.lines().count() - 1);
    }
    assert_eq!(arrow[0].column(2), parquet[0].column(2));
    for format in [Format::Arrow, Format::Parquet] {
        assert!(!written(&engine, "SELECT action FROM steps LIMIT 0", format).await.is_empty());
    }
}

/// The only segment of `table` in the lake at `path`.
fn segment(lake: &Lake, table: Table) -> PathBuf {
    let snapshot = lake.snapshot().unwrap();
    let [segment] = snapshot.segments(table) else { panic!("one segment is expected") };
    segment.path.clone()
}

type Damage = fn(&Path);

#[tokio::test]
async fn a_damaged_file_is_named() {
    let truncate: Damage = |path| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    };
    let overwrite: Damage = |path| {
        let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(4)).unwrap();
        file.write_all(&[0xff; 64]).unwrap();
    };
    let empty: Damage = |path| fs::write(path, "").unwrap();
    let remove: Damage = |path| fs::remove_file(path).unwrap();
    for (kind, damage) in
        [("truncate", truncate), ("overwrite", overwrite), ("empty", empty), ("remove", remove)]
    {
        let folder = tempfile::tempdir().unwrap();
        let lake = small_lake::record(&folder.path().join("lake"), Kept::Sealed);
        let path = segment(&lake, Table::Steps);
        let engine = engine(&lake).await;
        damage(&path);
        let error = batches(&engine, "SELECT * FROM steps_with_actions").await.unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&path.display().to_string()), "{kind}: {message}");
        assert!(
            message.contains("restore it from a copy") && !message.contains('\n'),
            "{kind}: {message}"
        );
        assert!(batches(&engine, "SELECT * FROM episodes").await.is_ok(), "{kind}");
    }
}

#[tokio::test]
async fn little_memory_means_spilling_or_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::Hot);
    let options = EngineOptions {
        memory_bytes_max: NonZeroUsize::new(32 << 20),
        threads: NonZeroUsize::new(1),
        ..EngineOptions::default()
    };
    let engine = Engine::new(lake.snapshot().unwrap(), renderer(), &options).await.unwrap();
    let numbers = |count| format!("(SELECT unnest(range(0, {count})) AS n)");
    let (few, many) = (numbers(100), numbers(1000));
    let wide = format!(
        "(SELECT a.n * 1000 + b.n AS n, repeat('x', 500) AS x \
         FROM {few} AS a CROSS JOIN {many} AS b)"
    );
    let sorted = format!("EXPLAIN ANALYZE SELECT n, x FROM {wide} ORDER BY n % 1000, n");
    let plan = plan(&engine, &sorted).await;
    assert!(plan.contains("SortExec") && !plan.contains("spill_count=0"), "{plan}");
    let gathered = format!("SELECT array_agg(n || x) AS all FROM {wide} GROUP BY n % 3");
    let error = batches(&engine, &gathered).await.unwrap_err();
    assert!(matches!(error, QueryError::Memory(_)), "{error:?}");
    assert!(!error.to_string().contains('\n'));
}

/// Sorts more than fits into a little memory.
fn sort(rows: usize) -> String {
    let numbers = |count| format!("(SELECT unnest(range(0, {count})) AS n)");
    let (many, few) = (numbers(1000), numbers(rows / 1000));
    format!(
        "SELECT n, x FROM (SELECT a.n * 1000 + b.n AS n, repeat('x', 500) AS x \
         FROM {few} AS a CROSS JOIN {many} AS b) ORDER BY n % 1000, n"
    )
}

#[tokio::test]
async fn what_spills_has_a_limit_that_queries_share() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::Hot);
    let asking = async |spill: &SpillSpace| {
        let options = EngineOptions {
            memory_bytes_max: NonZeroUsize::new(32 << 20),
            threads: NonZeroUsize::new(1),
            spill: spill.clone(),
            ..EngineOptions::default()
        };
        Engine::new(lake.snapshot().unwrap(), renderer(), &options).await.unwrap()
    };
    let small = asking(&SpillSpace::of(1 << 20)).await;
    let error = batches(&small, &sort(100_000)).await.map(drop).unwrap_err();
    assert!(matches!(error, QueryError::Spill(_)), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("may use 1024.0 KB of it together"), "{said}");
    assert_eq!(error.remedy(), Some(Remedy::Field("spill")));
    assert!(!said.contains('\n'), "{said}");
    // A small sort does not need the space.
    assert!(batches(&small, &sort(1000)).await.is_ok());

    // The space is enough for one sort at a time, whose files stay until its rows are read.
    let space = SpillSpace::of(120 << 20);
    let (one, other) = (asking(&space).await, asking(&space).await);
    let mut slow = one.sql(&sort(100_000)).await.unwrap();
    slow.try_next().await.unwrap().unwrap();
    let error = batches(&other, &sort(100_000)).await.map(drop).unwrap_err();
    assert!(matches!(error, QueryError::Spill(_)), "{error:?}");
    drop(slow);
    let sorted = batches(&other, &sort(100_000)).await.unwrap();
    assert_eq!(sorted.iter().map(RecordBatch::num_rows).sum::<usize>(), 100_000);
}

#[tokio::test]
async fn a_list_takes_memory_by_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::Hot);
    let options =
        EngineOptions { memory_bytes_max: NonZeroUsize::new(1 << 20), ..EngineOptions::default() };
    let engine = Engine::new(lake.snapshot().unwrap(), renderer(), &options).await.unwrap();
    let far = "SELECT action_list(CAST(step_index + 60000000 AS INT), action) FROM steps \
               GROUP BY episode_id";
    let error = batches(&engine, far).await.unwrap_err().to_string();
    assert!(error.contains("step 1 is missing"), "{error}");
    // Functions count the memory of their values too.
    let wide = "SELECT commandline(array_repeat(1, 100000))";
    let error = batches(&engine, wide).await.unwrap_err();
    assert!(matches!(error, QueryError::Memory(_)), "{error:?}");
    assert!(error.to_string().contains("array_repeat()"), "{error}");
    let some = "SELECT commandline(array_repeat(1, 1000))";
    assert!(batches(&engine, some).await.is_ok());
}

#[tokio::test]
async fn an_empty_lake_that_records_nothing_can_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity {
        environment: "toy-v0".to_owned(),
        observations: Vec::new(),
        rewards: Vec::new(),
        baselines: Vec::new(),
        ..small_lake::identity()
    };
    let lake = Lake::create(folder.path().join("lake"), &identity).unwrap();
    let engine = engine(&lake).await;
    for table in engine.tables() {
        assert!(batches(&engine, &format!("SELECT * FROM {table}")).await.is_ok(), "{table}");
    }
    let line = shown(&engine, "SELECT commandline([0, 3, 1]) AS line", Format::Csv).await;
    assert_eq!(line, "line\ndce nothing gvn\n");
    let error = engine.named("best_episode", &[]).await.unwrap_err().to_string();
    assert!(error.contains("this lake records no reward space"), "{error}");
    let error = engine.named("best_cost", &[]).await.unwrap_err().to_string();
    assert!(error.contains("this lake records no single numbers"), "{error}");
    for query in [
        "coverage",
        "dedup",
        "dedup_conflicts",
        "dedup_failures",
        "noop_rate",
        "states_by_depth",
        "unstable",
    ] {
        let answer = engine.named(query, &[]).await.unwrap();
        let rows: Vec<_> = answer.try_collect().await.unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 0, "{query}");
    }
}

#[tokio::test]
async fn the_derived_tables_are_what_sql_makes_of_the_steps() {
    for kept in Kept::ALL {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(&small_lake::record(&folder.path().join("lake"), kept)).await;
        for (table, definition, rows) in [
            ("state_transitions", "dedup", 10),
            ("conflicts", "dedup_conflicts", 4),
            ("failures", "dedup_failures", 1),
        ] {
            let order = Table::from_name(table).unwrap().key().join(", ");
            let stored = format!("SELECT * FROM {table} ORDER BY {order}");
            let stored = shown(&engine, &stored, Format::Csv).await;
            let definition = NamedQuery::get(definition).unwrap().sql;
            assert_eq!(stored, shown(&engine, definition, Format::Csv).await, "{kept:?}");
            assert_eq!(stored.lines().count(), rows + 1, "{kept:?} {table}");
        }
    }
}

/// Takes some bytes, then is full.
struct Small {
    room: usize,
}

impl Write for Small {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_written_to_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::Hot);
    let engine = engine(&lake).await;
    for (format, ..) in Format::ALL {
        for room in [0, 100] {
            let answer = engine.sql("SELECT * FROM steps").await.unwrap();
            match write(answer, format, TableLimits::SCREEN, Small { room }).await {
                Err(QueryError::Write(error)) => {
                    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                }
                other => panic!("{format:?}, {room}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn ir_comes_a_few_states_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record_many_states(&folder.path().join("lake"));
    let engine = engine(&lake).await;
    let answer = engine.sql("SELECT state_id, ir(state_id) AS text FROM ir LIMIT 1000").await;
    let batches: Vec<RecordBatch> = answer.unwrap().try_collect().await.unwrap();
    let rows = batches.iter().map(RecordBatch::num_rows);
    assert_eq!(rows.clone().sum::<usize>(), 1000);
    assert!(rows.max().unwrap() <= 64);
}
