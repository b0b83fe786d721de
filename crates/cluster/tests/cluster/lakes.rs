//! Lakes with everything in them that is taken together on a cluster.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::TryStreamExt as _;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Lake, Snapshot, to_the_end};
use steplake::model::{EpisodeId, RunId};
use steplake::query::{Engine, EngineOptions, QueryError};
use tokio::runtime::Runtime;

use crate::toy_lake;
pub(crate) use crate::toy_lake::APART;

pub(crate) fn count(lake: &Lake, settings: DedupOptions) -> steplake::dedup::DedupReport {
    dedup(&mut lake.maintenance().unwrap(), settings, &mut to_the_end).unwrap()
}

/// A lake of so many segments of steps and layers, with conflicts and failures within layers and
/// between them; what is hot is an open episode.
pub(crate) fn in_layers(path: &Path, layers: u32) -> Lake {
    let (lake, mut author) = toy_lake::in_layers(path, layers);
    let mut writer = lake.writer().unwrap();
    let open = EpisodeId::new(RunId(1), 1000);
    author.reset(open, 1);
    author.steps(open, 1, 1, &[(0, Some(2)), (1, Some(3))]);
    writer.append(&author.take()).unwrap();
    lake
}

/// The engine in this process.
pub(crate) struct Embedded {
    engine: Engine,
    runtime: Runtime,
}

impl Embedded {
    pub(crate) fn over(snapshot: Snapshot) -> Self {
        let runtime = Runtime::new().unwrap();
        let shown = Arc::new(|bitcode: &[u8]| match std::str::from_utf8(bitcode) {
            Ok(text) => Ok(format!("; {text}")),
            Err(error) => Err(error.to_string()),
        });
        let options = EngineOptions::default();
        let engine = Engine::new(snapshot, shown, &options);
        Self { engine: runtime.block_on(engine).unwrap(), runtime }
    }

    pub(crate) fn ask(&self, sql: &str) -> Result<Vec<RecordBatch>, QueryError> {
        self.runtime.block_on(async { self.engine.sql(sql).await?.try_collect().await })
    }

    pub(crate) fn named<'a>(
        &self,
        name: &str,
        values: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let values = values.filter_map(|value| value.split_once('='));
        let values: Vec<_> = values.map(|(name, value)| (name.into(), value.into())).collect();
        self.runtime.block_on(async { self.engine.named(name, &values).await?.try_collect().await })
    }

    pub(crate) fn sql(&self, sql: &str) -> Vec<RecordBatch> {
        self.ask(sql).unwrap()
    }
}
