//! What is known before a search begins: few sequences of actions that make many programs small.
//!
//! A coreset that covers the training programs greedily, and a prediction of what its sequences
//! save, are ideas of Liang et al. 2023 (arXiv 2301.05104). They predict with a graph neural
//! network; here, programs that are alike vote, and each sequence that was tried says which
//! programs are alike. So the prediction needs no library, and learns as the search goes on.

use std::collections::BTreeMap;

use serde::Deserialize;

use steplake_model::{ActionIndex, ActionSpace};

/// The coreset that is part of the program; `benches/optimize/train.py` makes it.
const SHIPPED: &str = include_str!("../../../../data/coreset/llvm22-v0.json");

/// Sequences that imitate the compiler's own pipeline for speed, made by hand of what `opt` prints
/// of it. Actions cannot follow the call graph as that pipeline does, which simplifies each
/// function before it inlines it.
const FOR_SPEED: &str = include_str!("../../../../data/coreset/llvm22-v0-speed.json");

/// How many of the sequences that make programs small are joined to those for speed: the first
/// cover most. The first few of them are tried by themselves.
const SMALL_MAX: usize = 8;
const SMALL_TRIED: usize = 2;

/// How far apart two programs are that are still alike, in the distance of [`ProgramFeatures`].
const ALIKE: f64 = 0.1;

/// How far a saving that was seen may be from the saving on a program that is alike.
const AGREEING: f64 = 0.05;

/// The weight of a program that saves nothing, which stands for all that is not known.
const DOUBT: f64 = 1e-3;

/// Sequences of actions, and what they save on known programs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Coreset {
    /// The actions that are trusted: those of which compilers make their own pipelines. Others
    /// miscompile now and then, and not every program can be run to find out.
    actions: Vec<ActionIndex>,
    sequences: Vec<Box<[ActionIndex]>>,
    programs: Vec<KnownProgram>,
    /// The places of the sequences that are tried before all others, in order.
    first: Vec<usize>,
}

/// What is known of a program.
#[derive(Debug, Clone, PartialEq)]
struct KnownProgram {
    features: ProgramFeatures,
    /// What each sequence saves: the logarithm of what the compiler's own pipeline leaves, over
    /// what the sequence does at its best. None if it was not tried.
    savings: Box<[Option<f64>]>,
}

/// The file of a coreset.
#[derive(Debug, Deserialize)]
struct CoresetFile {
    actions: Vec<String>,
    sequences: Vec<Vec<String>>,
    programs: Vec<ProgramOfFile>,
}

/// The file of sequences for speed: each is the names of parts, which have the actions.
#[derive(Debug, Deserialize)]
struct SpeedFile {
    parts: BTreeMap<String, Vec<String>>,
    sequences: Vec<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct ProgramOfFile {
    features: Vec<f64>,
    savings: Vec<f64>,
}

/// What a program looks like: the square roots of the shares of its counts, whose distance does
/// not depend on a program's size (Hellinger), and a coarse measure of the size.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramFeatures(Box<[f64]>);

impl ProgramFeatures {
    /// Takes the counts of a program, such as those of `Autophase`.
    pub fn of(counts: &[f64]) -> Self {
        let total = counts.iter().map(|count| count.max(0.0)).sum::<f64>().max(1.0);
        let shares = counts.iter().map(|count| (count.max(0.0) / total).sqrt());
        Self(shares.chain([total.ln() / 30.0]).collect())
    }

    /// Returns the square of the distance to other features.
    fn distance_squared(&self, other: &Self) -> f64 {
        self.0.iter().zip(&other.0).map(|(one, other)| (one - other).powi(2)).sum()
    }
}

impl Coreset {
    /// The observation space of what programs look like.
    pub const FEATURES: &str = "Autophase";

    /// Returns the coreset of this program for an action space. It is empty if the space lacks
    /// actions of the coreset's space.
    ///
    /// # Panics
    ///
    /// If the file is damaged, which a test excludes.
    pub fn shipped(space: &ActionSpace) -> Self {
        let file: CoresetFile = serde_json::from_str(SHIPPED).expect("a test reads it");
        let place = |name: &String| space.index_of(name);
        let sequence = |names: &Vec<String>| names.iter().map(place).collect::<Option<Box<_>>>();
        let sequences = file.sequences.iter().map(sequence).collect::<Option<Vec<_>>>();
        let actions = file.actions.iter().map(place).collect::<Option<Vec<_>>>();
        let (Some(sequences), Some(actions)) = (sequences, actions) else {
            return Self::default();
        };
        let programs = file.programs.iter().map(|program| KnownProgram {
            features: ProgramFeatures::of(&program.features),
            savings: program.savings.iter().copied().map(Some).collect(),
        });
        Self { actions, sequences, programs: programs.collect(), first: Vec::new() }
    }

    /// Returns the sequences that may make programs of an action space fast, none of which knows
    /// what it saves. Those that are `known` from elsewhere are tried first, then those that
    /// imitate the compiler's own pipeline, and a few that make programs small. It is empty where
    /// [`Coreset::shipped`] is.
    ///
    /// # Panics
    ///
    /// If the file is damaged, which a test excludes.
    pub fn for_speed(space: &ActionSpace, known: &[Vec<ActionIndex>]) -> Self {
        let small = Self::shipped(space);
        let mut coreset = Self { actions: small.actions, ..Self::default() };
        if coreset.actions.is_empty() {
            return coreset;
        }
        let file: SpeedFile = serde_json::from_str(FOR_SPEED).expect("a test reads it");
        let actions = |name: &String| -> Vec<ActionIndex> {
            file.parts[name].iter().filter_map(|action| space.index_of(action)).collect()
        };
        for sequence in known {
            coreset.add_unknown(sequence, true);
        }
        for parts in &file.sequences {
            coreset.add_unknown(&parts.iter().flat_map(actions).collect::<Vec<_>>(), true);
        }
        for name in file.parts.keys() {
            coreset.add_unknown(&actions(name), false);
        }
        for (sequence, place) in small.sequences.iter().take(SMALL_MAX).zip(0..) {
            coreset.add_unknown(sequence, place < SMALL_TRIED);
        }
        coreset
    }

    /// Returns a name for what is known.
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for sequence in std::iter::once(&*self.actions).chain(self.sequences.iter().map(|s| &**s)) {
            hasher.update(&sequence.len().to_le_bytes());
            for action in sequence {
                hasher.update(&action.0.to_le_bytes());
            }
        }
        // Most know of one, or none.
        let none = [usize::MAX];
        for first in if self.first.is_empty() { &none[..] } else { &self.first } {
            hasher.update(&first.to_le_bytes());
        }
        for program in &self.programs {
            let savings = program.savings.iter().map(|saving| saving.unwrap_or(f64::NAN));
            for number in program.features.0.iter().copied().chain(savings) {
                hasher.update(&number.to_le_bytes());
            }
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }

    /// Returns whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Adds the trusted actions of a sequence of which it is known what it saves on one program.
    /// `comes_first` says that it is tried before all others, of several such the one that was
    /// added first. A sequence without any trusted action is left out.
    pub fn add(
        &mut self,
        features: ProgramFeatures,
        sequence: &[ActionIndex],
        saving: f64,
        comes_first: bool,
    ) {
        let Some(place) = self.push(sequence, comes_first) else { return };
        for program in &mut self.programs {
            program.savings = program.savings.iter().copied().chain([None]).collect();
        }
        let savings = vec![None; place].into_iter().chain([Some(saving)]);
        self.programs.push(KnownProgram { features, savings: savings.collect() });
    }

    /// Adds the trusted actions of a sequence of which it is not known what it saves. Unless it
    /// `comes_first`, it is only joined to others. A sequence without any trusted action is left
    /// out.
    pub fn add_unknown(&mut self, sequence: &[ActionIndex], comes_first: bool) {
        if self.push(sequence, comes_first).is_some() {
            for program in &mut self.programs {
                program.savings = program.savings.iter().copied().chain([None]).collect();
            }
        }
    }

    /// Appends the trusted actions of a sequence and returns its place, if there are any.
    fn push(&mut self, sequence: &[ActionIndex], comes_first: bool) -> Option<usize> {
        let trusted = sequence.iter().copied().filter(|action| self.actions.contains(action));
        let sequence: Box<[ActionIndex]> = trusted.collect();
        if sequence.is_empty() {
            return None;
        }
        let place = self.sequences.len();
        self.first.extend(comes_first.then_some(place));
        self.sequences.push(sequence);
        Some(place)
    }

    /// Returns the places of the sequences that are tried before all others, in order.
    pub(super) fn first(&self) -> &[usize] {
        &self.first
    }

    /// Returns the actions of which variations are made.
    pub(super) fn actions(&self) -> &[ActionIndex] {
        &self.actions
    }

    /// Returns the sequences.
    pub(super) fn sequences(&self) -> &[Box<[ActionIndex]>] {
        &self.sequences
    }
}

/// What is believed of a program: how much it is like each known one.
#[derive(Debug)]
pub(super) struct Beliefs {
    /// The logarithms of the weights.
    weights: Vec<f64>,
}

impl Beliefs {
    /// Believes what the features say.
    pub(super) fn new(coreset: &Coreset, features: Option<&ProgramFeatures>) -> Self {
        let weight = |program: &KnownProgram| {
            let distance = features.map_or(0.0, |own| own.distance_squared(&program.features));
            -distance / (2.0 * ALIKE * ALIKE)
        };
        Self { weights: coreset.programs.iter().map(weight).collect() }
    }

    /// Learns what a sequence saves.
    pub(super) fn learn(&mut self, coreset: &Coreset, sequence: usize, saving: f64) {
        for (weight, program) in self.weights.iter_mut().zip(&coreset.programs) {
            // What was not tried there says nothing.
            let Some(known) = program.savings[sequence] else { continue };
            // One that differs widely may still be alike in other respects.
            let difference = (saving - known).clamp(-4.0 * AGREEING, 4.0 * AGREEING);
            *weight -= difference.powi(2) / (2.0 * AGREEING * AGREEING);
        }
    }

    /// Returns how much each sequence is expected to save beyond `so_far`.
    pub(super) fn expected(&self, coreset: &Coreset, so_far: f64) -> Vec<f64> {
        let most = self.weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = self.weights.iter().map(|weight| (weight - most).exp()).collect();
        let expected = |sequence: usize| {
            let (mut sum, mut total) = (0.0, DOUBT);
            for (weight, program) in weights.iter().zip(&coreset.programs) {
                if let Some(saving) = program.savings[sequence] {
                    sum += weight * (saving - so_far).max(0.0);
                    total += weight;
                }
            }
            sum / total
        };
        (0..coreset.sequences.len()).map(expected).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use steplake_env::Environment;
    use steplake_llvm::LlvmEnvironment;

    /// A coreset of sequences of so many actions, with what they save on programs that look like
    /// these counts.
    pub(in crate::generate) fn coreset(
        actions: u32,
        sequences: &[&[u32]],
        programs: &[(&[f64], &[f64])],
    ) -> Coreset {
        let action = |&action: &u32| ActionIndex(action);
        let programs = programs.iter().map(|(counts, savings)| KnownProgram {
            features: ProgramFeatures::of(counts),
            savings: savings.iter().copied().map(Some).collect(),
        });
        Coreset {
            actions: (0..actions).map(ActionIndex).collect(),
            sequences: sequences.iter().map(|one| one.iter().map(action).collect()).collect(),
            programs: programs.collect(),
            first: Vec::new(),
        }
    }

    #[test]
    fn the_shipped_coreset_is_whole() {
        let spec = LlvmEnvironment::new().spec().clone();
        let coreset = Coreset::shipped(&spec.action_spaces[0]);
        assert!(coreset.sequences.len() >= 20 && coreset.programs.len() >= 50);
        let trusted = |sequence: &[ActionIndex]| {
            !sequence.is_empty() && sequence.iter().all(|action| coreset.actions.contains(action))
        };
        assert!(coreset.sequences.iter().all(|sequence| trusted(sequence)));
        let len = coreset.programs[0].features.0.len();
        for program in &coreset.programs {
            assert_eq!(program.savings.len(), coreset.sequences.len());
            assert_eq!(program.features.0.len(), len);
        }
    }

    #[test]
    fn the_sequences_for_speed_are_whole() {
        let spec = LlvmEnvironment::new().spec().clone();
        let space = &spec.action_spaces[0];
        let (file, small): (SpeedFile, _) =
            (serde_json::from_str(FOR_SPEED).unwrap(), Coreset::shipped(space));
        let is_trusted = |name: &String| {
            space.index_of(name).is_some_and(|action| small.actions.contains(&action))
        };
        for (part, names) in &file.parts {
            let unknown: Vec<_> = names.iter().filter(|&name| !is_trusted(name)).collect();
            assert!(unknown.is_empty() && !names.is_empty(), "{part}: {unknown:?}");
        }
        let coreset = Coreset::for_speed(space, &[]);
        let sequences = file.sequences.len();
        assert_eq!(coreset.first()[..sequences], (0..sequences).collect::<Vec<_>>());
        assert!(coreset.first().len() > sequences && coreset.programs.is_empty());
        assert!(coreset.sequences.iter().all(|sequence| sequence.len() <= 256));
        let other = spec.action_space("compilergym-v0").unwrap();
        assert!(Coreset::for_speed(other, &[]).is_empty());
    }

    #[test]
    fn programs_that_look_alike_say_what_to_try() {
        let programs: [(&[f64], &[f64]); 2] =
            [(&[9.0, 1.0], &[0.3, 0.0]), (&[1.0, 9.0], &[0.0, 0.2])];
        let coreset = coreset(3, &[&[0], &[1]], &programs);
        let expected = |counts: &[f64], so_far| {
            Beliefs::new(&coreset, Some(&ProgramFeatures::of(counts))).expected(&coreset, so_far)
        };
        let like_the_first = expected(&[18.0, 2.0], 0.0);
        assert!(like_the_first[0] > 0.29 && like_the_first[1] < 0.01, "{like_the_first:?}");
        let like_the_second = expected(&[10.0, 90.0], 0.0);
        assert!(like_the_second[0] < 0.01 && like_the_second[1] > 0.19, "{like_the_second:?}");
        assert!(expected(&[18.0, 2.0], 0.25)[0] < 0.06, "beyond what was saved");
    }

    #[test]
    fn what_was_seen_outweighs_looks() {
        let programs: [(&[f64], &[f64]); 2] =
            [(&[9.0, 1.0], &[0.3, 0.0, 0.4]), (&[8.0, 2.0], &[0.0, 0.5, 0.0])];
        let coreset = coreset(3, &[&[0], &[1], &[2]], &programs);
        let mut beliefs = Beliefs::new(&coreset, Some(&ProgramFeatures::of(&[9.0, 1.0])));
        assert!(beliefs.expected(&coreset, 0.0)[0] > beliefs.expected(&coreset, 0.0)[1]);
        beliefs.learn(&coreset, 0, 0.0);
        let expected = beliefs.expected(&coreset, 0.0);
        assert!(expected[1] > 0.4 && expected[2] < 0.1, "{expected:?}");
    }

    #[test]
    fn a_sequence_of_a_lake_is_known_on_its_own_program_alone() {
        let mut coreset = coreset(2, &[&[0]], &[(&[9.0, 1.0], &[0.1])]);
        let digest = coreset.digest();
        // Action 7 is not trusted.
        coreset.add(ProgramFeatures::of(&[1.0, 9.0]), &[1, 7, 0].map(ActionIndex), 0.4, false);
        assert_ne!(coreset.digest(), digest);
        assert_eq!(coreset.sequences[1][..], [1, 0].map(ActionIndex));
        let known: Vec<_> =
            coreset.programs.iter().map(|program| program.savings.to_vec()).collect();
        assert_eq!(known, [vec![Some(0.1), None], vec![None, Some(0.4)]]);
        let beliefs = Beliefs::new(&coreset, Some(&ProgramFeatures::of(&[1.0, 9.0])));
        assert!(beliefs.expected(&coreset, 0.0)[1] > 0.39);
    }
}
