//! The two calls of `CompilerGym`'s explorer, `/api/v4/describe` and `/api/v4/step`. Each step
//! plays its actions in a session of its own, so requests do not wait for each other.
//!
//! There, a step is a GET. Here it is a POST with the same parameters: it compiles what the address
//! says, and browsers follow addresses that anybody wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use steplake::model::ActionSpace;

use super::answers::{JsonBody, JsonResult, Problem, UrlParameters, computed};
use super::live::LiveSessions;
use super::programs::SentSource;
use super::tree::{ACTIONS_MAX, ROOT, Tree, TreeStart};

/// The action space that its clients know.
const ACTION_SPACE: &str = "compilergym-v0";

/// The most lines of a program that are sent, and the most characters of a line.
const LINES_MAX: usize = 1024;
const COLUMNS_MAX: usize = 250;

/// The calls.
pub(super) fn routes(live: LiveSessions) -> Router {
    Router::new()
        .route("/api/v4/describe", get(describe))
        .route("/api/v4/step", post(step))
        .with_state(live)
}

#[derive(Serialize)]
struct PeerDescription {
    actions: BTreeMap<String, u32>,
    benchmarks: BTreeMap<String, Vec<String>>,
    rewards: Vec<String>,
}

async fn describe(State(live): State<LiveSessions>) -> JsonResult {
    computed(move || {
        let actions = (0..).zip(&space(&live)?.actions);
        let datasets = live.programs.datasets().into_iter();
        let mut rewards: Vec<String> =
            live.spec().reward_spaces.iter().map(|space| space.name.to_string()).collect();
        rewards.sort_unstable();
        Ok(JsonBody::of(&PeerDescription {
            actions: actions.map(|(index, action)| (action.name.clone(), index)).collect(),
            benchmarks: datasets.map(|dataset| (dataset.uri, dataset.examples)).collect(),
            rewards,
        }))
    })
    .await
}

#[derive(Deserialize)]
struct AskedStep {
    benchmark: Option<String>,
    reward: Option<String>,
    #[serde(default)]
    actions: String,
    #[serde(default)]
    all_states: String,
    benchmark_source: Option<String>,
}

/// A state on the way.
#[derive(Serialize)]
struct PeerState {
    instcount: BTreeMap<String, f64>,
    autophase: BTreeMap<String, f64>,
    reward: f64,
}

#[derive(Serialize)]
struct PeerStep {
    commandline: String,
    done: bool,
    ir: String,
    states: Vec<PeerState>,
}

async fn step(
    State(live): State<LiveSessions>,
    UrlParameters(asked): UrlParameters<AskedStep>,
) -> JsonResult {
    computed(move || {
        let stepped = played(&live, &asked).map(|step| JsonBody::of(&step));
        // Its clients know one kind of problem with what they send.
        stepped.map_err(|problem| {
            let is_own = problem.status.is_client_error();
            if is_own { Problem::wrong(problem.message()) } else { problem }
        })
    })
    .await
}

fn played(live: &LiveSessions, asked: &AskedStep) -> Result<PeerStep, Problem> {
    let needed = |name: &str, value: &Option<String>| {
        let given = value.clone().filter(|value| !value.is_empty());
        given.ok_or_else(|| Problem::wrong(format!("the parameter `{name}` is missing")))
    };
    let (uri, reward) = (needed("benchmark", &asked.benchmark)?, needed("reward", &asked.reward)?);
    let space = space(live)?;
    let actions = actions_of(&asked.actions)?;
    let benchmark = match asked.benchmark_source.as_deref().filter(|text| !text.is_empty()) {
        Some(text) => live.programs.of_source(&source(text))?,
        None => live.programs.named(&uri)?,
    };
    let action_space = space.name.clone();
    let start = TreeStart { benchmark, action_space, reward_space: reward };
    let mut tree = Tree::start(Arc::clone(&live.environment), &live.programs, start)?;
    let all_states = matches!(asked.all_states.as_str(), "1" | "true" | "True");
    let way = tree.play(ROOT, &actions)?;
    if let Some(problem) = way.last().and_then(|&node| tree.failure(node)) {
        return Err(Problem::of_program(problem));
    }
    let last = way.last().copied().unwrap_or(ROOT);
    let mut states = Vec::new();
    if all_states {
        states.push(state(&mut tree, ROOT)?);
        for &node in way.iter().take(way.len().saturating_sub(1)) {
            states.push(state(&mut tree, node)?);
        }
    }
    // Without actions, its server answers with the first state too, and so with two of all.
    states.push(state(&mut tree, last)?);
    let flags = actions.iter().filter_map(|&index| space.actions.get(index as usize));
    let flags: Vec<&str> = flags.map(|action| action.name.as_str()).collect();
    Ok(PeerStep {
        commandline: commandline(&flags),
        done: way.len() < actions.len(),
        ir: truncated(&tree.text(last)?),
        states,
    })
}

/// The action space that clients see: that of the peer, where there is one.
fn space(live: &LiveSessions) -> Result<&ActionSpace, Problem> {
    let spec = live.spec();
    let space = spec.action_space(ACTION_SPACE).or(spec.action_spaces.first());
    space.ok_or_else(|| Problem::missing(format!("{} has no actions", spec.name)))
}

/// Reads `1,2,3`.
fn actions_of(text: &str) -> Result<Vec<u32>, Problem> {
    let numbers = text.split(',').map(str::trim).filter(|number| !number.is_empty());
    let read = numbers.map(|number| {
        number.parse().map_err(|_error| {
            Problem::wrong(format!("`{number}` is not an action: write whole numbers, as in 1,2,3"))
        })
    });
    let actions = read.collect::<Result<Vec<u32>, _>>()?;
    if actions.len() > ACTIONS_MAX {
        return Err(Problem::wrong(format!("a request may have {ACTIONS_MAX} actions")));
    }
    Ok(actions)
}

/// Names a source by what it is: its sender says nothing about that.
fn source(text: &str) -> SentSource {
    let is_ir = text.lines().any(|line| {
        ["define ", "declare ", "target triple", "source_filename"]
            .iter()
            .any(|start| line.starts_with(start))
    });
    let name = if is_ir { "source.ll" } else { "source.c" };
    SentSource { name: name.to_owned(), text: text.to_owned() }
}

fn state(tree: &mut Tree, node: usize) -> Result<PeerState, Problem> {
    let reward = tree.reward(node);
    let mut features = tree.features(node)?;
    let mut named = |space: &str, end: &str| {
        let Some(found) = features.remove(space) else { return BTreeMap::new() };
        let names = found.names.iter().map(|name| format!("{name}{end}"));
        names.zip(found.values.iter().copied()).collect()
    };
    let instcount = named("InstCount", "Count");
    Ok(PeerState { instcount, autophase: named("Autophase", ""), reward })
}

fn commandline(flags: &[&str]) -> String {
    let words = ["opt"].into_iter().chain(flags.iter().copied());
    let words = words.chain(["input.bc", "-o", "output.bc"]);
    words.collect::<Vec<_>>().join(" ")
}

/// Cuts long lines, and leaves out the last ones of many.
fn truncated(text: &str) -> String {
    let cut = |line: &str, always: bool| {
        if always || line.chars().count() > COLUMNS_MAX {
            let kept: String = line.chars().take(COLUMNS_MAX - "...".len()).collect();
            kept + "..."
        } else {
            line.to_owned()
        }
    };
    let count = text.lines().count();
    let lines = text.lines().take(LINES_MAX).enumerate();
    let lines = lines.map(|(at, line)| cut(line, count > LINES_MAX && at + 1 == LINES_MAX));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_programs_are_cut() {
        assert_eq!(truncated("a\nb\n"), "a\nb");
        let wide = truncated(&"ä".repeat(251));
        assert_eq!((wide.chars().count(), wide.ends_with("ä...")), (250, true));
        let long = truncated(&"line\n".repeat(2000));
        assert_eq!((long.lines().count(), long.ends_with("\nline...")), (1024, true));
    }

    #[test]
    fn actions_are_numbers() {
        assert!(actions_of("").unwrap().is_empty());
        assert_eq!(actions_of("1, 2,3").unwrap(), [1, 2, 3]);
        assert!(actions_of("1,x").is_err() && actions_of("-1").is_err());
    }

    #[test]
    fn a_source_is_c_unless_it_is_ir() {
        assert_eq!(source("int define = 1;\n").name, "source.c");
        assert_eq!(source("; x\ndefine void @f() {\n").name, "source.ll");
    }
}
