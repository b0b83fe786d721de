//! Searches that propose whole vectors, learn what they cost, and look for the lowest cost.
//!
//! A search is a function of its [`SearchSpace`](super::SearchSpace), its random numbers, and the
//! costs that it was told, in order.

use super::policy::Policy;
use super::space::Proposal;
use crate::generate::walk::Walk;
use steplake_model::{ActionIndex, Dice};

/// A search for the lowest cost.
pub(super) trait Search: Send + std::fmt::Debug {
    /// Returns what to try next.
    fn ask(&mut self) -> Proposal;

    /// Says what the last proposal costs; infinity if it has no cost, which is the worst. That cost
    /// was reached `after` so many of its actions; choices are made all at once.
    fn tell(&mut self, cost: f64, after: usize);
}

/// The policy of a search.
pub(super) struct Proposing<S> {
    search: S,
    asked: Proposal,
}

impl<S: Search + 'static> Proposing<S> {
    pub(super) fn of(search: S) -> Box<dyn Policy> {
        Box::new(Self { search, asked: Proposal::default() })
    }
}

impl<S: Search> Policy for Proposing<S> {
    fn begin(&mut self) -> Option<Proposal> {
        self.asked = self.search.ask();
        Some(self.asked.clone())
    }

    fn propose(&mut self, walk: &Walk, _: usize, _: &mut Dice) -> Vec<ActionIndex> {
        actions(&self.asked).nth(walk.steps.len()).into_iter().collect()
    }

    fn learn(&mut self, walk: &Walk) {
        let (cost, after) = walk.lowest();
        self.search.tell(cost, after);
    }
}

/// Returns the actions for which a proposal stands where states are not given by choices.
pub(in crate::generate) fn actions(proposal: &[i32]) -> impl Iterator<Item = ActionIndex> + Clone {
    // No action has a negative number.
    proposal.iter().filter_map(|&gene| u32::try_from(gene).ok().map(ActionIndex))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::policies::genetic::Genetic;
    use crate::generate::policies::hill_climbing::HillClimbing;
    use crate::generate::policies::lamcts::Lamcts;
    use crate::generate::policies::{Gene, SearchSpace};

    /// As many switches as numbers, and what is far from a hidden vector costs much.
    fn space() -> SearchSpace {
        let genes = (0..60).map(|place| match place % 3 {
            0 => Gene::named(-1, 1),
            1 => Gene::number(-1, 300),
            _ => Gene::named(-1, 4),
        });
        let genes: Box<[Gene]> = genes.collect();
        let starts = vec![vec![-1; genes.len()].into()];
        SearchSpace::new(genes, starts)
    }

    fn cost(proposal: &[i32]) -> f64 {
        let distance = |(place, &gene): (usize, &i32)| match place % 3 {
            0 => i32::from(gene != 1),
            1 => i32::from(!(20..60).contains(&gene)),
            _ => i32::from(gene != 2) + i32::from(gene == 0),
        };
        proposal.iter().enumerate().map(distance).sum::<i32>().into()
    }

    fn searches(seed: i64) -> [Box<dyn Search>; 3] {
        let dice = || Dice::new(seed, 0);
        [
            Box::new(HillClimbing::new(space(), dice())),
            Box::new(Genetic::new(space(), dice())),
            Box::new(Lamcts::new(space(), dice())),
        ]
    }

    /// Returns the proposals, and the lowest cost.
    fn run(search: &mut dyn Search, count: usize) -> (Vec<Proposal>, f64) {
        let mut best = f64::INFINITY;
        let mut proposals = Vec::new();
        for number in 0..count {
            let proposal = search.ask();
            assert!(space().has(&proposal), "{proposal:?} leaves the space");
            let told = if number % 10 == 3 { f64::INFINITY } else { cost(&proposal) };
            search.tell(told, 0);
            best = best.min(told);
            proposals.push(proposal);
        }
        (proposals, best)
    }

    #[test]
    fn one_seed_gives_one_search_and_others_give_others() {
        for ((mut one, mut same), mut other) in
            searches(7).into_iter().zip(searches(7)).zip(searches(8))
        {
            let (proposals, _) = run(one.as_mut(), 350);
            assert_eq!(run(same.as_mut(), 350).0, proposals);
            assert_ne!(run(other.as_mut(), 350).0, proposals);
        }
    }

    #[test]
    fn searches_that_learn_find_more_than_chance_does() {
        let [climbing, genetic, lamcts] =
            searches(1).map(|mut search| run(search.as_mut(), 1000).1);
        let mut dice = Dice::new(1, 0);
        let drawn = (0..1000).map(|_| cost(&space().draw(&mut dice)));
        let random = drawn.fold(f64::INFINITY, f64::min);
        assert!(climbing < 0.4 * random && genetic < 0.6 * random, "{random} {climbing} {genetic}");
        assert!(lamcts < 0.9 * random, "{random} {lamcts}");
    }

    #[test]
    fn a_search_without_any_cost_goes_on() {
        for mut search in searches(3) {
            for _ in 0..250 {
                search.ask();
                search.tell(f64::INFINITY, 0);
            }
        }
    }
}
