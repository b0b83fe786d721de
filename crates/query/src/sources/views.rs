//! The views of a lake.

use steplake_lake::{Identity, Table};

/// The name and the SQL of each view of a lake with these reward spaces.
pub(crate) fn views(identity: &Identity) -> [(&'static str, String); 3] {
    let rewards: Vec<String> = reward_spaces(identity).into_iter().map(reward_column).collect();
    [
        ("program_episodes", program_episodes()),
        ("steps_with_actions", steps_with_actions(&rewards)),
        ("transitions_taken", transitions_taken(&rewards)),
    ]
}

/// The names of the reward spaces of a lake.
pub(crate) fn reward_spaces(identity: &Identity) -> Vec<&str> {
    identity.rewards.iter().map(|space| space.name.as_str()).collect()
}

/// The names of the observation spaces of a lake whose observations are single numbers.
pub(crate) fn number_spaces(identity: &Identity) -> Vec<&str> {
    identity.number_spaces().collect()
}

/// The names of the observation spaces of a lake whose observations are vectors of named numbers.
pub(crate) fn vector_spaces(identity: &Identity) -> Vec<&str> {
    let spaces = identity.observations.iter().filter(|space| !space.features.is_empty());
    spaces.map(|space| space.name.as_str()).collect()
}

/// The column of a reward space, quoted for SQL.
pub(crate) fn reward_column(name: &str) -> String {
    quoted(&reward_column_name(name))
}

/// The column of a reward space.
pub(crate) fn reward_column_name(name: &str) -> String {
    format!("reward_{name}")
}

/// An identifier in SQL's quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The episodes that begin where their programs do, open ones too. A fork, or a step of a cache,
/// usually begins at a later state, so that its actions alone lead nowhere from the program.
fn program_episodes() -> String {
    let (steps, benchmarks) = (Table::Steps.name(), Table::Benchmarks.name());
    format!(
        "SELECT s.episode_id, s.benchmark_uri FROM {steps} AS s JOIN {benchmarks} AS b \
         ON b.benchmark_uri = s.benchmark_uri AND b.initial_state_id = s.state_id \
         WHERE s.step_index = 0"
    )
}

/// The paper's `Steps`: the action prefix as a list, the rewards as a list. The lists of whole
/// episodes are gathered once and cut for each step: the time goes with the length of the answer.
fn steps_with_actions(rewards: &[String]) -> String {
    let steps = Table::Steps.name();
    let rewards = match rewards {
        [] => "CAST(NULL AS DOUBLE[])".to_owned(),
        some => {
            let columns = some.join(", ");
            format!("CASE WHEN coalesce({columns}) IS NOT NULL THEN make_array({columns}) END")
        }
    };
    format!(
        "SELECT s.benchmark_uri, action_prefix(e.actions, s.step_index) AS actions, s.state_id, \
         s.end_of_episode, {rewards} AS rewards, s.episode_id, s.step_index \
         FROM (SELECT episode_id, action_list(step_index, action) AS actions FROM {steps} \
         GROUP BY episode_id) AS e JOIN {steps} AS s ON e.episode_id = s.episode_id"
    )
}

/// One row each time a transition was taken: the steps that have an action, with the state before.
fn transitions_taken(rewards: &[String]) -> String {
    let steps = Table::Steps.name();
    let rewards: String = rewards.iter().flat_map(|column| [column, ", "]).collect();
    let before =
        |column: &str| format!("lag({column}) OVER (PARTITION BY episode_id ORDER BY step_index)");
    let (state, key) = (before("state_id"), before("state_key"));
    format!(
        "SELECT *, next_state_id <> state_id AS changed FROM (\
         SELECT episode_id, step_index, benchmark_uri, {state} AS state_id, {key} AS state_key, \
         action, state_id AS next_state_id, state_key AS next_state_key, {rewards}end_of_episode, \
         wall_time_us FROM {steps}) AS taken WHERE action IS NOT NULL"
    )
}
