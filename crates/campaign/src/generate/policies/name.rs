//! The names of policies, and what is particular about each.

use std::fmt;

/// What is particular about a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Property {
    /// It looks for a low cost, and so has an [objective](crate::generate::RunPlan::objective).
    Searches,
    /// It looks at earlier episodes of the same benchmark, which so are played one after another.
    LooksBack,
    /// It also knows the episodes of runs that were finished when its run began.
    KnowsEarlierRuns,
    /// It proposes whole vectors: all choices of an environment whose states are given by choices,
    /// or else all actions of an episode.
    Proposes,
    /// It goes through what there is in an order of its own: it draws nothing, and may come to an
    /// end.
    IsSystematic,
    /// It makes choices alone, so it is for environments whose states are given by choices.
    NeedsChoices,
    /// It has a [patience](crate::generate::RunPlan::patience).
    HasPatience,
    /// It knows a [coreset](crate::generate::RunPlan::coreset).
    HasCoreset,
}

/// A policy of the list.
#[derive(Clone, Copy)]
pub struct PolicyName {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) properties: &'static [Property],
}

impl PolicyName {
    /// Returns the name of the policy in the lake.
    pub fn as_str(self) -> &'static str {
        self.name
    }

    /// Says what the policy does, in a line of the help.
    pub fn summary(self) -> &'static str {
        self.summary
    }

    /// Returns whether the policy is particular in this.
    pub fn has(self, property: Property) -> bool {
        self.properties.contains(&property)
    }
}

impl PartialEq for PolicyName {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PolicyName {}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
