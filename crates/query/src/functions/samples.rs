//! The functions of samples: medians and speed-ups, with intervals that assume no distribution.
//!
//! Samples of run times are skewed, have outliers, and are few. So the statistics here are those of
//! ranks; none depends on the order of the samples or on random numbers.
//!
//! - `sample_median(samples)`: the middle sample, or the mean of the two in the middle.
//! - `median_interval(samples, confidence)`: the interval between two order statistics that
//!   contains the median of the distribution with at least this probability (the inverted sign
//!   test: J.-Y. Le Boudec, *Performance Evaluation of Computer and Communication Systems*,
//!   theorem 2.1).
//! - `speedup(before, after)`: the median of all ratios of a sample before to a sample after; of
//!   two in the middle, the geometric mean: the estimator of Hodges and Lehmann, for logarithms of
//!   samples (M. Hollander and D. A. Wolfe, *Nonparametric Statistical Methods*, section 4.2). So
//!   `speedup(b, a)` is `1 / speedup(a, b)`.
//! - `speedup_interval(before, after, confidence)`: the interval between two of these ratios (the
//!   inverted rank-sum test of Mann and Whitney, after Moses: the same, section 4.3). It contains
//!   the estimate.
//!
//! An interval is null if there are too few samples for its confidence: fewer than six for a median
//! at 0.95, fewer than four before and after for a speed-up.

#![expect(clippy::cast_precision_loss, reason = "numbers of samples stay below 2^53")]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Float64Builder, ListArray, ListBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::{Result, plan_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::ColumnarValue;

use super::arguments::wrong_type;

/// The most pairs of samples for which the distribution of ranks is computed exactly. Above that it
/// is so close to a normal one that no bound of an interval moves by more than a rank or two,
/// unless there are very few samples of one kind.
const EXACT_PAIRS_MAX: usize = 10_000;

/// The logarithm of the most ways to order the samples of both kinds for which that is done: they
/// are counted in integers of 127 bits, with some to spare.
const EXACT_WAYS_LN_MAX: f64 = 120.0 * std::f64::consts::LN_2;

/// Computes a call of one of the functions.
pub(super) type SampleFn = fn(&[ColumnarValue], &MemoryReservation) -> Result<ColumnarValue>;

/// The type of an interval: a list of its lower and its upper end.
pub(super) fn interval_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)))
}

/// Returns how many times as fast something has become, by samples of its times before and after:
/// what the function `speedup` gives. None if there are no samples, or one is not above 0.
pub fn speedup(before: &[f64], after: &[f64]) -> Option<f64> {
    ratios_of(&sound(before)?, &sound(after)?).map(|ratios| middle_ratio(&ratios))
}

/// Returns the interval that contains the speed-up with this confidence, such as 0.95: what the
/// function `speedup_interval` gives. None also if there are too few samples.
pub fn speedup_interval(before: &[f64], after: &[f64], confidence: f64) -> Option<[f64; 2]> {
    let ratios = ratios_of(&sound(before)?, &sound(after)?)?;
    ends(&ratios, ratio_rank(before.len(), after.len(), confidence)?)
}

/// `sample_median(samples)`.
pub(super) fn medians(args: &[ColumnarValue], memory: &MemoryReservation) -> Result<ColumnarValue> {
    let rows = SampleArguments::of(args, 1, memory)?;
    let median = |row| rows.samples(0, row).map(|samples| middle(&samples));
    let medians = (0..rows.len()).map(median).collect::<Float64Array>();
    Ok(ColumnarValue::Array(Arc::new(medians)))
}

/// `median_interval(samples, confidence)`.
pub(super) fn median_intervals(
    args: &[ColumnarValue],
    memory: &MemoryReservation,
) -> Result<ColumnarValue> {
    let rows = SampleArguments::of(args, 1, memory)?;
    rows.intervals(|row| {
        let Some(samples) = rows.samples(0, row) else { return Ok(None) };
        let rank = rank(sign_test(samples.len()), rows.confidence(row)?);
        Ok(rank.and_then(|rank| ends(&samples, rank)))
    })
}

/// `speedup(before, after)`.
pub(super) fn speedups(
    args: &[ColumnarValue],
    memory: &MemoryReservation,
) -> Result<ColumnarValue> {
    let rows = SampleArguments::of(args, 2, memory)?;
    let speedup = |row| Ok(rows.ratios(row, memory)?.map(|ratios| middle_ratio(&ratios)));
    let speedups = (0..rows.len()).map(speedup).collect::<Result<Float64Array>>()?;
    Ok(ColumnarValue::Array(Arc::new(speedups)))
}

/// `speedup_interval(before, after, confidence)`.
pub(super) fn speedup_intervals(
    args: &[ColumnarValue],
    memory: &MemoryReservation,
) -> Result<ColumnarValue> {
    let rows = SampleArguments::of(args, 2, memory)?;
    rows.intervals(|row| {
        let confidence = rows.confidence(row)?;
        let Some(ratios) = rows.ratios(row, memory)? else { return Ok(None) };
        let counts = [0, 1].map(|list| rows.lists[list].value_length(row));
        let [before, after] = counts.map(|count| usize::try_from(count).unwrap_or(0));
        let rank = ratio_rank(before, after, confidence);
        Ok(rank.and_then(|rank| ends(&ratios, rank)))
    })
}

/// The arguments of a call: one or two lists of samples, and then maybe a confidence.
struct SampleArguments {
    lists: Vec<ListArray>,
    confidence: Option<Float64Array>,
}

impl SampleArguments {
    fn of(args: &[ColumnarValue], lists: usize, memory: &MemoryReservation) -> Result<Self> {
        let arrays = ColumnarValue::values_to_arrays(args)?;
        let numbers = |column: &ArrayRef| match column.data_type() {
            kind if kind.is_numeric() || kind.is_null() => {
                Ok(cast(column, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            other => Err(wrong_type("a confidence between 0 and 1", other)),
        };
        let list = |column| sample_lists(column, memory);
        let confidence = arrays.get(lists).map(numbers).transpose()?;
        Ok(Self { lists: arrays[..lists].iter().map(list).collect::<Result<_>>()?, confidence })
    }

    fn len(&self) -> usize {
        self.lists[0].len()
    }

    /// The samples of a list in ascending order; none if there are none, or if one is null or not
    /// finite.
    fn samples(&self, list: usize, row: usize) -> Option<Vec<f64>> {
        let lists = &self.lists[list];
        let values = lists.is_valid(row).then(|| lists.value(row))?;
        let values = values.as_primitive::<Float64Type>();
        if values.null_count() == 0 { sound(values.values()) } else { None }
    }

    /// The ratios of each sample before to each after, in ascending order; none if some sample is
    /// not above 0, or some ratio beyond all floats.
    fn ratios(&self, row: usize, memory: &MemoryReservation) -> Result<Option<Vec<f64>>> {
        let (Some(before), Some(after)) = (self.samples(0, row), self.samples(1, row)) else {
            return Ok(None);
        };
        let bytes = before.len().saturating_mul(after.len()).saturating_mul(size_of::<f64>());
        memory.try_grow(bytes)?;
        let ratios = ratios_of(&before, &after);
        memory.shrink(bytes);
        Ok(ratios)
    }

    fn confidence(&self, row: usize) -> Result<f64> {
        let confidence = self.confidence.as_ref().filter(|column| column.is_valid(row));
        let confidence = confidence.map_or(f64::NAN, |column| column.value(row));
        if confidence > 0.0 && confidence < 1.0 {
            return Ok(confidence);
        }
        plan_err!("a confidence is a number between 0 and 1, such as 0.95, not {confidence}")
    }

    fn intervals(
        &self,
        interval: impl Fn(usize) -> Result<Option<[f64; 2]>>,
    ) -> Result<ColumnarValue> {
        let mut lists = ListBuilder::new(Float64Builder::new());
        for row in 0..self.len() {
            match interval(row)? {
                Some(ends) => lists.append_value(ends.map(Some)),
                None => lists.append_null(),
            }
        }
        Ok(ColumnarValue::Array(Arc::new(lists.finish())))
    }
}

/// Reads a column as lists of samples.
fn sample_lists(column: &ArrayRef, memory: &MemoryReservation) -> Result<ListArray> {
    let is_list = match column.data_type() {
        DataType::Null => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_numeric() || item.data_type().is_null()
        }
        _ => false,
    };
    if !is_list {
        return Err(wrong_type("a list of samples", column.data_type()));
    }
    // Items of one byte become items of eight.
    memory.try_grow(column.to_data().get_slice_memory_size()?.saturating_mul(8))?;
    Ok(cast(column, &interval_type())?.as_list().clone())
}

/// Samples in ascending order; none if there are none, or if one is not finite.
fn sound(samples: &[f64]) -> Option<Vec<f64>> {
    let mut samples = samples.to_vec();
    samples.sort_unstable_by(f64::total_cmp);
    (!samples.is_empty() && samples.iter().all(|it| it.is_finite())).then_some(samples)
}

/// The ratios of each sorted sample before to each after, in ascending order; none if some sample
/// is not above 0, or some ratio beyond all floats.
fn ratios_of(before: &[f64], after: &[f64]) -> Option<Vec<f64>> {
    if before[0] <= 0.0 || after[0] <= 0.0 {
        return None;
    }
    let of_one = |after: &f64| before.iter().map(|before| before / *after).collect::<Vec<_>>();
    let mut ratios = after.iter().flat_map(of_one).collect::<Vec<_>>();
    ratios.sort_unstable_by(f64::total_cmp);
    (ratios[0] > 0.0 && ratios[ratios.len() - 1].is_finite()).then_some(ratios)
}

/// The rank of the ends of the interval of a speed-up, among the ratios of so many samples.
fn ratio_rank(before: usize, after: usize, confidence: f64) -> Option<usize> {
    if is_exact(before, after) {
        rank(rank_sum_test(before, after), confidence)
    } else {
        normal_rank(before, after, confidence)
    }
}

/// The median of sorted samples, of which there is one.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// The median of sorted ratios, of which there is one, by their logarithms.
fn middle_ratio(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return sorted[half];
    }
    let (lower, upper) = (sorted[half - 1], sorted[half]);
    lower * (upper / lower).sqrt()
}

/// The sample of this rank, from 1, and the one of this rank from the end.
fn ends(sorted: &[f64], rank: usize) -> Option<[f64; 2]> {
    let upper = sorted.len().checked_sub(rank)?;
    (rank >= 1 && rank <= upper + 1).then(|| [sorted[rank - 1], sorted[upper]])
}

/// The greatest rank for which both tails below it have at most what the confidence leaves. `tails`
/// are the probabilities of the values of a symmetric statistic, from 0.
fn rank(tail: impl Iterator<Item = f64>, confidence: f64) -> Option<usize> {
    let mut sum = 0.0;
    let below = tail.take_while(|probability| {
        sum += probability;
        2.0 * sum <= 1.0 - confidence + 1e-12
    });
    Some(below.count()).filter(|&rank| rank > 0)
}

/// The distribution of the number of samples below the median: binomial with probability ½.
fn sign_test(samples: usize) -> impl Iterator<Item = f64> {
    let mut logarithm = -(samples as f64) * std::f64::consts::LN_2;
    (0..=samples).map(move |below| {
        let probability = logarithm.exp();
        logarithm += ((samples - below) as f64).ln() - ((below + 1) as f64).ln();
        probability
    })
}

/// Whether the distribution of ranks is computed exactly for so many samples of each kind.
fn is_exact(first: usize, second: usize) -> bool {
    let (few, many) = (first.min(second), first.max(second));
    let ways = || (1..=few).map(|k| ((many + k) as f64 / k as f64).ln()).sum::<f64>();
    first.saturating_mul(second) <= EXACT_PAIRS_MAX && ways() <= EXACT_WAYS_LN_MAX
}

/// The distribution of the statistic of Mann and Whitney if both kinds of samples are equally
/// distributed: the number of pairs whose first is the smaller one.
fn rank_sum_test(first: usize, second: usize) -> impl Iterator<Item = f64> {
    // The statistic counts, for each sample of the first kind, those of the second below it. Adding
    // samples of the first kind one after another gives the Gaussian binomial coefficients:
    // multiply by 1 - q^(second + k), and divide by 1 - q^k.
    // All numbers stay below 2^127 for the numbers of samples that are computed exactly.
    let (first, second) = (first.min(second), first.max(second));
    let mut counts = vec![0_i128; first * second + 1];
    counts[0] = 1;
    for k in 1..=first {
        for place in (second + k..counts.len()).rev() {
            counts[place] -= counts[place - second - k];
        }
        for place in k..counts.len() {
            counts[place] += counts[place - k];
        }
    }
    let all = counts.iter().sum::<i128>() as f64;
    counts.into_iter().map(move |count| count as f64 / all)
}

/// [`rank`] of that statistic by its normal approximation, with a correction for continuity.
fn normal_rank(first: usize, second: usize, confidence: f64) -> Option<usize> {
    let (first, second) = (first as f64, second as f64);
    let mean = first * second / 2.0;
    let deviation = (first * second * (first + second + 1.0) / 12.0).sqrt();
    let rank = mean + 0.5 - deviation * normal_quantile(f64::midpoint(1.0, confidence));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "1 to first * second"
    )]
    (rank >= 1.0).then_some(rank.floor() as usize)
}

/// The quantile of the standard normal distribution at `probability`, at least ½: formula 26.2.23
/// of M. Abramowitz and I. A. Stegun, *Handbook of Mathematical Functions*; its error is below
/// 4.5e-4.
fn normal_quantile(probability: f64) -> f64 {
    let t = (-2.0 * (1.0 - probability).ln()).sqrt();
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let denominator = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - numerator / denominator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_published_tables() {
        // Le Boudec, table A.1: the ranks of 95% intervals of the median.
        for (samples, wanted) in
            [(5, None), (6, Some(1)), (10, Some(2)), (20, Some(6)), (70, Some(27))]
        {
            assert_eq!(rank(sign_test(samples), 0.95), wanted, "{samples} samples");
        }
        // Hollander and Wolfe, table A.6; qwilcox(0.025, m, n) of R.
        for (first, second, wanted) in
            [(3, 3, None), (4, 4, Some(1)), (5, 5, Some(3)), (8, 8, Some(14)), (10, 10, Some(24))]
        {
            assert_eq!(rank(rank_sum_test(first, second), 0.95), wanted, "{first}, {second}");
        }
    }

    #[test]
    fn the_normal_approximation_meets_the_exact_ranks() {
        for (first, second) in [(20, 30), (50, 50), (40, 60)] {
            for confidence in [0.9, 0.95, 0.99] {
                let exact = rank(rank_sum_test(first, second), confidence).unwrap();
                let near = normal_rank(first, second, confidence).unwrap();
                assert!(exact.abs_diff(near) <= 2, "{first}, {second}: {exact}, {near}");
            }
        }
    }

    #[test]
    fn distributions_sum_to_one() {
        for samples in [1, 7, 1000] {
            assert!((sign_test(samples).sum::<f64>() - 1.0).abs() < 1e-9, "{samples}");
        }
        // Two of each: of the six orders, the statistic is 0, 1, 2, 2, 3, 4.
        let wanted = [1.0, 1.0, 2.0, 1.0, 1.0].map(|count| count / 6.0);
        assert!(rank_sum_test(2, 2).eq(wanted));
        assert!((rank_sum_test(50, 50).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(rank_sum_test(50, 50).all(|probability| probability > 0.0));
    }

    #[test]
    fn what_is_computed_exactly_fits_its_integers() {
        for (first, second) in [(4, 2500), (2500, 4), (10, 1000), (25, 200), (50, 50), (1, 9999)] {
            assert!(is_exact(first, second), "{first}, {second}");
            let mut sum = 0.0;
            for probability in rank_sum_test(first, second) {
                assert!(probability > 0.0, "{first}, {second}");
                sum += probability;
            }
            assert!((sum - 1.0).abs() < 1e-9, "{first}, {second}: {sum}");
        }
        for (first, second) in [(5, 2001), (100, 100), (64, 64), (usize::MAX, 2)] {
            assert!(!is_exact(first, second), "{first}, {second}");
        }
    }

    #[test]
    fn a_speed_up_and_its_inverse_agree() {
        assert!((middle_ratio(&[2.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((middle_ratio(&[3.0]) - 3.0).abs() < 1e-12);
        let (there, back) = ([1.6, 2.75, 4.0, 9.0], [1.0 / 9.0, 0.25, 1.0 / 2.75, 1.0 / 1.6]);
        assert!((middle_ratio(&there) * middle_ratio(&back) - 1.0).abs() < 1e-12);
    }
}
