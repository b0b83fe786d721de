//! Hill climbing.

use super::name::{PolicyName, Property};
use super::policy::Listed;
use super::search::{Proposing, Search};
use super::space::{Proposal, SearchSpace};
use steplake_model::Dice;

pub(super) const LISTED: Listed = Listed {
    name: PolicyName {
        name: "hill-climbing",
        summary: "A search: go on from the best proposal so far",
        properties: &[Property::Searches, Property::LooksBack, Property::Proposes],
    },
    make: |setting| Ok(Proposing::of(HillClimbing::new(setting.space(), setting.search_dice()))),
};

/// Tries the space's starts, or one vector at random if there are none, and then goes on from the
/// best vector so far with one gene or a few changed.
///
/// What costs as much as the best takes its place. Most changes of a program's flags leave the
/// output as it is, and a climb that stayed where it was would know its neighbours alone.
#[derive(Debug)]
pub(super) struct HillClimbing {
    space: SearchSpace,
    dice: Dice,
    /// The number of starts that were proposed.
    started: usize,
    asked: Proposal,
    best: Option<(Proposal, f64)>,
}

impl HillClimbing {
    /// Begins a search.
    pub(super) fn new(space: SearchSpace, dice: Dice) -> Self {
        Self { space, dice, started: 0, asked: Proposal::default(), best: None }
    }
}

impl Search for HillClimbing {
    fn ask(&mut self) -> Proposal {
        self.asked = match (self.space.starts().get(self.started), &self.best) {
            (Some(start), _) => {
                self.started += 1;
                start.clone()
            }
            (None, Some((best, _))) => {
                let mut next = best.clone();
                self.space.vary(&mut next, &mut self.dice);
                next
            }
            (None, None) => self.space.draw(&mut self.dice),
        };
        self.asked.clone()
    }

    fn tell(&mut self, cost: f64, _after: usize) {
        if self.best.as_ref().is_none_or(|(_, best)| cost <= *best) {
            self.best = Some((std::mem::take(&mut self.asked), cost));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::policies::Gene;

    #[test]
    fn it_stays_at_the_best_and_walks_among_equals() {
        let genes: Box<[Gene]> = vec![Gene::named(0, 9); 40].into();
        let starts: Vec<Proposal> = [3, 1, 2].map(|value| vec![value; 40].into()).into();
        let mut search =
            HillClimbing::new(SearchSpace::new(genes, starts.clone()), Dice::new(0, 0));
        for start in &starts {
            assert_eq!(search.ask(), *start);
            search.tell(start[0].into(), 0);
        }
        let changes =
            |from: &[i32], to: &[i32]| from.iter().zip(to).filter(|(from, to)| from != to).count();
        let worse = search.ask();
        assert!((1..=8).contains(&changes(&starts[1], &worse)));
        search.tell(1.5, 0);
        let equal = search.ask();
        assert!((1..=8).contains(&changes(&starts[1], &equal)));
        search.tell(1.0, 0);
        assert!((1..=8).contains(&changes(&equal, &search.ask())));
    }
}
