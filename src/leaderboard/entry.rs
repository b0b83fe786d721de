//! What a method reached on a task, and where that comes from.

use serde::{Deserialize, Serialize};

use super::scores::Scores;

/// Who says how long a method took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WallTime {
    /// steplake ran the method, and looked at the clock.
    Measured,
    /// Whoever sent the rows.
    SelfReported,
}

/// An entry without its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The name of the task.
    pub task: String,
    /// The digest of the task, which proves that it was this one.
    pub task_digest: String,
    /// The name of the method.
    pub method: String,
    /// What the method does, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where more is to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The command that was run for each row, if steplake ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Who says how long the method took.
    pub wall_time: WallTime,
    /// The version of steplake that played the rows.
    pub steplake: String,
    /// The environment that they were played in.
    pub environment: String,
    /// Its compiler, the exact build.
    pub compiler: String,
    /// The target that it compiles for.
    pub target: String,
    /// The action spaces of the command lines, by name.
    pub action_spaces: Vec<String>,
    /// The digest of the programs, in the task's order.
    pub programs_digest: String,
    /// The digest of the file with the rows.
    pub rows_digest: String,
    /// How many different results were run, and do what their programs do untouched.
    pub results_run: usize,
    /// The scores of the rewards.
    pub scores: Scores,
    /// The geometric mean, over all rows, of the cost that rewards are relative to, divided by the
    /// cost that is left.
    pub reference_over_cost: f64,
}

impl Entry {
    /// Returns a digest of all that the entry says, of its rows and of its task.
    pub fn digest(&self) -> String {
        let bytes = serde_json::to_vec(self).expect("an entry is text and numbers");
        blake3::hash(&bytes).to_hex().to_string()
    }
}

/// Returns the name of the files of a method's entry, without their ending: the letters and digits
/// of its name. It is empty if there are none.
pub(super) fn file_stem(method: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    let words: String = method.chars().map(fit).collect();
    words.split_whitespace().collect::<Vec<_>>().join("-")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::leaderboard::row::{EntryRow, digest_of, tests::task};

    /// The entry of rows in the task of the tests.
    pub(in crate::leaderboard) fn entry(method: &str, rows: &[EntryRow]) -> Entry {
        Entry {
            task: task().name,
            task_digest: task().digest(),
            method: method.to_owned(),
            description: None,
            link: None,
            command: None,
            wall_time: WallTime::SelfReported,
            steplake: "1.2.3".to_owned(),
            environment: "toy-v0".to_owned(),
            compiler: "toy 1".to_owned(),
            target: "none".to_owned(),
            action_spaces: vec!["toy-v0".to_owned()],
            programs_digest: String::new(),
            rows_digest: digest_of(rows),
            results_run: 0,
            scores: Scores::of(rows),
            reference_over_cost: 1.25,
        }
    }

    #[test]
    fn files_are_named_after_the_method() {
        assert_eq!(file_stem("PPO + Guided Search (v2)"), "ppo-guided-search-v2");
        assert_eq!(file_stem("-Oz"), "oz");
        assert_eq!(file_stem("…/../"), "");
    }
}
