//! The questions, with the places in the lake that they ask about.

use steplake::model::StateId;
use steplake::query::Engine;

use super::texts;

/// A question's name and text, and `DuckDB`'s text if it differs.
pub(crate) type Entry = (&'static str, &'static str, Option<&'static str>);

/// Scans and joins, then look-ups and the graph.
pub(crate) const QUESTIONS: [Entry; 12] = [
    ("noop_rate", include_str!("sql/noop_rate.sql"), None),
    ("mean_reward", include_str!("sql/mean_reward.sql"), None),
    ("coverage", include_str!("sql/coverage.sql"), None),
    ("best_episodes", include_str!("sql/best_episodes.sql"), None),
    ("advantage", include_str!("sql/advantage.sql"), None),
    ("second_actions", include_str!("sql/second_actions.sql"), None),
    ("state", include_str!("sql/state.sql"), None),
    ("states", include_str!("sql/states.sql"), None),
    ("episode", include_str!("sql/episode.sql"), None),
    ("best_in_three", include_str!("sql/best_in_three.sql"), None),
    (
        "reachable",
        include_str!("sql/reachable.sql"),
        Some(include_str!("sql/reachable.duckdb.sql")),
    ),
    (
        "shortest_path",
        include_str!("sql/shortest_path.sql"),
        Some(include_str!("sql/shortest_path.duckdb.sql")),
    ),
];

/// A question in the text of each engine.
pub(crate) struct Question {
    pub(crate) name: &'static str,
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

/// What the questions ask about: found in the lake, the same in every run.
pub(crate) struct Places {
    words: Vec<(&'static str, String)>,
}

/// Finds the places in a lake.
pub(crate) async fn places(engine: &Engine) -> Places {
    let of = async |sql: &str| texts(engine, sql).await.join(", ");
    let episode = "SELECT episode_id FROM episodes ORDER BY episode_id LIMIT 1 OFFSET 3000";
    let root = "SELECT state_id FROM steps WHERE step_index = 0 \
                GROUP BY state_id ORDER BY count(*) DESC, state_id LIMIT 1";
    let states = "SELECT state_key FROM (SELECT DISTINCT state_key FROM steps WHERE step_index = 25) \
                  AS seen ORDER BY state_key % 1000003, state_key LIMIT 100";
    let state = "SELECT state_id FROM (SELECT DISTINCT state_id, state_key FROM steps \
                 WHERE step_index = 40 AND state_id IS NOT NULL) AS seen \
                 ORDER BY state_key % 1000003, state_key LIMIT 1";
    let (root, state) = (of(root).await, of(state).await);
    let key = |id: &str| {
        let state: StateId = id.parse().expect("a state is shown as it is read");
        state.key().to_string()
    };
    let words = vec![
        ("{episode}", of(episode).await),
        ("{states}", of(states).await),
        ("{root}", key(&root)),
        ("{root_id}", root),
        ("{state}", key(&state)),
        ("{state_id}", state),
    ];
    Places { words }
}

impl Places {
    pub(crate) fn fill(&self, (name, ours, theirs): Entry) -> Question {
        let fill = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with("--"));
            let text = lines.collect::<Vec<_>>().join("\n");
            self.words.iter().fold(text, |text, (word, value)| text.replace(word, value))
        };
        Question { name, ours: fill(ours), theirs: fill(theirs.unwrap_or(ours)) }
    }
}
