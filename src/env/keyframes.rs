//! Keyframes: the states of an episode that are kept whole.
//!
//! The first state of an episode is one, and so is each that an action led to which cannot be
//! counted on to lead there again, and every K-th change of state after the last one. Any other
//! state is fewer than K actions away from one, all of them dependable. What is a keyframe depends
//! on the path of its own episode alone: not on what other episodes did, nor on when.

use std::num::NonZeroU32;

use crate::model::ActionFlags;

/// Counts the changes of state along an episode since its last keyframe; begin each episode with a
/// new one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyframeCount {
    changes: u32,
}

impl KeyframeCount {
    /// Goes on where somebody else had counted so many changes.
    pub(super) fn since(changes: u32) -> Self {
        Self { changes }
    }

    /// The changes since the last keyframe.
    pub(super) fn changes(self) -> u32 {
        self.changes
    }

    /// Takes a step by an action with these `flags` into account: whether the state that it led to
    /// is a keyframe, where `every` so many changes make one.
    pub fn step(&mut self, every: NonZeroU32, changed: bool, flags: ActionFlags) -> bool {
        if !changed {
            return false;
        }
        self.changes += 1;
        let is_keyframe = self.changes >= every.get() || !flags.is_dependable();
        if is_keyframe {
            self.changes = 0;
        }
        is_keyframe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SURE: ActionFlags = ActionFlags::UNREMARKABLE;
    const UNSURE: ActionFlags = ActionFlags { replayable: false, ..SURE };

    fn keyframes(every: u32, steps: &[(bool, ActionFlags)]) -> Vec<bool> {
        let (mut count, every) = (KeyframeCount::default(), NonZeroU32::new(every).unwrap());
        steps.iter().map(|&(changed, flags)| count.step(every, changed, flags)).collect()
    }

    #[test]
    fn every_kth_change_is_one_and_what_changes_nothing_does_not_count() {
        let steps = [true, false, true, true, false, false, true].map(|changed| (changed, SURE));
        assert_eq!(keyframes(2, &steps), [false, false, true, false, false, false, true]);
        assert_eq!(keyframes(1, &steps), [true, false, true, true, false, false, true]);
    }

    #[test]
    fn an_action_that_cannot_be_counted_on_makes_one_and_the_count_begins_anew() {
        let steps = [(true, SURE), (true, UNSURE), (true, SURE), (false, UNSURE), (true, SURE)];
        assert_eq!(keyframes(3, &steps), [false, true, false, false, false]);
        assert_eq!(keyframes(2, &steps), [false, true, false, false, true]);
    }
}
