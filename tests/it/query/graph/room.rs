//! The memory of the graph and of questions to it.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array as _, AsArray as _};
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};
use futures::TryStreamExt as _;
use steplake::dedup::dedup;
use steplake::lake::to_the_end;
use steplake::query::{Engine, EngineOptions, GraphCache, QueryError, Statement};

use super::known::add;
use super::{APART, ask, record, try_ask};
use crate::fixtures::support::{engine, renderer};

const VALUES: &str = "SELECT * FROM best_known('Size')";

#[tokio::test]
async fn a_graph_that_has_no_room_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record(&folder.path().join("lake"), &[vec![(9, vec![(1, Some(5)), (2, Some(3))])]]);
    let room: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100));
    let graphs = GraphCache::within(Arc::clone(&room));
    let options = EngineOptions { graphs, ..EngineOptions::default() };
    let engine = Engine::new(lake.snapshot().unwrap(), renderer(), &options).await.unwrap();
    for _ in 0..2 {
        let error = try_ask(&engine, VALUES).await.unwrap_err();
        assert!(matches!(error, QueryError::Memory(_)), "{error}");
        assert!(error.to_string().contains("the transition graph"), "{error}");
        assert!(
            error.to_string().contains("and 0 of 100 that"),
            "what failed holds nothing: {error}"
        );
    }
    assert_eq!(room.reserved(), 0);
}

/// A memory pool that counts the graphs that are built in it.
#[derive(Debug, Default)]
struct Counting {
    pool: UnboundedMemoryPool,
    graphs: AtomicUsize,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(
        &self,
        reservation: &MemoryReservation,
        additional: usize,
    ) -> datafusion::common::Result<()> {
        if reservation.consumer().name().contains("while it is made") {
            self.graphs.fetch_add(1, Ordering::Relaxed);
        }
        self.pool.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }
}

/// Questions to every part of a graph.
const QUESTIONS: [&str; 7] = [
    "SELECT * FROM sequences() ORDER BY benchmark_uri, state_id",
    "SELECT * FROM best_cost('Size') ORDER BY state_id",
    "SELECT * FROM best_sequences('Size') ORDER BY benchmark_uri",
    "SELECT * FROM advantage('Size') ORDER BY state_id, action",
    "SELECT * FROM best_known('SizeNorm', 0.5) ORDER BY state_id",
    "SELECT * FROM frontier('Size', 9) ORDER BY state_id, action",
    "SELECT * FROM algebra('Size') ORDER BY law, action, other",
];

#[tokio::test]
async fn engines_over_the_same_sealed_rows_share_one_graph() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record(&folder.path().join("lake"), &[vec![(9, vec![(1, Some(5)), (2, Some(3))])]]);
    let room = Arc::new(Counting::default());
    let graphs = GraphCache::within(Arc::clone(&room) as Arc<dyn MemoryPool>);
    let options = EngineOptions { graphs, ..EngineOptions::default() };
    let opened =
        async |options| Engine::new(lake.snapshot().unwrap(), renderer(), options).await.unwrap();
    let mut kept = Vec::new();
    // Episodes of new programs, from states in the graph and from others.
    for (ordinal, first) in [(1, 9), (2, 5), (3, 8), (4, 1), (5, 2), (6, 9)] {
        let (shared, alone) = (opened(&options).await, engine(&lake).await);
        for question in QUESTIONS {
            assert_eq!(ask(&shared, question).await, ask(&alone, question).await, "{question}");
        }
        kept.push(shared);
        add(&lake, ordinal, first, &[(3, Some(4)), (1, Some(6))]);
    }
    let made = || room.graphs.load(Ordering::Relaxed);
    assert_eq!(made(), 1);
    lake.writer().unwrap().seal().unwrap();
    dedup(&mut lake.maintenance().unwrap(), APART, &mut to_the_end).unwrap();
    let (shared, alone) = (opened(&options).await, engine(&lake).await);
    for question in QUESTIONS {
        assert_eq!(ask(&shared, question).await, ask(&alone, question).await, "{question}");
    }
    assert_eq!(made(), 2);
    drop((kept, shared));
    assert_eq!(room.reserved(), 0, "a graph lives as long as an engine that has it");
}

#[tokio::test]
async fn what_is_kept_is_not_held_against_who_asked_first() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record(&folder.path().join("lake"), &[vec![(9, vec![(1, Some(5)), (2, Some(3))])]]);
    let engine = engine(&lake).await;
    let asked = |bytes| Statement {
        text: VALUES.to_owned(),
        memory_bytes_max: NonZeroUsize::new(bytes),
        ..Statement::default()
    };
    let poor = engine.ask(&asked(100)).await.unwrap().try_collect::<Vec<_>>().await;
    assert!(matches!(poor, Err(QueryError::Memory(_))), "{poor:?}");
    for space in ["Size", "SizeNorm"] {
        assert_eq!(ask(&engine, &format!("SELECT * FROM advantage('{space}')")).await.len(), 2);
    }
    let rich = engine.ask(&asked(1 << 20)).await.unwrap().try_collect::<Vec<_>>().await;
    assert_eq!(rich.unwrap()[0].num_rows(), 3);
}

#[tokio::test]
async fn long_ways_make_small_batches() {
    const LENGTH: u32 = 3000;
    const ITEMS_MAX: usize = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = (0..LENGTH).rev().map(|to| (1, Some(to))).collect();
    let lake = record(&folder.path().join("lake"), &[vec![(LENGTH, path)]]);
    let engine = engine(&lake).await;
    let ways = u64::from(LENGTH) * u64::from(LENGTH + 1) / 2;
    for (sql, rows) in [
        ("SELECT actions FROM sequences()", LENGTH + 1),
        ("SELECT actions FROM best_cost('Size')", LENGTH + 1),
        ("SELECT actions FROM best_known('SizeNorm', 0.5)", LENGTH + 1),
    ] {
        let batches: Vec<_> = engine.sql(sql).await.unwrap().try_collect().await.unwrap();
        let items: Vec<usize> =
            batches.iter().map(|batch| batch["actions"].as_list::<i32>().values().len()).collect();
        let counted: usize = batches.iter().map(|batch| batch["actions"].len()).sum();
        assert_eq!(counted, rows as usize, "{sql}");
        assert!(items.iter().all(|&items| items < ITEMS_MAX + rows as usize), "{sql} {items:?}");
        if !sql.contains("known") {
            assert_eq!(items.iter().sum::<usize>() as u64, ways, "{sql}");
            assert!(items.len() > 4, "{sql} {items:?}");
        }
    }
    let lengths = "SELECT steps FROM sequences()";
    let batches: Vec<_> = engine.sql(lengths).await.unwrap().try_collect().await.unwrap();
    assert_eq!(batches.len(), 1, "without lists a batch has as many rows as others");
}
