//! Whoever asked may leave, and then the work on the answer ends.

use std::fmt;

use datafusion::common::{DataFusionError, exec_datafusion_err};

use crate::query::QueryError;

/// Whoever waits for an answer. The thread that works on one cannot be stopped from outside: so
/// every loop that may be long asks whether anybody still waits, node by node or batch by batch.
/// That costs a look at memory.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    has_left: &'a (dyn Fn() -> bool + Sync),
}

/// Nobody waits for the answer any more. As an error it reaches nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

impl<'a> Asker<'a> {
    pub(super) fn new(has_left: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { has_left }
    }

    /// # Errors
    ///
    /// When nobody waits any more.
    pub(super) fn waits(self) -> Result<(), Gone> {
        if (self.has_left)() { Err(Gone) } else { Ok(()) }
    }
}

impl fmt::Debug for Asker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").field("has_left", &(self.has_left)()).finish()
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody waits for the answer any more")
    }
}

impl From<Gone> for QueryError {
    fn from(gone: Gone) -> Self {
        Self::Failed(gone.to_string())
    }
}

impl From<Gone> for DataFusionError {
    fn from(gone: Gone) -> Self {
        exec_datafusion_err!("{gone}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::algebra::tally;
    use super::super::best::lowest;
    use super::super::csr::Graph;
    use super::super::index::{StateIndex, node};
    use super::super::value::{NoValues, values};
    use super::super::walk::{NONE, Search, distances_to};
    use super::*;
    use crate::model::StateId;

    const NODES: usize = 50;

    /// States in a row: action 0 goes on to the next one, action 1 stays.
    fn row() -> Graph {
        let id = |number: usize| {
            let mut id = [0; StateId::LEN];
            id[0] = u8::try_from(number).unwrap() ^ 0x80;
            StateId(id)
        };
        let mut ids: Vec<StateId> = (0..NODES).map(id).collect();
        ids.sort_by_key(super::super::index::place);
        let next = (0..NODES).flat_map(|at| [node((at + 1).min(NODES - 1)), node(at)]);
        Graph {
            states: StateIndex::new(ids),
            first_edge: (0..=node(NODES)).map(|at| 2 * at).collect(),
            actions: [0, 1].repeat(NODES),
            next: next.collect(),
            counts: vec![1; 2 * NODES],
            starts: vec![("benchmark".to_owned(), 0)],
            ..Graph::default()
        }
    }

    /// Does some work for somebody who leaves at the `stays`-th look; what became of it, and the
    /// looks.
    fn ask<T>(stays: usize, work: &dyn Fn(Asker<'_>) -> T) -> (T, usize) {
        let looks = AtomicUsize::new(0);
        let has_left = || looks.fetch_add(1, Ordering::Relaxed) >= stays;
        let made = work(Asker::new(&has_left));
        (made, looks.into_inner())
    }

    /// The work looks at each node at least, and does nothing more after the look that found
    /// nobody.
    #[track_caller]
    fn assert_looks(work: &dyn Fn(Asker<'_>) -> Result<(), Gone>) {
        let (made, looks) = ask(usize::MAX, work);
        assert_eq!(made, Ok(()));
        assert!(looks >= NODES, "{looks} looks");
        for stays in 0..looks {
            assert_eq!(ask(stays, work), (Err(Gone), stays + 1));
        }
    }

    #[test]
    fn no_long_loop_goes_on_for_nobody() {
        let graph = row();
        assert_looks(&|asker| row().walk_backward(asker));
        ask(usize::MAX, &|asker| graph.walk_backward(asker)).0.unwrap();
        let rewards = [1.0, 0.0].repeat(NODES);
        assert_looks(&|asker| tally(&graph, asker, Some(&rewards)).map(|_| ()));
        assert_looks(&|asker| Search::new(&graph).begin(&graph, asker, 0, NONE, None));
        assert_looks(&|asker| distances_to(&graph, asker, node(NODES - 1)).map(|_| ()));
        let costs: Vec<Option<i64>> = (0..NODES).map(|at| i64::try_from(at % 7).ok()).collect();
        assert_looks(&|asker| lowest(&graph, asker, &costs).map(|_| ()));
        let (_, ways) = ask(usize::MAX, &|asker| lowest(&graph, asker, &costs)).0.unwrap();
        assert_looks(&|asker| ways.ends(&graph, asker).map(|_| ()));
        assert_looks(&|asker| match values(&graph, asker, &rewards, 0.5) {
            Ok(_) => Ok(()),
            Err(NoValues::Gone(gone)) => Err(gone),
            Err(NoValues::Unbounded { node }) => panic!("a value of {node} is bounded"),
        });
    }
}
