//! The new edges of a range of partitions, one after another.

use super::failed_episodes::FailedEpisodes;
use super::plan::Plan;
use super::scatter::Partition;
use super::sorted::{Sorted, sort_partition};
use crate::kernel::progress::Thread;
use crate::kernel::{Lake, LakeError};
use crate::layers::{Edge, EdgeSource, FailureText, Merge};

/// The edges of consecutive partitions; each partition is sorted when its turn comes.
pub(super) struct NewEdges<'a> {
    lake: &'a Lake,
    plan: &'a Plan,
    failed: &'a FailedEpisodes,
    thread: &'a Thread<'a>,
    partitions: std::vec::IntoIter<Partition>,
    sorted: Sorted,
    at: usize,
    /// For a partition too large to sort in memory: the merge of its pieces, and its current edge.
    merge: Option<(Merge<'static>, Vec<u64>)>,
}

impl<'a> NewEdges<'a> {
    pub(super) fn open(
        lake: &'a Lake,
        plan: &'a Plan,
        failed: &'a FailedEpisodes,
        thread: &'a Thread<'a>,
        partitions: Vec<Partition>,
    ) -> Result<Self, LakeError> {
        let mut edges = Self {
            lake,
            plan,
            failed,
            thread,
            partitions: partitions.into_iter(),
            sorted: Sorted::new(plan),
            at: 0,
            merge: None,
        };
        edges.find()?;
        Ok(edges)
    }

    /// Advances to the next partition with an edge if the current one has none left.
    fn find(&mut self) -> Result<(), LakeError> {
        while self.row().is_none() {
            let Some(partition) = self.partitions.next() else { return Ok(()) };
            self.at = 0;
            let (plan, sorted) = (self.plan, &mut self.sorted);
            let merge = sort_partition(self.lake, partition, plan, sorted, self.thread)?;
            self.merge = merge.map(|merge| (merge, Vec::new()));
            self.step_merge()?;
        }
        // `text` cannot return an error, so an unexplained failure is reported here.
        match self.row().map(Edge) {
            Some(edge) if !edge.led() && self.failed.text(edge).is_none() => {
                Err(self.failed.unexplained(edge))
            }
            _ => Ok(()),
        }
    }

    fn step_merge(&mut self) -> Result<(), LakeError> {
        if let Some((merge, present)) = &mut self.merge {
            present.clear();
            if let Some((row, _)) = merge.next()? {
                present.extend_from_slice(row);
            }
        }
        Ok(())
    }
}

impl EdgeSource for NewEdges<'_> {
    fn row(&self) -> Option<&[u64]> {
        match &self.merge {
            Some((_, present)) => (!present.is_empty()).then_some(present.as_slice()),
            None => self.sorted.edge(self.at),
        }
    }

    fn text(&self) -> Option<FailureText<'_>> {
        let edge = Edge(self.row()?);
        if edge.led() { None } else { self.failed.text(edge) }
    }

    fn advance(&mut self) -> Result<(), LakeError> {
        self.at += 1;
        self.step_merge()?;
        self.find()
    }
}
