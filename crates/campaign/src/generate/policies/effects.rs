//! What actions do: how often they change a state, and how much less it costs then.

use steplake_model::{ActionIndex, Dice, ValueType};

/// How many changes there were since an action was last applied: never applied, none, one, 2 to 3,
/// 4 to 7, or more.
const SINCE: usize = 6;

/// The most trials that count of what was known before a run, so that a program's own outweigh
/// them.
const TRUSTED_MAX: u32 = 64;

/// The actions on the way to the present state.
#[derive(Debug, Clone)]
pub(in crate::generate) struct History {
    changes: u32,
    /// For each action the number of changes after it was last applied.
    applied: Box<[Option<u32>]>,
}

impl History {
    /// The history of a first state.
    pub(in crate::generate) fn new(actions: u32) -> Self {
        Self { changes: 0, applied: vec![None; actions as usize].into() }
    }

    /// Goes on by an action.
    pub(super) fn advance(&mut self, action: ActionIndex, changed: bool) {
        self.changes += u32::from(changed);
        self.applied[action.place()] = Some(self.changes);
    }

    fn since(&self, action: ActionIndex) -> usize {
        match self.applied[action.place()].map(|applied| self.changes - applied) {
            None => 0,
            Some(0) => 1,
            Some(1) => 2,
            Some(2..=3) => 3,
            Some(4..=7) => 4,
            Some(_) => 5,
        }
    }
}

/// What an action did when there were so many changes since it was last applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Effect {
    tried: u32,
    changed: u32,
    /// By how much the logarithm of the cost fell, in millionths: whole numbers add up alike in
    /// whatever order.
    gained: u64,
}

impl Effect {
    /// How likely a change is. An action that was never tried is as likely to change something as
    /// not.
    pub(super) fn changes(self) -> f64 {
        (f64::from(self.changed) + 0.5) / (f64::from(self.tried) + 1.0)
    }

    /// By how much the logarithm of the cost falls on average.
    pub(super) fn gain(self) -> f64 {
        let gained = steplake_model::as_f64(i64::try_from(self.gained).unwrap_or(i64::MAX)) / 1e6;
        (gained + 0.01) / (f64::from(self.tried) + 1.0)
    }

    fn limited(self) -> Self {
        if self.tried <= TRUSTED_MAX {
            return self;
        }
        let part = |count: u64| count * u64::from(TRUSTED_MAX) / u64::from(self.tried);
        let changed = u32::try_from(part(self.changed.into())).unwrap_or(TRUSTED_MAX);
        Self { tried: TRUSTED_MAX, changed, gained: part(self.gained) }
    }
}

/// What all actions did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::generate) struct Effects(Box<[[Effect; SINCE]]>);

impl Effects {
    /// Nothing is known of so many actions.
    pub(in crate::generate) fn new(actions: u32) -> Self {
        Self(vec![[Effect::default(); SINCE]; actions as usize].into())
    }

    /// Returns what an action does after these others.
    pub(super) fn of(&self, action: ActionIndex, history: &History) -> Effect {
        self.0[action.place()][history.since(action)]
    }

    /// Learns what an action did: the costs before and after if it changed the state; none of them
    /// is told from nothing if it is below `least`.
    pub(in crate::generate) fn note(
        &mut self,
        action: ActionIndex,
        history: &mut History,
        changed: Option<[f64; 2]>,
        least: f64,
    ) {
        let effect = &mut self.0[action.place()][history.since(action)];
        effect.tried += 1;
        effect.changed += u32::from(changed.is_some());
        if let Some([before, after]) = changed
            && after < before
            && before.is_finite()
        {
            effect.gained += millionths((before.max(least) / after.max(least)).ln());
        }
        history.advance(action, changed.is_some());
    }

    /// Returns what a run begins with.
    pub(in crate::generate) fn limited(&self) -> Self {
        Self(self.0.iter().map(|effects| effects.map(Effect::limited)).collect())
    }
}

/// Draws an action by the weights of all; none if all are zero.
pub(super) fn drawn(weights: &[f64], dice: &mut Dice) -> Option<ActionIndex> {
    let total: f64 = weights.iter().sum();
    let mut left = total * f64::from(dice.below(u32::MAX)) / f64::from(u32::MAX);
    let mut last = None;
    for (place, &weight) in (0..).zip(weights) {
        if weight > 0.0 {
            last = Some(ActionIndex(place));
            if left < weight {
                break;
            }
            left -= weight;
        }
    }
    last
}

/// Returns the least cost that is told from nothing: what is counted comes in ones; times are
/// seconds, of which a clock tells nanoseconds.
pub(in crate::generate) fn least_cost(of: Option<ValueType>) -> f64 {
    if of.is_none_or(|of| of == ValueType::Int) { 1.0 } else { 1e-9 }
}

/// Converts a small number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the logarithm of a quotient of two costs is below a thousand"
)]
fn millionths(number: f64) -> u64 {
    (number.clamp(0.0, 1000.0) * 1e6) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_action_does_depends_on_the_changes_since_it_was_applied() {
        let (mut effects, mut history) = (Effects::new(3), History::new(3));
        let [one, other, third] = [0, 1, 2].map(ActionIndex);
        effects.note(one, &mut history, Some([100.0, 50.0]), 1.0);
        effects.note(one, &mut history, None, 1.0);
        effects.note(other, &mut history, Some([50.0, 60.0]), 1.0);
        effects.note(one, &mut history, Some([60.0, 55.0]), 1.0);
        let fresh = History::new(3);
        let first = effects.of(one, &fresh);
        assert_eq!((first.tried, first.changed), (1, 1));
        assert!((first.gain() - f64::midpoint(2.0_f64.ln(), 0.01)).abs() < 1e-6);
        assert!(effects.of(one, &history).changes() < 0.3, "nothing has changed since");
        let costlier = effects.of(other, &fresh);
        assert_eq!((costlier.changed, costlier.gained), (1, 0));
        assert!((effects.of(third, &fresh).changes() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_was_known_before_is_outweighed_in_time() {
        let mut effects = Effects::new(1);
        for _ in 0..1000 {
            effects.note(ActionIndex(0), &mut History::new(1), Some([2.0, 1.0]), 1.0);
        }
        let limited = effects.limited().of(ActionIndex(0), &History::new(1));
        assert_eq!((limited.tried, limited.changed), (64, 64));
        let all = effects.of(ActionIndex(0), &History::new(1));
        assert!((limited.gain() - all.gain()).abs() < 0.02);
    }
}
