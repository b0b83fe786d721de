//! What a verification says.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use indicatif::HumanBytes;

use crate::dedup::Compared;
use crate::lake::{RunRow, Snapshot};
use crate::model::{ActionIndex, ActionSpace, Outcome};
use crate::replay::ReplayReport;
use crate::replay::recompute::{BaselineReport, Ids};
use crate::semantics::{CheckedProgram, Excused, Miscompilation, SemanticsReport};
use crate::upkeep::{Repaired, Restored, VerifyReport};
use steplake_terminal::output::counted;

/// What is said if transitions are to be replayed and there are none: `count` of them were wanted.
pub(super) fn nothing_to_replay(snapshot: &Snapshot, count: usize) -> &'static str {
    if count == 0 {
        "replay: no transition was to be replayed\n"
    } else if snapshot.uncounted_steps() > 0 {
        "replay: there are no state transitions: a dedup has to count them first; searches among \
         choices take no steps, so they have none\n"
    } else {
        "replay: there are no state transitions: no recorded episode takes a step, as in searches \
         among choices\n"
    }
}

/// What is said if programs are to be run and no state is of one that can be.
pub(super) const NOTHING_TO_RUN: &str =
    "semantics: no recorded state is of a program that says how it is run\n";

/// Reports what a repair dropped and mended.
pub(super) fn dropped(repaired: &Repaired) -> String {
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

/// Reports what is wrong with bytes and ids, and what was checked.
/// States of a `foreign` scheme of ids cannot be rebuilt here.
pub(super) fn findings(
    report: &VerifyReport,
    ids: &Ids,
    space: &ActionSpace,
    foreign: bool,
) -> String {
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
    let doubtful: u64 = report.doubtful.values().sum();
    let can =
        if foreign { "can be rebuilt by a version of their scheme" } else { "can be rebuilt" };
    let without = match (report.rebuilt, doubtful, report.without_ir) {
        (0, 0, 0) => String::new(),
        (rebuilt, 0, without) => {
            let rebuilt = counted(rebuilt, "other state");
            format!("; {rebuilt} {can}, and {without} have no IR")
        }
        (rebuilt, doubtful, without) => {
            let rebuilt = counted(rebuilt, "other state");
            format!("; {rebuilt} {can}, {doubtful} perhaps, and {without} have no IR")
        }
    };
    let is_sound = report.is_sound() && ids.findings.is_empty();
    let verdict = match (is_sound, report.unobserved + report.lost_keyframes) {
        (false, _) => "not sound",
        (true, 0) => "sound",
        (true, _) => "sound but for what a repair dropped",
    };
    for (&action, &states) in &report.doubtful {
        let (states, name) = (counted(states, "state"), name(action, space));
        let _ = writeln!(
            text,
            "without IR, and recorded behind {name}, which need not lead to the same state again: \
             {states}; they cannot be rebuilt for sure, so record their programs again"
        );
    }
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

/// Reports what the audits of all runs found, and how many results dedup found in conflict.
pub(super) fn audited(runs: &[RunRow], conflicts: u64) -> String {
    let sum = |of: fn(&RunRow) -> u64| runs.iter().map(of).sum::<u64>();
    let audits = match (sum(|run| run.audited_steps), sum(|run| run.differing_steps)) {
        (0, 0) => String::new(),
        (compared, differing) => format!("audit: {}\n", crate::info::audited(compared, differing)),
    };
    match conflicts {
        0 => audits,
        conflicts => {
            let results = counted(conflicts, "result");
            format!(
                "{audits}conflicts: {results} of actions that lead to more than one state, all in \
                 the table `conflicts`\n"
            )
        }
    }
}

/// Reports what was not done without the compiler.
pub(super) fn bytes_only(why: &str, compared: u64) -> String {
    let ids = match compared {
        0 => "ids and baselines are not recomputed".to_owned(),
        compared => format!("only {} and no baselines are recomputed", counted(compared, "id")),
    };
    format!("verify: bytes only: {ids}, because the compiler is not available: {why}\n")
}

/// What is said if the derived tables were to be compared and the lake is damaged.
pub(super) const DERIVED_NOT_COMPARED: &str =
    "derived tables: not compared, since the lake is damaged\n";

/// Reports how the derived tables compare with the steps that they count.
pub(super) fn compared(compared: &Compared) -> String {
    let mut text = String::new();
    for finding in &compared.findings {
        let _ = writeln!(text, "{}: {}", finding.path.display(), finding.what);
    }
    let verdict = if compared.findings.is_empty() { "equal" } else { "not equal" };
    let (rows, steps) = (counted(compared.rows, "row"), counted(compared.steps, "step"));
    let _ = writeln!(text, "derived tables: {verdict}; {rows}, compared with {steps}");
    text
}

/// Reports which programs cost something else now.
pub(super) fn baselines(report: &BaselineReport) -> String {
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

/// Reports transitions with another result, and whether all agree whose action is not flagged.
pub(super) fn replayed(
    report: &ReplayReport,
    space: &ActionSpace,
    doubted: &HashSet<ActionIndex>,
) -> (String, bool) {
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
        let index = ActionIndex(action);
        let is_flagged = space.get(index).is_some_and(|spec| !spec.flags.is_dependable());
        let replayable = !is_flagged && !doubted.contains(&index);
        agrees &= !replayable;
        let name = name(index, space);
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
    if !agrees {
        text.push_str("verify: not sound, by what was replayed\n");
    }
    (text, agrees)
}

/// Names an action of a lake.
fn name(action: ActionIndex, space: &ActionSpace) -> String {
    space.get(action).map_or_else(|| format!("action {}", action.0), |spec| spec.name.clone())
}

/// Most states of which it is said why they tell nothing.
const EXCUSED_MAX: usize = 20;

/// Reports how programs behave after recorded actions, and how many new rows say it, or why none
/// was written.
pub(super) fn semantics(
    report: &SemanticsReport,
    subjects: &[CheckedProgram],
    space: &ActionSpace,
    noted: Result<usize, String>,
) -> String {
    let mut text = format!(
        "semantics: {} of {} behave as their first states do, {} do not\n",
        counted(report.same as u64, "state"),
        counted(report.programs as u64, "program"),
        report.differing,
    );
    for why in &report.unavailable {
        let _ = writeln!(text, "  not used: {why}");
    }
    if report.unsanitized > 0 {
        let states = counted(report.unsanitized as u64, "state");
        let _ = writeln!(text, "  AddressSanitizer could not be used in {states} of these");
    }
    for Excused { benchmark, state, why } in report.excused.iter().take(EXCUSED_MAX) {
        let state = state.map(|state| format!(", state {state}")).unwrap_or_default();
        let _ = writeln!(text, "  {benchmark}{state}: {why}");
    }
    if let Some(more @ 1..) = report.excused.len().checked_sub(EXCUSED_MAX) {
        let _ = writeln!(text, "  … and {more} more about which nothing can be said");
    }
    for finding in &report.findings {
        let _ = write!(text, "{}", miscompilation(finding, subjects, space));
    }
    match noted {
        Ok(0) => {}
        Ok(rows) => {
            let rows = counted(rows as u64, "new row");
            let _ = writeln!(text, "  {rows} in the table `miscompilations`");
        }
        Err(why) => {
            let _ = writeln!(text, "  not written to the table `miscompilations`: {why}");
        }
    }
    text
}

fn miscompilation(
    finding: &Miscompilation,
    subjects: &[CheckedProgram],
    space: &ActionSpace,
) -> String {
    let name = |action: &ActionIndex| {
        space.get(*action).map_or_else(|| action.0.to_string(), |spec| spec.name.clone())
    };
    let actions: Vec<String> = finding.actions.iter().map(name).collect();
    let guilty = actions.last().map_or("", String::as_str);
    let minimal = if finding.minimised { "" } else { "; trials ran out, it may not be minimal" };
    format!(
        "  {}: miscompiled by {guilty}: after `{}`, {} (minimised from {}; {}{minimal})\n",
        subjects[finding.subject].benchmark,
        actions.join(" "),
        finding.difference.line(),
        counted(finding.recorded as u64, "action"),
        counted(finding.states as u64, "state"),
    )
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
fn percent(part: usize, whole: usize) -> String {
    if whole == 0 {
        "nothing to compare".into()
    } else {
        format!("{:.2}%", 100.0 * part as f64 / whole as f64)
    }
}
