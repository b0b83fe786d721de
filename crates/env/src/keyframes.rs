//! Keyframes: the states of an episode that are stored whole.
//!
//! Keyframes are the first state of an episode, every state after an action that need not lead
//! there again, and every state that is K changes past the last keyframe. Any other state is fewer
//! than K dependable actions away from a keyframe. Which states are keyframes depends on the path
//! of their own episode alone, not on other episodes or on timing.

use std::num::NonZeroU32;

use steplake_model::ActionFlags;

/// Counts the changes of state since an episode's last keyframe. Begin each episode with a new
/// count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyframeCount {
    changes: u32,
}

impl KeyframeCount {
    /// Resumes a count that already stands at `changes`.
    pub(super) fn since(changes: u32) -> Self {
        Self { changes }
    }

    /// Returns the number of changes since the last keyframe.
    pub(super) fn changes(self) -> u32 {
        self.changes
    }

    /// Counts a step by an action with these `flags`; `every` changes of state make a keyframe.
    /// Returns whether the state after the step is one.
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
