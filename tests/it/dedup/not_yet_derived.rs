//! Derived tables that no dedup has made: a query over one says so, and does not answer with no
//! rows.

use futures::TryStreamExt as _;
use steplake::lake::{Disk, Lake, Snapshot, SnapshotId};
use steplake::model::EpisodeId;
use steplake::query::{Engine, EngineOptions};
use steplake::upkeep::RetractionTarget;

use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::renderer;
use crate::fixtures::support::scratch;
use crate::fixtures::support::{err, fail, run, steplake};
use crate::fixtures::toy_lake::{Author, identity, read};
use crate::lake::retract::{RUNS, derive, record};

const DERIVED: [&str; 3] = ["state_transitions", "conflicts", "failures"];

/// How many rows a table has, or why there is no answer.
async fn count(snapshot: Snapshot, table: &str) -> Result<usize, String> {
    let engine = Engine::new(snapshot, renderer(), &EngineOptions::default()).await.unwrap();
    let asked = engine.sql(&format!("SELECT * FROM {table}")).await;
    let batches = asked.map_err(|error| error.to_string())?.try_collect::<Vec<_>>().await;
    let batches = batches.map_err(|error| error.to_string())?;
    Ok(batches.iter().map(arrow::array::RecordBatch::num_rows).sum())
}

async fn refused(snapshot: impl Fn() -> Snapshot, said: &str) {
    for table in DERIVED {
        let error = count(snapshot(), table).await.unwrap_err();
        assert!(error.contains(&format!("has no {table}: ")) && error.contains(said), "{error}");
        assert!(error.contains(snapshot().path().to_str().unwrap()), "{error}");
    }
    count(snapshot(), "steps").await.unwrap();
}

async fn answered(snapshot: impl Fn() -> Snapshot) -> usize {
    let mut rows = 0;
    for table in DERIVED {
        rows += count(snapshot(), table).await.unwrap();
    }
    rows
}

#[tokio::test]
async fn no_table_is_empty_for_want_of_a_dedup() {
    let folder = scratch();
    let empty = Lake::create(folder.path().join("empty"), &identity()).unwrap();
    assert_eq!(answered(|| empty.snapshot().unwrap()).await, 0);
    let (lake, mut writer) = record(&folder.path().join("lake"), Disk::default()).unwrap();
    let now = || lake.snapshot().unwrap();
    let at = |id: SnapshotId| lake.snapshot_at(id).unwrap();
    refused(now, "its steps are not counted yet").await;
    writer.seal().unwrap();
    refused(now, "its steps are not counted yet").await;
    let sealed = now().id();
    derive(&lake).unwrap();
    let (derived, rows) = (now().id(), answered(now).await);
    assert!(rows > 0);

    let mut maintenance = lake.maintenance().unwrap();
    maintenance.retract(&mut writer, &RetractionTarget::Run(RUNS[0]), "why").unwrap();
    drop(maintenance);
    refused(now, "its steps are not counted yet").await;
    let retracted = now().id();
    derive(&lake).unwrap();
    assert!(answered(now).await > 0);
    assert_eq!(answered(|| at(derived)).await, rows);
    for id in [sealed, retracted] {
        refused(|| at(id), "read a later one").await;
    }

    // Tables that a dedup has made may have no rows.
    for action in ["a1", "a2", "a3"] {
        lake.maintenance().unwrap().retract_action(action, "why").unwrap();
    }
    refused(now, "its steps are not counted yet").await;
    derive(&lake).unwrap();
    assert_eq!(answered(now).await, 0);
    let emptied = now().id();
    derive(&lake).unwrap();
    lake.maintenance().unwrap().retract_action("a4", "why").unwrap();
    assert_eq!(answered(|| at(emptied)).await, 0);
}

#[test]
fn the_command_refuses_and_warns_once_and_info_counts() {
    let folder = scratch();
    let path = folder.path().join("lake");
    let (lake, writer) = record(&path, Disk::default()).unwrap();
    drop(writer);
    let joined = "SELECT count(*) FROM state_transitions AS a JOIN failures AS b USING (state_id)";
    let (code, error) = fail(&path, &["sql", joined]);
    assert_eq!(code, 3);
    assert!(error.contains("its steps are not counted yet; run `steplake dedup`"), "{error}");
    let info = || {
        let text = run(&path, &["info"]);
        text.lines().find(|line| line.starts_with("layers")).unwrap().to_owned()
    };
    assert!(info().ends_with("0; 13 rows of steps not counted (`dedup`)"), "{}", info());
    run(&path, &["dedup"]);
    assert_eq!(info(), "layers        1");
    let asked = || steplake(&path).args(["sql", joined]).output_in_time();
    assert_eq!(err(&asked()), "");

    let known = read(&lake).observations.iter().map(|row| row.state).collect();
    let mut author = Author { known, benchmarks: [0, 1].into(), ..Author::default() };
    author.episode(EpisodeId::new(RUNS[1], 9), 0, &[(1, Some(2)), (5, Some(7))]);
    lake.writer().unwrap().append(&author.take()).unwrap();
    let output = asked();
    assert!(output.status.success());
    let said = err(&output);
    assert!(said.contains("does not count all steps: 2 are newer than the last dedup"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(info().ends_with("1; 2 rows of steps not counted (`dedup`)"), "{}", info());
}
