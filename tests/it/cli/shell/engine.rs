//! What the shell leans on in the engine.

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::Poll;

use futures::Stream;
use steplake::query::{Engine, EngineOptions};

use crate::fixtures::small_lake::{self, Kept};
use crate::fixtures::support::{engine, renderer};

#[tokio::test]
async fn whatever_can_be_asked_about_is_described() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::Sealed);
    let engine = engine(&lake).await;
    let relations = engine.relations().await.unwrap();
    let names: Vec<&str> = relations.iter().map(|relation| relation.name.as_str()).collect();
    assert_eq!(names, engine.tables());
    for relation in &relations {
        assert!(!relation.description.is_empty(), "{}", relation.name);
        assert!(!relation.columns.is_empty(), "{}", relation.name);
        for column in &relation.columns {
            assert!(!column.description.is_empty(), "{}.{}", relation.name, column.name);
        }
        let views = ["program_episodes", "steps_with_actions", "transitions_taken"];
        assert_eq!(relation.rows.is_none(), views.contains(&relation.name.as_str()));
    }
    let functions = engine.functions();
    let field: Vec<_> = functions.iter().filter(|function| function.is_of_the_field).collect();
    assert!(field.len() >= 8 && functions.starts_with(&[field[0].clone()]), "{field:?}");
    for function in field {
        assert!(!function.description.is_empty(), "{} says nothing in \\df", function.name);
    }
}

/// A join of two batches makes thousands without waiting for either side. Were it not to give way,
/// nobody could stop it.
#[tokio::test]
async fn a_join_gives_way_while_it_makes_rows() {
    let folder = tempfile::tempdir().unwrap();
    let lake = small_lake::record(&folder.path().join("lake"), Kept::Sealed);
    let options = EngineOptions { threads: NonZeroUsize::new(1), ..EngineOptions::default() };
    let engine = Engine::new(lake.snapshot().unwrap(), renderer(), &options).await.unwrap();
    let sql = "SELECT count(a.value + b.value) FROM generate_series(1, 2000) AS a, \
               generate_series(1, 1000) AS b";
    let mut answer = engine.sql(sql).await.unwrap();
    let progress = answer.progress();
    let mut pauses = 0;
    std::future::poll_fn(|context| {
        let next = Pin::new(&mut answer).poll_next(context);
        pauses += usize::from(next.is_pending());
        if next.is_pending() { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    assert!(pauses >= 5, "it paused {pauses} times");
    assert_eq!(progress.rows(), 2_000_000);
}
