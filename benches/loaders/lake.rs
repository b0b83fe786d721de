//! Makes a lake of the transitions that all loaders read: `cargo bench --bench loaders -- DATA`.
//!
//! DATA is what `data.py` made. The lake is `DATA/lake`: each transition is an episode of one step.
#![expect(clippy::print_stdout, reason = "it says what it has made")]

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use arrow::array::{AsArray as _, FixedSizeBinaryArray, RecordBatch};
use arrow::datatypes::{Float32Type, Int32Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{
    EpisodeRow, FORMAT_VERSION, Identity, Lake, ObservationRow, RecordedObservation,
    RecordedReward, Rows, StepRow, Writer, to_the_end,
};
use steplake::model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, BenchmarkUri, EpisodeId, RunId, StateId,
    Value,
};

const ACTIONS: u32 = 124;
const FEATURES: usize = 56;
/// Rows of a batch of Parquet, and of an append.
const BATCH_ROWS: usize = 8192;
/// Batches between two seals.
const SEAL_BATCHES: usize = 60;

fn identity() -> Identity {
    let action = |number| {
        ActionSpec::new(format!("a{number}"), format!("pass{number}"), ActionFlags::UNREMARKABLE)
    };
    let names: Vec<String> = (0..FEATURES).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Identity {
        format_version: FORMAT_VERSION,
        environment: "synthetic-v0".into(),
        compiler: "none".into(),
        target: "none".into(),
        action_space: ActionSpace {
            name: "synthetic-v0".into(),
            actions: (0..ACTIONS).map(action).collect(),
        },
        observations: vec![RecordedObservation::int_vector("Features", &names)],
        rewards: vec![RecordedReward::new("Size", "Features")],
        baselines: Vec::new(),
        state_scheme: 1,
    }
}

/// The batches of a Parquet file.
fn batches(path: &Path) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(BATCH_ROWS);
    Ok(reader.build()?.map(|batch| batch.map_err(Into::into)))
}

fn ids<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a FixedSizeBinaryArray> {
    let column = batch.column_by_name(name).with_context(|| format!("no column {name}"))?;
    column.as_fixed_size_binary_opt().with_context(|| format!("{name} holds no ids"))
}

/// Appends rows, and seals now and then.
struct Sealing {
    writer: Writer,
    appended: usize,
}

impl Sealing {
    fn append(&mut self, rows: &Rows) -> Result<()> {
        self.writer.append(rows)?;
        self.appended += 1;
        if self.appended.is_multiple_of(SEAL_BATCHES) {
            self.writer.seal()?;
        }
        Ok(())
    }
}

fn write_states(lake: &mut Sealing, path: &Path) -> Result<()> {
    for batch in batches(path)? {
        let batch = batch?;
        let ids = ids(&batch, "state_id")?;
        let features = batch.column_by_name("features").context("no features")?;
        let features = features.as_fixed_size_list().values().as_primitive::<Int32Type>().values();
        let observations = features.chunks(FEATURES).enumerate().map(|(row, values)| {
            let values = vec![Some(Value::IntVector(values.into()))];
            ObservationRow { state: StateId::from_slice(ids.value(row)), values }
        });
        lake.append(&Rows { observations: observations.collect(), ..Rows::default() })?;
    }
    Ok(())
}

fn write_transitions(lake: &mut Sealing, path: &Path, first: &mut u32) -> Result<()> {
    let benchmark: BenchmarkUri = "generator://synthetic-v0/0".parse()?;
    for batch in batches(path)? {
        let batch = batch?;
        let (before, after) = (ids(&batch, "state_before")?, ids(&batch, "state_after")?);
        let column = |name: &str| batch.column_by_name(name).context("a column is missing");
        let actions = column("action")?.as_primitive::<Int32Type>();
        let rewards = column("reward")?.as_primitive::<Float32Type>();
        let mut rows = Rows::default();
        for row in 0..batch.num_rows() {
            let episode = EpisodeId::new(RunId(1), *first);
            *first += 1;
            let step = |index: u32, ids: &FixedSizeBinaryArray| StepRow {
                action: (index > 0).then(|| ActionIndex(actions.value(row).cast_unsigned())),
                state: Some(StateId::from_slice(ids.value(row))),
                rewards: (index > 0).then(|| vec![f64::from(rewards.value(row))].into()),
                ..StepRow::new(episode, index, benchmark.clone())
            };
            rows.steps.extend([step(0, before), step(1, after)]);
            rows.episodes.push(EpisodeRow {
                policy: "random".into(),
                steps: 1,
                ..EpisodeRow::new(episode, benchmark.clone())
            });
        }
        lake.append(&rows)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let [folder] = &arguments.map(PathBuf::from).collect::<Vec<_>>()[..] else {
        anyhow::bail!("usage: cargo bench --bench loaders -- DATA");
    };
    let lake = Lake::create(folder.join("lake"), &identity())?;
    let mut sealing = Sealing { writer: lake.writer()?, appended: 0 };
    write_states(&mut sealing, &folder.join("states.parquet"))?;
    let files = std::fs::read_dir(folder.join("transitions"))?;
    let mut files = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    let mut episodes = 0;
    for path in files {
        write_transitions(&mut sealing, &path, &mut episodes)?;
    }
    sealing.writer.seal()?;
    drop(sealing);
    let report = dedup(&mut lake.maintenance()?, DedupOptions::default(), &mut to_the_end)?;
    println!("{report:?}");
    Ok(())
}
