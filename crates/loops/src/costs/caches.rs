//! The model of caches: which lines a part of a schedule touches.

use super::access::ArrayAccess;
use super::{Costs, LINE_BYTES};
use crate::dag::{Dim, NodeId};
use crate::outline::{LoopNumber, NUMBER_BYTES};
use crate::schedule::BodyItem;

/// The bytes of a page. Pages lie anywhere in memory, so a line's place in its page decides which
/// part of any cache can hold it.
const PAGE_BYTES: u64 = 4096;

const PAGE_LINES: u64 = PAGE_BYTES / LINE_BYTES;

/// The lines of an array for which a set has room.
const WAYS: u64 = 8;

/// A part of the tree: all of a loop, or one leaf.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreePart {
    /// The number of loops around it.
    pub(super) depth: usize,
    /// The first and the last but one of its leaves.
    pub(super) leaves: (usize, usize),
}

/// The lines of a cache that something touches.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CacheLines {
    /// How many they are.
    pub(super) touched: u64,
    /// The lines that the cache needs to hold them.
    pub(super) room: u64,
}

impl Costs<'_> {
    pub(super) fn moved_lines(
        &self,
        items: &[BodyItem],
        cache_lines: u64,
        depth: usize,
        next: &mut (LoopNumber, usize),
    ) -> u64 {
        let mut moved = 0_u64;
        for item in items {
            let first = next.1;
            let BodyItem::Loop(inner) = item else {
                next.1 += 1;
                let leaves = (first, next.1);
                moved = moved.saturating_add(self.lines(TreePart { depth, leaves }).touched);
                continue;
            };
            let extent = self.outline.loops[next.0].extent();
            next.0 += 1;
            let body = self.moved_lines(&inner.body, cache_lines, depth + 1, next);
            let leaves = (first, next.1);
            let of_body = self.lines(TreePart { depth: depth + 1, leaves });
            moved = moved.saturating_add(if of_body.room <= cache_lines {
                self.lines(TreePart { depth, leaves }).touched
            } else {
                body.saturating_mul(extent)
            });
        }
        moved
    }

    /// The lines that a part touches.
    pub(super) fn lines(&self, part: TreePart) -> CacheLines {
        let (first, end) = part.leaves;
        // Each array counts once, by the leaves that touch most of it and need most room.
        let mut arrays: Vec<(NodeId, bool, CacheLines)> = Vec::new();
        for access in self.accesses.iter().filter(|access| (first..end).contains(&access.leaf)) {
            let lines = self.lines_of(access, part.depth);
            let key = (access.node, access.is_of_caller);
            match arrays.iter_mut().find(|(node, of_caller, _)| (*node, *of_caller) == key) {
                Some((_, _, most)) => {
                    most.touched = most.touched.max(lines.touched);
                    most.room = most.room.max(lines.room);
                }
                None => arrays.push((key.0, key.1, lines)),
            }
        }
        arrays.into_iter().fold(CacheLines::default(), |all, (_, _, lines)| CacheLines {
            touched: all.touched.saturating_add(lines.touched),
            room: all.room.saturating_add(lines.room),
        })
    }

    fn lines_of(&self, access: &ArrayAccess, depth: usize) -> CacheLines {
        let path = &self.outline.leaves[access.leaf].path;
        let within = &path[depth.max(access.shared)..];
        // How many indices of a dimension the loops within go over.
        let covered = |dim: &Dim| {
            let facts = within.iter().map(|&number| &self.outline.loops[number]);
            facts.filter(|facts| facts.dim == *dim).map(|facts| facts.range).next().unwrap_or(1)
        };
        let touched = access.axes.iter().zip(&access.extents).map(|(axis, &extent)| {
            let covered = 1 + axis.iter().map(|dim| covered(dim) - 1).sum::<u64>();
            (covered, extent)
        });
        // Rows that are touched whole lie one after another. Others begin in some places of a page.
        let (mut along, mut rows, mut is_whole) = (1_u64, 1_u64, true);
        let (mut stride, mut places) = (NUMBER_BYTES, 1_u64);
        for (covered, extent) in touched.rev() {
            if is_whole {
                along = along.saturating_mul(covered);
            } else {
                rows = rows.saturating_mul(covered);
                let apart = PAGE_BYTES / gcd(stride, PAGE_BYTES).max(LINE_BYTES);
                places = PAGE_LINES.min(places * covered.min(apart));
            }
            stride = stride.saturating_mul(extent);
            is_whole &= covered >= extent;
        }
        let of_row = along.saturating_mul(NUMBER_BYTES).div_ceil(LINE_BYTES);
        let touched = rows.saturating_mul(of_row);
        let share = touched.div_ceil(places.saturating_mul(of_row).min(PAGE_LINES));
        let is_crowded = rows > 1 && share > WAYS;
        let room = if is_crowded { share.saturating_mul(PAGE_LINES) } else { touched };
        CacheLines { touched, room }
    }
}

/// The greatest common divisor.
fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}
