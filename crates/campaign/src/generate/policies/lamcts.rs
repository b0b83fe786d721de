//! Latent action Monte Carlo tree search: Wang, Fonseca and Tian 2020, arXiv 2007.00708.

use super::name::{PolicyName, Property};
use super::parting::{LinearFunction, part, real};
use super::policy::Listed;
use super::search::{Proposing, Search};
use super::space::{Proposal, SearchSpace};
use steplake_model::Dice;

pub(super) const LISTED: Listed = Listed {
    name: PolicyName {
        name: "lamcts",
        summary: "A search: split the space by what was good, and draw where it promises most",
        properties: &[Property::Searches, Property::LooksBack, Property::Proposes],
    },
    make: |setting| Ok(Proposing::of(Lamcts::new(setting.space(), setting.search_dice()))),
};

/// The number of vectors that are drawn before the space is split, and the most that a part holds
/// unsplit; the paper has 40 and 20 in most of its experiments.
const DRAWN_FIRST: usize = 40;
const LEAF_MAX: usize = 20;

/// How much a part is worth that was seldom looked at, in standard deviations of all values.
const EXPLORATION: f64 = 0.5;

/// The most vectors that are drawn for one of the chosen part.
const TRIES: usize = 100;

/// How deep parts are split.
const DEPTH_MAX: usize = 12;

/// Splits what was tried into a good and a bad part by clusters of vectors and values, finds the
/// line that parts the two, and splits the parts again. The next vector is drawn in the part that
/// promises most: the best mean value, and more for parts with few vectors (UCB). It is the better
/// one of two vectors of the part with one gene or a few changed, or for every fourth a new one, on
/// the right side of all lines on the way to the part.
///
/// The paper draws with a Bayesian optimiser in the part, and its lines come from a support vector
/// machine with a kernel. The tree is built anew when a tenth more was tried, not after each.
#[derive(Debug)]
pub(super) struct Lamcts {
    space: SearchSpace,
    dice: Dice,
    asked: Proposal,
    tried: Vec<TriedVector>,
    root: Region,
    /// How many were tried when the tree was built.
    built_of: usize,
}

#[derive(Debug)]
struct TriedVector {
    proposal: Proposal,
    features: Box<[f64]>,
    cost: f64,
}

/// A part of the space: the numbers of the vectors tried in it, and its two parts.
#[derive(Debug, Default)]
struct Region {
    members: Vec<usize>,
    mean: f64,
    split: Option<(LinearFunction, Box<[Region; 2]>)>,
}

impl Lamcts {
    /// Begins a search.
    pub(super) fn new(space: SearchSpace, dice: Dice) -> Self {
        let (asked, tried) = (Proposal::default(), Vec::new());
        Self { space, dice, asked, tried, root: Region::default(), built_of: 0 }
    }

    /// Returns a vector of the part that promises most.
    fn draw_in_best(&mut self) -> Proposal {
        let (members, lines) = best_part(&self.root);
        let is_inside = |proposal: &Proposal| {
            let features = self.space.features(proposal);
            lines.iter().all(|&(line, side)| line.is_good(&features) == side)
        };
        let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let mut next = Proposal::default();
        for _ in 0..TRIES {
            next = if self.dice.below(4) == 0 {
                self.space.draw(&mut self.dice)
            } else {
                let two = [(); 2].map(|()| members[self.dice.below(count) as usize]);
                let [one, other] = two.map(|member| &self.tried[member]);
                let mut next = if one.cost <= other.cost { one } else { other }.proposal.clone();
                self.space.vary(&mut next, &mut self.dice);
                next
            };
            if is_inside(&next) {
                break;
            }
        }
        next
    }

    /// Builds the tree of everything that was tried.
    fn build(&mut self) {
        self.built_of = self.tried.len();
        let values = values(&self.tried);
        let members = (0..self.tried.len()).collect();
        self.root = self.split(members, &values, 0);
    }

    fn split(&mut self, members: Vec<usize>, values: &[f64], depth: usize) -> Region {
        let mut whole = Region { mean: mean(&members, values), members, split: None };
        if whole.members.len() <= LEAF_MAX || depth == DEPTH_MAX {
            return whole;
        }
        let features = whole.members.iter().map(|&member| &*self.tried[member].features);
        let features: Vec<&[f64]> = features.collect();
        let own: Vec<f64> = whole.members.iter().map(|&member| values[member]).collect();
        let Some(line) = part(&features, &own, &mut self.dice) else { return whole };
        let is_good = |&member: &usize| line.is_good(&self.tried[member].features);
        let (good, bad): (Vec<_>, Vec<_>) = whole.members.iter().copied().partition(is_good);
        if good.is_empty() || bad.is_empty() {
            return whole;
        }
        let parts = [good, bad].map(|members| self.split(members, values, depth + 1));
        whole.split = Some((line, Box::new(parts)));
        whole
    }
}

impl Search for Lamcts {
    fn ask(&mut self) -> Proposal {
        let starts = self.space.starts().len();
        self.asked = if let Some(start) = self.space.starts().get(self.tried.len()) {
            start.clone()
        } else if self.tried.len() < starts + DRAWN_FIRST {
            self.space.draw(&mut self.dice)
        } else {
            if self.tried.len() > self.built_of + self.built_of / 10 {
                self.build();
            }
            self.draw_in_best()
        };
        self.asked.clone()
    }

    fn tell(&mut self, cost: f64, _after: usize) {
        let proposal = std::mem::take(&mut self.asked);
        let features = self.space.features(&proposal);
        self.tried.push(TriedVector { proposal, features, cost });
    }
}

/// Returns the vectors of the part that promises most, and the lines on the way to it with their
/// sides.
fn best_part(root: &Region) -> (&[usize], Vec<(&LinearFunction, bool)>) {
    let (mut part, mut lines) = (root, Vec::new());
    while let Some((line, parts)) = &part.split {
        let all = real(part.members.len());
        let promise = |part: &Region| {
            let members = real(part.members.len());
            part.mean + EXPLORATION * (2.0 * all.ln() / members).sqrt()
        };
        let is_good = promise(&parts[0]) >= promise(&parts[1]);
        lines.push((line, is_good));
        part = &parts[usize::from(!is_good)];
    }
    (&part.members, lines)
}

/// Returns what each trial is worth: the lower its cost, the more, in standard deviations. What has
/// no cost is worth as little as the worst.
fn values(tried: &[TriedVector]) -> Vec<f64> {
    let costs = || tried.iter().map(|tried| tried.cost).filter(|cost| cost.is_finite());
    let worst = costs().fold(f64::NEG_INFINITY, f64::max);
    if worst == f64::NEG_INFINITY {
        return vec![0.0; tried.len()];
    }
    let all: Vec<f64> = tried.iter().map(|tried| -tried.cost.min(worst)).collect();
    let count = real(all.len());
    let mean = all.iter().sum::<f64>() / count;
    let variance = all.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
    all.into_iter().map(|value| (value - mean) / deviation).collect()
}

fn mean(members: &[usize], values: &[f64]) -> f64 {
    let sum = members.iter().map(|&member| values[member]).sum::<f64>();
    sum / real(members.len().max(1))
}
