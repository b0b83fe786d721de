//! An answer as a reader of batches, for whatever thread asks for the next one.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use futures::StreamExt;
use nix::unistd::{getpid, gettid};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use steplake::query::{Engine, QueryError, Statement};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;

use crate::interpreter::errors::{PendingException, raise};
use crate::interpreter::of_process::OfProcess;
use crate::interpreter::runtime::TICK;

/// How many batches wait for their reader.
const BATCHES_WAITING_MAX: usize = 2;

/// Reads the answer to a statement. The query begins when the first batch is asked for, and ends
/// when the reader is dropped.
pub(crate) struct AnswerReader {
    schema: SchemaRef,
    query: OfProcess<QueryState>,
}

/// A query, with the threads that it runs on until it ends.
enum QueryState {
    Asked(Arc<Runtime>, Arc<Engine>, Statement),
    Running(Arc<Runtime>, Receiver<Result<RecordBatch, QueryError>>),
    Ended,
}

impl AnswerReader {
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        engine: Arc<Engine>,
        statement: Statement,
        schema: SchemaRef,
    ) -> Self {
        Self { schema, query: OfProcess::new(QueryState::Asked(runtime, engine, statement)) }
    }

    /// Returns the next batch. Call it detached from the interpreter, if possible.
    ///
    /// An error ends the answer: that of the query, or the exception of a signal's handler.
    pub(crate) fn next_batch(&mut self) -> Option<PyResult<RecordBatch>> {
        let Some(query) = self.query.get_mut() else {
            return Some(Err(raise(PendingException::usage(
                "this answer belongs to the process that this one was forked from: ask again here",
            ))));
        };
        query.begin();
        let QueryState::Running(runtime, batches) = query else { return None };
        let next = runtime.block_on(async {
            loop {
                match timeout(TICK, batches.recv()).await {
                    Ok(next) => return next.map(|next| next.map_err(|error| raise(error.into()))),
                    Err(_elapsed) => {
                        if let Err(raised) = check_signals() {
                            return Some(Err(raised));
                        }
                    }
                }
            }
        });
        if !matches!(next, Some(Ok(_))) {
            *query = QueryState::Ended;
        }
        next
    }
}

impl QueryState {
    fn begin(&mut self) {
        match std::mem::replace(self, Self::Ended) {
            Self::Asked(runtime, engine, statement) => {
                let (sender, receiver) = channel(BATCHES_WAITING_MAX);
                runtime.spawn(async move {
                    let mut answer = match engine.ask(&statement).await {
                        Ok(answer) => answer,
                        // A reader that is gone wants no error.
                        Err(error) => return drop(sender.send(Err(error)).await),
                    };
                    while let Some(batch) = answer.next().await {
                        if sender.send(batch).await.is_err() {
                            break;
                        }
                    }
                });
                *self = Self::Running(runtime, receiver);
            }
            other => *self = other,
        }
    }
}

/// Runs the handlers of signals that came. Python does so in its first thread alone, and other
/// threads had better not wait for the interpreter.
fn check_signals() -> PyResult<()> {
    if gettid() != getpid() {
        return Ok(());
    }
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method has one lifetime")]
    Python::attach(|py| py.check_signals())
}

impl Iterator for AnswerReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch()?;
        // The other library makes an exception of its own of this text.
        let text = |error: PyErr| {
            Python::attach(|py| {
                let is_interrupt = error.is_instance_of::<PyKeyboardInterrupt>(py);
                if is_interrupt { "interrupted".to_owned() } else { error.value(py).to_string() }
            })
        };
        Some(next.map_err(|error| ArrowError::ExternalError(text(error).into())))
    }
}

impl RecordBatchReader for AnswerReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
