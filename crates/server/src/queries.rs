//! Runs queries: each in its own task, on separate threads, within limits.

use std::any::Any;
use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use steplake::lake::SnapshotId;
use steplake::query::{Answer, QueryError, Statement, StatementDescription, Uncounted};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tonic::Status;

use crate::newest::{NewestEngine, Served};
use crate::pins::PinId;
use crate::response_channel::{ResponseStream, response_channel};
use crate::status;

/// Messages of about 2 MB that may wait for the reader of a stream. A slow reader stops the query.
const MESSAGES_WAITING_MAX: usize = 4;

/// The most bytes of rows that are gathered.
const GATHERED_BYTES_MAX: usize = 1 << 30;

/// How long a query waits for a free slot. Aborted work may take a moment to stop.
const SLOT_WAIT_MAX: Duration = Duration::from_secs(1);

/// Limits of one query.
#[derive(Debug, Clone, Copy)]
pub struct QueryLimits {
    /// The time until its last row is read.
    pub time: Option<Duration>,
    /// The memory for its sorts, joins and groups.
    pub memory_bytes: Option<NonZeroUsize>,
    /// The most rows of its answer.
    pub rows: Option<NonZeroU64>,
    /// The maximum number of concurrent queries.
    pub queries: NonZeroUsize,
    /// The fewest bytes of files for each part of an answer, since each part is planned again.
    pub part_bytes_min: NonZeroU64,
}

/// Totals since the server started.
#[derive(Debug, Default)]
pub struct QueryCounters {
    /// Queries that were begun.
    pub begun: AtomicU64,
    /// Queries that failed.
    pub failed: AtomicU64,
    /// Queries whose reader left before the end.
    pub left: AtomicU64,
    /// Rows of answers.
    pub rows: AtomicU64,
    /// Bytes of answers, which whoever encodes them counts.
    pub bytes: AtomicU64,
}

/// The rows of an answer, or the messages that are made of them.
pub type RowStream<T = RecordBatch> = BoxStream<'static, Result<T, Status>>;

/// An answer, for whoever makes messages of it.
pub struct AnswerRows {
    /// The columns.
    pub columns: SchemaRef,
    /// What the tables that it reads do not count.
    pub uncounted: Option<Uncounted>,
    /// The rows, as they are found.
    pub rows: RowStream,
    /// Work on the rows that may go on after the messages are dropped holds this until it ends: the
    /// query counts among those that run for as long.
    pub kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for AnswerRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerRows").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// What an answer will be, and the parts in which it can be fetched.
#[derive(Debug)]
pub struct PartedAnswer {
    /// The parameters and columns.
    pub description: StatementDescription,
    /// The number of parts, if there are several, and the contents of the lake that they are of.
    /// Each part has smaller keys than the next.
    pub parts: Option<(NonZeroUsize, PinId)>,
}

/// The first rows of an answer.
#[derive(Debug)]
pub struct FirstRows {
    /// The columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// Whether the answer has more rows.
    pub is_cut: bool,
    /// What the tables that it reads do not count.
    pub uncounted: Option<Uncounted>,
}

/// Runs queries. Clones share the limits.
#[derive(Debug, Clone)]
pub struct Queries {
    /// Threads used only by queries, so that health requests are answered however busy they are.
    threads: Handle,
    newest: Arc<NewestEngine>,
    limits: QueryLimits,
    /// One permit for each query, from its start until its answer is read and all its work has
    /// stopped.
    slots: Arc<Semaphore>,
    /// One permit for each statement being planned: planning does not yield its thread before it
    /// is done.
    planners: Arc<Semaphore>,
    counters: Arc<QueryCounters>,
    stop: watch::Receiver<bool>,
}

impl Queries {
    /// Runs queries on `threads`, of which `planners` may plan at once, until `stop` holds true.
    pub fn new(
        threads: Handle,
        planners: usize,
        newest: Arc<NewestEngine>,
        limits: QueryLimits,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(limits.queries.get()));
        let planners = Arc::new(Semaphore::new(planners));
        Self { threads, newest, limits, slots, planners, counters: Arc::default(), stop }
    }

    /// Returns the totals so far.
    pub fn counters(&self) -> &QueryCounters {
        &self.counters
    }

    /// Returns how many queries are running.
    pub fn running(&self) -> usize {
        self.limits.queries.get() - self.slots.available_permits()
    }

    /// Returns whether the lake can be read, as far as is known, with the number of its newest
    /// snapshot.
    ///
    /// # Errors
    ///
    /// The problem.
    pub fn health(&self) -> Result<SnapshotId, &'static str> {
        self.newest.health()
    }

    /// Returns the current lake.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub async fn newest(&self) -> Result<Arc<Served>, Status> {
        let newest = Arc::clone(&self.newest);
        self.on_query_threads(async move { newest.get().await }.boxed()).await
    }

    /// Returns the parameters and the columns of a statement.
    ///
    /// # Errors
    ///
    /// If it is invalid.
    pub async fn describe(&self, statement: Statement) -> Result<StatementDescription, Status> {
        let statement = self.limited(statement);
        let newest = Arc::clone(&self.newest);
        let described = async move { newest.get().await?.engine.describe(&statement).await };
        self.on_query_threads(described.boxed()).await
    }

    /// Returns the parameters and the columns of a statement, with the parts in which its answer
    /// can be fetched. If there are several, the contents of the lake are kept for a while.
    ///
    /// # Errors
    ///
    /// If it is invalid.
    pub async fn describe_parts(&self, statement: Statement) -> Result<PartedAnswer, Status> {
        let statement = self.limited(statement);
        let newest = Arc::clone(&self.newest);
        // Each part is a query, and the most rows of an answer are counted in one.
        let most = if self.limits.rows.is_some() { 1 } else { self.limits.queries.get() / 2 };
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        let bytes_min = self.limits.part_bytes_min;
        let described = async move {
            let served = newest.get().await?;
            let description = served.engine.describe(&statement).await?;
            if statement.values.len() < description.parameters.len() {
                return Ok(PartedAnswer { description, parts: None });
            }
            let parts = served.engine.parts(&statement, most, bytes_min).await?;
            let several = (parts > NonZeroUsize::MIN).then_some(parts);
            let parts = several.map(|parts| (parts, newest.pin(&served)));
            Ok(PartedAnswer { description, parts })
        };
        self.on_query_threads(described.boxed()).await
    }

    /// Starts to answer a statement about the newest contents of the lake, or about contents that
    /// are kept. The answer is computed as fast as it is read, and ends when it is dropped.
    /// `encode` makes messages of it.
    ///
    /// # Errors
    ///
    /// If too many queries run, or contents are kept no more. Any other error ends the stream.
    pub async fn answer<T: Send + 'static>(
        &self,
        statement: Statement,
        pinned: Option<PinId>,
        encode: impl FnOnce(AnswerRows) -> RowStream<T> + Send + 'static,
    ) -> Result<ResponseStream<T>, Status> {
        let mut statement = self.limited(statement);
        let pinned = match pinned.map(|id| self.newest.pinned(id)) {
            Some(None) => {
                return Err(Status::invalid_argument(
                    "this part of an answer has expired: ask for the statement again",
                ));
            }
            Some(pinned) => pinned,
            None => None,
        };
        // All work on the statement holds the permit, even work that continues after the answer has
        // ended.
        statement.kept = Some(self.slot().await?);
        tracing::info!(sql = statement.text, "query");
        self.counters.begun.fetch_add(1, Ordering::Relaxed);
        let (sender, ending, reading) = response_channel(MESSAGES_WAITING_MAX);
        let (queries, kept_open) = (self.clone(), sender.clone());
        let work = self.clone().send(statement, pinned, encode, sender);
        // The queries' own threads may be busy when the time is up, so this runs elsewhere.
        tokio::spawn(async move {
            let ended = supervise(work, &queries.threads, &kept_open, queries.stop.clone());
            match Box::pin(within(queries.limits.time, ended)).await {
                Ok(()) => {}
                Err(None) => {
                    queries.counters.left.fetch_add(1, Ordering::Relaxed);
                }
                Err(Some(status)) => {
                    queries.counters.failed.fetch_add(1, Ordering::Relaxed);
                    let (code, message) = (status.code(), status.message());
                    tracing::info!(?code, message, "a query failed");
                    ending.end(status);
                }
            }
        });
        Ok(reading)
    }

    /// Runs a statement, and gathers the first `rows_max` rows of its answer. The query ends when
    /// nobody waits for them any more.
    ///
    /// # Errors
    ///
    /// If the statement is wrong, too many queries run, or a limit is exceeded.
    pub async fn gather(&self, statement: Statement, rows_max: usize) -> Result<FirstRows, Status> {
        let mut statement = self.limited(statement);
        statement.kept = Some(self.slot().await?);
        tracing::info!(sql = statement.text, "query");
        self.counters.begun.fetch_add(1, Ordering::Relaxed);
        let queries = self.clone();
        let gathering = async move {
            let said = status::with_advice;
            let planner = queries.planners.acquire().await;
            let served = queries.newest.get().await.map_err(said)?;
            let answer = served.engine.ask(&statement).await.map_err(said)?;
            drop(planner);
            first_rows(answer, rows_max).await
        };
        self.on_threads(gathering.boxed()).await.inspect_err(|_failed| {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        })
    }

    async fn slot(&self) -> Result<Arc<OwnedSemaphorePermit>, Status> {
        let slot = Arc::clone(&self.slots).acquire_owned();
        match tokio::time::timeout(SLOT_WAIT_MAX, slot).await {
            Ok(Ok(slot)) => Ok(Arc::new(slot)),
            Ok(Err(_)) | Err(_) => Err(Status::resource_exhausted(format!(
                "{} queries are running, which is as many as this server allows: ask again later",
                self.limits.queries
            ))),
        }
    }

    fn limited(&self, statement: Statement) -> Statement {
        Statement { memory_bytes_max: self.limits.memory_bytes, ..statement }
    }

    /// Plans something on the queries' threads, within the time limit of a query. The work may
    /// continue after that: it is not interrupted in the middle of a step.
    ///
    /// # Errors
    ///
    /// Those of the work, or if it takes too long.
    pub async fn on_query_threads<T: Send + 'static>(
        &self,
        work: BoxFuture<'static, Result<T, QueryError>>,
    ) -> Result<T, Status> {
        let planners = Arc::clone(&self.planners);
        let work = async move {
            let _planner = planners.acquire_owned().await;
            work.await.map_err(|error| status::of(&error))
        };
        self.on_threads(work.boxed()).await
    }

    async fn on_threads<T: Send + 'static>(
        &self,
        work: BoxFuture<'static, Result<T, Status>>,
    ) -> Result<T, Status> {
        let limit = self.limits.time;
        // Unlike a spawned task, a task in a `JoinSet` ends when nobody waits for it any more.
        let mut task = JoinSet::new();
        task.spawn_on(work, &self.threads);
        tokio::select! {
            done = task.join_next() => match done {
                Some(Ok(done)) => done,
                Some(Err(died)) => Err(dead(&died)),
                None => Err(Status::internal("the query was not started")),
            },
            () = passed(limit) => Err(out_of_time(limit)),
        }
    }

    /// Sends the answer, and ends when it has been read. Fails without a status if nobody reads it
    /// any more.
    async fn send<T>(
        self,
        statement: Statement,
        pinned: Option<Arc<Served>>,
        encode: impl FnOnce(AnswerRows) -> RowStream<T>,
        sender: mpsc::Sender<T>,
    ) -> Result<(), Option<Status>> {
        let said = |error: QueryError| Some(status::of(&error));
        let planner = self.planners.acquire().await;
        let served = match pinned {
            Some(pinned) => pinned,
            None => self.newest.get().await.map_err(said)?,
        };
        let answer = served.engine.ask(&statement).await.map_err(said)?;
        drop(planner);
        let (columns, uncounted) = (answer.schema(), answer.uncounted());
        let counters = Arc::clone(&self.counters);
        let (limit, mut rows) = (self.limits.rows, 0);
        let batches = answer.map(move |batch| {
            let batch = batch.map_err(|error| status::of(&error))?;
            rows += batch.num_rows() as u64;
            counters.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            demand_few(rows, limit)?;
            Ok(batch)
        });
        let (rows, kept) = (batches.boxed(), statement.kept.clone());
        let mut messages = encode(AnswerRows { columns, uncounted, rows, kept });
        while let Some(message) = messages.next().await {
            sender.send(message?).await.map_err(|_gone| None)?;
        }
        // Waiting messages occupy memory and count as a running query: there is room for all again
        // once all have been taken.
        sender.reserve_many(MESSAGES_WAITING_MAX).await.map_err(|_gone| None)?;
        Ok(())
    }
}

/// Reads an answer up to its first `rows_max` rows.
async fn first_rows(mut answer: Answer, rows_max: usize) -> Result<FirstRows, Status> {
    let (schema, uncounted) = (answer.schema(), answer.uncounted());
    let mut gathered = FirstRows { schema, batches: Vec::new(), is_cut: false, uncounted };
    let (mut rows, mut bytes) = (0, 0);
    while let Some(batch) = answer.next().await {
        let batch = batch.map_err(status::with_advice)?;
        let left = rows_max - rows;
        gathered.is_cut = batch.num_rows() > left;
        let batch = if gathered.is_cut { batch.slice(0, left) } else { batch };
        rows += batch.num_rows();
        bytes += batch.get_array_memory_size();
        if bytes > GATHERED_BYTES_MAX {
            return Err(Status::resource_exhausted(format!(
                "the answer takes more than {GATHERED_BYTES_MAX} bytes, the most that are gathered: ask for fewer \
                 rows or columns"
            )));
        }
        gathered.batches.push(batch);
        if gathered.is_cut {
            break;
        }
    }
    Ok(gathered)
}

/// Ensures that work on `threads` ends: by itself, with its reader or with the server. The work is
/// aborted when this function ends, and stops when it next yields its thread.
async fn supervise<T>(
    work: impl Future<Output = Result<(), Option<Status>>> + Send + 'static,
    threads: &Handle,
    reader: &mpsc::Sender<T>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), Option<Status>> {
    let mut task = JoinSet::new();
    task.spawn_on(work, threads);
    tokio::select! {
        biased;
        Some(ended) = task.join_next() => ended.unwrap_or_else(|died| Err(Some(dead(&died)))),
        () = reader.closed() => Err(None),
        _ = stop.wait_for(|stop| *stop) => {
            Err(Some(Status::unavailable("the server is being stopped")))
        }
    }
}

/// Waits for `work`, for `limit` at most.
async fn within(
    limit: Option<Duration>,
    work: impl Future<Output = Result<(), Option<Status>>>,
) -> Result<(), Option<Status>> {
    tokio::select! {
        ended = work => ended,
        () = passed(limit) => Err(Some(out_of_time(limit))),
    }
}

fn dead(died: &JoinError) -> Status {
    Status::internal(format!("the query failed, so the rows sent so far are not all: {died}"))
}

/// Refuses more rows than the limit: a cut answer would look complete.
fn demand_few(rows: u64, limit: Option<NonZeroU64>) -> Result<(), Status> {
    match limit {
        Some(limit) if rows > limit.get() => Err(Status::resource_exhausted(format!(
            "the answer has more than {limit} rows, the most that this server sends: ask for less, or use LIMIT"
        ))),
        _ => Ok(()),
    }
}

/// Waits for a limit to pass; for ever without a limit.
async fn passed(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

fn out_of_time(limit: Option<Duration>) -> Status {
    let limit = limit.unwrap_or_default();
    Status::deadline_exceeded(format!(
        "the query took longer than {limit:?}, the most that this server allows until the last row is read: ask \
         for less"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_dies_gives_no_complete_answer() {
        let (sender, _receiver) = mpsc::channel::<()>(1);
        let (_stop, stopping) = watch::channel(false);
        let dying = async { panic!("a defect") };
        let ended = supervise(dying, &Handle::current(), &sender, stopping).await;
        let status = ended.unwrap_err().unwrap();
        assert!(status.message().contains("not all"), "{}", status.message());
    }

    /// Planning, for example, is one step: nobody can interrupt it, and its caller still gets an
    /// answer in time.
    #[test]
    fn work_that_keeps_its_thread_is_not_waited_for() {
        let threads =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let waiting = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, _receiver) = mpsc::channel::<()>(1);
        let (_stop, stopping) = watch::channel(false);
        let (let_go, is_let_go) = std::sync::mpsc::channel::<()>();
        let stuck = async move {
            let _ = is_let_go.recv();
            Ok(())
        };
        let limit = Some(Duration::from_millis(20));
        let ended = waiting.block_on(async {
            within(limit, supervise(stuck, threads.handle(), &sender, stopping)).await
        });
        assert_eq!(ended.unwrap_err().unwrap().code(), tonic::Code::DeadlineExceeded);
        drop(let_go);
    }
}
