//! `contexts`, and the contexts that other commands work on.

use std::fmt::Write;
use std::ops::ControlFlow;

use indicatif::HumanCount;
use serde_json::json;

use super::args::{Command, ContextsArgs, InfoFormat};
use crate::contexts::{Agreement, agreement};
use crate::environments::Environments;
use crate::lake::{Context, Lake, Snapshot, Table};
use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{print, with_bar};

/// The tables whose rows are counted.
const COUNTED: [Table; 4] =
    [Table::Benchmarks, Table::Episodes, Table::Steps, Table::StateTransitions];

/// The template of the bar of a replay.
const TRANSITIONS_PLAYED: &str = "{bar:24.cyan} {pos}/{len} replayed {eta}";

/// The contexts that a command works on, where none is named.
enum Reach {
    /// The only one.
    One,
    /// Each, one after the other.
    Each,
    /// Those that the command itself chooses.
    Own,
    /// That of what it records.
    Recorded,
    /// None, or those that another program chooses, which reads the line itself.
    Elsewhere,
}

impl Reach {
    fn of(command: &Command) -> Self {
        match command {
            Command::Dedup(args) if args.counted.is_some() => Self::One,
            Command::Seal | Command::Compact | Command::Dedup(_) | Command::Gc => Self::Each,
            Command::Expire(args) if args.keep.is_some() => Self::Each,
            Command::Verify(args) if args.snapshot.snapshot.is_none() => Self::Each,
            Command::Query(command) if command.asked.list || command.asked.name.is_none() => {
                Self::Own
            }
            Command::Info(args) if args.snapshot.snapshot.is_none() => Self::Own,
            Command::Backfill(_)
            | Command::Measure(_)
            | Command::Verify(_)
            | Command::Snapshots(_)
            | Command::Expire(_)
            | Command::Convert(_)
            | Command::Retract(_)
            | Command::Info(_)
            | Command::Query(_)
            | Command::Export(_)
            | Command::Splits(_) => Self::One,
            Command::Optimize(_)
            | Command::Generate(_)
            | Command::Import(_)
            | Command::Merge(_) => Self::Recorded,
            Command::Contexts(_) | Command::Sql(_) | Command::Replay(_) => Self::Own,
            Command::Env(_)
            | Command::Datasets(_)
            | Command::Leaderboard(_)
            | Command::Serve(_)
            | Command::Explore(_)
            | Command::CompilerGymService(_)
            | Command::CompilerGymTool(_)
            | Command::Publish(_)
            | Command::Fetch(_)
            | Command::Cluster(_)
            | Command::Completions { .. }
            | Command::ProbeChild => Self::Elsewhere,
        }
    }
}

/// Runs `work` on each context that a command works on, as on a lake. What fails for one does not
/// keep it from the others.
///
/// # Errors
///
/// The first error of `work`; and if no context is named where one is needed.
pub(super) fn for_each(
    global: &GlobalArgs,
    command: &Command,
    mut work: impl FnMut(&GlobalArgs) -> Result<(), Error>,
) -> Result<(), Error> {
    // The name says that the folder stands for this context alone, though it may hold others.
    let at = |lake, name| GlobalArgs { lake, context: Some(name), ..global.clone() };
    let reach = Reach::of(command);
    if let (Some(_), Reach::Recorded) = (&global.context, &reach) {
        let said = "what is recorded goes into the context of its compiler and action space: leave \
                    out --context";
        return Err(Error::usage(said));
    }
    if let Some(name) = global.context.as_ref().filter(|_| !matches!(reach, Reach::Elsewhere)) {
        let lake = Lake::open_one(&global.lake, Some(name))?;
        return work(&at(lake.path().to_owned(), name.clone()));
    }
    match reach {
        Reach::Own | Reach::Recorded | Reach::Elsewhere => work(global),
        Reach::One => {
            Lake::open_one(&global.lake, None)?;
            work(global)
        }
        Reach::Each => {
            let Ok(first) = Lake::open(&global.lake) else { return work(global) };
            let others = first.other_contexts()?;
            if others.is_empty() {
                return work(global);
            }
            let mut failed = None;
            let first = (first.context_name(), first.path().to_owned());
            for (name, lake) in std::iter::once(first).chain(others) {
                print(&format!("{name}:\n"))?;
                if let Err(error) = work(&at(lake, name.clone())) {
                    if error.kind() == ErrorKind::Interrupted {
                        return Err(error);
                    }
                    tracing::warn!("{name}: {error}");
                    failed = failed.or(Some(error.at(&name)));
                }
            }
            failed.map_or(Ok(()), Err)
        }
    }
}

pub(super) fn run(
    environments: &Environments,
    global: &GlobalArgs,
    args: &ContextsArgs,
) -> Result<(), Error> {
    let (mut listed, mut text) = (Vec::new(), String::new());
    for Context { name, lake } in Lake::contexts(&global.lake)? {
        let snapshot = lake.snapshot()?;
        let mut value = as_json(&name, &snapshot);
        text += &as_text(&name, &snapshot);
        if let Some(count) = args.replay {
            let played = with_bar(global, TRANSITIONS_PLAYED, |show| {
                agreement(environments, &lake, (count, args.seed), &mut |done, all| {
                    show(done, all);
                    ControlFlow::Continue(())
                })
            });
            value["replayed"] = agreement_json(played.as_ref());
            let _ = writeln!(text, "  {:<14}{}", "replay", agreement_text(played.as_ref()));
        }
        listed.push(value);
    }
    match args.format {
        InfoFormat::Json => print(&format!("{:#}\n", json!(listed))),
        InfoFormat::Text => print(&text),
    }
}

fn agreement_json(played: Result<&Agreement, &Error>) -> serde_json::Value {
    match played {
        Ok(Agreement { compiler, report }) => json!({
            "compiler": compiler,
            "transitions": report.replayed,
            "agreeing": report.replayed - report.disagreements.len(),
            "without_ir": report.without_ir,
        }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn agreement_text(played: Result<&Agreement, &Error>) -> String {
    match played {
        Ok(Agreement { compiler, report }) => {
            let agreeing = report.replayed - report.disagreements.len();
            let (all, left) = (report.replayed, report.without_ir);
            format!(
                "{agreeing} of {all} transitions lead to the same states in {compiler}; {left} were \
                 left out, since the IR before them is not stored"
            )
        }
        Err(error) => error.to_string(),
    }
}

fn as_json(name: &str, snapshot: &Snapshot) -> serde_json::Value {
    let identity = snapshot.identity();
    let rows = COUNTED.map(|table| (table.name().to_owned(), json!(snapshot.rows(table))));
    json!({
        "context": name,
        "environment": identity.environment,
        "compiler": identity.compiler,
        "target": identity.target,
        "action_space": identity.action_space.name,
        "actions": identity.action_space.actions.len(),
        "state_scheme": identity.state_scheme,
        "rows": rows.into_iter().collect::<serde_json::Map<_, _>>(),
    })
}

fn as_text(name: &str, snapshot: &Snapshot) -> String {
    let identity = snapshot.identity();
    let actions = &identity.action_space;
    let mut text = format!("{name}\n");
    let mut line = |what: &str, value: &str| {
        writeln!(text, "  {what:<14}{value}").expect("a string takes it");
    };
    line("environment", &identity.environment);
    line("compiler", &identity.compiler);
    line("actions", &format!("{} ({})", actions.name, actions.actions.len()));
    let rows = COUNTED.map(|table| format!("{} {table}", HumanCount(snapshot.rows(table))));
    line("rows", &rows.join(", "));
    text
}
