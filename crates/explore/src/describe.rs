//! What there is: the lake, and what live sessions can be of.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde::Serialize;
use steplake::model::{ActionSpace, EnvironmentSpec};

use super::answers::{JsonBody, JsonResult, Problem, computed};
use super::lake::reader::LakeReader;
use super::live::LiveSessions;
use super::programs::ListedDataset;
use super::tree::costs::feature_spaces;
use steplake_server::Served;

/// What the page is told first.
#[derive(Clone)]
pub(super) struct Describer {
    pub(super) live: LiveSessions,
    pub(super) lake: LakeReader,
}

/// The call.
pub(super) fn routes(describer: Describer) -> Router {
    Router::new().route("/api/describe", get(describe)).with_state(describer)
}

#[derive(Serialize)]
struct DescriptionBody {
    version: &'static str,
    lake: Option<DescribedLake>,
    /// Where a lake would be.
    lake_path: String,
    live: DescribedLive,
}

#[derive(Serialize)]
struct DescribedLake {
    path: String,
    environment: String,
    compiler: String,
    action_space: String,
    snapshot: i64,
    states: u64,
    transitions: u64,
    steps: u64,
    episodes: u64,
    benchmarks: u64,
    observation_spaces: Vec<String>,
    reward_spaces: Vec<String>,
    cost_name: Option<String>,
    is_derived_current: bool,
    uncounted_steps: u64,
}

#[derive(Serialize)]
struct DescribedLive {
    environment: String,
    compiler: String,
    action_spaces: Vec<DescribedSpace>,
    default_action_space: String,
    reward_spaces: Vec<String>,
    default_reward_space: String,
    feature_spaces: BTreeMap<String, Vec<String>>,
    datasets: Vec<ListedDataset>,
}

#[derive(Serialize)]
struct DescribedSpace {
    name: String,
    actions: Vec<DescribedAction>,
}

#[derive(Serialize)]
struct DescribedAction {
    index: u32,
    name: String,
    description: String,
}

async fn describe(State(Describer { live, lake }): State<Describer>) -> JsonResult {
    let lake_path = lake.path().display().to_string();
    let described_lake = match lake.present().await? {
        Some(served) => Some(of_lake(&lake, &served).await?),
        None => None,
    };
    computed(move || {
        Ok(JsonBody::of(&DescriptionBody {
            version: env!("CARGO_PKG_VERSION"),
            lake: described_lake,
            lake_path,
            live: of_live(&live),
        }))
    })
    .await
}

async fn of_lake(lake: &LakeReader, served: &Served) -> Result<DescribedLake, Problem> {
    let counts = lake.counts().await?;
    let identity = &served.identity;
    let observations = identity.observations.iter().map(|space| space.name.clone());
    let rewards = identity.rewards.iter().map(|space| space.name.clone());
    Ok(DescribedLake {
        path: lake.path().display().to_string(),
        environment: identity.environment.clone(),
        compiler: identity.compiler.clone(),
        action_space: identity.action_space.name.clone(),
        snapshot: counts.snapshot_id,
        states: counts.states,
        transitions: counts.transitions,
        steps: counts.steps,
        episodes: counts.episodes,
        benchmarks: counts.benchmarks,
        observation_spaces: observations.collect(),
        reward_spaces: rewards.collect(),
        cost_name: identity.usual_cost().map(str::to_owned),
        is_derived_current: counts.layers > 0 && counts.uncounted_steps == 0,
        uncounted_steps: counts.uncounted_steps,
    })
}

fn of_live(live: &LiveSessions) -> DescribedLive {
    let spec: &EnvironmentSpec = live.spec();
    let features = feature_spaces(spec).into_iter().map(|(_, name, names)| (name, names));
    DescribedLive {
        environment: spec.name.to_string(),
        compiler: spec.compiler.clone(),
        action_spaces: spec.action_spaces.iter().map(described_space).collect(),
        default_action_space: live.usual_action_space().to_owned(),
        reward_spaces: spec.reward_spaces.iter().map(|space| space.name.to_string()).collect(),
        default_reward_space: live.usual_reward().to_owned(),
        feature_spaces: features.collect(),
        datasets: live.programs.datasets(),
    }
}

fn described_space(space: &ActionSpace) -> DescribedSpace {
    let actions = (0..).zip(&space.actions).map(|(index, action)| DescribedAction {
        index,
        name: action.name.clone(),
        description: action.pipeline.clone(),
    });
    DescribedSpace { name: space.name.clone(), actions: actions.collect() }
}
