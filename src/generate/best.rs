//! The best proposals of a search.

use super::search::Proposal;

/// How many are kept of each program.
const KEPT: usize = 8;

/// What a search has found: the part of a proposal that led to a low cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The cost of the state.
    pub cost: f64,
    /// The actions that led there, or all choices.
    pub proposal: Box<[i32]>,
}

/// The best of a program, those with the lowest costs first; of equal costs one.
#[derive(Debug, Default)]
pub struct Best(Vec<Found>);

impl Best {
    /// Notes what a proposal brought.
    pub(super) fn note(&mut self, proposal: &Proposal, cost: f64) {
        let place = self.0.partition_point(|known| known.cost < cost);
        let is_known = self.0.get(place).is_some_and(|known| known.cost <= cost);
        if is_known || place >= KEPT || !cost.is_finite() {
            return;
        }
        self.0.insert(place, Found { cost, proposal: proposal.clone() });
        self.0.truncate(KEPT);
    }

    /// Returns them.
    pub fn found(&self) -> &[Found] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_costs_stay() {
        let mut best = Best::default();
        for cost in [9, 3, 7, 3, 12, 11, 10, 8, 6, 5, 4, 20] {
            best.note(&vec![cost; 2].into(), f64::from(cost));
        }
        best.note(&Proposal::default(), f64::INFINITY);
        let costs: Vec<i32> = best.found().iter().map(|found| found.proposal[0]).collect();
        assert_eq!(costs, [3, 4, 5, 6, 7, 8, 9, 10]);
    }
}
