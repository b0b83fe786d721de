//! Steps in their order: slices of episodes, whole episodes.

use crate::dataset::{Items, TrainingDataset};
use crate::error::LoadError;
use crate::matrices::matrix_cache::MatrixCache;

impl TrainingDataset {
    /// Makes items of several steps: slices of `length` consecutive steps of one episode, each
    /// beginning `stride` steps after the one before, or whole episodes without a length. All their
    /// steps are rows of this dataset: a slice does not reach over a row that was filtered out.
    ///
    /// # Errors
    ///
    /// [`LoadError::NoSequences`] if the rows are no steps in their order, or items already.
    pub fn sequences(
        &self,
        cache: &MatrixCache,
        length: Option<u32>,
        stride: u32,
    ) -> Result<Self, LoadError> {
        let rows = self.all_rows();
        let Some(ends) = &self.episode_ends else { return Err(LoadError::NoSequences) };
        if !rows.is_sorted() || self.items != Items::Rows {
            return Err(LoadError::NoSequences);
        }
        let ends: Vec<u32> = ends.gather_as(0..ends.rows());
        let items = length.map_or(Items::Episodes, Items::Slices);
        let firsts = || match length {
            Some(length) => slices(&rows, &ends, length, stride),
            None => episodes(&rows, &ends),
        };
        let chosen = self.choose(cache, &format!("{items:?} {stride}"), firsts)?;
        Ok(chosen.with_items(items))
    }
}

/// Gives the runs of rows that follow each other in an episode: their places and their number.
fn runs(rows: &[u32], ends: &[u32]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (place, &row) in rows.iter().enumerate() {
        match runs.last_mut() {
            Some((first, count))
                if row == rows[*first] + u32::try_from(*count).unwrap_or(u32::MAX)
                    && row < ends[rows[*first] as usize] =>
            {
                *count += 1;
            }
            _ => runs.push((place, 1)),
        }
    }
    runs
}

/// The places of the first rows of slices.
fn slices(rows: &[u32], ends: &[u32], length: u32, stride: u32) -> Vec<u32> {
    let (length, stride) = (length as usize, stride as usize);
    let firsts = runs(rows, ends).into_iter().flat_map(|(first, count)| {
        let slices = (count + 1).saturating_sub(length).div_ceil(stride);
        (0..slices).map(move |slice| first + slice * stride)
    });
    firsts.map(|place| u32::try_from(place).expect("rows are counted in 32 bits")).collect()
}

/// The places of the first rows of episodes that are whole.
fn episodes(rows: &[u32], ends: &[u32]) -> Vec<u32> {
    let is_whole = |&(first, count): &(usize, usize)| {
        let row = rows[first] as usize;
        let begins = row == 0 || ends[row - 1] as usize == row;
        begins && ends[row] as usize == row + count
    };
    let whole = runs(rows, ends).into_iter().filter(is_whole);
    whole.map(|(first, _)| u32::try_from(first).expect("rows are counted in 32 bits")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Episodes of three, one and four steps.
    const ENDS: [u32; 8] = [3, 3, 3, 4, 8, 8, 8, 8];

    #[test]
    fn slices_stay_within_episodes_and_kept_rows() {
        let all: Vec<u32> = (0..8).collect();
        assert_eq!(slices(&all, &ENDS, 2, 1), [0, 1, 4, 5, 6]);
        assert_eq!(slices(&all, &ENDS, 2, 2), [0, 4, 6]);
        assert_eq!(slices(&all, &ENDS, 1, 1), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(slices(&all, &ENDS, 4, 1), [4]);
        assert_eq!(slices(&all, &ENDS, 5, 1), [0_u32; 0]);
        // Without the rows 1 and 6; places count the rows that are left.
        let some = [0, 2, 3, 4, 5, 7];
        assert_eq!(slices(&some, &ENDS, 2, 1), [3]);
    }

    #[test]
    fn episodes_are_whole() {
        let all: Vec<u32> = (0..8).collect();
        assert_eq!(episodes(&all, &ENDS), [0, 3, 4]);
        assert_eq!(episodes(&[0, 1, 3, 4, 5, 6, 7], &ENDS), [2, 3]);
        assert_eq!(episodes(&[1, 2], &ENDS), [0_u32; 0]);
        assert_eq!(episodes(&[], &ENDS), [0_u32; 0]);
    }
}
