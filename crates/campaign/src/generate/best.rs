//! The best proposals of a search.

/// How many are kept of each program: a compiler may have got the best ones wrong.
const KEPT: usize = 64;

/// What a search has found: the part of a proposal that led to a low cost.
#[derive(Debug, Clone, PartialEq)]
pub struct BestProposal {
    /// The cost of the state.
    pub cost: f64,
    /// The actions that led there, or all choices.
    pub proposal: Box<[i32]>,
}

/// The best of a program, those with the lowest costs first; of equal costs the earlier ones.
#[derive(Debug, Default)]
pub struct BestProposals(Vec<BestProposal>);

impl BestProposals {
    /// Notes what a proposal brought.
    pub(super) fn note(&mut self, proposal: &[i32], cost: f64) {
        let place = self.0.partition_point(|known| known.cost <= cost);
        let is_known = self.0[..place].iter().any(|known| *known.proposal == *proposal);
        if is_known || place >= KEPT || !cost.is_finite() {
            return;
        }
        self.0.insert(place, BestProposal { cost, proposal: proposal.into() });
        self.0.truncate(KEPT);
    }

    /// Returns them.
    pub fn found(&self) -> &[BestProposal] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_costs_stay() {
        let mut best = BestProposals::default();
        let costs = (0..100).map(|number| number * 37 % 100);
        for cost in costs.chain([3, 3]) {
            best.note(&[cost], f64::from(cost));
        }
        best.note(&[200], 3.0);
        best.note(&[], f64::INFINITY);
        let found: Vec<i32> = best.found().iter().map(|found| found.proposal[0]).collect();
        assert_eq!(found[..6], [0, 1, 2, 3, 200, 4]);
        assert_eq!((found.len(), found[KEPT - 1]), (KEPT, 62));
    }
}
