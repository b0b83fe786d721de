//! The rows of a program as a trie: where each row continues which other.

use super::database::LogRow;
use super::known::{RowName, StepPosition};
use super::skipped::Reason;
use steplake_model::{ActionIndex, BenchmarkUri, StateId};

/// A row on the path to the current one.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrieNode {
    /// The last action; that of the first row has no meaning.
    pub(super) action: ActionIndex,
    /// None if the compiler failed.
    pub(super) state: Option<StateId>,
    /// The sum of the rewards so far; NaN if there is none.
    pub(super) total: f64,
    /// Whether the environment ended the episode.
    pub(super) done: bool,
    pub(super) name: RowName,
    /// Where it is in the lake.
    pub(super) place: StepPosition,
}

/// The path to the current row of a program, and nothing else: the rows come in the order of a
/// depth-first walk.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) benchmark: BenchmarkUri,
    /// The row without actions, and one row for each action of the path.
    nodes: Vec<TrieNode>,
}

/// Where a row belongs.
pub(super) enum TriePosition {
    /// It is the first of its program.
    First,
    /// It continues the row at the end of the path by this action.
    After(ActionIndex),
}

impl Path {
    pub(super) fn new(benchmark: BenchmarkUri) -> Self {
        Self { benchmark, nodes: Vec::new() }
    }

    /// Goes back to the row that this one continues. `actions` is the number of actions of the
    /// action space.
    pub(super) fn go_to(&mut self, row: &LogRow<'_>, actions: u32) -> Result<TriePosition, Reason> {
        let mut common = 0;
        let mut last = None;
        let mut depth = 0;
        if !row.actions.is_empty() {
            for token in row.actions.split(' ') {
                let action = action_of(token).ok_or(Reason::Actions)?;
                if action.0 >= actions {
                    return Err(Reason::UnknownAction);
                }
                let node = self.nodes.get(depth + 1);
                common += usize::from(common == depth && node.is_some_and(|n| n.action == action));
                (last, depth) = (Some(action), depth + 1);
            }
        }
        if common == depth && self.nodes.len() > depth {
            return Err(Reason::Repeated);
        }
        // All actions but the last lead along the path.
        if common + 1 < depth || self.nodes.len() < depth {
            return Err(Reason::Gap);
        }
        self.nodes.truncate(depth);
        match (last, self.nodes.last()) {
            (None, _) if row.state.is_none() => Err(Reason::State),
            (None, _) => Ok(TriePosition::First),
            (Some(_), Some(node)) if node.state.is_none() => Err(Reason::AfterFailure),
            (Some(action), _) => Ok(TriePosition::After(action)),
        }
    }

    /// The row at the end of the path.
    pub(super) fn end(&self) -> &TrieNode {
        self.nodes.last().expect("a row that continues another is behind it")
    }

    pub(super) fn push(&mut self, node: TrieNode) {
        self.nodes.push(node);
    }
}

/// Reads an action as the logger writes it. Another spelling of the number would come in another
/// order.
fn action_of(token: &str) -> Option<ActionIndex> {
    let is_number = token.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_number && (token == "0" || !token.starts_with('0'));
    // A number that is too large is one that no action space has.
    (is_plain && !token.is_empty()).then(|| ActionIndex(token.parse().unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use steplake_model::{EpisodeId, RunId};

    /// Where rows with these actions belong, one after another.
    fn walk(rows: &[&str]) -> Vec<Result<Option<u32>, Reason>> {
        let benchmark: BenchmarkUri = "generator://csmith-v0/0".parse().unwrap();
        let mut path = Path::new(benchmark);
        let state = Some(StateId([1; 20]));
        let name = RowName::first("", state);
        let place = (EpisodeId::new(RunId(1), 0), 0);
        let mut node = |actions: &&str| {
            let row = LogRow { benchmark: "", actions, done: false, state, total: 0.0 };
            let position = path.go_to(&row, 124)?;
            let action = match position {
                TriePosition::First => None,
                TriePosition::After(action) => Some(action.0),
            };
            let last = ActionIndex(action.unwrap_or(0));
            path.push(TrieNode { action: last, state, total: 0.0, done: false, name, place });
            Ok(action)
        };
        rows.iter().map(&mut node).collect()
    }

    #[test]
    fn rows_continue_those_before_them() {
        let rows = ["", "0", "0 5", "0 5 5", "0 7", "12"];
        let wanted = [None, Some(0), Some(5), Some(5), Some(7), Some(12)];
        assert_eq!(walk(&rows), wanted.map(Ok));
    }

    #[test]
    fn a_row_without_the_one_before_is_a_gap_and_so_is_all_behind_it() {
        let gap = || Err(Reason::Gap);
        assert_eq!(
            walk(&["", "3", "3 1 4", "3 1 4 1", "3 2"]),
            [Ok(None), Ok(Some(3)), gap(), gap(), Ok(Some(2))]
        );
        assert_eq!(walk(&["3", "3 1"]), [gap(), gap()]);
    }

    #[test]
    fn what_no_logger_writes_is_told_apart() {
        let said = walk(&["", "03", " 3", "3  1", "+3", "x", "124", "99999999999", "5", "5"]);
        let (actions, unknown) = (|| Err(Reason::Actions), || Err(Reason::UnknownAction));
        assert_eq!(said[1..6], [actions(), actions(), actions(), actions(), actions()]);
        assert_eq!(said[6..8], [unknown(), unknown()]);
        assert_eq!(said[8..], [Ok(Some(5)), Err(Reason::Repeated)]);
    }
}
