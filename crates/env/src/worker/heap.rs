//! Heaps whose blocks lie in no particular order.

use steplake_model::Dice;

/// The blocks that [`heap_holes`] allocates. Half of them become holes: about 5 MB.
const BLOCKS: u32 = 20_000;

/// Leaves holes of up to 1 KiB in this process's heap, in an order that follows from the seed. What
/// is allocated next lies in them, so addresses say nothing about what came first. The returned
/// blocks keep the holes apart.
pub fn heap_holes(seed: u64) -> Vec<Vec<u8>> {
    let mut dice = Dice::new(seed.cast_signed(), 0);
    let mut size = || 16 + dice.below(1024) as usize;
    let mut blocks: Vec<Vec<u8>> = (0..BLOCKS).map(|_| vec![0; size()]).collect();
    for index in 0..BLOCKS {
        let other = index + dice.below(BLOCKS - index);
        blocks.swap(index as usize, other as usize);
    }
    blocks.split_off(blocks.len() / 2)
}
