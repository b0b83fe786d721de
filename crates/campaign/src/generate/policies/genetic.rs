//! A genetic algorithm.

use super::name::{PolicyName, Property};
use super::policy::Listed;
use super::search::{Proposing, Search};
use super::space::{Proposal, SearchSpace};
use steplake_model::Dice;

pub(super) const LISTED: Listed = Listed {
    name: PolicyName {
        name: "genetic",
        summary: "A search: breed proposals of the best ones",
        properties: &[Property::Searches, Property::LooksBack, Property::Proposes],
    },
    make: |setting| Ok(Proposing::of(Genetic::new(setting.space(), setting.search_dice()))),
};

/// The number of vectors of a generation, and how many of the best pass on as they are: those of
/// the library `geneticalgorithm`, with whose defaults CompilerGym's experiments ran (a population
/// of 100, an elite of 0.01, parents of 0.3, uniform crossover).
const POPULATION: usize = 100;
const ELITE: usize = 1;
const PARENTS: usize = 30;

/// Breeds generations: uniform crossover of two of the best, and then a variation of a few genes.
///
/// The first generation has the space's starts. Where there are starts, half of the others are
/// variations of them, and the rest is drawn at random: a vector in which everything is set at
/// random is rarely better than what the compiler's authors chose. `geneticalgorithm` changes each
/// gene of a child with probability 0.1 instead, which would be 50 of GCC's options at a time.
#[derive(Debug)]
pub(super) struct Genetic {
    space: SearchSpace,
    dice: Dice,
    asked: Proposal,
    /// The vectors of this generation whose costs are known.
    generation: Vec<(Proposal, f64)>,
    /// The parents of this generation, the best first; none of the first generation.
    parents: Vec<(Proposal, f64)>,
}

impl Genetic {
    /// Begins a search.
    pub(super) fn new(space: SearchSpace, dice: Dice) -> Self {
        let (generation, parents) = (Vec::new(), Vec::new());
        Self { space, dice, asked: Proposal::default(), generation, parents }
    }

    /// Returns a vector of the first generation.
    fn first(&mut self) -> Proposal {
        let (place, starts) = (self.generation.len(), self.space.starts());
        if let Some(start) = starts.get(place) {
            return start.clone();
        }
        if starts.is_empty() || place % 2 == 0 {
            return self.space.draw(&mut self.dice);
        }
        let mut next = starts[place / 2 % starts.len()].clone();
        self.space.vary(&mut next, &mut self.dice);
        next
    }

    /// Returns a child of two parents.
    fn child(&mut self) -> Proposal {
        let parents = u32::try_from(self.parents.len()).expect("a generation is small");
        let [one, other] = [(); 2].map(|()| &self.parents[self.dice.below(parents) as usize].0);
        let genes = one.iter().zip(other);
        let mut child: Proposal =
            genes.map(|(&one, &other)| if self.dice.below(2) == 0 { one } else { other }).collect();
        self.space.vary(&mut child, &mut self.dice);
        child
    }
}

impl Search for Genetic {
    fn ask(&mut self) -> Proposal {
        self.asked = if self.parents.is_empty() { self.first() } else { self.child() };
        self.asked.clone()
    }

    fn tell(&mut self, cost: f64, _after: usize) {
        self.generation.push((std::mem::take(&mut self.asked), cost));
        if self.generation.len() < POPULATION {
            return;
        }
        // A stable sort: what is older stands first among equals.
        self.generation.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        self.generation.truncate(PARENTS);
        self.parents = std::mem::take(&mut self.generation);
        // The elite is not asked for again.
        self.generation.extend(self.parents.iter().take(ELITE).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::policies::Gene;

    #[test]
    fn children_have_the_genes_of_the_best() {
        let genes: Box<[Gene]> = vec![Gene::named(0, 999); 400].into();
        let mut search = Genetic::new(SearchSpace::new(genes, Vec::new()), Dice::new(2, 0));
        let mut first = Vec::new();
        for _ in 0..POPULATION {
            let proposal = search.ask();
            search.tell(proposal[0].into(), 0);
            first.push(proposal);
        }
        first.sort_by_key(|proposal| proposal[0]);
        let is_of_the_best = |place: usize, gene: i32| {
            first[..PARENTS].iter().any(|proposal| proposal[place] == gene)
        };
        // The elite is in the next generation without being asked for.
        for _ in 0..POPULATION - ELITE {
            let child = search.ask();
            let others = (0..400).filter(|&place| !is_of_the_best(place, child[place])).count();
            assert!(others <= 8, "{others} genes are of no parent");
            search.tell(1000.0, 0);
        }
        assert!(search.parents[0].0 == first[0] && search.generation.len() == ELITE);
    }

    #[test]
    fn the_first_generation_has_the_starts() {
        let genes: Box<[Gene]> = vec![Gene::named(-1, 3); 50].into();
        let starts: Vec<Proposal> = (-1..=3).map(|value| vec![value; 50].into()).collect();
        let mut search = Genetic::new(SearchSpace::new(genes, starts.clone()), Dice::new(2, 0));
        let mut first = Vec::new();
        for _ in 0..POPULATION {
            first.push(search.ask());
            search.tell(1.0, 0);
        }
        assert_eq!(first[..5], starts);
        let near = |proposal: &&Proposal| {
            starts.iter().any(|start| {
                proposal.iter().zip(start).filter(|(gene, start)| gene != start).count() <= 8
            })
        };
        assert_eq!(first[5..].iter().filter(near).count(), 48);
    }
}
