//! Random numbers.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The random numbers of an episode. `ChaCha` gives the same stream on every machine and in every
/// version.
#[derive(Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Dice whose numbers follow from a seed and the number of what they are for.
    pub fn new(seed: i64, ordinal: u32) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("steplake 2026 seed of an episode");
        hasher.update(&seed.to_le_bytes()).update(&ordinal.to_le_bytes());
        Self(ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()))
    }

    /// Returns any number.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`, by multiplication: probabilities differ by less than `bound
    /// / 2^64`.
    pub fn below(&mut self, bound: u32) -> u32 {
        let scaled = (u128::from(self.draw()) * u128::from(bound)) >> 64;
        u32::try_from(scaled).expect("it is below a u32")
    }
}
