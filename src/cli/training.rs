//! `export --training` and `splits`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use crate::console::arguments::SnapshotArgs;
use crate::environments::Environments;
use crate::export::{
    TrainingExport, export_training, leak_text, leak_texts, leaks_of, newer_steps, sealed_rows,
    sizes_text, split_text,
};
use crate::lake::{Lake, SnapshotId};
use crate::load::{
    DatasetRequest, GivenLeaks, GivenSplit, SealedRows, Source, Split, SplitBy, SplitRequest,
    TrainingDataset,
};
use crate::runtime::runtime;
use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{counted, print};

/// How rows are split.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct SplitArgs {
    /// What is never divided between the parts. Rows leak: they are there to be compared
    /// with.
    #[arg(long, value_enum, default_value_t = Group::Family)]
    by: Group,

    /// The wanted share of test rows, between 0 and 1.
    #[arg(long, default_value_t = 0.2, value_parser = share, value_name = "SHARE")]
    test_size: f64,

    /// The wanted share of validation rows, between 0 and 1. By default there are none.
    #[arg(long, value_parser = share, value_name = "SHARE")]
    validation_size: Option<f64>,

    /// Fixes which groups are of which part, and the order of exported rows.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// What is never divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Group {
    /// Program families.
    Family,
    /// Programs.
    #[value(name = "program", alias = "benchmark")]
    Benchmark,
    /// Rows.
    Row,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("give a share between 0 and 1".to_owned()),
    }
}

impl SplitArgs {
    fn request(self) -> Result<SplitRequest, Error> {
        let by = match self.by {
            Group::Family => SplitBy::Family,
            Group::Benchmark => SplitBy::Benchmark,
            Group::Row => SplitBy::Row,
        };
        let (test_size, validation_size) = (self.test_size, self.validation_size.unwrap_or(0.0));
        if test_size + validation_size >= 1.0 {
            return Err(Error::usage(format!(
                "shares of {test_size} for test and {validation_size} for validation leave no rows \
                 for training: give smaller ones"
            )));
        }
        Ok(SplitRequest { by, test_size, validation_size, seed: self.seed })
    }
}

/// The rows of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DatasetTable {
    /// Each transition once.
    #[value(name = "state_transitions")]
    StateTransitions,
    /// Each step with an action.
    Steps,
    /// Each state once.
    Observations,
}

impl DatasetTable {
    fn source(self) -> Source {
        match self {
            Self::StateTransitions => Source::StateTransitions,
            Self::Steps => Source::Steps,
            Self::Observations => Source::Observations,
        }
    }
}

/// What is exported for training.
#[derive(Debug, Args)]
pub(super) struct TrainingArgs {
    /// The rows.
    #[arg(long, value_enum, default_value_t = DatasetTable::StateTransitions, requires = "training")]
    table: DatasetTable,

    /// A column, such as `action`, `Autophase` or `next_Autophase`; can be given again. By default
    /// all that have numbers.
    #[arg(long = "column", value_name = "NAME", requires = "training")]
    columns: Vec<String>,

    #[command(flatten)]
    split: SplitArgs,
}

/// Work with splits into training and test rows.
#[derive(Debug, Subcommand)]
pub(super) enum SplitsCommand {
    Check(CheckArgs),
}

/// Say what the test and validation rows of a split have in common with the training rows: of a
/// split that is made now, or of a given one.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// CSV or Parquet files that give a split: a column `split`, with `train` and other parts, and
    /// a column `benchmark_uri`, `family`, or `state_id`; or the folder of an export. Without a
    /// file, the rows are split now.
    #[arg(
        value_name = "FILE",
        conflicts_with_all = ["by", "test_size", "validation_size", "seed"]
    )]
    files: Vec<PathBuf>,

    /// The rows.
    #[arg(long, value_enum, default_value_t = DatasetTable::StateTransitions)]
    table: DatasetTable,

    #[command(flatten)]
    split: SplitArgs,

    #[command(flatten)]
    snapshot: SnapshotArgs,
}

/// Opens the sealed rows of the lake, and warns of steps that they leave out.
async fn open(
    environments: &Environments,
    global: &GlobalArgs,
    snapshot: SnapshotArgs,
    table: DatasetTable,
) -> Result<SealedRows, Error> {
    let snapshot = snapshot.snapshot.map(SnapshotId);
    let newer = match snapshot {
        None => newer_steps(&Lake::open(&global.lake)?.snapshot()?, table.source())?,
        Some(_) => 0,
    };
    let rows = sealed_rows(environments, &global.lake, snapshot).await?;
    let steps = counted(newer, "step");
    if newer > 0 && rows.count(table.source()) == 0 {
        let lake = global.lake.display();
        return Err(Error::new(
            ErrorKind::Lake,
            format!("no dedup has counted the {steps} of the lake at {lake}: run `steplake dedup`"),
        ));
    }
    if newer > 0 {
        tracing::warn!("leaving out {steps} newer than the last dedup: run `steplake dedup`");
    }
    Ok(rows)
}

/// Exports rows for training into a new folder.
pub(super) fn export(
    environments: &Environments,
    global: &GlobalArgs,
    args: &TrainingArgs,
    snapshot: SnapshotArgs,
    folder: Option<&Path>,
) -> Result<(), Error> {
    let Some(folder) = folder.map(Path::to_owned) else {
        return Err(Error::usage("`export --training` needs a folder: name it with --output"));
    };
    let request = TrainingExport {
        source: args.table.source(),
        columns: args.columns.clone(),
        split: args.split.request()?,
        folder,
    };
    let exported = runtime()?.block_on(async {
        let lake = open(environments, global, snapshot, args.table).await?;
        export_training(&lake, &request).await
    })?;
    warn_of(&exported.split, request.split);
    tracing::info!(
        "wrote {}, in {}; {}. {}",
        sizes_text(&exported.split),
        counted(exported.files.len() as u64, "file"),
        split_text(request.split.by, &exported.split),
        leak_texts(&exported.leaks).join(" "),
    );
    Ok(())
}

/// Warns of a split whose parts are far from what was wanted.
fn warn_of(split: &Split, request: SplitRequest) {
    if let Some(warning) = split.report.warning(request) {
        tracing::warn!("{warning}");
    }
}

/// Runs a command about splits.
pub(super) fn splits(
    environments: &Environments,
    global: &GlobalArgs,
    command: &SplitsCommand,
) -> Result<(), Error> {
    let SplitsCommand::Check(args) = command;
    if !args.files.is_empty() {
        return check_given(environments, global, args);
    }
    let (request, source) = (args.split.request()?, args.table.source());
    let (split, leaks) = runtime()?.block_on(async {
        let lake = open(environments, global, args.snapshot, args.table).await?;
        let dataset = TrainingDataset::open(&lake, &DatasetRequest::all(source)).await?;
        let split = dataset.split(&lake, request).await?;
        let leaks = leaks_of(&split);
        Ok::<_, Error>((split, leaks))
    })?;
    warn_of(&split, request);
    print(&format!(
        "{}; {}\n{}\n",
        sizes_text(&split),
        split_text(request.by, &split),
        leak_texts(&leaks).join("\n"),
    ))
}

/// Says what a given split gives away.
fn check_given(
    environments: &Environments,
    global: &GlobalArgs,
    args: &CheckArgs,
) -> Result<(), Error> {
    let split = GivenSplit::read(&args.files)?;
    let mut text = String::new();
    let parts = if let Some(parts) = split.leaks_of_rows() {
        parts
    } else {
        if args.table == DatasetTable::Steps {
            return Err(Error::usage(
                "a split of programs is checked on `--table state_transitions` or `observations`, \
                 which follow shared states",
            ));
        }
        let report = runtime()?.block_on(async {
            let lake = open(environments, global, args.snapshot, args.table).await?;
            Ok::<_, Error>(split.leaks_in(&lake, args.table.source()).await?)
        })?;
        let (unknown, unnamed) =
            (counted(report.unknown as u64, "name"), counted(report.unnamed as u64, "program"));
        let _ = writeln!(text, "{unknown} not in the lake; {unnamed} of the lake in no part");
        report.parts
    };
    for GivenLeaks { part, train_rows, leaks } in parts {
        let (train, test) =
            (counted(train_rows as u64, "row"), counted(leaks.test_rows as u64, "row"));
        let _ = writeln!(text, "{train} of train, {test} of {part}\n{}", leak_text(&part, leaks));
    }
    print(&text)
}
