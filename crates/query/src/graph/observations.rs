//! The numbers of one observation space for each node, as integers that are in the same order.

use std::sync::Arc;

use steplake_lake::graph::Node;

/// The sealed numbers, which engines share, and those that only this snapshot has.
#[derive(Debug, Clone, Default)]
pub(super) struct Observations {
    sealed: Arc<Vec<Option<i64>>>,
    /// Sorted by node.
    more: Vec<(Node, i64)>,
}

impl Observations {
    pub(super) fn new(sealed: Arc<Vec<Option<i64>>>, mut more: Vec<(Node, i64)>) -> Self {
        more.sort_unstable();
        more.dedup_by_key(|&mut (node, _)| node);
        Self { sealed, more }
    }

    pub(super) fn of(&self, node: Node) -> Option<i64> {
        self.sealed.get(node as usize).copied().flatten().or_else(|| {
            let at = self.more.binary_search_by_key(&node, |&(node, _)| node).ok()?;
            Some(self.more[at].1)
        })
    }
}

/// Returns the integer that stands for a floating-point number: a larger one for a larger number.
pub(super) fn order_of(number: f64) -> i64 {
    // The two zeros are one number.
    turned((number + 0.0).to_bits().cast_signed())
}

/// Returns the number that an integer of [`order_of`] stands for.
pub(super) fn number_of(order: i64) -> f64 {
    f64::from_bits(turned(order).cast_unsigned())
}

/// The bits of positive numbers are in the order of the numbers, and those of negative ones in the
/// opposite order: all but the sign are turned there.
fn turned(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

#[cfg(test)]
impl From<Vec<Option<i64>>> for Observations {
    fn from(values: Vec<Option<i64>>) -> Self {
        Self { sealed: Arc::new(values), more: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_stand_for_numbers_are_in_their_order() {
        let sorted = [f64::NEG_INFINITY, -2.5, -1e-300, 0.0, 5e-324, 0.1, 0.3, 2.5, f64::INFINITY];
        assert!(sorted.map(order_of).is_sorted_by(|one, other| one < other));
        let bits = |number: f64| number.to_bits();
        assert_eq!(sorted.map(order_of).map(number_of).map(bits), sorted.map(bits));
        assert_eq!(order_of(-0.0), order_of(0.0));
    }
}
