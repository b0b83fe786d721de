//! Running queries: each in a task of its own, on threads of their own, within limits.

use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use steplake::query::{Described, QueryError, Statement};
use steplake::store::SnapshotId;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tonic::Status;

use crate::newest::{Newest, Served};
use crate::tickets::Asked;
use crate::{status, wire};

/// Messages of about 2 MB that wait for the reader of a stream. When it is slow, the query stands still.
const MESSAGES_WAITING_MAX: usize = 4;

/// What one query may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) time: Option<Duration>,
    pub(crate) memory_bytes: Option<NonZeroUsize>,
    pub(crate) rows: Option<NonZeroU64>,
    /// How many may run at once.
    pub(crate) queries: NonZeroUsize,
}

/// What was done since the server began.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) begun: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) left: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// Runs queries. Clones run them together.
#[derive(Debug, Clone)]
pub(crate) struct Queries {
    /// Threads that queries alone use: who asks for health is answered however much they compute.
    threads: Handle,
    newest: Arc<Newest>,
    limits: Limits,
    places: Arc<Semaphore>,
    counters: Arc<Counters>,
    stop: watch::Receiver<bool>,
}

impl Queries {
    /// Runs queries on `threads` until `stop` holds true.
    pub(crate) fn new(
        threads: Handle,
        newest: Arc<Newest>,
        limits: Limits,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let places = Arc::new(Semaphore::new(limits.queries.get()));
        Self { threads, newest, limits, places, counters: Arc::default(), stop }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many queries run.
    pub(crate) fn running(&self) -> usize {
        self.limits.queries.get() - self.places.available_permits()
    }

    /// Whether the lake can be read, as far as is known: the number of its newest snapshot.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub(crate) fn health(&self) -> Result<SnapshotId, String> {
        self.newest.health()
    }

    /// The lake as it is now.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub(crate) async fn newest(&self) -> Result<Arc<Served>, Status> {
        let newest = Arc::clone(&self.newest);
        self.apart(async move { newest.get().await }).await
    }

    /// What a statement takes and gives.
    ///
    /// # Errors
    ///
    /// When it is wrong.
    pub(crate) async fn describe(&self, asked: &Asked) -> Result<Described, Status> {
        let statement = self.statement(asked)?;
        let newest = Arc::clone(&self.newest);
        self.apart(async move { newest.get().await?.engine.describe(&statement).await }).await
    }

    /// Begins to answer a statement. The answer comes as fast as it is read, and ends when it is dropped.
    ///
    /// # Errors
    ///
    /// When too many queries run. Whatever else goes wrong ends the stream.
    pub(crate) fn answer(
        &self,
        asked: &Asked,
    ) -> Result<impl Stream<Item = Result<FlightData, Status>> + Send + use<>, Status> {
        let statement = self.statement(asked)?;
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(Status::resource_exhausted(format!(
                "{} queries run at the moment, and no more may: ask again later",
                self.limits.queries
            )));
        };
        tracing::info!(sql = statement.text, "query");
        self.counters.begun.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel(MESSAGES_WAITING_MAX);
        let task = self.threads.spawn(self.clone().run(statement, sender, place));
        Ok(messages(receiver, task))
    }

    fn statement(&self, asked: &Asked) -> Result<Statement, Status> {
        let values = wire::values(asked)?;
        let memory_bytes_max = self.limits.memory_bytes;
        Ok(Statement { text: asked.text.clone(), values, memory_bytes_max })
    }

    /// Does some work where queries are worked on, in as much time as a query may take.
    async fn apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, QueryError>> + Send + 'static,
    ) -> Result<T, Status> {
        let limit = self.limits.time;
        let work = async move {
            tokio::select! {
                done = work => done.map_err(|error| status::of(&error)),
                () = passed(limit) => Err(out_of_time(limit)),
            }
        };
        // Unlike a task of its own, this one ends when nobody waits for it any more.
        let mut task = JoinSet::new();
        task.spawn_on(work, &self.threads);
        match task.join_next().await {
            Some(Ok(done)) => done,
            Some(Err(died)) => Err(dead(&died)),
            None => Err(Status::internal("the query was not begun")),
        }
    }

    /// Sends an answer from its beginning to its end.
    async fn run(
        mut self,
        statement: Statement,
        sender: mpsc::Sender<Result<FlightData, Status>>,
        place: OwnedSemaphorePermit,
    ) {
        let mut stop = self.stop.clone();
        let ended = tokio::select! {
            biased;
            () = sender.closed() => Err(None),
            _ = stop.wait_for(|stop| *stop) => {
                Err(Some(Status::unavailable("the server is being stopped")))
            }
            () = passed(self.limits.time) => Err(Some(out_of_time(self.limits.time))),
            ended = self.send(&statement, &sender) => ended,
        };
        // All that the query held is gone by now; what follows may wait for a slow reader.
        drop(place);
        match ended {
            Ok(()) => {}
            Err(None) => {
                self.counters.left.fetch_add(1, Ordering::Relaxed);
            }
            Err(Some(status)) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                tracing::info!(code = ?status.code(), message = status.message(), "a query failed");
                let _ = sender.send(Err(status)).await;
            }
        }
    }

    /// Sends the answer. Fails with nothing to be said where nobody reads it any more.
    async fn send(
        &mut self,
        statement: &Statement,
        sender: &mpsc::Sender<Result<FlightData, Status>>,
    ) -> Result<(), Option<Status>> {
        let said = |error: QueryError| Some(status::of(&error));
        let served = self.newest.get().await.map_err(said)?;
        let answer = served.engine.ask(statement).await.map_err(said)?;
        let schema = wire::schema(&answer.schema());
        let (announced, counters) = (Arc::clone(&schema), Arc::clone(&self.counters));
        let (limit, mut rows) = (self.limits.rows, 0);
        let batches = answer.map(move |batch| {
            let batch = batch.map_err(|error| status::of(&error))?;
            rows += batch.num_rows() as u64;
            counters.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            demand_few(rows, limit)?;
            plain(&batch, &announced)
        });
        let batches = batches.map_err(|status| FlightError::Tonic(Box::new(status)));
        let mut messages = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| Some(Status::from(error)))?;
            let bytes = message.data_body.len() + message.data_header.len();
            self.counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            sender.send(Ok(message)).await.map_err(|_gone| None)?;
        }
        Ok(())
    }
}

/// What a task sends. Where it dies, its stream ends with an error, and not as one that is whole.
fn messages<T: Send + 'static>(
    receiver: mpsc::Receiver<Result<T, Status>>,
    task: JoinHandle<()>,
) -> impl Stream<Item = Result<T, Status>> + Send + use<T> {
    futures::stream::unfold(Some((receiver, task)), async |state| {
        let (mut receiver, task) = state?;
        if let Some(message) = receiver.recv().await {
            return Some((message, Some((receiver, task))));
        }
        let died = task.await.err()?;
        Some((Err(dead(&died)), None))
    })
}

fn dead(died: &JoinError) -> Status {
    Status::internal(format!("the query failed, and the rows before this are not all: {died}"))
}

fn plain(batch: &RecordBatch, schema: &arrow::datatypes::SchemaRef) -> Result<RecordBatch, Status> {
    wire::batch(batch, schema)
        .map_err(|error| Status::internal(format!("the answer cannot be sent: {error}")))
}

/// Refuses the row too many: an answer that is cut looks like one that is not.
fn demand_few(rows: u64, limit: Option<NonZeroU64>) -> Result<(), Status> {
    match limit {
        Some(limit) if rows > limit.get() => Err(Status::resource_exhausted(format!(
            "the answer has more than {limit} rows, which is as many as this server gives: ask for less, or with \
             LIMIT"
        ))),
        _ => Ok(()),
    }
}

/// Waits for a limit to pass; for ever where there is none.
async fn passed(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

fn out_of_time(limit: Option<Duration>) -> Status {
    let limit = limit.unwrap_or_default();
    Status::deadline_exceeded(format!(
        "the query took longer than {limit:?}, which is as long as this server lets one take until its last row \
         is read: ask for less"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_dies_ends_its_stream_with_an_error() {
        let (sender, receiver) = mpsc::channel(1);
        let dying = tokio::spawn(async move {
            sender.send(Ok(1)).await.unwrap();
            panic!("a defect");
        });
        let sent: Vec<_> = messages(receiver, dying).collect().await;
        assert_eq!(sent.len(), 2);
        assert_eq!(*sent[0].as_ref().unwrap(), 1);
        assert!(sent[1].as_ref().unwrap_err().message().contains("not all"));

        let (sender, receiver) = mpsc::channel(1);
        let whole = tokio::spawn(async move { sender.send(Ok(1)).await.unwrap() });
        let sent: Vec<_> = messages(receiver, whole).collect().await;
        assert_eq!(sent.len(), 1);
    }
}
