//! A lake that may not be there yet, and questions to the engine of its present contents.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::json::WriterBuilder;
use arrow::json::writer::JsonArray;
use axum::http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use steplake::Error;
use steplake::environments::Environments;
use steplake::lake::{Lake, LakeError};
use steplake::query::{EngineOptions, ScalarValue, Statement};
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, watch};

use super::recent_progress::RecentProgress;
use crate::answers::{Problem, computed};
use crate::code::KeptCode;
use steplake_server::{FirstRows, NewestEngine, Queries, QueryLimits, Served, ServedContexts};

/// The most rows that a call lists.
pub(super) const LISTED_MAX: usize = 10_000;

/// A lake that may not be there yet. Clones share everything.
#[derive(Clone)]
pub(crate) struct LakeReader(Arc<Reader>);

struct Reader {
    opening: LakeOpening,
    opened: OnceCell<Queries>,
    watched: RecentProgress,
    code: Arc<KeptCode>,
}

/// How the lake is opened once it is there.
pub(crate) struct LakeOpening {
    pub(crate) environments: Environments,
    pub(crate) path: PathBuf,
    /// The context to show, if the lake may have several.
    pub(crate) context: Option<String>,
    /// The only snapshot to show, if not the newest one.
    pub(crate) snapshot: Option<i64>,
    pub(crate) options: EngineOptions,
    pub(crate) limits: QueryLimits,
    /// The threads of queries, and how many statements they may plan at a time.
    pub(crate) threads: Handle,
    pub(crate) planners: usize,
    /// Whether the server stops.
    pub(crate) stop: watch::Receiver<bool>,
}

impl LakeReader {
    pub(crate) fn new(opening: LakeOpening, code: Arc<KeptCode>) -> Self {
        let (opened, watched) = (OnceCell::new(), RecentProgress::default());
        Self(Arc::new(Reader { opening, opened, watched, code }))
    }

    /// Opens the lake if it is there.
    ///
    /// # Errors
    ///
    /// If there is none, or it cannot be read.
    pub(crate) async fn open(&self) -> Result<&Queries, Error> {
        let opening = &self.0.opening;
        let open = async || {
            let lake = Lake::open_one(&opening.path, opening.context.as_deref())?;
            let options = opening.options.clone();
            let (environments, at) = (opening.environments.clone(), opening.snapshot);
            let first = ServedContexts::First;
            let newest =
                NewestEngine::open(environments, lake, first, at, options, Handle::current());
            // Opening may take long, so it runs on the threads of queries.
            let newest = opening.threads.spawn(newest).await;
            let newest = newest.map_err(|error| std::io::Error::other(error.to_string()))?;
            let newest = Arc::new(newest?);
            let idle = Arc::clone(&newest);
            opening.threads.spawn(async move { idle.release_when_idle().await });
            let (threads, planners) = (opening.threads.clone(), opening.planners);
            let (limits, stop) = (opening.limits, opening.stop.clone());
            Ok::<_, Error>(Queries::new(threads, planners, newest, limits, stop))
        };
        self.0.opened.get_or_try_init(open).await
    }

    /// Returns the present lake; none if there is no lake yet.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(crate) async fn present(&self) -> Result<Option<Arc<Served>>, Problem> {
        match self.open().await {
            Ok(queries) => Ok(Some(queries.newest().await?)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0.opening.path
    }

    /// What is remembered between two requests for the progress.
    pub(super) fn watched(&self) -> &RecentProgress {
        &self.0.watched
    }

    /// The texts that are kept.
    pub(super) fn code(&self) -> &Arc<KeptCode> {
        &self.0.code
    }

    pub(super) async fn queries(&self) -> Result<&Queries, Problem> {
        self.open().await.map_err(|error| {
            let is_missing = is_missing(&error);
            let problem = Problem::from(error);
            if is_missing { problem.with_status(StatusCode::NOT_FOUND) } else { problem }
        })
    }

    pub(super) async fn served(&self) -> Result<Arc<Served>, Problem> {
        Ok(self.queries().await?.newest().await?)
    }

    /// Returns the first rows of an answer.
    pub(super) async fn gather(
        &self,
        statement: Statement,
        rows_max: usize,
    ) -> Result<FirstRows, Problem> {
        Ok(self.queries().await?.gather(statement, rows_max).await?)
    }

    /// Returns the first rows of an answer as values, by the names of their columns.
    pub(super) async fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        sql: String,
        values: Vec<(String, ScalarValue)>,
        rows_max: usize,
    ) -> Result<Vec<T>, Problem> {
        let statement = Statement { text: sql, values, ..Statement::default() };
        let gathered = self.gather(statement, rows_max).await?;
        computed(move || {
            let json = written(WriterBuilder::new().with_explicit_nulls(true), &gathered.batches)?;
            serde_json::from_slice(&json).map_err(|error| unreadable(&error))
        })
        .await
    }

    /// Returns the only row of an answer, if it has one.
    pub(super) async fn ask_one<T: DeserializeOwned + Send + 'static>(
        &self,
        sql: String,
    ) -> Result<Option<T>, Problem> {
        Ok(self.ask(sql, Vec::new(), 1).await?.pop())
    }
}

/// How much the lake holds.
#[derive(Debug, Deserialize)]
pub(crate) struct LakeCounts {
    pub(crate) snapshot_id: i64,
    pub(crate) layers: u64,
    pub(crate) uncounted_steps: u64,
    pub(crate) states: u64,
    pub(crate) steps: u64,
    pub(crate) episodes: u64,
    pub(crate) benchmarks: u64,
    #[serde(default)]
    pub(crate) transitions: u64,
}

impl LakeReader {
    /// Counts what the lake holds.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(crate) async fn counts(&self) -> Result<LakeCounts, Problem> {
        let sql = "SELECT snapshot_id, layers, uncounted_steps, \
                   (SELECT count(*) FROM observations) AS states, \
                   (SELECT count(action) FROM steps) AS steps, \
                   (SELECT count(*) FROM episodes) AS episodes, \
                   (SELECT count(*) FROM benchmarks) AS benchmarks FROM lake";
        let counts = self.ask_one::<LakeCounts>(sql.to_owned()).await?;
        let mut counts = counts.ok_or_else(Problem::defect)?;
        if counts.layers > 0 {
            let sql = "SELECT count(*) AS rows FROM state_transitions".to_owned();
            counts.transitions = self.ask_one::<RowCount>(sql).await?.map_or(0, |count| count.rows);
        }
        Ok(counts)
    }
}

#[derive(Deserialize)]
pub(super) struct RowCount {
    pub(super) rows: u64,
}

/// Whether there is no lake, as opposed to one that cannot be read.
pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(error.find(), Some(LakeError::NotFound { .. }))
}

/// Writes rows as JSON.
pub(super) fn written(builder: WriterBuilder, batches: &[RecordBatch]) -> Result<Vec<u8>, Problem> {
    let mut json = Vec::new();
    let mut writer = builder.build::<_, JsonArray>(&mut json);
    for batch in batches {
        writer.write(batch).map_err(|error| unreadable(&error))?;
    }
    writer.finish().map_err(|error| unreadable(&error))?;
    drop(writer);
    Ok(json)
}

pub(super) fn unreadable(error: &dyn std::error::Error) -> Problem {
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        format!("the rows of an answer cannot be sent: {error}"),
    )
}

/// A name as SQL quotes it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Columns of a table for a list that has others before them.
pub(super) fn columns<'a>(table: &str, names: impl Iterator<Item = &'a str>) -> String {
    let columns = names.map(|name| format!(", {table}.{}", quoted(name)));
    columns.collect::<Vec<_>>().concat()
}

/// A text as SQL quotes it.
pub(super) fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
