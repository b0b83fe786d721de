//! The cursor of `loop_tool-v0`, the action space of `CompilerGym`'s environment of loops, and its
//! four actions.
//!
//! There are three loops, each within the other, over the only dimension. In the mode `move`, `up`
//! moves the cursor to the loop within, `down` to the loop around it, and both go round at the
//! ends. In the mode `resize`, `up` adds an iteration to its loop, and `down` takes the tail away,
//! or an iteration if there is no tail; both leave the loop without a tail. What the loops within
//! cover stays, the loop around it has as many iterations as still fit, and what remains is its
//! tail. The outermost loop has no loop to take from.
//!
//! That is what the docstring of `resize` in CompilerGym 0.2.5's
//! `loop_tool_compilation_session.py` says. The code below it leaves out the tail when it counts
//! what there is, and its assertion fails for a loop that has one.

use super::rules::check;
use super::schedule::{BodyItem, Loop, LoopKind};
use super::state::{CURSOR_LOOPS, Cursor, LoopsState, Mode};

steplake_model::named! {
    /// An action of `loop_tool-v0`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CursorAction {
        /// Changes the mode.
        ToggleMode = "toggle_mode",
        /// Moves inwards, or adds an iteration.
        Up = "up",
        /// Moves outwards, or takes the tail or an iteration away.
        Down = "down",
        /// Deals the loop's iterations to threads, or no longer. Only the outermost loop can be.
        ToggleThread = "toggle_thread",
    }

    /// Its name.
    fn name;
}

impl CursorAction {
    /// Returns the state after the action; none if nothing changes.
    pub fn apply(self, state: &LoopsState) -> Option<LoopsState> {
        let mut next = state.clone();
        let cursor = next.cursor.as_mut()?;
        let Cursor { at, mode } = *cursor;
        match (self, mode) {
            (Self::ToggleMode, Mode::Move) => cursor.mode = Mode::Resize,
            (Self::ToggleMode, Mode::Resize) => cursor.mode = Mode::Move,
            (Self::Up, Mode::Move) => cursor.at = (at + 1) % CURSOR_LOOPS,
            (Self::Down, Mode::Move) => cursor.at = (at + CURSOR_LOOPS - 1) % CURSOR_LOOPS,
            (Self::Up | Self::Down, Mode::Resize) => resize(&mut next, at, self == Self::Up)?,
            (Self::ToggleThread, _) => {
                let found = chain(&mut next.schedule.0, at)?;
                found.run = match found.run {
                    LoopKind::Parallel => LoopKind::Serial,
                    _ => LoopKind::Parallel,
                };
            }
        }
        (next != *state && check(&next.schedule, &next.dag).is_ok()).then_some(next)
    }
}

/// Adds an iteration to the loop at a depth, or takes its tail or an iteration away, at the expense
/// of the loop around it.
fn resize(state: &mut LoopsState, at: usize, is_more: bool) -> Option<()> {
    let facts = state.outline().loops;
    let (here, around) = (&facts[at], &facts[at.checked_sub(1)?]);
    // The loop around it goes as far as this one covers.
    let whole = here.range / here.step;
    let iterations = match (is_more, here.tail()) {
        (true, _) => whole + 1,
        (false, 0) => whole - 1,
        (false, _) => whole,
    };
    let covered = iterations.checked_mul(here.step)?;
    if covered < here.step || covered > around.range {
        return None;
    }
    chain(&mut state.schedule.0, at - 1)?.step = covered;
    Some(())
}

/// Returns the loop at a depth of a chain of loops.
fn chain(items: &mut [BodyItem], depth: usize) -> Option<&mut Loop> {
    let [BodyItem::Loop(outer)] = items else { return None };
    if depth == 0 { Some(outer) } else { chain(&mut outer.body, depth - 1) }
}
