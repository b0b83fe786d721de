//! `replay` and `env`: live environments, without recording.

use std::fmt::Write;

use serde_json::json;

use super::args::{InfoFormat, ReplayArgs};
use super::generate::words;
use crate::contexts::recorded_by;
use crate::env::{Destination, Environment, Expected, RemoteService, Route, Start, Strayed, Watch};
use crate::environments::catalogue::{Catalogue, inputs_folder};
use crate::environments::{Environments, action_space, live};
use crate::generate::ProgramProvider;
use crate::ir::exported;
use crate::lake::Lake;
use crate::model::suggestions::did_you_mean;
use crate::model::{
    ActionFlags, ActionIndex, ActionSpace, Benchmark, EnvironmentSpec, Name, ObservationSpace,
    Outcome, RewardSpace, Scale, ValueType,
};
use crate::sandbox::Interrupt;
use crate::semantics::validate;
use crate::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::print;

pub(super) fn replay(
    environments: &Environments,
    global: &GlobalArgs,
    args: &ReplayArgs,
) -> Result<(), Error> {
    let environment = live(environments.open(&args.env)?, environments.worker_config());
    let spec = environment.spec();
    // The number of an action is meant as the lake has it.
    let folder = recorded_by(&global.lake, spec, args.action_space.as_deref())?;
    let of_lake = Lake::open(folder).ok();
    let of_lake = of_lake.as_ref().map(Lake::identity).filter(|lake| lake.environment == spec.name);
    let of_lake = of_lake.map(|lake| lake.action_space.name.as_str());
    let space = action_space(spec, args.action_space.as_deref().or(of_lake))?;
    let actions = args.actions.iter().map(|text| action(&args.env, spec, &space, text));
    let actions = actions.collect::<Result<Vec<_>, _>>()?;
    let catalogue = Catalogue::of(environment.as_ref(), &environments.worker_config())?;
    let uri = catalogue.one_with(&args.benchmark, &words("--flags", args.flags.as_deref())?)?;
    let mut benchmark = catalogue.load(&uri)?;
    if args.validate {
        if let Some(how) = &args.how_run.how_run() {
            benchmark.execution = Some(how.execution_of(environment.as_ref(), &benchmark)?);
        }
        let source = catalogue.source(&uri);
        return validated(environment.as_ref(), &space, &benchmark, source, &actions);
    }
    args.how_run.demand_unsaid("--validate")?;
    let mut session = environment.session()?;
    let started = session.start(&Start {
        benchmark: &benchmark,
        action_space: &space.name,
        baselines: None,
        watch: &Watch::default(),
    })?;
    let rewards: Vec<&str> =
        usual_rewards(environment.spec()).map(|(_, space)| space.name.as_ref()).collect();
    let mut text = format!("{uri}\n{:>4}  {:<40}  {}\n", 0, started.state, rewards.join("  "));
    let (mut taken, route) = (0, Route { actions: &actions, expected: Expected::Any });
    let played = route.bring(session.as_mut(), |action, step| {
        let name = &space.actions[action.place()].name;
        taken += 1;
        let (state, note) = match &step.outcome {
            Outcome::State { id, changed, .. } => {
                (id.to_string(), if *changed { "" } else { "  (no change)" }.to_owned())
            }
            Outcome::Crashed(failure) => (String::new(), format!("  {failure}")),
        };
        let values = usual_rewards(environment.spec());
        let values = values.map(|(place, _)| format!("{:.6}", step.rewards[place]));
        let values: Vec<String> = values.collect();
        let _ = writeln!(text, "{taken:>4}  {state:<40}  {}  {name}{note}", values.join("  "));
    })?;
    if !args.ir {
        return print(&text);
    }
    if let Err(Strayed { found: Destination::Failure(failure), .. }) = played {
        return Err(Error::new(ErrorKind::Failed, format!("there is no final state: {failure}")));
    }
    print(&exported(environment.as_ref(), session.as_mut())?)
}

/// Validates actions, and says what was found.
fn validated(
    environment: &dyn Environment,
    space: &ActionSpace,
    benchmark: &Benchmark,
    source: Option<String>,
    actions: &[ActionIndex],
) -> Result<(), Error> {
    let inputs = inputs_folder();
    let validation = validate(
        environment,
        &space.name,
        benchmark,
        source,
        inputs,
        actions,
        Interrupt::default(),
    )?;
    let mut text = validation.state.map(|state| format!("{state}\n")).unwrap_or_default();
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes it");
    match &validation.not_repeated {
        None => line("replay: a second worker gave the same states and rewards".to_owned()),
        Some(why) => line(format!("replay: {why}")),
    }
    for remark in &validation.remarks {
        line(format!("semantics: {remark}"));
    }
    match (&validation.difference, validation.is_checked) {
        (Some(difference), _) => line(format!("semantics: after them, {}", difference.line())),
        (None, true) => line("semantics: the program does what it does untouched".to_owned()),
        (None, false) => line("semantics: not checked".to_owned()),
    }
    print(&text)?;
    if validation.is_okay() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Found, "the validation found what is listed above"))
}

/// Returns an action by its name or its number.
fn action<'a>(
    environment: &str,
    spec: &EnvironmentSpec,
    space: &'a ActionSpace,
    text: &'a str,
) -> Result<ActionIndex, Error> {
    let numbered = text.parse().ok().map(ActionIndex).filter(|&index| space.get(index).is_some());
    let legacy = || space.index_of(&format!("-{text}"));
    space.index_of(text).or(numbered).or_else(legacy).ok_or_else(|| {
        // A name may be written without its hyphen, and is suggested as it was written.
        let is_bare = !text.starts_with('-');
        let bare = |name: &'a str| if is_bare { name.trim_start_matches('-') } else { name };
        let names = space.actions.iter().map(|action| bare(&action.name));
        let elsewhere = spec.action_spaces.iter().find(|space| space.index_of(text).is_some());
        let hint = match elsewhere {
            Some(other) => format!(" (`--action-space {}` has it)", other.name),
            None => did_you_mean(text, names),
        };
        Error::usage(format!(
            "`{text}` is not an action of {}{hint}: `steplake env describe {environment}` lists them, 0 to {}",
            space.name,
            space.actions.len() - 1
        ))
    })
}

pub(super) fn describe(
    environments: &Environments,
    name: &str,
    format: InfoFormat,
) -> Result<(), Error> {
    let environment = environments.open(name)?;
    match format {
        InfoFormat::Text => {
            let text = describe_text(environment.spec());
            print(&format!("{text}{}", left_out_text(environment.as_ref())))
        }
        InfoFormat::Json => print(&format!("{:#}\n", describe_json(environment.as_ref()))),
    }
}

/// Returns words for the flags worth mentioning.
fn flag_words(flags: ActionFlags) -> Vec<&'static str> {
    let words = [
        (!flags.replayable, "not-replayable"),
        (flags.crashes, "crashes"),
        (flags.slow, "slow"),
        (flags.never_changes, "never-changes"),
    ];
    words.into_iter().filter_map(|(set, word)| set.then_some(word)).collect()
}

fn type_text(space: &ObservationSpace) -> String {
    let numbers = match space.features.len() {
        0 => String::new(),
        count => format!("{count} "),
    };
    match space.value_type {
        ValueType::Int => "integer".into(),
        ValueType::Float => "floating-point number".into(),
        ValueType::Text => "text".into(),
        ValueType::Bytes => "bytes".into(),
        ValueType::IntVector => format!("{numbers}integers"),
        ValueType::FloatVector => format!("{numbers}floating-point numbers"),
        ValueType::TextList => "list of texts".into(),
        ValueType::ProgramGraph => "graph".into(),
        ValueType::Tokens => "tokens".into(),
    }
}

/// The reward spaces that every session computes, with their places.
fn usual_rewards(spec: &EnvironmentSpec) -> impl Iterator<Item = (usize, &RewardSpace)> {
    spec.reward_spaces.iter().enumerate().filter(|(_, space)| !spec.is_on_request(space))
}

fn reward_text(space: &RewardSpace) -> String {
    let RewardSpace { cost, initial, scale, .. } = space;
    match scale {
        Scale::Absolute => format!("the reduction of {cost}"),
        Scale::Initial => format!("the reduction of {cost}, divided by {initial} (at least 1)"),
        Scale::Baseline(baseline) => format!(
            "the reduction of {cost}, divided by that from {initial} to {baseline} (at least 1)"
        ),
    }
}

fn describe_text(spec: &EnvironmentSpec) -> String {
    let mut text =
        format!("{} ({}, {})\n\nobservation spaces\n", spec.name, spec.compiler, spec.target);
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes it");
    for space in &spec.observation_spaces {
        let note = match space {
            ObservationSpace { of_benchmark: true, on_request: true, .. } => {
                ", kept with the benchmark if a recorded reward needs it"
            }
            ObservationSpace { of_benchmark: true, .. } => ", kept with the benchmark",
            ObservationSpace { on_request: true, .. } => ", recorded if it is named",
            _ => "",
        };
        line(format!("  {:<29} {}{note}", space.name, type_text(space)));
    }
    line("\nreward spaces".into());
    for space in &spec.reward_spaces {
        let note = if spec.is_on_request(space) { ", recorded if it is named" } else { "" };
        line(format!("  {:<29} {}{note}", space.name, reward_text(space)));
    }
    for space in &spec.action_spaces {
        line(format!("\naction space {} ({} actions)", space.name, space.actions.len()));
        for (index, action) in space.actions.iter().enumerate() {
            let flags = flag_words(action.flags).join(" ");
            let pipeline =
                if action.pipeline.is_empty() { "(no operation)" } else { &action.pipeline };
            line(
                format!("  {index:>4}  {:<36} {pipeline:<56} {flags}", action.name)
                    .trim_end()
                    .into(),
            );
        }
    }
    text
}

/// Lists the spaces of a service that cannot be recorded.
fn left_out_text(environment: &dyn Environment) -> String {
    let left_out = environment.served().map(RemoteService::left_out).unwrap_or_default();
    let mut text = String::new();
    for (place, (name, reason)) in left_out.iter().enumerate() {
        let title = if place == 0 { "\nspaces that cannot be recorded\n" } else { "" };
        let _ = writeln!(text, "{title}  {name:<29} {reason}");
    }
    text
}

fn describe_json(environment: &dyn Environment) -> serde_json::Value {
    let spec = environment.spec();
    let left_out = |(name, reason): &(Name, String)| json!({ "name": name, "reason": reason });
    let observation = |space: &ObservationSpace| {
        json!({
            "name": space.name,
            "kind": type_text(space),
            "features": (!space.features.is_empty()).then(|| space.features.to_vec()),
            "of_benchmark": space.of_benchmark,
            "on_request": space.on_request,
        })
    };
    let action = |(index, action): (usize, &crate::model::ActionSpec)| {
        json!({
            "index": index,
            "name": action.name,
            "pipeline": action.pipeline,
            "flags": flag_words(action.flags),
        })
    };
    let space = |space: &ActionSpace| {
        let actions: Vec<_> = space.actions.iter().enumerate().map(action).collect();
        json!({ "name": space.name, "actions": actions })
    };
    let mut described = json!({
        "name": spec.name,
        "compiler": spec.compiler,
        "target": spec.target,
        "observation_spaces": spec.observation_spaces.iter().map(observation).collect::<Vec<_>>(),
        "reward_spaces": spec.reward_spaces.iter().map(|space| &space.name).collect::<Vec<_>>(),
        "action_spaces": spec.action_spaces.iter().map(space).collect::<Vec<_>>(),
    });
    if let Some(served) = environment.served() {
        described["left_out"] = served.left_out().iter().map(left_out).collect();
    }
    described
}
