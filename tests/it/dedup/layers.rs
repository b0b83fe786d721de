//! Derived tables in several layers, as SQL sees them, and as plain SQL defines them.

use std::path::{Path, PathBuf};

use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt as _;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Lake, Table, to_the_end};
use steplake::model::{EpisodeId, RunId};
use steplake::query::{Answer, Engine};

use crate::fixtures::support::engine;
use crate::fixtures::toy_lake::{APART, Author, identity, in_layers, state};

/// Where another program wants the lake that is tested here: see scripts/test-readers.sh.
const LAKE: &str = "STEPLAKE_TEST_LAKE";

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
        let defined = rows(apart.named("dedup", &[]).await.unwrap()).await;
        assert_eq!(ask(&apart, ORDERED[0]).await, defined, "{layers} layers");
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
async fn the_table_is_what_plain_sql_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os(LAKE).map_or(folder.path().join("lake"), PathBuf::from);
    let (lake, _) = in_layers(&path, 3);
    let layers = count(&lake, DedupOptions { full: true, ..APART });
    assert_eq!(layers, 1);
    let engine = engine(&lake).await;
    let defined = rows(engine.named("dedup", &[]).await.unwrap()).await;
    assert_eq!(ask(&engine, ORDERED[0]).await, defined);
    let snapshot = lake.snapshot().unwrap();
    for table in [Table::Conflicts, Table::Failures] {
        assert!(snapshot.rows(table) > 0, "{table}");
    }
}

/// Pages of a derived table have so many rows at most.
const PAGE_ROWS: usize = 20_000;

/// A lake of layers of so many transitions each, with a page index worth reading.
fn record_large(path: &Path, layers: u32, states: u32) -> Lake {
    let lake = Lake::create(path, &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let mut author = Author::default();
    for layer in 0..layers {
        let path = (1..states).map(|to| (1, Some(to))).chain([(7, None)]).collect::<Vec<_>>();
        author.episode(EpisodeId::new(RunId(1), layer), 0, &path);
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
    let apart = engine(&lake).await;
    let plan = async |engine: &Engine, sql: &str| {
        ask(engine, &format!("EXPLAIN ANALYZE {sql}")).await.concat().concat()
    };
    let all = plan(&apart, "SELECT sum(count) FROM state_transitions").await;
    assert!(metric(&all, "rows_decoded=") > layers * 40_000, "{all}");
    let id = state(states / 3);
    for table in ["state_transitions", "conflicts", "failures"] {
        let sql = format!("SELECT * FROM {table} WHERE state_id = '{id}'");
        let found = plan(&apart, &sql).await;
        assert!(metric(&found, "row_groups_read=") <= layers, "{found}");
        assert!(metric(&found, "rows_decoded=") <= layers * PAGE_ROWS, "{found}");
    }
    let taken = format!("SELECT count FROM state_transitions WHERE state_id = '{id}'");
    assert_eq!(ask(&apart, &taken).await, [[layers.to_string()]]);
    // Two states that lie apart: the pages between them are left out.
    let ids = [state(0), state(states / 2)];
    let (one, other) = (ids[0], ids[1]);
    let both = format!(
        "SELECT state_key FROM state_transitions WHERE state_id IN ('{one}', '{other}') ORDER BY 1"
    );
    let mut keys = ids.map(|id| id.key());
    keys.sort_unstable();
    assert_eq!(ask(&apart, &both).await, keys.map(|key| [key.to_string()]));
    // The last state of each episode has a failure.
    let last = state(states - 1);
    let failed = format!("SELECT action, count FROM failures WHERE state_id = '{last}'");
    assert_eq!(ask(&apart, &failed).await, [["7".to_owned(), layers.to_string()]]);

    count(&lake, DedupOptions { full: true, ..APART });
    let whole = engine(&lake).await;
    let found = plan(&whole, &taken).await;
    assert_eq!(metric(&found, "row_groups_pruned_statistics=1 total → "), 1, "{found}");
    let decoded = found.split_once("page_index_rows_pruned=").expect("an index is used").1;
    assert!(metric(decoded, " total → ") <= PAGE_ROWS, "{found}");
}
