//! How other tools read the lake, and what they do not see: a part of `info`.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::Error;
use crate::lake::{Snapshot, SnapshotId, Table};
use steplake_terminal::output::counted;

/// What other tools read of a lake, and what they miss. See "What other tools read" in
/// docs/FORMAT.md.
#[derive(Debug)]
pub(super) struct OtherTools {
    /// The snapshot that they see; none if `current` leads nowhere.
    shown: Option<SnapshotId>,
    /// The number of newer snapshots.
    snapshots_behind: usize,
    /// Rows of `steps` that are not sealed.
    hot_steps: u64,
    /// Rows of `state_transitions` in newer layers: globs show the oldest layer alone.
    newer_rows: u64,
    /// Rows of `steps` that no layer counts.
    uncounted_steps: u64,
    /// By tool: what to write there.
    lines: [(&'static str, String); 4],
}

/// What reads the Delta tables in Python, and how it is had.
const READ_BY: &str = "polars and pandas read Delta tables by the package deltalake";
const INSTALL: &str = "pip install deltalake pyarrow";

impl OtherTools {
    /// Returns `None` for a snapshot that is not the newest, and for a lake without sealed steps:
    /// there is nothing to read by these lines.
    pub(super) fn of(snapshot: &Snapshot, hot_steps: u64) -> Result<Option<Self>, Error> {
        let is_newest = snapshot.history().last().is_none_or(|row| row.id == snapshot.id());
        if !is_newest || snapshot.segments(Table::Steps).is_empty() {
            return Ok(None);
        }
        let lake = snapshot.path().canonicalize()?;
        let shown = snapshot.shown();
        let newer = snapshot.history().iter().filter(|row| Some(row.id) > shown);
        Ok(Some(Self {
            shown,
            snapshots_behind: newer.count(),
            hot_steps,
            newer_rows: newer_rows(snapshot),
            uncounted_steps: snapshot.uncounted_steps(),
            lines: lines(&lake),
        }))
    }

    pub(super) fn json(&self) -> Value {
        let lines = self.lines.iter().map(|(tool, line)| ((*tool).to_owned(), json!(line)));
        json!({
            "snapshot": self.shown.map(|id| id.0),
            "snapshots_behind": self.snapshots_behind,
            "rows_in_newer_layers": self.newer_rows,
            "read_with": lines.collect::<serde_json::Map<_, _>>(),
            "delta_tables_need": INSTALL,
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = match self.shown {
            Some(shown) => format!("\nother tools see snapshot {shown}"),
            None => "\nother tools see no snapshot".to_owned(),
        };
        let mut missing = Vec::new();
        if self.snapshots_behind > 0 {
            let behind = counted(self.snapshots_behind as u64, "newer snapshot");
            missing.push(format!("{behind} (`seal` shows them)"));
        }
        if self.hot_steps > 0 {
            missing.push(format!("{} of steps (`seal`)", counted(self.hot_steps, "hot row")));
        }
        if self.newer_rows > 0 {
            let rows = counted(self.newer_rows, "row");
            missing.push(format!(
                "in globs of `state_transitions` {rows} of newer layers (its Delta table has them)"
            ));
        }
        if self.uncounted_steps > 0 {
            let rows = counted(self.uncounted_steps, "row");
            missing.push(format!("in derived tables {rows} of steps not counted (`dedup`)"));
        }
        if !missing.is_empty() {
            let _ = write!(text, ", without {}", missing.join("; "));
        }
        for (tool, line) in &self.lines {
            let _ = write!(text, "\n  {tool:<8}{line}");
        }
        let _ = write!(text, "\n  {READ_BY}: {INSTALL}");
        text + "\n"
    }
}

/// Returns what to write in each tool to read `steps`. Tools that open files long after they have
/// listed them get the Delta table, whose files stay, and so does pandas, which cannot unite the
/// columns of files: those that are older than a space lack its column.
fn lines(lake: &Path) -> [(&'static str, String); 4] {
    let quoted = |path: &str| json!(lake.join(path).to_string_lossy()).to_string();
    let sql = lake.join("current/steps/*.parquet").to_string_lossy().replace('\'', "''");
    let url = json!(format!("file://{}", lake.join("current/steps").to_string_lossy()));
    // polars 2.1 opens the files of a Delta table by their URL, escapes included.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let is_escaped = !lake.to_string_lossy().chars().all(is_plain);
    let by = if is_escaped { ", use_pyarrow=True" } else { "" };
    [
        ("duckdb", format!("SELECT * FROM read_parquet('{sql}', union_by_name=true)")),
        ("polars", format!("pl.scan_delta({}{by})", quoted("data/steps"))),
        ("pandas", format!("deltalake.DeltaTable({}).to_pandas()", quoted("data/steps"))),
        ("spark", format!("spark.read.option(\"mergeSchema\", True).parquet({url})")),
    ]
}

/// Counts the rows of `state_transitions` in all layers but the oldest.
fn newer_rows(snapshot: &Snapshot) -> u64 {
    let layers = snapshot.layers();
    let newer = layers.values().skip(1).flatten();
    let newer = newer.filter(|segment| segment.table == Table::StateTransitions);
    newer.map(|segment| segment.live_rows()).sum()
}
