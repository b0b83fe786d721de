//! Runs `tests/sql/*.slt` over the small lake, hot, sealed and half sealed, with equal answers.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::fmt::Write as _;
use std::path::PathBuf;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use sqllogictest::{DBOutput, DefaultColumnType, Runner};
use steplake::query::{Answer, Engine, QueryError};

use crate::fixtures::small_lake::{self, Kept};
use crate::fixtures::support::engine;

/// `query NAME key=value …` asks a named query; anything else is SQL.
struct Asked {
    engine: Engine,
}

impl Asked {
    async fn ask(&self, text: &str) -> Result<Answer, QueryError> {
        let Some(call) = text.strip_prefix("query ") else { return self.engine.sql(text).await };
        let mut words = call.split_whitespace();
        let name = words.next().unwrap_or_default();
        let values = words.filter_map(|word| word.split_once('='));
        let values: Vec<_> = values.map(|(name, value)| (name.into(), value.into())).collect();
        self.engine.named(name, &values).await
    }
}

#[async_trait::async_trait]
impl sqllogictest::AsyncDB for Asked {
    type Error = QueryError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, text: &str) -> Result<DBOutput<Self::ColumnType>, QueryError> {
        let answer = self.ask(text).await?;
        let types = vec![DefaultColumnType::Any; answer.schema().fields().len()];
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in answer.try_collect::<Vec<_>>().await? {
            let columns = batch.columns().iter();
            let columns: Vec<_> =
                columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
            rows.extend((0..batch.num_rows()).map(|row| {
                columns.iter().map(|column| cell(&column.value(row).to_string())).collect()
            }));
        }
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}
}

/// A value as test files show it; an empty text would be invisible there.
fn cell(value: &str) -> String {
    if value.is_empty() { "(empty)".to_owned() } else { value.to_owned() }
}

fn files() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|e| e == "slt")).collect();
    files.sort();
    assert!(!files.is_empty(), "no test files in {folder}");
    files
}

#[tokio::test]
async fn every_test_file_holds_wherever_the_rows_are_kept() {
    let mut wrong = String::new();
    for kept in Kept::ALL {
        let folder = tempfile::tempdir().unwrap();
        let lake = small_lake::record(&folder.path().join("lake"), kept);
        for file in files() {
            let mut runner = Runner::new(async || Ok(Asked { engine: engine(&lake).await }));
            if let Err(error) = runner.run_file_async(&file).await {
                writeln!(wrong, "{kept:?}: {error}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_named_query_and_table_function_has_a_test() {
    let tests: Vec<String> =
        files().iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    for query in steplake::query::NamedQuery::list() {
        let call = format!("query {}", query.name);
        let asked = |line: &str| line == call || line.starts_with(&format!("{call} "));
        let found = tests.iter().flat_map(|text| text.lines()).any(asked);
        assert!(found, "{} is in no file of tests/sql", query.name);
    }
    for usage in Engine::table_functions() {
        let name = usage.split('(').next().unwrap();
        let found = tests.iter().any(|text| text.contains(&format!("FROM {name}(")));
        assert!(found, "{name} is in no file of tests/sql");
    }
}
