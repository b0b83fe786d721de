//! The questions, with the places of the lake that they are about.

use steplake::query::Engine;

use super::numbers;

/// A question's name and text; then `DuckDB`'s own text, where that is another.
pub(crate) type Entry = (&'static str, &'static str, Option<&'static str>);

/// Scans and joins; then look-ups and the graph.
pub(crate) const QUESTIONS: [Entry; 9] = [
    ("noop_rate", include_str!("sql/noop_rate.sql"), None),
    ("mean_reward", include_str!("sql/mean_reward.sql"), None),
    ("coverage", include_str!("sql/coverage.sql"), None),
    ("best_episodes", include_str!("sql/best_episodes.sql"), None),
    ("advantage", include_str!("sql/advantage.sql"), None),
    ("second_actions", include_str!("sql/second_actions.sql"), None),
    ("state", include_str!("sql/state.sql"), None),
    ("states", include_str!("sql/states.sql"), None),
    ("episode", include_str!("sql/episode.sql"), None),
];

/// A question as both engines are asked.
pub(crate) struct Question {
    pub(crate) name: &'static str,
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

/// What the questions ask about: found in the lake, the same in every run.
pub(crate) struct Places {
    words: Vec<(&'static str, String)>,
}

/// Looks for places.
pub(crate) async fn places(engine: &Engine) -> Places {
    let of = async |sql: &str| {
        let numbers = numbers(engine, sql).await;
        numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
    };
    let middle = "SELECT episode_id FROM episodes ORDER BY episode_id LIMIT 1 OFFSET 3000";
    let root = "SELECT state_key FROM steps WHERE step_index = 0 \
                GROUP BY state_key ORDER BY count(*) DESC, state_key LIMIT 1";
    let states = "SELECT state_key FROM (SELECT DISTINCT state_key FROM steps WHERE step_index = 25) \
                  AS seen ORDER BY state_key % 1000003, state_key LIMIT 100";
    let far = "SELECT state_key FROM steps WHERE step_index = 4 AND state_key IS NOT NULL \
               ORDER BY state_key % 1000003, state_key LIMIT 1";
    let words = vec![
        ("{episode}", of(middle).await),
        ("{root}", of(root).await),
        ("{states}", of(states).await),
        ("{state}", of(far).await),
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
