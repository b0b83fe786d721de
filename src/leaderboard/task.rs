//! What methods are compared on.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::LeaderboardError;
use crate::model::{BenchmarkUri, plain_problem};

/// The tasks that come with steplake.
const SHIPPED: [&str; 6] = [
    include_str!("../../data/leaderboards/tasks/gcc-programs-v0.json"),
    include_str!("../../data/leaderboards/tasks/ir-csmith-v0.json"),
    include_str!("../../data/leaderboards/tasks/ir-programs-v0.json"),
    include_str!("../../data/leaderboards/tasks/loops-cycles-v0.json"),
    include_str!("../../data/leaderboards/tasks/size-csmith-v0.json"),
    include_str!("../../data/leaderboards/tasks/size-programs-v0.json"),
];

/// A task. What its name means never changes: another compiler or other programs are a task of
/// another version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The name with its version, e.g. `ir-programs-v0`.
    pub name: String,
    /// What it is about, for the heading of its table.
    pub title: String,
    /// The environment, with the compiler that it has to open where there are several.
    pub environment: String,
    /// The compiler: the beginning of how its environment calls it, up to a space.
    pub compiler: String,
    /// The action spaces whose command lines count, the usual one first.
    pub action_spaces: Vec<String>,
    /// The reward space: what its rewards add up to, is the reward of a row.
    pub reward: String,
    /// How programs are called after what rewards are relative to, such as `-Oz`.
    pub reference: String,
    /// How many rows an entry has for each benchmark.
    pub rows_per_benchmark: usize,
    /// The URIs of the benchmarks, in canonical form.
    pub benchmarks: Vec<String>,
}

impl Task {
    /// Reads a task, whose file `path` is named after it.
    ///
    /// # Errors
    ///
    /// [`LeaderboardError::BadTask`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, LeaderboardError> {
        let bad = |detail| LeaderboardError::BadTask { path: path.to_owned(), detail };
        let task: Self =
            serde_json::from_str(text).map_err(|error| bad(plain_problem(&error.to_string())))?;
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if stem != Some(task.name.as_str()) {
            return Err(bad(format!("its name is `{}`: name the file after it", task.name)));
        }
        if !has_version(&task.name) {
            return Err(bad(format!("its name `{}` does not end in a version: -v0", task.name)));
        }
        if task.rows_per_benchmark == 0 || task.benchmarks.is_empty() {
            return Err(bad("it wants no rows".to_owned()));
        }
        for (place, benchmark) in task.benchmarks.iter().enumerate() {
            benchmark.parse::<BenchmarkUri>().map_err(|error| bad(error.to_string()))?;
            if task.benchmarks[..place].contains(benchmark) {
                return Err(bad(format!("it has {benchmark} twice")));
            }
        }
        Ok(task)
    }

    /// Returns the tasks that come with steplake, by name.
    ///
    /// # Panics
    ///
    /// Never: a test reads them.
    pub fn shipped() -> Vec<Self> {
        let read = |text| serde_json::from_str(text).expect("a test reads every task");
        SHIPPED.into_iter().map(read).collect()
    }

    /// Returns a digest of everything that the task says.
    pub fn digest(&self) -> String {
        let bytes = serde_json::to_vec(self).expect("a task is text and numbers");
        blake3::hash(&bytes).to_hex().to_string()
    }

    /// Returns whether the task is about this compiler, as its environment calls it.
    pub fn is_of(&self, compiler: &str) -> bool {
        let rest = compiler.strip_prefix(&self.compiler);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }

    /// Returns the place of a benchmark in the task.
    pub fn place(&self, benchmark: &str) -> Option<usize> {
        self.benchmarks.iter().position(|known| known == benchmark)
    }
}

/// Whether a name ends in `-v` and a number.
fn has_version(name: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.chars().all(is_fit)
        && name.rsplit_once("-v").is_some_and(|(name, version)| {
            !name.is_empty() && !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaderboard::row::tests::task;

    #[test]
    fn the_tasks_that_come_with_it_are_those_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/leaderboards/tasks");
        let mut files: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let read = |path: &std::path::PathBuf| {
            Task::parse(path, &std::fs::read_to_string(path).unwrap()).unwrap()
        };
        assert_eq!(Task::shipped(), files.iter().map(read).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_task_is_refused() {
        let refused = |change: &dyn Fn(&mut Task)| {
            let mut task = task();
            change(&mut task);
            let text = serde_json::to_string(&task).unwrap();
            Task::parse(Path::new("some/toy-v0.json"), &text).unwrap_err().to_string()
        };
        assert!(refused(&|task| task.name = "toy-v1".to_owned()).contains("its name is `toy-v1`"));
        assert!(refused(&|task| task.rows_per_benchmark = 0).contains("it wants no rows"));
        let twice = refused(&|task| task.benchmarks[1] = task.benchmarks[0].clone());
        assert!(twice.contains("it has generator://toy-v0/1 twice"), "{twice}");
        assert!(refused(&|task| task.benchmarks[1] = "toy".to_owned()).contains("benchmark URI"));
        for name in ["toy", "-v0", "toy-v", "Toy-v0", "a/b-v0"] {
            assert!(!has_version(name), "{name}");
        }
    }

    #[test]
    fn the_compiler_is_the_beginning_of_what_it_is_called() {
        let task = Task { compiler: "GCC 12.2.0".to_owned(), ..task() };
        assert!(task.is_of("GCC 12.2.0") && task.is_of("GCC 12.2.0 (Debian) cc1 12ab"));
        assert!(!task.is_of("GCC 12.2.01") && !task.is_of("GCC 12.2") && !task.is_of("LLVM"));
    }

    #[test]
    fn the_digest_is_of_what_is_said() {
        let other = Task { rows_per_benchmark: 9, ..task() };
        assert_eq!(task().digest(), task().digest());
        assert_ne!(task().digest(), other.digest());
    }
}
