//! The actions of `loops-v0`: each names a loop by its number, its place in the text from 0.
//!
//! An action is a change of the tree. If it cannot be made, or the changed tree breaks a
//! [rule](super::rules), the state stays as it is.

use super::dag::NodeId;
use super::rules::check;
use super::schedule::{BodyItem, LOOPS_MAX, Loop, LoopKind, Schedule, nest};
use super::state::LoopsState;

/// The factors by which loops are split.
pub const FACTORS: [u64; 12] = [2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256, 1024];

/// The number of inputs that actions can pack.
pub const PACKED_MAX: usize = 4;

/// A change of a schedule. Loops are named by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScheduleAction {
    /// Puts a loop around a loop, so that the inner one has as many iterations as the factor says.
    Split(usize, u64),
    /// Makes one loop of a loop and the only item in it, a loop over the same dimension.
    Merge(usize),
    /// Exchanges a loop with the only item in it, a loop over another dimension.
    Swap(usize),
    /// Makes one loop of a loop and the next one beside it over the same dimension in the same
    /// steps.
    Fuse(usize),
    /// Makes two loops of one: the first has the first item of the body, the second the others.
    Unfuse(usize),
    /// Says how the iterations of a loop are run, or no longer.
    Run(usize, LoopKind),
    /// Accumulates the reductions over the loop's dimension in tiles, or no longer.
    Cache(usize),
    /// Stores the outputs in the loop's body past the caches, or no longer.
    Stream(usize),
    /// Copies the input with this number into an array of its own first, or no longer.
    Pack(usize),
}

impl ScheduleAction {
    /// All actions, in the order of the action space.
    pub fn all() -> Vec<Self> {
        let loops = || 0..LOOPS_MAX;
        let mut all = Vec::new();
        all.extend(loops().flat_map(|k| FACTORS.map(|factor| Self::Split(k, factor))));
        let plain = [Self::Merge, Self::Swap, Self::Fuse, Self::Unfuse];
        all.extend(plain.into_iter().flat_map(|action| loops().map(action)));
        let runs = LoopKind::MARKED.into_iter();
        all.extend(runs.flat_map(|run| loops().map(move |k| Self::Run(k, run))));
        all.extend(loops().map(Self::Cache));
        all.extend(loops().map(Self::Stream));
        all.extend((0..PACKED_MAX).map(Self::Pack));
        all
    }

    /// The name: `split[3,8]`, `swap[2]`.
    pub fn name(self) -> String {
        match self {
            Self::Split(k, factor) => format!("split[{k},{factor}]"),
            Self::Merge(k) => format!("merge[{k}]"),
            Self::Swap(k) => format!("swap[{k}]"),
            Self::Fuse(k) => format!("fuse[{k}]"),
            Self::Unfuse(k) => format!("unfuse[{k}]"),
            Self::Run(k, run) => format!("{}[{k}]", run.word().unwrap_or("serial")),
            Self::Cache(k) => format!("cache[{k}]"),
            Self::Stream(k) => format!("stream[{k}]"),
            Self::Pack(input) => format!("pack[{input}]"),
        }
    }

    /// Returns the action with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|action| action.name() == name)
    }

    /// Returns the state after the action; none if nothing changes.
    pub fn apply(self, state: &LoopsState) -> Option<LoopsState> {
        self.candidates(state).into_iter().find_map(|mut schedule| {
            schedule.drop_idle_marks(&state.dag);
            let is_new = schedule != state.schedule && check(&schedule, &state.dag).is_ok();
            is_new.then(|| LoopsState { schedule, ..state.clone() })
        })
    }

    /// The schedules that the action may lead to, the best one first; they may break rules.
    fn candidates(self, state: &LoopsState) -> Vec<Schedule> {
        let changed = |change: &dyn Fn(&mut Vec<BodyItem>, usize) -> Option<()>, k: usize| {
            let mut schedule = state.schedule.clone();
            let mut left = k;
            change_at(&mut schedule.0, &mut left, change).flatten().map(|()| schedule)
        };
        let one = match self {
            Self::Split(k, factor) => changed(&|items, at| split(state, items, at, k, factor), k),
            Self::Merge(k) => changed(&|items, at| merge(items, at), k),
            Self::Swap(k) => changed(&|items, at| swap(items, at), k),
            Self::Unfuse(k) => changed(&unfuse, k),
            Self::Run(k, run) => changed(
                &|items, at| {
                    let found = loop_at(items, at)?;
                    found.run = if found.run == run { LoopKind::Serial } else { run };
                    Some(())
                },
                k,
            ),
            Self::Cache(k) => changed(
                &|items, at| {
                    let found = loop_at(items, at)?;
                    found.is_cached = !found.is_cached;
                    Some(())
                },
                k,
            ),
            Self::Stream(k) => changed(
                &|items, at| {
                    let found = loop_at(items, at)?;
                    found.is_streamed = !found.is_streamed;
                    Some(())
                },
                k,
            ),
            Self::Fuse(k) => {
                let here = changed(&|items, at| fuse(items, at, true), k);
                let there = changed(&|items, at| fuse(items, at, false), k);
                return here.into_iter().chain(there).collect();
            }
            Self::Pack(input) => pack(state, input),
        };
        one.into_iter().collect()
    }
}

/// Calls `change` with the body that has the loop of a number, and its place there. `left` is the
/// number of loops before it that are still to come.
fn change_at<T>(
    items: &mut Vec<BodyItem>,
    left: &mut usize,
    change: &dyn Fn(&mut Vec<BodyItem>, usize) -> T,
) -> Option<T> {
    for at in 0..items.len() {
        let BodyItem::Loop(inner) = &mut items[at] else { continue };
        if *left == 0 {
            return Some(change(items, at));
        }
        *left -= 1;
        if let Some(done) = change_at(&mut inner.body, left, change) {
            return Some(done);
        }
    }
    None
}

fn loop_at(items: &mut [BodyItem], at: usize) -> Option<&mut Loop> {
    match items.get_mut(at) {
        Some(BodyItem::Loop(found)) => Some(found),
        _ => None,
    }
}

/// The only item of a loop's body, if it is a loop.
fn only(outer: &mut Loop) -> Option<&mut Loop> {
    if outer.body.len() == 1 { loop_at(&mut outer.body, 0) } else { None }
}

fn split(
    state: &LoopsState,
    items: &mut [BodyItem],
    at: usize,
    number: usize,
    factor: u64,
) -> Option<()> {
    let extent = state.outline().loops.get(number)?.extent();
    let outer = loop_at(items, at)?;
    if factor >= extent {
        return None;
    }
    let body = std::mem::take(&mut outer.body);
    outer.body = vec![BodyItem::Loop(Loop::new(outer.dim, outer.step, body))];
    outer.step = outer.step.checked_mul(factor)?;
    if !outer.run.is_concurrent() {
        outer.run = LoopKind::Serial;
    }
    if outer.is_streamed {
        outer.is_streamed = false;
        only(outer)?.is_streamed = true;
    }
    Some(())
}

fn merge(items: &mut [BodyItem], at: usize) -> Option<()> {
    let outer = loop_at(items, at)?;
    let dim = outer.dim;
    let inner = only(outer).filter(|inner| inner.dim == dim)?;
    let (step, body) = (inner.step, std::mem::take(&mut inner.body));
    let (is_cached, is_streamed) = (inner.is_cached, inner.is_streamed);
    outer.step = step;
    outer.body = body;
    outer.is_cached |= is_cached;
    outer.is_streamed |= is_streamed;
    if !outer.run.is_concurrent() {
        outer.run = LoopKind::Serial;
    }
    Some(())
}

fn swap(items: &mut [BodyItem], at: usize) -> Option<()> {
    let outer = loop_at(items, at)?;
    let dim = outer.dim;
    let inner = only(outer).filter(|inner| inner.dim != dim)?;
    // All but the bodies change places.
    let body = std::mem::take(&mut inner.body);
    let mut inner = inner.clone();
    let mut outer_now = outer.clone();
    std::mem::swap(&mut outer_now.is_streamed, &mut inner.is_streamed);
    outer_now.body = body;
    inner.body = vec![BodyItem::Loop(outer_now)];
    items[at] = BodyItem::Loop(inner);
    Some(())
}

/// Moves the body of the next loop that goes like this one into it, or the other way round.
fn fuse(items: &mut Vec<BodyItem>, at: usize, is_here: bool) -> Option<()> {
    let (dim, step) = loop_at(items, at).map(|first| (first.dim, first.step))?;
    let is_alike = |other: &Loop| other.dim == dim && other.step == step;
    let goes_alike = |item: &BodyItem| matches!(item, BodyItem::Loop(other) if is_alike(other));
    let next = at + 1 + items[at + 1..].iter().position(goes_alike)?;
    let (from, to) = if is_here { (next, at) } else { (at, next) };
    let moved = loop_at(items, from)?;
    let (body, run) = (std::mem::take(&mut moved.body), moved.run);
    let (is_cached, is_streamed) = (moved.is_cached, moved.is_streamed);
    let kept = loop_at(items, to)?;
    if is_here {
        kept.body.extend(body);
    } else {
        kept.body.splice(0..0, body);
        kept.run = run;
    }
    kept.is_cached |= is_cached;
    kept.is_streamed |= is_streamed;
    items.remove(from);
    Some(())
}

fn unfuse(items: &mut Vec<BodyItem>, at: usize) -> Option<()> {
    let first = loop_at(items, at)?;
    if first.body.len() < 2 {
        return None;
    }
    let rest = first.body.split_off(1);
    let second = Loop { body: rest, ..first.clone() };
    items.insert(at + 1, BodyItem::Loop(second));
    Some(())
}

fn pack(state: &LoopsState, input: usize) -> Option<Schedule> {
    let node = state.dag.inputs().nth(input)?;
    let mut schedule = state.schedule.clone();
    if schedule.has_leaf(node) {
        remove(&mut schedule.0, node);
    } else {
        let copy = nest(state.dag.node(node).dims, vec![BodyItem::Leaf(node)]);
        schedule.0.splice(0..0, copy);
    }
    Some(schedule)
}

/// Removes a leaf, and the loops that are empty then.
fn remove(items: &mut Vec<BodyItem>, node: NodeId) {
    items.retain_mut(|item| match item {
        BodyItem::Leaf(leaf) => *leaf != node,
        BodyItem::Loop(inner) => {
            remove(&mut inner.body, node);
            !inner.body.is_empty()
        }
    });
}
