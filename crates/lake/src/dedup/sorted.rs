//! The edges of a partition, each once and in order.

use std::sync::Arc;

use super::plan::Plan;
use super::scatter::Partition;
use crate::kernel::progress::Thread;
use crate::kernel::{Lake, LakeError};
use crate::layers::{Edge, EdgeSource, FailureText, Merge, Scratch, WordRange, absorb};

/// Bits of a row's number in a partition.
const NUMBER_BITS: u32 = 24;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

/// Rows in memory, and the order of those that represent an edge.
pub(super) struct Sorted {
    pub(super) rows: Vec<u64>,
    pub(super) order: Vec<u64>,
    stride: usize,
    /// First bits that all rows share, useless for sorting.
    bits: u32,
}

impl Sorted {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { rows: Vec::new(), order: Vec::new(), stride: plan.stride, bits: plan.bits }
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.order.clear();
    }

    /// The number of edges.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Adds an edge that comes after all others.
    pub(super) fn push(&mut self, row: &[u64]) {
        self.order.push((self.rows.len() / self.stride) as u64);
        self.rows.extend_from_slice(row);
    }

    pub(super) fn last(&self) -> Option<&[u64]> {
        self.edge(self.len().checked_sub(1)?)
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = &[u64]> {
        (0..self.len()).filter_map(|at| self.edge(at))
    }

    pub(super) fn edge(&self, at: usize) -> Option<&[u64]> {
        let start = place(*self.order.get(at)?) * self.stride;
        Some(&self.rows[start..start + self.stride])
    }

    /// Sorts the rows and counts equal ones together. Sorts single words: the first bits of the
    /// state that the partition's rows do not all share, and the row's number. Compares rows only
    /// if those bits are equal.
    pub(super) fn sort(&mut self) {
        let Self { rows, order, stride, bits } = self;
        let stride = *stride;
        let numbered = rows.chunks_exact(stride).zip(0_u64..);
        order.clear();
        order.extend(numbered.map(|(row, number)| {
            debug_assert!(number <= NUMBER, "a partition is sorted in pieces that are numbered");
            ((row[0] << *bits) & !NUMBER) | number
        }));
        order.sort_unstable();
        let row = |at: u64| Edge(&rows[place(at) * stride..][..stride]);
        for equal in order.chunk_by_mut(|one, other| one & !NUMBER == other & !NUMBER) {
            if equal.len() > 1 {
                equal.sort_unstable_by(|&one, &other| row(one).order(row(other)));
            }
        }
        let mut kept = 0;
        for at in 0..order.len() {
            let next = place(order[at]) * stride;
            if kept > 0 {
                let last = place(order[kept - 1]) * stride;
                let [last, next] = rows
                    .get_disjoint_mut([last..last + stride, next..next + stride])
                    .expect("these are two rows");
                if Edge(last).is_same(Edge(next)) {
                    absorb(last, next);
                    continue;
                }
            }
            order[kept] = order[at];
            kept += 1;
        }
        order.truncate(kept);
    }
}

fn place(at: u64) -> usize {
    usize::try_from(at & NUMBER).expect("24 bits")
}

/// Sorts a partition of any size: in memory, or in pieces. Returns the merge of the pieces in the
/// latter case; otherwise the rows are in `sorted`.
pub(super) fn sort_partition(
    lake: &Lake,
    partition: Partition,
    plan: &Plan,
    sorted: &mut Sorted,
    thread: &Thread<'_>,
) -> Result<Option<Merge<'static>>, LakeError> {
    let stride = plan.stride;
    let words_max = plan.sort_rows_max * stride;
    let mut pieces = Pieces { scratch: None, runs: Vec::new(), row: Vec::new() };
    sorted.clear();
    for rows in partition.rows {
        thread.demand_go_on()?;
        for rows in rows.chunks(stride) {
            if sorted.rows.len() == words_max {
                pieces.write(lake, sorted, thread)?;
            }
            sorted.rows.extend_from_slice(rows);
        }
    }
    for (scratch, stretch) in partition.written {
        let (mut start, mut left) = (stretch.start, stretch.words);
        while left > 0 {
            thread.demand_go_on()?;
            if sorted.rows.len() == words_max {
                pieces.write(lake, sorted, thread)?;
            }
            let words = left.min(words_max - sorted.rows.len());
            scratch.read(WordRange { start, words }, &mut sorted.rows)?;
            start += words as u64;
            left -= words;
        }
    }
    if pieces.runs.is_empty() {
        sorted.sort();
        return Ok(None);
    }
    pieces.write(lake, sorted, thread)?;
    let scratch = Arc::new(pieces.scratch.expect("the pieces lie in it"));
    let buffer_rows = (plan.sort_rows_max / pieces.runs.len()).max(1);
    let run = |stretch: WordRange| {
        let run = EdgeRun::open(Arc::clone(&scratch), stretch, stride, buffer_rows)?;
        Ok(Box::new(run) as Box<dyn EdgeSource>)
    };
    let runs = pieces.runs.into_iter().map(run).collect::<Result<Vec<_>, LakeError>>()?;
    // The buffers of the pieces need the memory of the rows.
    sorted.rows = Vec::new();
    sorted.order = Vec::new();
    Ok(Some(Merge::new(runs)))
}

/// Sorted pieces of a partition that is too large to sort at once.
struct Pieces {
    scratch: Option<Scratch>,
    runs: Vec<WordRange>,
    row: Vec<u64>,
}

impl Pieces {
    /// Words that are collected for one write.
    const WRITE_WORDS: usize = 1 << 13;

    /// Sorts the rows in memory and writes them out.
    fn write(
        &mut self,
        lake: &Lake,
        sorted: &mut Sorted,
        thread: &Thread<'_>,
    ) -> Result<(), LakeError> {
        thread.ask()?;
        sorted.sort();
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            none => none.insert(Scratch::create(lake)?),
        };
        let mut run: Option<WordRange> = None;
        self.row.clear();
        for at in 0..sorted.order.len() {
            self.row.extend_from_slice(sorted.edge(at).expect("it is in the order"));
            if self.row.len() >= Self::WRITE_WORDS || at + 1 == sorted.order.len() {
                thread.demand_go_on()?;
                let written = scratch.append(&self.row)?;
                run = Some(run.map_or(written, |run| WordRange {
                    start: run.start,
                    words: run.words + written.words,
                }));
                self.row.clear();
            }
        }
        self.runs.extend(run);
        sorted.clear();
        Ok(())
    }
}

/// A sorted piece, read in small parts.
struct EdgeRun {
    scratch: Arc<Scratch>,
    left: WordRange,
    rows: Vec<u64>,
    at: usize,
    stride: usize,
    buffer_rows: usize,
}

impl EdgeRun {
    fn open(
        scratch: Arc<Scratch>,
        stretch: WordRange,
        stride: usize,
        buffer_rows: usize,
    ) -> Result<Self, LakeError> {
        let mut run = Self { scratch, left: stretch, rows: Vec::new(), at: 0, stride, buffer_rows };
        run.fill()?;
        Ok(run)
    }

    fn fill(&mut self) -> Result<(), LakeError> {
        let words = self.left.words.min(self.buffer_rows * self.stride);
        self.rows.clear();
        self.at = 0;
        self.scratch.read(WordRange { start: self.left.start, words }, &mut self.rows)?;
        self.left.start += words as u64;
        self.left.words -= words;
        Ok(())
    }
}

impl EdgeSource for EdgeRun {
    fn row(&self) -> Option<&[u64]> {
        self.rows.get(self.at..self.at + self.stride)
    }

    /// Returns nothing: a failure's text is looked up after all its steps are counted.
    fn text(&self) -> Option<FailureText<'_>> {
        None
    }

    fn advance(&mut self) -> Result<(), LakeError> {
        self.at += self.stride;
        if self.at >= self.rows.len() {
            self.fill()?;
        }
        Ok(())
    }
}
