//! A reader leaves before its answer is complete: the thread of the query is soon free, and nothing
//! stays behind.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
use datafusion::execution::session_state::SessionStateBuilder;
use futures::TryStreamExt as _;
use steplake::lake::Lake;
use steplake::query::{Engine, EngineOptions, GraphCache};

use super::{ask, record};
use crate::fixtures::programs::heard;
use crate::fixtures::support::renderer;

/// A memory pool that blocks whoever grows it until the test lets it continue.
#[derive(Debug)]
struct Gate {
    reserved: AtomicUsize,
    stands: Mutex<Sender<()>>,
    may_go_on: Mutex<Receiver<()>>,
}

impl Gate {
    fn new() -> (Arc<Self>, Receiver<()>, Sender<()>) {
        let ((stands, standing), (go_on, may_go_on)) = (channel(), channel());
        let (stands, may_go_on) = (Mutex::new(stands), Mutex::new(may_go_on));
        let gate = Self { reserved: AtomicUsize::new(0), stands, may_go_on };
        (Arc::new(gate), standing, go_on)
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.reserved.fetch_add(additional, Ordering::SeqCst);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.reserved.fetch_sub(shrink, Ordering::SeqCst);
    }

    fn try_grow(
        &self,
        reservation: &MemoryReservation,
        additional: usize,
    ) -> datafusion::common::Result<()> {
        self.stands.lock().unwrap().send(()).unwrap();
        heard(&self.may_go_on.lock().unwrap(), "leave to go on");
        self.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Ordering::SeqCst)
    }
}

/// A value that a statement keeps. It sends a message when it is dropped.
struct Lent(Sender<()>);

impl Drop for Lent {
    fn drop(&mut self) {
        // No receiver is left if the test failed.
        let _ = self.0.send(());
    }
}

/// Starts to answer. The receiver gets a message when all work on the answer has ended.
async fn begin(engine: &Engine, sql: &str) -> (SendableRecordBatchStream, Receiver<()>) {
    let (told, free) = channel();
    let state = engine.context().state();
    let config = state.config().clone().with_extension(Arc::new(Lent(told)));
    let state = SessionStateBuilder::new_from_existing(state).with_config(config).build();
    let plan = state.create_logical_plan(sql).await.unwrap();
    (DataFrame::new(state, plan).execute_stream().await.unwrap(), free)
}

fn lake(folder: &tempfile::TempDir) -> Lake {
    record(&folder.path().join("lake"), &[vec![(9, vec![(1, Some(5)), (2, Some(3))])]])
}

async fn gated(lake: &Lake) -> (Engine, Arc<Gate>, Receiver<()>, Sender<()>) {
    let (gate, standing, go_on) = Gate::new();
    let graphs = GraphCache::within(Arc::clone(&gate) as Arc<dyn MemoryPool>);
    let options = EngineOptions { graphs, ..EngineOptions::default() };
    let engine = Engine::new(lake.snapshot().unwrap(), renderer(), &options).await.unwrap();
    (engine, gate, standing, go_on)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graph_that_nobody_waits_for_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(&folder);
    let (engine, gate, standing, go_on) = gated(&lake).await;
    let (stream, free) = begin(&engine, "SELECT * FROM sequences()").await;
    heard(&standing, "the graph's builder");
    drop(stream);
    assert!(free.try_recv().is_err(), "the thread still works, and what was lent is not back");
    go_on.send(()).unwrap();
    heard(&free, "what was lent");
    assert_eq!(gate.reserved(), 0, "nothing is kept");
    // The next question builds the graph.
    let (stream, free) = begin(&engine, "SELECT * FROM sequences()").await;
    heard(&standing, "the graph's builder");
    go_on.send(()).unwrap();
    assert_eq!(stream.try_collect::<Vec<_>>().await.unwrap()[0].num_rows(), 3);
    heard(&free, "what was lent");
    assert!(gate.reserved() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_waits_for_nobody_elses_graph() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(&folder);
    let (engine, _, standing, go_on) = gated(&lake).await;
    let (first, first_free) = begin(&engine, "SELECT * FROM sequences()").await;
    heard(&standing, "the graph's builder");
    let (second, second_free) = begin(&engine, "SELECT * FROM sequences(1)").await;
    drop(second);
    // The first question is still blocked.
    heard(&second_free, "what was lent to the second");
    go_on.send(()).unwrap();
    assert_eq!(first.try_collect::<Vec<_>>().await.unwrap()[0].num_rows(), 3);
    heard(&first_free, "what was lent to the first");
    assert_eq!(ask(&engine, "SELECT * FROM sequences(1)").await.len(), 2);
}

#[test]
fn questions_that_wait_for_a_graph_hold_no_thread() {
    const BLOCKING_THREADS: usize = 2;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).max_blocking_threads(BLOCKING_THREADS).enable_all();
    let runtime = builder.thread_stack_size(steplake::query::STACK_BYTES).build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let lake = lake(&folder);
        let other = crate::fixtures::support::engine(&lake).await;
        let (engine, _, standing, go_on) = gated(&lake).await;
        let mut waiting = Vec::new();
        for _ in 0..4 * BLOCKING_THREADS {
            waiting.push(begin(&engine, "SELECT * FROM sequences()").await);
        }
        heard(&standing, "the graph's builder");
        // Files are read on these threads.
        assert_eq!(ask(&other, "SELECT * FROM steps").await.len(), 3);
        go_on.send(()).unwrap();
        for (stream, _) in waiting {
            assert_eq!(stream.try_collect::<Vec<_>>().await.unwrap()[0].num_rows(), 3);
        }
    });
}
