//! What a lake is and holds: its environment, tables, runs, and how other tools read it.

use std::fmt::Write;

use indicatif::{HumanBytes, HumanCount};
use serde_json::json;

use crate::Error;
use crate::lake::{RetractionRow, RunRow, Snapshot, Table};
use crate::other_tools::OtherTools;
use crate::recording::resume::CONTINUES;
use steplake_terminal::output::counted;

/// Describes a snapshot as JSON.
///
/// # Errors
///
/// If the lake cannot be read.
pub fn json(snapshot: &Snapshot) -> Result<serde_json::Value, Error> {
    let tools = OtherTools::of(snapshot, hot_rows(snapshot, Table::Steps))?;
    let mut info = info_json(snapshot);
    info["other_tools"] = tools.map_or(serde_json::Value::Null, |tools| tools.json());
    Ok(info)
}

/// Describes a snapshot for people.
///
/// # Errors
///
/// If the lake cannot be read.
pub fn text(snapshot: &Snapshot) -> Result<String, Error> {
    let tools = OtherTools::of(snapshot, hot_rows(snapshot, Table::Steps))?;
    Ok(info_text(snapshot) + &tools.map_or(String::new(), |tools| tools.text()))
}

/// Returns how many rows of a table are not sealed.
pub(crate) fn hot_rows(snapshot: &Snapshot, table: Table) -> u64 {
    snapshot.hot(table).iter().map(|batch| batch.num_rows() as u64).sum()
}

fn sealed_bytes(snapshot: &Snapshot, table: Table) -> u64 {
    snapshot.segments(table).iter().map(|segment| segment.bytes).sum()
}

fn info_json(snapshot: &Snapshot) -> serde_json::Value {
    let identity = snapshot.identity();
    let table = |table: Table| {
        let hot = hot_rows(snapshot, table);
        let rows = snapshot.rows(table);
        let value = json!({
            "rows": rows,
            "hot_rows": hot,
            "segments": snapshot.segments(table).len(),
            "sealed_bytes": sealed_bytes(snapshot, table),
        });
        (table.name().to_owned(), value)
    };
    let run = |run: &RunRow| {
        let arguments: serde_json::Value = serde_json::from_str(&run.arguments)
            .unwrap_or_else(|_no_json| run.arguments.clone().into());
        json!({
            "run_id": run.id.0,
            "uid": run.uid,
            "started_at_ms": run.started_at_ms,
            "finished": run.finished,
            "repeated_windows": run.repeated_windows,
            "audited_steps": run.audited_steps,
            "differing_steps": run.differing_steps,
            "arguments": arguments,
        })
    };
    let retraction = |row: &RetractionRow| {
        json!({
            "kind": row.kind.as_str(),
            "value": row.value,
            "reason": row.reason,
            "snapshot": row.snapshot.0,
            "runs": row.runs.iter().map(|run| run.0).collect::<Vec<_>>(),
        })
    };
    json!({
        "path": snapshot.path(),
        "snapshot": snapshot.id().0,
        "layers": snapshot.layers().len(),
        "uncounted_steps": snapshot.uncounted_steps(),
        "format_version": identity.format_version,
        "environment": identity.environment,
        "compiler": identity.compiler,
        "target": identity.target,
        "action_space": identity.action_space.name,
        "actions": identity.action_space.actions.len(),
        "state_scheme": identity.state_scheme,
        "observations": identity.observations.iter().map(|space| &space.name).collect::<Vec<_>>(),
        "rewards": identity.rewards.iter().map(|space| &space.name).collect::<Vec<_>>(),
        "tables": Table::ALL.into_iter().map(table).collect::<serde_json::Map<_, _>>(),
        "runs": snapshot.runs().iter().map(run).collect::<Vec<_>>(),
        "retractions": snapshot.retractions().iter().map(retraction).collect::<Vec<_>>(),
    })
}

fn info_text(snapshot: &Snapshot) -> String {
    let identity = snapshot.identity();
    let names = |names: Vec<&str>| names.join(", ");
    let observations = identity.observations.iter().map(|space| space.name.as_str()).collect();
    let finished = snapshot.runs().iter().filter(|run| run.finished).count();
    let mut text = format!(
        "lake          {}\n\
         environment   {} ({}, {})\n\
         action space  {} ({} actions)\n\
         state ids     scheme {}\n\
         observations  {}\n\
         rewards       {}\n\
         runs          {} ({finished} finished)\n\
         snapshot      {}{}\n\
         layers        {}\n\n\
         {:<18}{:>14}{:>12}{:>10}{:>12}\n",
        snapshot.path().display(),
        identity.environment,
        identity.compiler,
        identity.target,
        identity.action_space.name,
        identity.action_space.actions.len(),
        identity.state_scheme,
        names(observations),
        names(identity.rewards.iter().map(|space| space.name.as_str()).collect()),
        snapshot.runs().len(),
        snapshot.id(),
        if snapshot.has_hot_rows() { " and the hot log" } else { "" },
        layers(snapshot),
        "table",
        "rows",
        "hot rows",
        "files",
        "sealed",
    );
    for table in Table::ALL {
        let _ = writeln!(
            text,
            "{:<18}{:>14}{:>12}{:>10}{:>12}",
            table.name(),
            HumanCount(snapshot.rows(table)).to_string(),
            HumanCount(hot_rows(snapshot, table)).to_string(),
            snapshot.segments(table).len(),
            HumanBytes(sealed_bytes(snapshot, table)).to_string(),
        );
    }
    text + &history(snapshot)
}

/// Describes the layers of the derived tables, and the steps that these do not count.
fn layers(snapshot: &Snapshot) -> String {
    let mut text = match snapshot.layers().len() {
        layers @ 0..=1 => layers.to_string(),
        layers => format!("{layers} (a full dedup makes one)"),
    };
    let steps = snapshot.uncounted_steps();
    if steps > 0 {
        let steps = counted(steps, "row");
        let _ = write!(text, "; {steps} of steps not counted (`dedup`)");
    }
    text
}

/// The maximum number of runs that `info` lists.
const RUNS_LISTED: usize = 20;

/// Most patterns of benchmarks that a sentence names.
const PATTERNS_NAMED: usize = 3;

/// Says in a sentence what a run does, as far as its arguments are those of a known program.
fn did(run: &RunRow, runs: &[RunRow]) -> Option<String> {
    let arguments: serde_json::Value = serde_json::from_str(&run.arguments).ok()?;
    let text = |key: &str| arguments.get(key)?.as_str();
    let number = |key: &str| arguments.get(key)?.as_i64();
    if text("recorder") == Some("session") {
        return Some("it records the sessions of a program".to_owned());
    }
    if let (Some("audit"), Some(of)) = (text("recorder"), text("of")) {
        let of = runs.iter().find(|run| run.uid == of).map(|run| run.id.0.to_string());
        let of = of.unwrap_or_else(|| "another lake".to_owned());
        return Some(format!("it has the steps of run {of} that led elsewhere in another process"));
    }
    if let (Some(_), Some(log)) = (text("import"), text("log")) {
        return Some(format!("it was imported from the log {log}"));
    }
    let (what, stop) = arguments.get("stop")?.as_object()?.iter().next()?;
    let count = counted(stop.as_u64()?, what.strip_suffix('s').unwrap_or(what));
    let patterns = arguments.get("benchmarks")?.as_array()?.iter().filter_map(|one| one.as_str());
    let patterns: Vec<&str> = patterns.collect();
    let more = patterns.len().saturating_sub(PATTERNS_NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let named = patterns[..patterns.len().min(PATTERNS_NAMED)].join(", ");
    let programs = counted(u64::try_from(number("benchmark_count")?).ok()?, "program");
    let (policy, seed) = (text("policy")?, number("seed")?);
    let length = counted(u64::try_from(number("episode_length")?).ok()?, "step");
    let shard = text("shard").map_or_else(String::new, |shard| format!(", shard {shard} of it"));
    let again = text(CONTINUES).and_then(|uid| runs.iter().find(|run| run.uid == uid));
    let plays = match again {
        Some(lost) => format!("it plays what run {} lost of", lost.id.0),
        None => "it plays".to_owned(),
    };
    Some(format!(
        "{plays} {count} of {programs} ({named}{more}) by the policy {policy}, at most {length} an episode, \
         from seed {seed}{shard}"
    ))
}

/// Says how many steps were played again in another process, and how many of them differed; where
/// none did, with the bound of the rate at 95%: 3/n, the rule of three.
pub(crate) fn audited(compared: u64, differing: u64) -> String {
    let again = format!("{} played again in another process", counted(compared, "step"));
    if differing > 0 {
        return format!("{again}, {differing} of them with another result");
    }
    match compared / 3 {
        // The bound says nothing.
        0 | 1 => format!("{again}, none differed"),
        each => format!("{again}, none differed: fewer than 1 in {each} do (at 95%)"),
    }
}

/// Lists runs, retractions and losses.
fn history(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes it");
    let runs = snapshot.runs();
    line(String::new());
    if runs.len() > RUNS_LISTED {
        line(format!("the last {RUNS_LISTED} runs (all of them: SELECT * FROM runs)"));
    }
    for run in &runs[runs.len().saturating_sub(RUNS_LISTED)..] {
        let finished = if run.finished { "finished" } else { "not finished" };
        let did = did(run, runs).map_or_else(String::new, |did| format!(": {did}"));
        line(format!("run {} is {finished}{did}", run.id.0));
        line(format!("  its arguments: {}", run.arguments));
        if run.repeated_windows > 0 {
            let windows = counted(run.repeated_windows.into(), "window");
            let was =
                "of steps failed in one worker and not in a fresh one, whose steps were recorded";
            line(format!("  {windows} {was}"));
        }
        if run.audited_steps + run.differing_steps > 0 {
            line(format!("  {}", audited(run.audited_steps, run.differing_steps)));
        }
    }
    for row in snapshot.retractions() {
        let (kind, at) = (row.kind.as_str(), row.snapshot);
        line(format!("retracted in snapshot {at}: {kind} {} ({})", row.value, row.reason));
    }
    for row in snapshot.losses() {
        let (rows, at) = (counted(row.rows, "row"), row.snapshot);
        line(format!(
            "lost in snapshot {at}: {rows} of {} in {}: {}",
            row.table, row.path, row.what
        ));
    }
    text
}
