//! The new edges of a range of partitions, one after another, and with them what older layers have
//! of the same pairs.

use super::failed_episodes::FailedEpisodes;
use super::plan::Plan;
use super::scatter::Partition;
use super::sorted::{Sorted, sort_partition};
use crate::kernel::progress::Thread;
use crate::kernel::{Lake, LakeError};
use crate::layers::{Edge, EdgeSource, FailureText, Merge, OlderLayer, PairKey, pair_key};

/// Most edges of a partition that is sorted in pieces for which older layers are searched at once.
const CHUNK_ROWS: usize = 1 << 16;

/// The edges of consecutive partitions; each partition is sorted when its turn comes. Edges of
/// older layers with the same (state, action) as a new edge are taken out of these layers.
pub(super) struct NewEdges<'a> {
    lake: &'a Lake,
    plan: &'a Plan,
    failed: &'a FailedEpisodes,
    thread: &'a Thread<'a>,
    partitions: std::vec::IntoIter<Partition>,
    older: Vec<OlderLayer<'a>>,
    sorted: Sorted,
    at: usize,
    /// For a partition too large to sort in memory: the merge of its pieces.
    pieces: Option<Merge<'static>>,
    /// The edge of the pieces that comes after those in memory; empty at the end.
    ahead: Vec<u64>,
    /// For edges that older layers have too: the merge with theirs, and its current edge.
    merge: Option<(Merge<'static>, MergedEdge)>,
}

/// An edge of a merge, with the text of its failure if an older layer says it.
#[derive(Default)]
struct MergedEdge {
    row: Vec<u64>,
    text: Option<(String, Option<String>)>,
}

impl<'a> NewEdges<'a> {
    pub(super) fn open(
        lake: &'a Lake,
        plan: &'a Plan,
        failed: &'a FailedEpisodes,
        thread: &'a Thread<'a>,
        partitions: Vec<Partition>,
        older: Vec<OlderLayer<'a>>,
    ) -> Result<Self, LakeError> {
        let mut edges = Self {
            lake,
            plan,
            failed,
            thread,
            partitions: partitions.into_iter(),
            older,
            sorted: Sorted::new(plan),
            at: 0,
            pieces: None,
            ahead: Vec::new(),
            merge: None,
        };
        edges.find()?;
        Ok(edges)
    }

    /// Goes on to the next edges in memory if none of the current ones is left.
    fn find(&mut self) -> Result<(), LakeError> {
        while self.row().is_none() {
            (self.merge, self.at) = (None, 0);
            self.sorted.clear();
            if !self.next_chunk()? {
                let Some(partition) = self.partitions.next() else { return Ok(()) };
                let (plan, sorted) = (self.plan, &mut self.sorted);
                self.pieces = sort_partition(self.lake, partition, plan, sorted, self.thread)?;
                if self.pieces.is_some() {
                    self.step_pieces()?;
                    continue;
                }
            }
            self.take_from_older()?;
        }
        // `text` cannot return an error, so an unexplained failure is reported here.
        match self.row().map(Edge) {
            Some(edge) if !edge.led() && self.text().is_none() => {
                Err(self.failed.unexplained(edge))
            }
            _ => Ok(()),
        }
    }

    /// Reads the next edges of a partition that is sorted in pieces. Returns whether there are any.
    /// All edges from states of one key are read at once: older layers are searched by it.
    fn next_chunk(&mut self) -> Result<bool, LakeError> {
        if self.pieces.is_none() {
            return Ok(false);
        }
        let rows_max = CHUNK_ROWS.min(self.plan.sort_rows_max);
        while !self.ahead.is_empty() {
            let last = self.sorted.last();
            if self.sorted.len() >= rows_max && last.is_none_or(|last| last[0] != self.ahead[0]) {
                break;
            }
            self.sorted.push(&self.ahead);
            self.step_pieces()?;
        }
        Ok(self.sorted.len() > 0)
    }

    fn step_pieces(&mut self) -> Result<(), LakeError> {
        self.ahead.clear();
        if let Some(pieces) = &mut self.pieces
            && let Some((row, _)) = pieces.next()?
        {
            self.ahead.extend_from_slice(row);
        }
        Ok(())
    }

    /// Merges the edges in memory with those of older layers that leave the same states by the same
    /// actions.
    fn take_from_older(&mut self) -> Result<(), LakeError> {
        if self.older.is_empty() {
            return Ok(());
        }
        let mut pairs: Vec<PairKey> = self.sorted.edges().map(|row| pair_key(Edge(row))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let mut sources: Vec<Box<dyn EdgeSource>> = Vec::new();
        for layer in &mut self.older {
            self.thread.demand_go_on()?;
            if let Some(edges) = layer.take(&pairs)? {
                sources.push(Box::new(edges));
            }
        }
        if !sources.is_empty() {
            let sorted = std::mem::replace(&mut self.sorted, Sorted::new(self.plan));
            sources.push(Box::new(SortedEdges { sorted, at: 0 }));
            self.merge = Some((Merge::new(sources), MergedEdge::default()));
            self.step_merge()?;
        }
        Ok(())
    }

    fn step_merge(&mut self) -> Result<(), LakeError> {
        if let Some((merge, present)) = &mut self.merge {
            present.row.clear();
            if let Some((row, text)) = merge.next()? {
                present.row.extend_from_slice(row);
                let owned =
                    |text: FailureText<'_>| (text.kind.to_owned(), text.detail.map(str::to_owned));
                present.text = text.map(owned);
            }
        }
        Ok(())
    }
}

impl EdgeSource for NewEdges<'_> {
    fn row(&self) -> Option<&[u64]> {
        match &self.merge {
            Some((_, present)) => (!present.row.is_empty()).then_some(present.row.as_slice()),
            None => self.sorted.edge(self.at),
        }
    }

    fn text(&self) -> Option<FailureText<'_>> {
        let edge = Edge(self.row()?);
        if edge.led() {
            return None;
        }
        let known = self.merge.as_ref().and_then(|(_, present)| present.text.as_ref());
        let known = known.map(|(kind, detail)| FailureText { kind, detail: detail.as_deref() });
        known.or_else(|| self.failed.text(edge))
    }

    fn advance(&mut self) -> Result<(), LakeError> {
        self.at += 1;
        self.step_merge()?;
        self.find()
    }
}

/// Edges in memory. The texts of failures are looked up after all their steps are counted.
struct SortedEdges {
    sorted: Sorted,
    at: usize,
}

impl EdgeSource for SortedEdges {
    fn row(&self) -> Option<&[u64]> {
        self.sorted.edge(self.at)
    }

    fn text(&self) -> Option<FailureText<'_>> {
        None
    }

    fn advance(&mut self) -> Result<(), LakeError> {
        self.at += 1;
        Ok(())
    }
}
