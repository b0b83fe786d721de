//! `verify`.

use std::collections::BTreeMap;
use std::fmt::Write;

use indicatif::HumanBytes;

use super::args::VerifyArgs;
use super::dedup::derive;
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::command_error::{Code, CommandError};
use crate::assembly::environments::{environment, workers};
use crate::assembly::output::{bar, counted, print};
use crate::console::source::snapshot;
use crate::dedup;
use crate::env::worker::WorkerEnvironment;
use crate::lake::{Identity, Lake, RunRow, Snapshot, SnapshotId, Table};
use crate::model::{ActionSpace, Outcome};
use crate::replay::recompute::{self, BaselineReport, Ids};
use crate::replay::{ReplayError, ReplayReport, demand_same, draw, replay};
use crate::upkeep::{Repaired, Restored, StoredState, VerifyReport};

/// Number of programs whose baselines are recomputed.
const BASELINES_SAMPLE: usize = 8;

pub(super) fn run(global: &GlobalArgs, args: &VerifyArgs) -> Result<(), CommandError> {
    let lake = Lake::open(&global.lake)?;
    if args.repair {
        repair(global, &lake)?;
    }
    // A damaged lake may not be readable.
    let runs = lake.snapshot().map(|snapshot| snapshot.runs().to_vec()).unwrap_or_default();
    let compiler = compiler(lake.identity(), &runs);
    let (report, mut ids) = check(global, &lake, args, compiler.as_ref().ok())?;
    print(&findings(&report, &ids))?;
    let mut found = !report.is_sound() || !ids.findings.is_empty();
    match compiler.and_then(|workers| ids.unavailable.take().map_or(Ok(workers), Err)) {
        Err(why) => print(&bytes_only(&why, ids.compared))?,
        // A damaged lake may not be readable.
        Ok(_) if !report.is_sound() => {}
        Ok(workers) => {
            found |= !compare_baselines(&workers, &snapshot(&lake, args.snapshot)?, args.seed)?;
        }
    }
    if let Some(count) = args.replay {
        found |= !replay_some(global, &snapshot(&lake, args.snapshot)?, count, args.seed)?;
    }
    if found {
        return Err(CommandError::new(Code::Found, "verify found what is listed above"));
    }
    Ok(())
}

/// Opens the lake's own compiler in worker processes, or returns why it is not available.
fn compiler(lake: &Identity, runs: &[RunRow]) -> Result<WorkerEnvironment, String> {
    let environment = environment(&lake.environment).map_err(|error| error.to_string())?;
    match demand_same(environment.as_ref(), lake) {
        Ok(()) => Ok(workers(environment.as_ref(), runs)),
        Err(ReplayError::OtherEnvironment { lake, here }) => {
            Err(format!("the lake was recorded with {lake}, and what is here is {here}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Checks the bytes, and the ids if there is a compiler.
fn check(
    global: &GlobalArgs,
    lake: &Lake,
    args: &VerifyArgs,
    compiler: Option<&WorkerEnvironment>,
) -> Result<(VerifyReport, Ids), CommandError> {
    let bar = bar(global, 0, "{bar:24.cyan} {bytes}/{total_bytes} checked{msg}");
    let mut show = |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let at = args.snapshot.snapshot.map(SnapshotId);
    let (report, ids) = match compiler {
        None => (lake.verify_states(at, &mut show, &mut |_| ()), Ids::default()),
        Some(workers) => recompute::ids(workers, jobs(), |compare| {
            let mut states = 0;
            lake.verify_states(at, &mut show, &mut |stored: StoredState| {
                states += 1;
                bar.set_message(format!("  {} recomputed", counted(states, "id")));
                compare(stored);
            })
        })?,
    };
    Ok((report?, ids))
}

/// Returns the number of concurrent sessions.
fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Reports what was not done without the compiler.
fn bytes_only(why: &str, compared: u64) -> String {
    let ids = match compared {
        0 => "ids and baselines are not recomputed".to_owned(),
        compared => format!("only {} and no baselines are recomputed", counted(compared, "id")),
    };
    format!("verify: bytes only: {ids}, because the compiler is not available: {why}\n")
}

/// Recomputes the baselines of some programs; returns whether all agree.
fn compare_baselines(
    workers: &WorkerEnvironment,
    snapshot: &Snapshot,
    seed: i64,
) -> Result<bool, CommandError> {
    let report = recompute::baselines(workers, snapshot, BASELINES_SAMPLE, seed, jobs())?;
    print(&described(&report))?;
    Ok(report.differing.is_empty())
}

fn described(report: &BaselineReport) -> String {
    if report.programs == 0 {
        return String::new();
    }
    let (agreeing, compared) = (report.compared - report.differing.len(), report.compared);
    let mut text = format!(
        "baselines: {agreeing} of {compared} programs agree, drawn from {}",
        report.programs
    );
    if report.without_ir > 0 {
        let _ = write!(text, "; {} more have no IR in the lake", report.without_ir);
    }
    text.push('\n');
    for line in &report.differing {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// Drops what is damaged and reports it.
fn repair(global: &GlobalArgs, lake: &Lake) -> Result<(), CommandError> {
    let repaired = lake.repair()?;
    print(&dropped(&repaired))?;
    let sealed = lake.sealed()?;
    // A repair that was killed may have left the derived tables empty.
    let is_derived = sealed.rows(Table::Steps) == 0 || sealed.dedup_inputs().is_some();
    drop(sealed);
    if !repaired.is_nothing() || !is_derived {
        derive(global, &mut lake.maintenance()?, dedup::DedupOptions::default())?;
    }
    Ok(())
}

fn dropped(repaired: &Repaired) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes it");
    if let Some(Restored { why, snapshots, files, hot_rows, remarks }) = &repaired.restored {
        let (snapshots, files) = (counted(*snapshots, "snapshot"), counted(*files, "file"));
        let hot = if *hot_rows { "" } else { ", and the rows that were not sealed with it" };
        line(format!(
            "the database was lost ({why}){hot}; it was restored from the log of snapshots: \
             {snapshots}, {files} in the newest; the old database is kept as hot.sqlite.damaged"
        ));
        for remark in remarks {
            line(format!("of the old database: {remark}"));
        }
    }
    for loss in &repaired.losses {
        let rows = counted(loss.rows, "row");
        line(format!("dropped {rows} of {} in {}: {}", loss.table, loss.path, loss.what));
    }
    for (what, paths) in [
        ("sound; its digests in the manifest were damaged and are made anew", &repaired.mended),
        ("damaged, and written again from the database", &repaired.entries),
        ("made anew, since it was damaged", &repaired.derived),
        ("damaged, and only older snapshots have it", &repaired.older),
    ] {
        for path in paths {
            line(format!("{what}: {}", path.display()));
        }
    }
    for uri in &repaired.benchmarks {
        line(format!("of {uri} only the name and the initial state are known now"));
    }
    if repaired.unobserved > 0 {
        let states = counted(repaired.unobserved, "state");
        line(format!("without observations until they are visited again: {states}"));
    }
    if repaired.is_nothing() {
        line("repair: nothing is damaged".to_owned());
    }
    text
}

fn findings(report: &VerifyReport, ids: &Ids) -> String {
    let mut text = String::new();
    for finding in report.findings.iter().chain(&ids.findings) {
        let _ = writeln!(text, "{}: {}", finding.path.display(), finding.what);
    }
    let (files, frames) = (counted(report.segments, "file"), counted(report.frames, "frame"));
    let (bytes, states) = (HumanBytes(report.bytes), counted(report.ir, "state"));
    let by = match ids.compared {
        compared if compared == report.ir => "by SHA-1 and id".to_owned(),
        0 => "by SHA-1 alone".to_owned(),
        compared => format!("by SHA-1, {compared} of them by id"),
    };
    let without = match (report.rebuilt, report.without_ir) {
        (0, 0) => String::new(),
        (rebuilt, without) => {
            let rebuilt = counted(rebuilt, "other state");
            format!("; {rebuilt} can be rebuilt, and {without} have no IR")
        }
    };
    let is_sound = report.is_sound() && ids.findings.is_empty();
    let verdict = if is_sound { "sound" } else { "not sound" };
    if report.unobserved > 0 {
        let states = counted(report.unobserved, "state");
        let _ = writeln!(text, "without observations since a repair: {states}");
    }
    if report.lost_keyframes > 0 {
        let states = counted(report.lost_keyframes, "keyframe");
        let _ = writeln!(text, "without IR since a repair: {states}");
    }
    let _ = writeln!(
        text,
        "verify: {verdict}; checked {files} and {frames} of the hot log ({bytes}), and \
         the IR of {states} {by}{without}"
    );
    text
}

/// Replays `count` transitions; returns whether all agree whose action is not flagged.
fn replay_some(
    global: &GlobalArgs,
    snapshot: &Snapshot,
    count: usize,
    seed: i64,
) -> Result<bool, CommandError> {
    let environment = environment(&snapshot.identity().environment)?;
    let workers = workers(environment.as_ref(), snapshot.runs());
    let transitions = draw(snapshot, count, seed)?;
    if transitions.is_empty() {
        print("replay: there are no state transitions yet: run `steplake dedup` first\n")?;
        return Ok(true);
    }
    let bar = bar(global, transitions.len() as u64, "{bar:24.cyan} {pos}/{len} replayed {eta}");
    let report = replay(&workers, snapshot, &transitions, jobs(), &|| bar.inc(1))?;
    drop(bar);
    let space = &snapshot.identity().action_space;
    let (text, agrees) = describe(&report, space);
    print(&text)?;
    Ok(agrees)
}

fn describe(report: &ReplayReport, space: &ActionSpace) -> (String, bool) {
    let agreeing = report.replayed - report.disagreements.len();
    let mut text = format!(
        "replay: {agreeing} of {} transitions agree ({})",
        report.replayed,
        percent(agreeing, report.replayed)
    );
    if report.without_ir > 0 {
        let _ = write!(text, "; {} more have no IR in the lake", report.without_ir);
    }
    if report.rebuilt > 0 {
        let _ = write!(text, "; the states of {} were rebuilt first", report.rebuilt);
    }
    text.push('\n');
    for obstacle in &report.lost {
        let _ = writeln!(text, "  {obstacle}");
    }
    let mut by_action: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for disagreement in &report.disagreements {
        by_action.entry(disagreement.transition.action.0).or_default().push(disagreement);
    }
    let mut agrees = report.lost.is_empty();
    for (action, disagreements) in by_action {
        let spec = space.actions.get(action as usize);
        let replayable = spec.is_none_or(|spec| spec.flags.is_dependable());
        agrees &= !replayable;
        let name = spec.map_or_else(|| format!("action {action}"), |spec| spec.name.clone());
        let flag = if replayable { "" } else { " (flagged: it depends on more than the state)" };
        let _ = writeln!(text, "  {name}: {} had another result{flag}", disagreements.len());
        for disagreement in disagreements.iter().take(3) {
            let found = match &disagreement.found {
                Outcome::State { id, .. } => id.to_string(),
                Outcome::Crashed(failure) => format!("{}: {}", failure.kind, failure.detail),
            };
            let transition = disagreement.transition;
            let _ = writeln!(text, "    {} -> {} now {found}", transition.state, transition.next);
        }
    }
    (text, agrees)
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
fn percent(part: usize, whole: usize) -> String {
    if whole == 0 {
        "nothing to compare".into()
    } else {
        format!("{:.2}%", 100.0 * part as f64 / whole as f64)
    }
}
