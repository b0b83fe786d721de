//! Faults under the query engine, which reads segments by its own plans.

use std::fmt::Display;
use std::io::Error;
use std::path::Path;

use futures::TryStreamExt as _;
use steplake::lake::{Disk, DiskOperation, FaultEffect, Lake, LakeError, Snapshot, Table};
use steplake::query::{Engine, EngineOptions, QueryError};

use super::{Image, Places, Stages, Tally, cells, faulty, is_reading};
use crate::fixtures::support::renderer;
use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::state;

/// One question a table, and one that looks up few rows.
fn questions() -> Vec<String> {
    let mut questions = vec![format!(
        "SELECT s.Size, t.action FROM observations AS s JOIN state_transitions AS t USING (state_id) \
         WHERE s.state_id = '{}'",
        state(0)
    )];
    questions.extend(Table::ALL.map(|table| format!("SELECT * FROM {table}")));
    questions
}

pub(super) async fn ask(engine: &Engine, question: &str) -> Result<Vec<String>, QueryError> {
    let batches: Vec<_> = engine.sql(question).await?.try_collect().await?;
    let mut rows = batches.iter().flat_map(cells).collect::<Vec<_>>();
    rows.sort();
    Ok(rows)
}

async fn engine(disk: Disk, path: &Path) -> Result<Engine, Box<dyn Display>> {
    engine_of(Lake::open_on(disk, path).and_then(|lake| lake.snapshot())).await
}

/// An engine that does things in one order.
pub(super) async fn engine_of(
    snapshot: Result<Snapshot, LakeError>,
) -> Result<Engine, Box<dyn Display>> {
    let snapshot = snapshot.map_err(|error| -> Box<dyn Display> { Box::new(error) })?;
    let options = EngineOptions { threads: std::num::NonZeroUsize::new(1), ..Default::default() };
    let engine = Engine::new(snapshot, renderer(), &options).await;
    engine.map_err(|error| -> Box<dyn Display> { Box::new(error) })
}

async fn truths(image: &Image) -> Vec<(String, Vec<String>)> {
    let folder = scratch();
    let path = folder.path().join("lake");
    image.lay(&path);
    let Ok(engine) = engine(Disk::default(), &path).await else { panic!("an undamaged lake") };
    let mut truths = Vec::new();
    for question in questions() {
        let rows = ask(&engine, &question).await.unwrap();
        assert!(!rows.is_empty(), "{question}");
        truths.push((question, rows));
    }
    truths
}

#[tokio::test]
async fn a_reading_that_fails_under_a_query_is_no_answer() {
    let (image, _) = Stages::last();
    let mut tally = Tally::default();
    for (question, truth) in truths(&image).await {
        for at in 0.. {
            let fault: fn(&DiskOperation<'_>) -> FaultEffect = if at % 2 == 0 {
                |_| FaultEffect::Fail(Error::from_raw_os_error(5))
            } else {
                |_| FaultEffect::Short(7)
            };
            let folder = scratch();
            let path = folder.path().join("lake");
            image.lay(&path);
            let (disk, left) = faulty(at, is_reading, fault);
            let case = format!("{question}, reading {at}");
            match engine(disk, &path).await {
                Err(error) => tally.refuse(&case, &path, &error),
                Ok(engine) => tally.judge(&case, &path, ask(&engine, &question).await, &truth),
            }
            if left.lock().unwrap().is_some() {
                break;
            }
        }
    }
    tally.report("readings that fail under queries", 40);
}

#[tokio::test]
async fn a_flipped_bit_under_a_query_is_no_answer() {
    let (image, _) = Stages::last();
    let truths = truths(&image).await;
    let (mut places, mut tally) = (Places(6), Tally::default());
    let folder = scratch();
    let path = folder.path().join("lake");
    image.lay(&path);
    for (file, content) in image.segments() {
        for _ in 0..3 {
            let place = places.below(content.len());
            let mut changed = content.to_vec();
            changed[place] ^= 1 << places.below(8);
            std::fs::write(path.join(file), changed).unwrap();
            let Ok(engine) = engine(Disk::default(), &path).await else {
                panic!("the log is sound")
            };
            let table = file.iter().nth(1).unwrap().to_str().unwrap();
            let about =
                |(question, _): &&(String, Vec<String>)| question.ends_with(&format!(" {table}"));
            for (question, truth) in truths.iter().take(1).chain(truths.iter().filter(about)) {
                let case = format!("{question}, {} at {place}", file.display());
                tally.judge(&case, &path, ask(&engine, question).await, truth);
            }
        }
        std::fs::write(path.join(file), content).unwrap();
    }
    tally.report("flipped bits under queries", 60);
}
