//! A state: a program and a schedule of it.

use std::sync::Arc;

use super::dag::Dag;
use super::outline::Outline;
use super::rules::check;
use super::schedule::{BodyItem, Loop, LoopKind, Schedule};

/// The number of loops that `loop_tool-v0` has over its only dimension.
pub(super) const CURSOR_LOOPS: usize = 3;

/// The cursor: a loop, and what up and down mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The number of the loop.
    pub at: usize,
    /// What up and down mean.
    pub mode: Mode,
}

steplake_model::named! {
    /// What up and down mean.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Mode {
        /// They change the number of iterations.
        Resize = "resize",
        /// They move the cursor.
        Move = "move",
    }

    /// The word in texts.
    fn word;
    fn from_word;
}

/// A state of the environment, which no compiler has to see. Its schedule follows the rules.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopsState {
    /// The program.
    pub dag: Arc<Dag>,
    /// The schedule.
    pub schedule: Schedule,
    /// The cursor, in an action space that has one.
    pub cursor: Option<Cursor>,
}

impl LoopsState {
    /// A program with its initial schedule.
    pub fn initial(dag: Dag) -> Self {
        let schedule = Schedule::initial(&dag);
        Self { dag: Arc::new(dag), schedule, cursor: None }
    }

    /// Returns the schedule laid out flat.
    pub fn outline(&self) -> Outline {
        Outline::of(&self.schedule, &self.dag).expect("a state follows the rules")
    }

    /// Returns this state for the action space without a cursor.
    #[must_use]
    pub fn without_cursor(self) -> Self {
        Self { cursor: None, ..self }
    }

    /// Returns this state for the action space with a cursor: three loops, of which the inner ones
    /// have one iteration at first.
    ///
    /// # Errors
    ///
    /// If the program has several dimensions, or its schedule is another one.
    pub fn with_cursor(mut self) -> Result<Self, String> {
        let wanted = || "loop_tool-v0 plays programs with one dimension and one nest".to_owned();
        if self.cursor.is_some() {
            return Ok(self);
        }
        let [dim] = self.dag.dims().collect::<Vec<_>>()[..] else { return Err(wanted()) };
        // Threads would all add to one sum.
        let is_summed = self.dag.nodes().iter().any(|node| node.reduced().has(dim));
        if let [BodyItem::Loop(outer)] = &mut self.schedule.0[..]
            && outer.body.iter().all(|item| matches!(item, BodyItem::Leaf(_)))
        {
            for _ in 1..CURSOR_LOOPS {
                let body = std::mem::take(&mut outer.body);
                outer.body = vec![BodyItem::Loop(Loop::new(dim, outer.step, body))];
            }
            if outer.run == LoopKind::Serial && !is_summed {
                outer.run = LoopKind::Parallel;
            }
        }
        self.cursor = Some(Cursor { at: 0, mode: Mode::Resize });
        self.check_cursor().map_err(|_other| wanted())?;
        check(&self.schedule, &self.dag)?;
        Ok(self)
    }

    /// Checks that a cursor is on one of three loops, each within the other.
    pub(super) fn check_cursor(&self) -> Result<(), String> {
        let Some(cursor) = self.cursor else { return Ok(()) };
        let outline = Outline::of(&self.schedule, &self.dag)?;
        let is_chain = outline.leaves.iter().all(|leaf| leaf.path == [0, 1, 2]);
        let is_one = self.dag.dimensions().len() == 1 && outline.loops.len() == CURSOR_LOOPS;
        if is_chain && is_one && cursor.at < CURSOR_LOOPS {
            return Ok(());
        }
        Err("a cursor is on one of three loops of one nest".to_owned())
    }
}
