//! Rows for training, against a model of what was recorded.

mod batches;
mod columns;
mod splits;

use std::future::Future;
use std::sync::Arc;

use steplake::lake::Lake;
use steplake::load::{
    ColumnRequest, Condition, DatasetRequest, LoadError, MatrixCache, Numbers, SealedRows, Source,
    TrainingDataset,
};
use steplake::query::{Engine, EngineOptions};

use crate::fixtures::support::renderer;

/// Waits for work that asks engines.
fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

/// The sealed rows of a lake, with a cache in the lake's folder.
async fn sealed(lake: &Lake, cache: &MatrixCache) -> SealedRows {
    let options = EngineOptions::default();
    let engine = Engine::new(lake.sealed().unwrap(), renderer(), &options).await.unwrap();
    let snapshot = lake.sealed().unwrap();
    SealedRows::open(Arc::new(engine), Arc::new(snapshot), cache).await.unwrap()
}

fn request(source: Source, columns: &[&str], condition: Option<&str>) -> DatasetRequest {
    let column = |name: &&str| ColumnRequest { name: (*name).to_owned(), number_type: None };
    let condition = condition.map(|sql| Condition { sql: sql.to_owned(), values: Vec::new() });
    DatasetRequest {
        source,
        columns: columns.iter().map(column).collect(),
        conditions: condition.into_iter().collect(),
        n_step: None,
    }
}

fn open(
    lake: &Lake,
    source: Source,
    columns: &[&str],
    condition: Option<&str>,
) -> Result<TrainingDataset, LoadError> {
    let cache = MatrixCache::new(lake.path().join("../cache"));
    let request = request(source, columns, condition);
    wait(async { TrainingDataset::open(&sealed(lake, &cache).await, &request).await })
}

/// All rows of a dataset, each as the numbers of all columns.
fn rows(dataset: &TrainingDataset) -> Vec<Vec<f64>> {
    let places = u32::try_from(dataset.len()).unwrap();
    rows_at(dataset, &(0..places).collect::<Vec<_>>())
}

fn rows_at(dataset: &TrainingDataset, places: &[u32]) -> Vec<Vec<f64>> {
    by_row(dataset, places.len(), &dataset.gather(places).unwrap().columns)
}

/// The numbers of columns, row by row.
fn by_row(dataset: &TrainingDataset, rows: usize, columns: &[Numbers]) -> Vec<Vec<f64>> {
    let columns = dataset.columns().iter().zip(columns).map(|(column, numbers)| {
        let numbers: Vec<f64> = match numbers {
            Numbers::U8(numbers) => numbers.iter().map(|&number| number.into()).collect(),
            Numbers::I32(numbers) => numbers.iter().map(|&number| number.into()).collect(),
            Numbers::I64(numbers) => {
                numbers.iter().map(|&number| i32::try_from(number).unwrap().into()).collect()
            }
            Numbers::F32(numbers) => numbers.iter().map(|&number| number.into()).collect(),
            Numbers::F64(numbers) => numbers.clone(),
        };
        assert_eq!(numbers.len(), rows * column.width.unwrap_or(1));
        (numbers, column.width.unwrap_or(1))
    });
    let columns: Vec<_> = columns.collect();
    let row = |row| {
        let parts = columns.iter().map(|(numbers, width)| &numbers[row * width..(row + 1) * width]);
        parts.flatten().copied().collect()
    };
    (0..rows).map(row).collect()
}
