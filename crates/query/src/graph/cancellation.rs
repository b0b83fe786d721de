//! Cancels the work on an answer when its reader leaves.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::{DataFusionError, exec_datafusion_err};

/// Tells the work on an answer that no reader waits for it any more. A blocking thread cannot be
/// stopped from outside, so every loop that may be long checks this, node by node or batch by
/// batch. Clones share the state. A check reads one atomic; tokio-util's type of this name takes a
/// lock.
#[derive(Debug, Clone, Default)]
pub(super) struct CancellationToken {
    is_cancelled: Arc<AtomicBool>,
    /// Cancels the token after some checks.
    #[cfg(test)]
    checks: Option<Arc<tests::Checks>>,
}

impl CancellationToken {
    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// # Errors
    ///
    /// [`Cancelled`].
    pub(super) fn check(&self) -> Result<(), Cancelled> {
        #[cfg(test)]
        if self.checks.as_ref().is_some_and(|checks| checks.count()) {
            self.cancel();
        }
        if self.is_cancelled.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
    }

    /// A check for those who do not know this type.
    pub(super) fn go_on(&self) -> ControlFlow<()> {
        if self.check().is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Cancels the token when the guard is dropped.
    pub(super) fn drop_guard(self) -> DropGuard {
        DropGuard(self)
    }
}

/// See [`CancellationToken::drop_guard`].
#[derive(Debug)]
pub(super) struct DropGuard(CancellationToken);

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The work was cancelled. Nobody reads this error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cancelled;

impl From<Cancelled> for DataFusionError {
    fn from(_: Cancelled) -> Self {
        exec_datafusion_err!("the query was cancelled")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::super::algebra::tally;
    use super::super::csr::QueryGraph;
    use super::super::lowest_cost::lowest;
    use super::super::observations::Observations;
    use super::super::policy_iteration::{NoValues, values};
    use super::super::walk::{BreadthFirstSearch, NONE, distances_to};
    use super::*;
    use steplake_lake::graph::TransitionGraph;
    use steplake_model::{ActionIndex, StateId};

    const NODES: usize = 50;

    /// How often a token was checked, and how many checks it passes.
    #[derive(Debug)]
    pub(super) struct Checks {
        count: AtomicUsize,
        passed_max: usize,
    }

    impl Checks {
        /// Counts a check. Returns whether it is one too many.
        pub(super) fn count(&self) -> bool {
            self.count.fetch_add(1, Ordering::Relaxed) >= self.passed_max
        }
    }

    /// States in a row: action 0 goes on to the next one, action 1 stays.
    fn row() -> QueryGraph {
        let id = |number: usize| {
            let mut id = [0; StateId::LEN];
            id[0] = u8::try_from(number).unwrap() ^ 0x80;
            StateId(id)
        };
        let edges = (0..NODES).flat_map(|at| {
            let next = id((at + 1).min(NODES - 1));
            [(id(at), ActionIndex(0), next), (id(at), ActionIndex(1), id(at))]
        });
        let graph = QueryGraph::from(TransitionGraph::of(edges).unwrap());
        graph.with_starts(vec![("benchmark".to_owned(), id(0))])
    }

    /// Does some work that is cancelled at the check after `passed_max` others. Returns its result
    /// and the number of checks.
    fn ask<T>(passed_max: usize, work: &dyn Fn(&CancellationToken) -> T) -> (T, usize) {
        let checks = Arc::new(Checks { count: AtomicUsize::new(0), passed_max });
        let token =
            CancellationToken { checks: Some(Arc::clone(&checks)), ..CancellationToken::default() };
        (work(&token), checks.count.load(Ordering::Relaxed))
    }

    /// Asserts that the work checks at least at each node, and ends at the check that fails.
    #[track_caller]
    fn assert_checks(work: &dyn Fn(&CancellationToken) -> Result<(), Cancelled>) {
        let (made, checks) = ask(usize::MAX, work);
        assert_eq!(made, Ok(()));
        assert!(checks >= NODES, "{checks} checks");
        for passed_max in 0..checks {
            assert_eq!(ask(passed_max, work), (Err(Cancelled), passed_max + 1));
        }
    }

    #[test]
    fn no_long_loop_goes_on_after_it_was_cancelled() {
        let graph = row();
        assert_checks(&|token| row().walk_backward(token));
        ask(usize::MAX, &|token| graph.walk_backward(token)).0.unwrap();
        let rewards = [1.0, 0.0].repeat(NODES);
        assert_checks(&|token| tally(&graph, token, Some(&rewards)).map(|_| ()));
        assert_checks(&|token| BreadthFirstSearch::new(&graph).begin(&graph, token, 0, NONE, None));
        assert_checks(&|token| distances_to(&graph, token, graph.all_nodes().end - 1).map(|_| ()));
        let costs: Vec<Option<i64>> = (0..NODES).map(|at| i64::try_from(at % 7).ok()).collect();
        let costs = Observations::from(costs);
        assert_checks(&|token| lowest(&graph, token, &costs).map(|_| ()));
        let (_, ways) = ask(usize::MAX, &|token| lowest(&graph, token, &costs)).0.unwrap();
        assert_checks(&|token| ways.ends(&graph, token).map(|_| ()));
        assert_checks(&|token| match values(&graph, token, &rewards, 0.5) {
            Ok(_) => Ok(()),
            Err(NoValues::Cancelled(cancelled)) => Err(cancelled),
            Err(NoValues::Unbounded { node }) => panic!("a value of {node} is bounded"),
        });
    }

    #[test]
    fn a_guard_that_is_dropped_cancels() {
        let token = CancellationToken::default();
        let guard = token.clone().drop_guard();
        assert_eq!(token.check(), Ok(()));
        drop(guard);
        assert_eq!(token.check(), Err(Cancelled));
    }
}
