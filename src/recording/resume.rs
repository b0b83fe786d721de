//! Which run a request is about: a new one, or one that is taken up again.
//!
//! A run that lost episodes to a retraction or a repair is not continued itself: those would be
//! there under numbers that stand for what was lost, and a merge could not tell them apart. What is
//! missing is played by a run of its own, with the same arguments and the name of the run that it
//! *continues*.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::request::RunRequest;
use super::{Keyframes, now_ms};
use crate::Error;
use crate::generate::{Property, ResumeState, RunPlan, Settled, Stop};
use crate::lake::{RetractionRow, RunRow, Snapshot, Table, Writer};
use crate::model::RunId;
use steplake_terminal::output::counted;

/// The argument of a run that plays what another one lacks: the name of that one.
pub(crate) const CONTINUES: &str = "continues";

/// Most reasons of a retraction, and most arguments, that a message names.
const NAMED_MAX: usize = 3;

/// The run that a request asks for.
pub(super) enum ResumedRun {
    /// A new run, or one to resume.
    Open(Box<ToPlay>),
    /// A run to resume of which nothing is left.
    Complete(RunId),
}

/// A run that has something to play.
#[derive(Debug)]
pub(super) struct ToPlay {
    pub(super) run: RunId,
    /// How far it got.
    pub(super) past: ResumeState,
    /// Other runs that are finished when this one is.
    pub(super) finishes: Vec<RunId>,
}

/// Finds the run to resume, or begins a new one.
pub(super) fn begin_or_resume(
    writer: &mut Writer,
    request: &RunRequest,
    plan: &RunPlan,
    keyframes: Keyframes,
) -> Result<ResumedRun, Error> {
    let runs = writer.runs()?;
    let arguments =
        |before: usize| request.arguments(plan, keyframes, &known_runs(&runs[..before], plan));
    let fresh = arguments(runs.len());
    if request.resume {
        let place = runs.iter().enumerate().rposition(|(place, run)| {
            // Most policies know the same whenever they begin.
            run.arguments == fresh || run.arguments == arguments(place)
        });
        match place {
            Some(place) => return resume(writer, plan, &runs, place),
            None if runs.is_empty() => {}
            None => tracing::warn!(
                "there is no unfinished run with these arguments: a new one begins{}",
                unfinished(&runs, &writer.lake().snapshot()?, &fresh)
            ),
        }
    } else {
        match runs.iter().rfind(|run| run.arguments == fresh) {
            Some(run) if run.finished => tracing::warn!(
                "this lake has a finished run with these arguments: the same episodes are recorded \
                 again{}",
                // These draw nothing.
                if plan.policy.has(Property::IsSystematic) {
                    ""
                } else {
                    "; another seed records others"
                }
            ),
            Some(_) => tracing::warn!(
                "this lake has an unfinished run with these arguments: the same episodes are recorded \
                 again; resuming would continue it"
            ),
            None => {}
        }
    }
    let run = writer.begin_run(&fresh, now_ms())?;
    let mut past = ResumeState::default();
    past.know(writer, plan, &ids(&known_runs(&runs, plan)))?;
    Ok(ResumedRun::Open(ToPlay { run, past, finishes: Vec::new() }.into()))
}

/// Finds what is left of the run at a place of the list, and who plays it.
fn resume(
    writer: &mut Writer,
    plan: &RunPlan,
    runs: &[RunRow],
    place: usize,
) -> Result<ResumedRun, Error> {
    let root = &runs[place];
    let is_of_it = |run: &&RunRow| run.id == root.id || continued(run).as_ref() == Some(&root.uid);
    let of_it: Vec<&RunRow> = runs.iter().filter(is_of_it).collect();
    let numbers: Vec<RunId> = of_it.iter().map(|run| run.id).collect();
    for run in of_it.iter().filter(|run| !run.finished) {
        writer.discard_open(run.id)?;
    }
    let snapshot = writer.lake().snapshot()?;
    let settled = Settled::read(&snapshot, &numbers)?;
    let is_finished = of_it.iter().any(|run| run.finished);
    let complete = || {
        warn_of_older(&runs[..place], root, &snapshot);
        Ok(ResumedRun::Complete(root.id))
    };
    if is_finished && settled.is_whole(plan) {
        return complete();
    }
    let last = of_it.last().expect("the run itself is one of them");
    let is_retracted = snapshot.retractions().iter().any(|row| row.runs.contains(&last.id));
    let keeps_all = !is_retracted && !has_losses(last, &snapshot);
    let goes_on = !last.finished && keeps_all && settled.can_go_on(last.id, plan);
    let lacks = lacking(&settled, plan, is_finished);
    let mut past = ResumeState::of(writer, &settled, plan)?;
    past.know(writer, plan, &ids(&known_runs(&runs[..place], plan)))?;
    if is_finished {
        past = match past.unless_over(plan) {
            Some(past) => past,
            None => return complete(),
        };
    }
    let run = if goes_on {
        last.id
    } else {
        let run = writer.begin_run(&continuing(root), now_ms())?;
        tracing::warn!(
            "run {} lacks {lacks} ({}): what is missing is played again, as run {}",
            root.id.0,
            reasons(&snapshot, &numbers),
            run.0
        );
        run
    };
    let finishes = of_it.iter().filter(|other| !other.finished && other.id != run);
    let finishes = finishes.map(|run| run.id).collect();
    Ok(ResumedRun::Open(ToPlay { run, past, finishes }.into()))
}

/// Returns whether a repair dropped steps or episodes since a run began. They may have been its
/// own, also its last ones, which nothing tells from those that it never had.
fn has_losses(run: &RunRow, snapshot: &Snapshot) -> bool {
    let before = snapshot.history().iter().filter(|row| row.created_at_ms <= run.started_at_ms);
    let before = before.map(|row| row.id).max();
    let mut losses = snapshot.losses().iter();
    losses.any(|loss| {
        matches!(loss.table, Table::Steps | Table::Episodes) && Some(loss.snapshot) > before
    })
}

/// Returns the name of the run that another one continues.
pub(crate) fn continued(run: &RunRow) -> Option<String> {
    let arguments: Value = serde_json::from_str(&run.arguments).ok()?;
    Some(arguments.get(CONTINUES)?.as_str()?.to_owned())
}

/// Returns the arguments of a run that continues another one.
fn continuing(root: &RunRow) -> String {
    let mut arguments: Value =
        serde_json::from_str(&root.arguments).expect("they are those of a request");
    arguments[CONTINUES] = root.uid.as_str().into();
    arguments.to_string()
}

/// Says how many episodes are missing.
fn lacking(settled: &Settled, plan: &RunPlan, is_finished: bool) -> String {
    let missing = match plan.stop {
        Stop::Episodes(episodes) if is_finished => {
            plan.own_episodes(episodes).saturating_sub(settled.count())
        }
        _ => settled.missing(plan),
    };
    if missing == 0 { "episodes".to_owned() } else { counted(missing, "episode") }
}

/// Says why episodes of these runs are missing.
fn reasons(snapshot: &Snapshot, runs: &[RunId]) -> String {
    let of_these = |row: &&RetractionRow| row.runs.iter().any(|run| runs.contains(run));
    let told = |row: &RetractionRow| {
        format!("{} {} was retracted ({})", row.kind.as_str(), row.value, row.reason)
    };
    let told: Vec<String> = snapshot.retractions().iter().filter(of_these).map(told).collect();
    match told.len() {
        0 => "a repair dropped them".to_owned(),
        count => {
            let more = count.saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            told[..count.min(NAMED_MAX)].join(", ") + &more
        }
    }
}

/// Warns of a run that was left, and that nothing continues, since a later one did all of it.
fn warn_of_older(earlier: &[RunRow], done: &RunRow, snapshot: &Snapshot) {
    let left =
        earlier.iter().rfind(|run| run.arguments == done.arguments && is_left(run, snapshot));
    if let Some(left) = left {
        let (left, done) = (left.id.0, done.id.0);
        tracing::warn!(
            "run {left} has the same arguments and was left unfinished; run {done} did all of it, \
             so nothing continues run {left}: retracting it takes back what it recorded"
        );
    }
}

/// Returns whether a run is unfinished, and was not taken back.
fn is_left(run: &RunRow, snapshot: &Snapshot) -> bool {
    let retracted = |row: &RetractionRow| row.runs.contains(&run.id);
    !run.finished && !snapshot.retractions().iter().any(retracted)
}

/// Says what the newest unfinished run is, and how its arguments differ; nothing if there is none.
fn unfinished(runs: &[RunRow], snapshot: &Snapshot, fresh: &str) -> String {
    let of = |arguments: &str| -> Option<BTreeMap<String, Value>> {
        serde_json::from_str(arguments).ok()
    };
    // Other runs than those of `generate` have no policy.
    let left = runs.iter().rev().filter(|run| is_left(run, snapshot));
    let mut left = left.filter_map(|run| Some((run.id.0, of(&run.arguments)?)));
    let Some((run, theirs)) = left.find(|(_, arguments)| arguments.contains_key("policy")) else {
        return String::new();
    };
    let ours = of(fresh).expect("they are those of a request");
    let keys: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let shown = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    let differs = |key: &&String| ours.get(*key) != theirs.get(*key) && *key != "benchmark_digest";
    let told = |key| format!("`{key}` {}, not {}", shown(theirs.get(key)), shown(ours.get(key)));
    let differing = keys.into_iter().filter(differs).take(NAMED_MAX).map(told);
    let differing: Vec<String> = differing.collect();
    let differing =
        if differing.is_empty() { "other benchmarks".to_owned() } else { differing.join("; ") };
    format!(
        "; run {run} is unfinished and has {differing}: resuming with its arguments continues it, \
         and retracting it takes it back"
    )
}

/// Returns the runs whose episodes a run of the plan learns from, of those that began before it.
/// One that is not finished may yet lose episodes.
fn known_runs<'a>(before: &'a [RunRow], plan: &RunPlan) -> Vec<&'a RunRow> {
    let learns = plan.policy.has(Property::KnowsEarlierRuns);
    before.iter().filter(|run| learns && run.finished).collect()
}

fn ids(runs: &[&RunRow]) -> BTreeSet<RunId> {
    runs.iter().map(|run| run.id).collect()
}
