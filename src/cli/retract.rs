//! `retract`.

use super::args::{Cli, RetractArgs};
use super::dedup::derive;
use super::failure::Failed;
use super::{counted, print};
use crate::dedup;
use crate::model::RunId;
use crate::store::{Lake, Subject};

pub(super) fn run(cli: &Cli, args: &RetractArgs) -> Result<(), Failed> {
    let reason = args.reason.trim();
    if reason.is_empty() || reason.contains('\n') {
        return Err(Failed::usage("say why in one line: --reason TEXT"));
    }
    let benchmark = args.benchmark.as_ref().map(|uri| uri.parse()).transpose();
    let benchmark = benchmark.map_err(|error| Failed::usage(format!("{error}")))?;
    let subject =
        benchmark.map(Subject::Benchmark).or(args.run.map(|run| Subject::Run(RunId(run))));
    let lake = Lake::open(&cli.lake)?;
    let mut maintenance = lake.maintenance()?;
    let (snapshot, said) = match (&subject, &args.action) {
        (Some(subject), _) => {
            let mut writer = lake.writer()?;
            let done = maintenance.retract(&mut writer, subject, reason)?;
            let rows =
                [counted(done.episodes, "episode"), counted(done.steps, "step")].join(" and ");
            (done.snapshot, format!("{rows} of {}", counted(done.runs.len() as u64, "run")))
        }
        (None, Some(action)) => {
            let snapshot = maintenance.retract_action(action, reason)?;
            (snapshot, format!("the transitions of action {action}"))
        }
        (None, None) => return Err(Failed::usage("say what: --benchmark, --run or --action")),
    };
    print(&format!(
        "retracted {said}, in snapshot {snapshot}; snapshots before it keep what they have\n"
    ))?;
    let derived = derive(cli, &mut maintenance, dedup::Settings::default());
    let stands = "the retraction stands, and the derived tables are empty";
    derived.map(drop).map_err(|failed| failed.after(stands))
}
