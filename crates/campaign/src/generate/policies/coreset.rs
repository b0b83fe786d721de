//! A search that begins with what is known of other programs.

use std::cmp::Ordering;
use std::sync::Arc;

use super::name::{PolicyName, Property};
use super::policy::Listed;
use super::search::{Proposing, Search};
use super::space::Proposal;
use crate::generate::coreset::{Beliefs, Coreset, ProgramFeatures};
use crate::generate::costs::number;
use crate::generate::error::GenerateError;
use crate::generate::setting::Setting;
use steplake_env::SessionError;
use steplake_model::{ActionIndex, Dice, Value};

pub(super) const LISTED: Listed = Listed {
    name: PolicyName {
        name: "coreset",
        summary: "A search: sequences that made other programs small, then variations of the best",
        properties: &[
            Property::Searches,
            Property::LooksBack,
            Property::HasCoreset,
            Property::Proposes,
        ],
    },
    make: |setting| {
        let coreset = Arc::clone(&setting.plan.coreset);
        let subject = match SearchedProgram::of(setting) {
            // The episode records how the start failed.
            Err(GenerateError::Session(SessionError::StartFailed { .. })) => {
                SearchedProgram { features: None, reference: 1.0, least: 1.0, length_max: 0 }
            }
            subject => subject?,
        };
        Ok(Proposing::of(CoresetSearch::new(coreset, subject, setting.search_dice())))
    },
};

/// A sequence is worth a try as long as it is expected to save this much more, as a logarithm:
/// 0.05%.
const WORTH_A_TRY: f64 = 5e-4;

/// The program of a search.
#[derive(Debug)]
struct SearchedProgram {
    /// What it looks like, if that can be observed.
    features: Option<ProgramFeatures>,
    /// What the compiler's own pipeline leaves of it, or else what it costs untouched.
    reference: f64,
    /// The least cost that is told from nothing.
    least: f64,
    /// The most actions of a sequence.
    length_max: usize,
}

impl SearchedProgram {
    /// Looks at a program before its search begins.
    fn of(setting: &Setting<'_>) -> Result<Self, GenerateError> {
        let (mut session, spec, plan) = ((setting.open)()?, setting.spec(), setting.plan);
        let baseline = spec.usual_baseline(&plan.objective);
        let baseline = baseline.and_then(|name| spec.observation_index(name));
        let baseline = baseline.map(|space| number(session.as_mut(), space)).transpose()?.flatten();
        let reference = match plan.reference.or(baseline) {
            Some(reference) => reference,
            None => setting.cost(session.as_mut())?,
        };
        let counts = spec.observation_index(Coreset::FEATURES);
        let features = match counts.map(|space| session.observe(space)) {
            Some(Ok(Value::IntVector(counts))) => {
                let counts: Vec<f64> = counts.iter().map(|&count| f64::from(count)).collect();
                Some(ProgramFeatures::of(&counts))
            }
            Some(Err(SessionError::Unobservable(_)) | Ok(_)) | None => None,
            Some(Err(error)) => return Err(error.into()),
        };
        let length_max = plan.episode_length as usize;
        Ok(Self { features, reference, least: setting.least_cost(), length_max })
    }
}

/// First tries sequences of a coreset, always the one that is expected to save most beyond the best
/// so far. Once none is expected to save anything, it goes on from the best sequence: it lengthens
/// it by another one, joins two, or changes a few actions.
#[derive(Debug)]
struct CoresetSearch {
    coreset: Arc<Coreset>,
    subject: SearchedProgram,
    beliefs: Beliefs,
    dice: Dice,
    /// Which sequences of the coreset were tried.
    tried: Vec<bool>,
    /// What was asked last, and which sequence of the coreset that is.
    asked: (Proposal, Option<usize>),
    /// The best actions so far, and what they cost.
    best: (Proposal, f64),
    /// The sequences that were tried, the best part of each.
    found: Vec<Proposal>,
}

impl CoresetSearch {
    /// Begins a search.
    fn new(coreset: Arc<Coreset>, subject: SearchedProgram, dice: Dice) -> Self {
        Self {
            beliefs: Beliefs::new(&coreset, subject.features.as_ref()),
            tried: vec![false; coreset.sequences().len()],
            coreset,
            subject,
            dice,
            asked: (Proposal::default(), None),
            best: (Proposal::default(), f64::INFINITY),
            found: Vec::new(),
        }
    }

    /// Returns what a cost saves, as the coreset counts it.
    fn saving(&self, cost: f64) -> f64 {
        let SearchedProgram { reference, least, .. } = self.subject;
        (reference.max(least) / cost.max(least)).ln()
    }

    /// Returns the sequence of the coreset that comes first, or is expected to save most.
    fn most_promising(&self) -> Option<usize> {
        if let Some(&first) = self.coreset.first().iter().find(|&&first| !self.tried[first]) {
            return Some(first);
        }
        let so_far = if self.best.1.is_finite() { self.saving(self.best.1) } else { -1.0 };
        let expected = self.beliefs.expected(&self.coreset, so_far).into_iter().enumerate();
        let new = expected.filter(|&(at, saving)| !self.tried[at] && saving > WORTH_A_TRY);
        // Of equal ones the first, which covers most.
        new.rev().max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(at, _)| at)
    }

    /// Returns a sequence of the coreset.
    fn known(&self, at: usize) -> Proposal {
        let genes = self.coreset.sequences()[at].iter().copied().map(gene);
        genes.take(self.subject.length_max).collect()
    }

    fn draw(&mut self, bound: usize) -> usize {
        self.dice.below(u32::try_from(bound).unwrap_or(u32::MAX)) as usize
    }

    fn any_action(&mut self) -> i32 {
        let place = self.draw(self.coreset.actions().len());
        gene(self.coreset.actions()[place])
    }

    /// Returns any other sequence that is worth something: one of the coreset, or one that was
    /// found.
    fn other(&mut self) -> Proposal {
        let known = self.coreset.sequences().len();
        let at = self.draw(known + self.found.len());
        match at.checked_sub(known) {
            Some(at) => self.found[at].clone(),
            None => self.known(at),
        }
    }

    /// Returns a variation of the best sequence.
    fn varied(&mut self) -> Proposal {
        let best = self.best.0.to_vec();
        let mut next = match self.draw(8) {
            // The best state is the beginning of another sequence, if there is room for it.
            0..=3 if best.len() < self.subject.length_max => [&*best, &*self.other()].concat(),
            4 => {
                let other = self.other();
                let (head, tail) = (self.draw(best.len() + 1), self.draw(other.len() + 1));
                [&best[..head], &other[tail..]].concat()
            }
            _ => {
                let mut next = best;
                for _ in 0..1 << self.draw(4) {
                    let place = self.draw(next.len() + 1);
                    match self.draw(3) {
                        0 if place < next.len() => {
                            next.remove(place);
                        }
                        1 if place < next.len() => next[place] = self.any_action(),
                        _ => next.insert(place, self.any_action()),
                    }
                }
                next
            }
        };
        next.truncate(self.subject.length_max);
        next.into()
    }
}

/// Returns an action as a number of a proposal.
fn gene(action: ActionIndex) -> i32 {
    i32::try_from(action.0).unwrap_or(i32::MAX)
}

impl Search for CoresetSearch {
    fn ask(&mut self) -> Proposal {
        self.asked = match self.most_promising() {
            Some(at) => (self.known(at), Some(at)),
            None => (self.varied(), None),
        };
        self.asked.0.clone()
    }

    fn tell(&mut self, cost: f64, after: usize) {
        let (asked, sequence) = std::mem::take(&mut self.asked);
        if let Some(at) = sequence {
            self.tried[at] = true;
            let saving = if cost.is_finite() { self.saving(cost) } else { -1.0 };
            self.beliefs.learn(&self.coreset, at, saving);
        }
        let reached: Proposal = asked[..after.min(asked.len())].into();
        let is_better = match cost.total_cmp(&self.best.1) {
            Ordering::Less => true,
            Ordering::Equal => reached.len() < self.best.0.len(),
            Ordering::Greater => false,
        };
        if is_better {
            self.best = (reached.clone(), cost);
        }
        if cost.is_finite() && !reached.is_empty() {
            self.found.push(reached);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::coreset::tests::coreset;

    const ACTIONS: u32 = 12;

    fn search(seed: i64) -> CoresetSearch {
        let programs: [(&[f64], &[f64]); 2] =
            [(&[9.0, 1.0], &[0.1, 0.3, 0.0]), (&[1.0, 9.0], &[0.5, 0.0, 0.0])];
        let known = coreset(ACTIONS, &[&[1, 2], &[3, 4, 5], &[6]], &programs);
        let features = Some(ProgramFeatures::of(&[9.0, 1.0]));
        let subject = SearchedProgram { features, reference: 100.0, least: 1.0, length_max: 20 };
        CoresetSearch::new(Arc::new(known), subject, Dice::new(seed, 0))
    }

    /// What costs least is a sequence with 3, 4, 5, 7, 8 and 9 in this order.
    fn reached(proposal: &[i32]) -> (f64, usize) {
        let (mut cost, mut after) = (100.0, 0);
        let mut wanted = [3, 4, 5, 7, 8, 9].iter().peekable();
        for (action, place) in proposal.iter().zip(1..) {
            if wanted.next_if_eq(&action).is_some() {
                (cost, after) = (cost - 10.0, place);
            }
        }
        (cost, after)
    }

    /// Returns the proposals, and the lowest cost.
    fn run(search: &mut CoresetSearch, count: usize) -> (Vec<Proposal>, f64) {
        let (mut proposals, mut lowest) = (Vec::new(), f64::INFINITY);
        for _ in 0..count {
            let proposal = search.ask();
            let (cost, after) = reached(&proposal);
            search.tell(cost, after);
            lowest = lowest.min(cost);
            proposals.push(proposal);
        }
        (proposals, lowest)
    }

    #[test]
    fn it_begins_with_what_programs_like_this_one_gained_from() {
        let (proposals, _) = run(&mut search(0), 2);
        assert_eq!(*proposals[0], [3, 4, 5]);
        assert_ne!(*proposals[1], [6], "nothing gained from that");
    }

    #[test]
    fn what_is_known_of_the_program_itself_comes_first() {
        let mut search = search(0);
        let known = Arc::get_mut(&mut search.coreset).unwrap();
        known.add(ProgramFeatures::of(&[1.0, 1.0]), &[7, 8].map(ActionIndex), -0.1, true);
        search.tried.push(false);
        assert_eq!(*run(&mut search, 1).0[0], [7, 8]);
        assert_eq!(*run(&mut search, 1).0[0], [3, 4, 5]);
    }

    #[test]
    fn it_goes_on_from_the_best() {
        let mut search = search(1);
        let (proposals, lowest) = run(&mut search, 400);
        assert!(lowest <= 50.0, "{lowest}");
        assert!(proposals.iter().all(|proposal| proposal.len() <= 20));
        let (actions, cost) = search.best;
        assert_eq!((cost, actions.len()), reached(&actions), "it ends where the cost is reached");
    }

    #[test]
    fn one_seed_gives_one_search() {
        assert_eq!(run(&mut search(3), 60).0, run(&mut search(3), 60).0);
        assert_ne!(run(&mut search(3), 60).0, run(&mut search(4), 60).0);
    }

    #[test]
    fn a_program_on_which_everything_fails_does_not_end_it() {
        let mut search = search(0);
        for _ in 0..30 {
            search.ask();
            search.tell(f64::INFINITY, 0);
        }
    }
}
