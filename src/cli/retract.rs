//! `retract`.

use std::collections::BTreeSet;

use indicatif::HumanCount;

use super::args::RetractArgs;
use super::dedup::derive;
use crate::Error;
use crate::datasets::{DatasetError, among, as_pattern};
use crate::dedup;
use crate::lake::Lake;
use crate::model::{BenchmarkUri, RunId};
use crate::upkeep::RetractionTarget;
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{counted, print};

/// The maximum number of retracted benchmarks that are listed.
const LISTED_MAX: usize = 20;

pub(super) fn run(global: &GlobalArgs, args: &RetractArgs) -> Result<(), Error> {
    let reason = args.reason.trim();
    if reason.is_empty() || reason.contains('\n') {
        return Err(Error::usage("give the reason in one line: --reason TEXT"));
    }
    let lake = Lake::open(&global.lake)?;
    let subject = subject(&lake, args)?;
    let mut maintenance = lake.maintenance()?;
    let (snapshot, said) = match (&subject, &args.action) {
        (Some(subject), _) => {
            let mut writer = lake.writer()?;
            let done = maintenance.retract(&mut writer, subject, reason)?;
            let rows =
                [counted(done.episodes, "episode"), counted(done.steps, "step")].join(" and ");
            let of_runs = counted(done.runs.len() as u64, "run");
            (done.snapshot, format!("{rows} of {of_runs}{}", listed(subject)))
        }
        (None, Some(action)) => {
            let snapshot = maintenance.retract_action(action, reason)?;
            (snapshot, format!("the transitions of action {action}"))
        }
        (None, None) => {
            return Err(Error::usage("give --benchmark, --run or --action"));
        }
    };
    print(&format!("retracted {said}, in snapshot {snapshot}; earlier snapshots are unchanged\n"))?;
    let derived = derive(global, &mut maintenance, dedup::DedupOptions::default());
    let stands = "the retraction stands, and the derived tables are empty";
    derived.map(drop).map_err(|failed| failed.after(stands))
}

/// Returns what to retract together with its rows; `None` for an action.
fn subject(lake: &Lake, args: &RetractArgs) -> Result<Option<RetractionTarget>, Error> {
    if args.benchmarks.is_empty() {
        return Ok(args.run.map(|run| RetractionTarget::Run(RunId(run))));
    }
    let known = lake.snapshot()?.benchmark_uris()?;
    let mut uris = BTreeSet::new();
    for named in &args.benchmarks {
        let pattern = as_pattern(named)?;
        match (among(&pattern, &known), pattern.parse::<BenchmarkUri>()) {
            (Ok(found), _) => uris.extend(found),
            // An earlier retraction may have removed it: `retract` then says so.
            (Err(DatasetError::NoMatch { .. }), Ok(uri)) if !is_pattern(&pattern) => {
                uris.insert(uri.as_written());
            }
            (Err(error), _) => return Err(error.into()),
        }
    }
    Ok(Some(RetractionTarget::Benchmarks(uris)))
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{']) || text.contains("..")
}

/// Lists the benchmarks if there are several.
fn listed(subject: &RetractionTarget) -> String {
    match subject {
        RetractionTarget::Benchmarks(uris) if uris.len() > 1 => {
            let shown = uris.iter().take(LISTED_MAX).map(BenchmarkUri::as_str);
            let shown = shown.collect::<Vec<_>>().join(", ");
            let more = uris.len().saturating_sub(LISTED_MAX) as u64;
            let more =
                if more == 0 { String::new() } else { format!(" and {} more", HumanCount(more)) };
            format!(" about {} ({shown}{more})", counted(uris.len() as u64, "benchmark"))
        }
        _ => String::new(),
    }
}
