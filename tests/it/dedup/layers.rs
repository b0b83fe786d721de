//! Derived tables in several layers, as SQL sees them, and as plain SQL defines them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt as _;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Lake, LayerId, ScanColumns, Table, to_the_end};
use steplake::layers::LayerChange;
use steplake::model::{EpisodeId, RunId};
use steplake::query::{Answer, Engine};

use crate::fixtures::support::engine;
use crate::fixtures::toy_lake::{APART, Author, identity, in_layers, state};

/// Where other programs want the lakes that are tested here: see scripts/test-readers.sh.
const LAKE: &str = "STEPLAKE_TEST_LAKE";
const LAYERED_LAKE: &str = "STEPLAKE_TEST_LAYERED_LAKE";

fn count(lake: &Lake, settings: DedupOptions) -> usize {
    dedup(&mut lake.maintenance().unwrap(), settings, &mut to_the_end).unwrap().layers
}

async fn rows(answer: Answer) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in answer.try_collect::<Vec<_>>().await.unwrap() {
        let columns = batch.columns().iter();
        let columns = columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap());
        let columns = columns.collect::<Vec<_>>();
        rows.extend((0..batch.num_rows()).map(|row| {
            columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>()
        }));
    }
    rows
}

async fn ask(engine: &Engine, sql: &str) -> Vec<Vec<String>> {
    rows(engine.sql(sql).await.unwrap()).await
}

const ORDERED: [&str; 3] = [
    "SELECT * FROM state_transitions ORDER BY state_key, state_id, action",
    "SELECT * FROM conflicts ORDER BY state_key, state_id, action, next_state_id",
    "SELECT * FROM failures ORDER BY state_key, state_id, action",
];

/// The named queries that define these tables.
const DEFINITIONS: [&str; 3] = ["dedup", "dedup_conflicts", "dedup_failures"];

/// Compares the derived tables with what plain SQL makes of the steps.
async fn assert_defined(engine: &Engine) {
    for (name, table) in DEFINITIONS.into_iter().zip(ORDERED) {
        let defined = engine.named(name, &[]).await.unwrap();
        let kept = engine.sql(table).await.unwrap();
        let columns = |answer: &Answer| {
            let fields = answer.schema().fields().clone();
            let columns = fields.iter().map(|one| (one.name().clone(), one.data_type().clone()));
            columns.collect::<Vec<_>>()
        };
        assert_eq!(columns(&kept), columns(&defined), "{name}");
        assert_eq!(rows(kept).await, rows(defined).await, "{name}");
    }
}

/// Questions that reach the scan in other ways, with the number of rows that they give.
fn questions() -> Vec<(String, Option<usize>)> {
    let mut questions = vec![
        ("SELECT count(*), sum(count), sum(wall_time_us) FROM state_transitions".to_owned(), None),
        ("SELECT count(*), count(DISTINCT state_id) FROM conflicts".to_owned(), None),
        ("SELECT action, kind FROM failures ORDER BY action, kind".to_owned(), None),
        ("SELECT * FROM (SELECT count FROM state_transitions LIMIT 5)".to_owned(), Some(5)),
    ];
    for number in [0, 3, 7] {
        let id = state(number);
        questions.push((
            format!("SELECT * FROM state_transitions WHERE state_id = '{id}' ORDER BY action"),
            None,
        ));
        let other = state(number + 1);
        questions.push((
            format!(
                "SELECT state_id, action, next_state_id, count FROM conflicts \
                 WHERE state_id IN ('{id}', '{other}') ORDER BY 1, 2, 3"
            ),
            None,
        ));
    }
    questions
}

#[tokio::test]
async fn tables_in_layers_answer_as_those_of_one_layer() {
    for layers in 1..=6 {
        let folder = tempfile::tempdir().unwrap();
        let (lake, _) = in_layers(&folder.path().join("lake"), layers);
        assert_eq!(lake.snapshot().unwrap().layers().len(), layers as usize);
        let apart = engine(&lake).await;
        assert_defined(&apart).await;
        assert_eq!(count(&lake, DedupOptions { full: true, ..APART }), 1);
        let whole = engine(&lake).await;
        for table in ORDERED {
            let found = ask(&apart, table).await;
            assert!(!found.is_empty());
            assert_eq!(found, ask(&whole, table).await, "{layers} layers: {table}");
        }
        for (question, count) in questions() {
            let found = ask(&apart, &question).await;
            match count {
                Some(count) => assert_eq!(found.len(), count, "{question}"),
                None => assert_eq!(found, ask(&whole, &question).await, "{question}"),
            }
        }
    }
}

/// The lake that this leaves is read by DuckDB in tests/python.
#[tokio::test]
async fn the_tables_are_what_plain_sql_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os(LAKE).map_or(folder.path().join("lake"), PathBuf::from);
    let (lake, _) = in_layers(&path, 3);
    let layers = count(&lake, DedupOptions { full: true, ..APART });
    assert_eq!(layers, 1);
    let engine = engine(&lake).await;
    assert_defined(&engine).await;
    let snapshot = lake.snapshot().unwrap();
    for table in [Table::Conflicts, Table::Failures] {
        assert!(snapshot.rows(table) > 0, "{table}");
    }
    let starts = "SELECT count(*) FROM failures WHERE action IS NULL";
    assert_ne!(ask(&engine, starts).await, [["0"]]);
}

/// The lake that this leaves is read by other tools in tests/python.
#[tokio::test]
async fn each_state_and_action_has_its_rows_in_one_layer() {
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os(LAYERED_LAKE).map_or(folder.path().join("lake"), PathBuf::from);
    let (lake, _) = in_layers(&path, 4);
    let snapshot = lake.snapshot().unwrap();
    let mut layers = BTreeMap::new();
    let mut deleted = 0;
    for segment in snapshot.layers().into_values().flatten() {
        deleted += segment.deleted().len();
        let columns = ["state_id", "action"];
        let mut rows = 0;
        for batch in snapshot.scan_segment(segment, ScanColumns::Named(&columns)) {
            let batch = batch.unwrap();
            rows += batch.num_rows() as u64;
            let actions = batch["action"].as_primitive::<Int32Type>();
            let states = batch["state_id"].as_fixed_size_binary();
            for row in 0..batch.num_rows() {
                let action = actions.is_valid(row).then(|| actions.value(row));
                let pair = (states.value(row).to_vec(), action);
                let known = layers.entry(pair).or_insert(segment.layer);
                assert_eq!(*known, segment.layer, "a pair is in two layers");
            }
        }
        assert_eq!(rows, segment.live_rows());
    }
    assert!(deleted > 20, "{deleted}");
    let apart = engine(&lake).await;
    for table in ["state_transitions", "conflicts", "failures"] {
        let sql = format!("SELECT count(*) FROM {table}");
        let plan = ask(&apart, &format!("EXPLAIN {sql}")).await.concat().concat();
        assert!(plan.contains("PlaceholderRowExec"), "the catalog knows it: {plan}");
        let rows = snapshot.rows(Table::from_name(table).unwrap());
        assert_eq!(ask(&apart, &sql).await, [[rows.to_string()]]);
    }
    let report = lake.verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// Writes the only layer again, with two files of each table, as two threads do.
fn split_layer(lake: &Lake) {
    let mut maintenance = lake.maintenance().unwrap();
    let sealed = lake.sealed().unwrap();
    let mut halves = [(); 2].map(|()| maintenance.layer_writer(LayerId(9)));
    for table in Table::ALL.into_iter().filter(|table| table.is_derived()) {
        for batch in sealed.scan(table, ScanColumns::All) {
            let batch = batch.unwrap();
            let keys = batch["state_key"].as_primitive::<Int64Type>().values();
            let low = keys.partition_point(|key| *key < 0);
            halves[0].write(table, &batch.slice(0, low)).unwrap();
            halves[1].write(table, &batch.slice(low, batch.num_rows() - low)).unwrap();
        }
    }
    let retire = sealed.layers().into_values().flatten().cloned().collect();
    let change = LayerChange { retire, add: halves.into(), ..LayerChange::default() };
    maintenance.publish(change).unwrap();
}

#[tokio::test]
async fn files_of_a_layer_stay_in_order_when_the_first_of_them_loses_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut author) = in_layers(&folder.path().join("lake"), 1);
    split_layer(&lake);
    let is_low = |number: &u32| state(*number).key() < 0;
    let (low, high): (Vec<u32>, Vec<u32>) = (0..11).partition(is_low);
    assert!(!low.is_empty() && !high.is_empty());
    let mut writer = lake.writer().unwrap();
    let mut ordinal = 1000;
    for states in [low.clone(), [low, high].concat(), (0..11).collect()] {
        for (first, action) in states.into_iter().flat_map(|first| (0..5).map(move |a| (first, a)))
        {
            ordinal += 1;
            author.episode(EpisodeId::new(RunId(1), ordinal), first, &[(action, Some(action))]);
        }
        writer.append(&author.take()).unwrap();
        writer.seal().unwrap();
        count(&lake, APART);
        let engine = engine(&lake).await;
        assert_defined(&engine).await;
        let snapshot = lake.snapshot().unwrap();
        let merged = snapshot.transitions().unwrap().map(|row| row.unwrap().state.order());
        assert!(merged.is_sorted(), "a reading of all layers is in order");
        let report = lake.verify(&mut to_the_end).unwrap();
        assert!(report.is_sound(), "{:?}", report.findings);
    }
    assert!(lake.snapshot().unwrap().layers().len() > 2);
}

/// Pages of a derived table have so many rows at most.
const PAGE_ROWS: usize = 20_000;

/// A lake of layers that each bring so many transitions, with a page index worth reading.
fn record_large(path: &Path, layers: u32, states: u32) -> Lake {
    let lake = Lake::create(path, &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let mut author = Author::default();
    for layer in 0..layers {
        let first = layer * states;
        let path = (1..states).map(|to| (1, Some(first + to)));
        let path = path.chain([(7, None)]).collect::<Vec<_>>();
        author.episode(EpisodeId::new(RunId(1), layer), first, &path);
        writer.append(&author.take()).unwrap();
        writer.seal().unwrap();
        count(&lake, APART);
    }
    lake
}

/// A number in an analysed plan, by the words before it. Large ones are told in thousands.
fn metric(plan: &str, name: &str) -> usize {
    let (_, rest) = plan.split_once(name).unwrap_or_else(|| panic!("no {name} in:\n{plan}"));
    let digits = rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    let number = digits.parse::<usize>().unwrap_or_else(|_| panic!("no number in:\n{plan}"));
    let unit = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    if unit.starts_with(" K") { number * 1000 } else { number }
}

#[tokio::test]
async fn a_look_up_reads_a_page_of_each_layer() {
    let folder = tempfile::tempdir().unwrap();
    let (layers, states) = (2, 45_000);
    let lake = record_large(&folder.path().join("lake"), layers, states);
    let layers = layers as usize;
    let engine = engine(&lake).await;
    assert_eq!(lake.snapshot().unwrap().layers().len(), layers);
    for number in [0, states / 3, states, 2 * states - 2] {
        let id = state(number);
        let sql = format!("SELECT action, count FROM state_transitions WHERE state_id = '{id}'");
        assert_eq!(ask(&engine, &sql).await, [["1", "1"]], "state {number}");
        let plan = ask(&engine, &format!("EXPLAIN ANALYZE {sql}")).await.concat().concat();
        let decoded = plan.split_once("page_index_rows_pruned=").expect("an index is used").1;
        assert!(metric(decoded, " total → ") <= layers * PAGE_ROWS, "{plan}");
    }
    // Two states that lie apart, in different layers.
    let (one, other) = (state(5), state(states + 5));
    let both = format!(
        "SELECT state_key FROM state_transitions WHERE state_id IN ('{one}', '{other}') ORDER BY 1"
    );
    let mut keys = [one, other].map(|id| id.key());
    keys.sort_unstable();
    assert_eq!(ask(&engine, &both).await, keys.map(|key| [key.to_string()]));
    // The last state of each episode has a failure.
    for last in [states - 1, 2 * states - 1] {
        let failed = format!("SELECT action FROM failures WHERE state_id = '{}'", state(last));
        assert_eq!(ask(&engine, &failed).await, [["7"]]);
    }
}
