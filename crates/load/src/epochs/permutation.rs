//! A shuffle of all rows that needs no memory: any place of it can be computed at once.

/// How often each half is mixed into the other. Four rounds of a sound function make a permutation
/// that cannot be told from a random one (Luby and Rackoff, 1988); two more make up for a fast one.
const ROUNDS: usize = 6;

/// A permutation of the numbers below `len`, chosen by a seed and an epoch.
///
/// It is a Feistel network over the least power of two that has room for `len`. A number beyond
/// `len` is permuted again until it is below (Black and Rogaway, 2002), which takes less than two
/// turns on average. So the row at any place is known at once: an interrupted epoch goes on where
/// it was, and threads need not agree on anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    len: u32,
    /// The bits of the lower half of a number; the upper half has as many, or one less.
    low_bits: u32,
    high_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of an epoch.
    pub fn new(len: u32, seed: u64, epoch: u64) -> Self {
        let bits = u64::from(len).next_power_of_two().ilog2();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes()).update(&epoch.to_le_bytes());
        let mut bytes = [0; ROUNDS * size_of::<u64>()];
        hasher.finalize_xof().fill(&mut bytes);
        let mut keys = [0; ROUNDS];
        for (key, bytes) in keys.iter_mut().zip(bytes.as_chunks().0) {
            *key = u64::from_le_bytes(*bytes);
        }
        Self { len, low_bits: bits.div_ceil(2), high_bits: bits / 2, keys }
    }

    /// The number of rows.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The row at a place below [`len`](Self::len).
    #[inline]
    pub fn row(&self, place: u32) -> u32 {
        debug_assert!(place < self.len);
        let mut number = u64::from(place);
        loop {
            number = self.permuted(number);
            if number < u64::from(self.len) {
                return u32::try_from(number).expect("it is below a number of 32 bits");
            }
        }
    }

    fn permuted(&self, number: u64) -> u64 {
        let (low_mask, high_mask) = ((1 << self.low_bits) - 1, (1 << self.high_bits) - 1);
        let (mut low, mut high) = (number & low_mask, number >> self.low_bits);
        for keys in self.keys.as_chunks::<2>().0 {
            high ^= mixed(low ^ keys[0]) & high_mask;
            low ^= mixed(high ^ keys[1]) & low_mask;
        }
        high << self.low_bits | low
    }
}

/// Mixes all bits of a number into all others: the finaliser of `SplitMix64` (Steele et al., 2014).
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_comes_once() {
        for len in [1, 2, 3, 5, 64, 65, 1000, 4095, 4096, 4097] {
            for (seed, epoch) in [(0, 0), (0, 1), (7, 0)] {
                let permutation = Permutation::new(len, seed, epoch);
                let mut rows: Vec<u32> = (0..len).map(|place| permutation.row(place)).collect();
                rows.sort_unstable();
                assert_eq!(rows, (0..len).collect::<Vec<_>>(), "{len} {seed} {epoch}");
            }
        }
        let whole = Permutation::new(u32::MAX, 1, 1);
        assert!((0..1000).all(|place| whole.row(u32::MAX - 1 - place) < u32::MAX));
        assert!(Permutation::new(0, 1, 1).is_empty());
    }

    #[test]
    fn seeds_and_epochs_differ_and_repeat() {
        let rows = |seed, epoch| {
            let permutation = Permutation::new(1000, seed, epoch);
            (0..1000).map(|place| permutation.row(place)).collect::<Vec<_>>()
        };
        assert_eq!(rows(3, 5), rows(3, 5));
        for (seed, epoch) in [(3, 6), (4, 5), (5, 3)] {
            let same = rows(3, 5).iter().zip(rows(seed, epoch)).filter(|(a, b)| **a == *b).count();
            assert!(same < 10, "{same} of 1000 rows are at the same place");
        }
    }

    /// All orders of four rows come equally often: chi-squared with 23 degrees of freedom.
    #[test]
    fn all_orders_are_equally_likely() {
        let mut counts = std::collections::HashMap::new();
        let epochs = 24_000;
        for epoch in 0..epochs {
            let permutation = Permutation::new(4, 11, epoch);
            let order = [0, 1, 2, 3].map(|place| permutation.row(place));
            *counts.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        let squared: f64 =
            counts.values().map(|&count| (f64::from(count) - 1000.0).powi(2) / 1000.0).sum();
        // The chance that it exceeds 60 is below 1 in 20,000, and the seed is fixed.
        assert!(squared < 60.0, "{squared}");
    }
}
