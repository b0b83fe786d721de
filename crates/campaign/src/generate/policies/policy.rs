//! The contract of policies.

use super::name::PolicyName;
use super::space::Proposal;
use crate::generate::error::GenerateError;
use crate::generate::setting::Setting;
use crate::generate::walk::Walk;
use steplake_model::{ActionIndex, Dice, StateId};

/// How the actions of a program's episodes are chosen.
///
/// Pure: no sessions, no clock. What it proposes is a function of its [`Setting`], of the walks
/// that it learned, in their order, and of the dice of the episode. So what a run leaves does not
/// depend on the number of jobs, and an interrupted run is continued by showing a new policy the
/// settled episodes: it proposes for each once more, and learns what came of it then.
pub(in crate::generate) trait Policy: Send {
    /// Returns what the next episode tries, if that is a whole vector: all choices, where states
    /// are given by choices, or else all actions, which [`Policy::propose`] returns one by one.
    fn begin(&mut self) -> Option<Proposal> {
        None
    }

    /// Returns the next actions of an episode that came so far, at most `left` of them; none to end
    /// it. They are taken in one batch, so a single one costs a call of the compiler's process.
    fn propose(&mut self, walk: &Walk, left: usize, dice: &mut Dice) -> Vec<ActionIndex>;

    /// Learns an episode that is over. It has no state if its program did not start.
    fn learn(&mut self, walk: &Walk);

    /// Returns whether the walk has to say what this state costs, which is the one after `after`
    /// actions. A policy that does not [search](super::Property::Searches) is not asked.
    fn wants_cost(&self, after: usize, state: StateId) -> bool {
        let _ = (after, state);
        true
    }
}

/// An entry of the list.
pub(super) struct Listed {
    pub(super) name: PolicyName,
    /// Begins with a program, or with an episode if the policy does not look back.
    pub(super) make: fn(&Setting<'_>) -> Result<Box<dyn Policy>, GenerateError>,
}
