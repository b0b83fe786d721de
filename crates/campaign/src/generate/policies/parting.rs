//! Lines that part vectors by what they are worth.

use steplake_model::Dice;

/// The most rounds of the clustering.
const ROUNDS_MAX: usize = 20;

/// How much more than all that a vector consists of its value weighs in the clustering.
const VALUE_WEIGHT: f64 = 2.0;

/// The rounds over all vectors in which a line is learned, and how strongly it is kept flat.
const EPOCHS: usize = 20;
const FLATNESS: f64 = 0.01;

/// A linear function of a vector; what is above zero is good.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LinearFunction {
    weights: Box<[f64]>,
    offset: f64,
}

impl LinearFunction {
    /// Returns whether a vector is on the good side.
    pub(super) fn is_good(&self, features: &[f64]) -> bool {
        self.offset + dot(&self.weights, features) > 0.0
    }
}

/// Parts vectors into those that are alike and worth much, and the others: two clusters of vectors
/// with their values (k-means), and the line between them (a linear support vector machine, learned
/// by Pegasos: Shalev-Shwartz et al. 2007). None if the clusters do not differ.
pub(super) fn part(features: &[&[f64]], values: &[f64], dice: &mut Dice) -> Option<LinearFunction> {
    let (means, spread) = spread(features);
    let scale = |vector: &&[f64]| -> Box<[f64]> {
        vector.iter().zip(&means).map(|(number, mean)| (number - mean) / spread).collect()
    };
    let scaled: Vec<Box<[f64]>> = features.iter().map(scale).collect();
    let is_good = clusters(&scaled, values)?;
    let LinearFunction { mut weights, offset } = line(&scaled, &is_good, dice);
    for weight in &mut weights {
        *weight /= spread;
    }
    Some(LinearFunction { offset: offset - dot(&weights, &means), weights })
}

/// Returns which vectors are of the better one of two clusters.
fn clusters(features: &[Box<[f64]>], values: &[f64]) -> Option<Vec<bool>> {
    let mean = values.iter().sum::<f64>() / real(values.len());
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let deviation = (variance / real(values.len())).sqrt();
    if deviation <= 0.0 {
        return None;
    }
    let point = |(vector, value): (&[f64], f64)| -> Vec<f64> {
        vector.iter().copied().chain([VALUE_WEIGHT * (value - mean) / deviation]).collect()
    };
    let vectors = features.iter().map(|vector| &**vector);
    let points: Vec<Vec<f64>> = vectors.zip(values.iter().copied()).map(point).collect();
    let by_value = |one: &&usize, other: &&usize| values[**one].total_cmp(&values[**other]);
    let places: Vec<usize> = (0..values.len()).collect();
    let (worst, best) = (places.iter().min_by(by_value)?, places.iter().max_by(by_value)?);
    let mut centres = [points[*best].clone(), points[*worst].clone()];
    let mut is_good = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let nearer = |point: &Vec<f64>| distance(point, &centres[0]) < distance(point, &centres[1]);
        let next: Vec<bool> = points.iter().map(nearer).collect();
        if next == is_good {
            break;
        }
        is_good = next;
        for (centre, side) in centres.iter_mut().zip([true, false]) {
            let own = points.iter().zip(&is_good).filter(|(_, good)| **good == side);
            let own: Vec<&Vec<f64>> = own.map(|(point, _)| point).collect();
            if own.is_empty() {
                return None;
            }
            for (place, number) in centre.iter_mut().enumerate() {
                *number = own.iter().map(|point| point[place]).sum::<f64>() / real(own.len());
            }
        }
    }
    // The values are the last numbers.
    if centres[0].last() < centres[1].last() {
        for good in &mut is_good {
            *good = !*good;
        }
    }
    Some(is_good)
}

/// Returns the mean of vectors, and how far they are from it: the root of the mean square.
fn spread(features: &[&[f64]]) -> (Vec<f64>, f64) {
    let (count, first) = (real(features.len()), features.first());
    let dimensions = first.map_or(0, |first| first.len());
    let mean = |place: usize| features.iter().map(|vector| vector[place]).sum::<f64>() / count;
    let means: Vec<f64> = (0..dimensions).map(mean).collect();
    let spread =
        (features.iter().map(|vector| distance(vector, &means)).sum::<f64>() / count).sqrt();
    (means, if spread > 0.0 { spread } else { 1.0 })
}

/// Learns a line: the mean of those of the second half of the rounds.
fn line(features: &[Box<[f64]>], is_good: &[bool], dice: &mut Dice) -> LinearFunction {
    let dimensions = features.first().map_or(0, |first| first.len());
    let (mut weights, mut offset) = (vec![0.0; dimensions], 0.0);
    let mut sum = LinearFunction { weights: vec![0.0; dimensions].into(), offset: 0.0 };
    let count = u32::try_from(features.len()).unwrap_or(u32::MAX);
    let goods = real(is_good.iter().filter(|good| **good).count());
    let bads = real(features.len()) - goods;
    let rounds = EPOCHS * features.len();
    for round in 1..=rounds {
        let at = dice.below(count) as usize;
        let rate = 1.0 / (FLATNESS * real(round + features.len()));
        // A vector of the smaller side weighs more.
        let (side, weight) = if is_good[at] { (1.0, bads) } else { (-1.0, goods) };
        let step = rate * side * 2.0 * weight / (goods + bads);
        let is_beyond = side * (offset + dot(&weights, &features[at])) >= 1.0;
        for number in &mut weights {
            *number *= 1.0 - rate * FLATNESS;
        }
        if !is_beyond {
            weights.iter_mut().zip(&features[at]).for_each(|(number, one)| *number += step * one);
            offset += step;
        }
        if round > rounds / 2 {
            sum.weights.iter_mut().zip(&weights).for_each(|(number, one)| *number += one);
            sum.offset += offset;
        }
    }
    sum
}

/// Converts a count.
pub(super) fn real(count: usize) -> f64 {
    steplake_model::as_f64(i64::try_from(count).unwrap_or(i64::MAX))
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn distance(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_parts_the_good_from_the_bad() {
        let mut dice = Dice::new(1, 0);
        let mut number = || f64::from(dice.below(1000)) / 1000.0;
        let vectors: Vec<[f64; 3]> = (0..80).map(|_| [number(), number(), number()]).collect();
        let is_good = |vector: &[f64; 3]| vector[0] + vector[1] > 1.0;
        let values = vectors.iter().map(|vector| if is_good(vector) { 1.5 } else { -1.0 });
        let values: Vec<f64> = values.collect();
        let features: Vec<&[f64]> = vectors.iter().map(|vector| &vector[..]).collect();
        let line = part(&features, &values, &mut Dice::new(2, 0)).expect("two clusters");
        let right = vectors.iter().filter(|vector| line.is_good(&vector[..]) == is_good(vector));
        assert!(right.count() > 70);
    }

    #[test]
    fn what_is_all_alike_is_not_parted() {
        let vectors = [[0.5, 0.5]; 30];
        let features: Vec<&[f64]> = vectors.iter().map(|vector| &vector[..]).collect();
        assert_eq!(part(&features, &[0.0; 30], &mut Dice::new(2, 0)), None);
    }
}
