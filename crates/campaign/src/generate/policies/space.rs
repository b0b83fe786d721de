//! What a search looks through.

use super::parting::real;
use steplake_model::Dice;

/// The most values of a gene among which one is drawn at random. Options of GCC go to 2³¹, and the
/// experiments of CompilerGym (its `gcc_autotuning`) cap them at this number too.
const DRAWN_MAX: u32 = 256;

/// The most values of a number to which steps come. Some options of GCC take seconds where they are
/// in the millions, and make nothing smaller.
const REACHED_MAX: u32 = 1 << 12;

/// The most genes that change at a time, as a power of two: 1, 2, 4 or 8.
const CHANGED_BITS: u32 = 4;

/// What a search proposes: a number for each gene.
pub(in crate::generate) type Proposal = Box<[i32]>;

/// One number of a proposal: of the choices that give a state, or of the actions of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::generate) struct Gene {
    least: i32,
    last: i32,
    is_number: bool,
}

impl Gene {
    /// One of `least..=last`, each of which has nothing to do with the others.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(in crate::generate) fn named(least: i32, last: i32) -> Self {
        assert!(least <= last, "a gene has a value");
        Self { least, last, is_number: false }
    }

    /// One of `least..=last`, where near ones are alike. The first one is apart: it stands for an
    /// option that is absent.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(in crate::generate) fn number(least: i32, last: i32) -> Self {
        Self { is_number: true, ..Self::named(least, last) }
    }

    fn values(self) -> u32 {
        self.last.abs_diff(self.least).saturating_add(1)
    }

    fn has(self, value: i32) -> bool {
        (self.least..=self.last).contains(&value)
    }

    /// Draws a value; of a number with many, one of the first.
    fn draw(self, dice: &mut Dice) -> i32 {
        let most = if self.is_number { DRAWN_MAX } else { u32::MAX };
        self.least.saturating_add_unsigned(dice.below(self.values().min(most)))
    }

    /// Draws a value that is another one than `value`, if there is another.
    fn other(self, value: i32, dice: &mut Dice) -> i32 {
        if self.values() == 1 {
            return value;
        }
        let drawn = match dice.below(3) {
            0 if self.is_number => self.least,
            1 if self.is_number => self.near(value, dice),
            _ => self.draw(dice),
        };
        if drawn != value {
            return drawn;
        }
        if value == self.last { self.least } else { value + 1 }
    }

    /// Goes some way up or down, a short one as likely as a long one.
    fn near(self, value: i32, dice: &mut Dice) -> i32 {
        let reached = self.values().min(REACHED_MAX);
        let way = 1_u32 << dice.below(u32::BITS - reached.leading_zeros());
        let moved = if dice.below(2) == 0 {
            value.saturating_add_unsigned(way)
        } else {
            value.saturating_sub_unsigned(way)
        };
        moved.clamp(self.least, self.least.saturating_add_unsigned(reached - 1))
    }
}

/// What a search looks through: the vectors with a value for each gene.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::generate) struct SearchSpace {
    genes: Box<[Gene]>,
    starts: Vec<Proposal>,
}

impl SearchSpace {
    /// Takes the genes, and vectors that are worth a try before all others.
    ///
    /// # Panics
    ///
    /// If there are no genes, or such a vector is none of the space.
    pub(in crate::generate) fn new(genes: Box<[Gene]>, starts: Vec<Box<[i32]>>) -> Self {
        let space = Self { genes, starts };
        assert!(!space.genes.is_empty(), "a space has genes");
        assert!(space.starts.iter().all(|start| space.has(start)), "a start is of the space");
        space
    }

    /// Returns the vectors that are worth a try before all others.
    pub(in crate::generate) fn starts(&self) -> &[Proposal] {
        &self.starts
    }

    /// Returns whether a vector is one of the space.
    pub(super) fn has(&self, proposal: &[i32]) -> bool {
        proposal.len() == self.genes.len()
            && self.genes.iter().zip(proposal).all(|(gene, &value)| gene.has(value))
    }

    /// Returns what a vector consists of, as numbers from 0 to 1 by which vectors can be compared.
    /// Of a sequence, whose genes all have the same names, the share of each; else each gene, and
    /// of a name whether it is set.
    pub(super) fn features(&self, proposal: &[i32]) -> Box<[f64]> {
        let first = self.genes[0];
        let is_sequence = self.genes.len() > 1
            && !first.is_number
            && first.values() > 2
            && self.genes.iter().all(|gene| *gene == first);
        if is_sequence {
            let mut shares = vec![0.0; first.values() as usize];
            let share = 1.0 / real(self.genes.len());
            for value in proposal {
                shares[value.abs_diff(first.least) as usize] += share;
            }
            return shares.into();
        }
        let feature = |(gene, &value): (&Gene, &i32)| {
            let above = f64::from(value.abs_diff(gene.least));
            let most = f64::from((gene.values() - 1).max(1));
            // Small numbers differ more than large ones.
            if gene.is_number { above.ln_1p() / most.ln_1p() } else { above / most }
        };
        self.genes.iter().zip(proposal).map(feature).collect()
    }

    /// Draws a vector.
    pub(in crate::generate) fn draw(&self, dice: &mut Dice) -> Proposal {
        self.genes.iter().map(|gene| gene.draw(dice)).collect()
    }

    /// Changes one gene or a few of a vector.
    pub(super) fn vary(&self, proposal: &mut [i32], dice: &mut Dice) {
        let genes = u32::try_from(self.genes.len()).unwrap_or(u32::MAX);
        for _ in 0..1 << dice.below(CHANGED_BITS) {
            let place = dice.below(genes) as usize;
            proposal[place] = self.genes[place].other(proposal[place], dice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_value_is_another_one_and_within_the_bounds() {
        let mut dice = Dice::new(3, 0);
        for gene in [
            Gene::named(-1, 0),
            Gene::named(0, 122),
            Gene::number(-1, i32::MAX - 1),
            Gene::number(i32::MIN, i32::MAX),
        ] {
            let mut value = gene.draw(&mut dice);
            for _ in 0..1000 {
                let next = gene.other(value, &mut dice);
                assert!(gene.has(next) && next != value, "{gene:?}: {value} {next}");
                value = next;
            }
        }
        assert_eq!(Gene::named(4, 4).other(4, &mut dice), 4);
    }

    #[test]
    fn all_values_of_a_name_and_the_first_of_a_number_are_drawn() {
        let mut dice = Dice::new(5, 0);
        let mut largest = |gene: Gene| (0..5000).map(|_| gene.draw(&mut dice)).max();
        assert_eq!(largest(Gene::named(0, 700)), Some(700));
        assert_eq!(largest(Gene::number(-1, 1 << 30)), Some(254));
    }

    #[test]
    fn a_variation_changes_a_few_genes() {
        let space = SearchSpace::new(vec![Gene::named(-1, 1); 500].into(), Vec::new());
        let mut dice = Dice::new(1, 0);
        let mut counts = [0; 9];
        for _ in 0..1000 {
            let mut varied = vec![-1; 500];
            space.vary(&mut varied, &mut dice);
            counts[varied.iter().filter(|&&gene| gene != -1).count()] += 1;
        }
        assert!(counts[1] > 200 && counts[4] > 150 && counts[8] > 150, "{counts:?}");
    }
}
