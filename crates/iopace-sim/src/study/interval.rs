//! The 95 % confidence interval of a mean over seeds.
//!
//! # Model
//! The runs of a variant differ in their seeds alone, so a figure of `n` runs is a sample of `n`
//! independent values. Their mean `m` and standard deviation `s` say where the mean over all seeds
//! lies: with a confidence of 95 % within `m ± t * s / sqrt(n)`, where `t` is the 97.5 % quantile
//! of Student's distribution with `n - 1` degrees of freedom.
//!
//! # Properties
//! 1. Whole numbers only: the same seeds give the same interval on every machine.
//! 2. Rounded up: an interval is never narrower than the formula says. Up to 31 runs it is wider by
//!    one thousandth of the unit at most; beyond that by up to 1.1 % of itself, as the quantile of
//!    fewer runs is used, and where squares leave 128 bits by a few thousandths of itself.
//!
//! # When it does not know
//! One run has no interval, and nothing is said.
//!
//! # Limits
//! Student's interval holds for values that are about normally distributed. Means of a whole run
//! are; a maximum is not, so the longest latency has no interval.
//!
//! # Sources
//! "Student" (W. S. Gosset), "The Probable Error of a Mean", Biometrika 6 (1908).

use crate::milli::Milli;

/// The 97.5 % quantile of Student's distribution with 1, 2 ... 30 degrees of freedom, in ten
/// thousandths, rounded up.
const QUANTILES: [u64; 30] = [
    127_063, 43_027, 31_825, 27_765, 25_706, 24_470, 23_647, 23_061, 22_622, 22_282, 22_010,
    21_789, 21_604, 21_448, 21_315, 21_200, 21_099, 21_010, 20_931, 20_860, 20_797, 20_739, 20_687,
    20_639, 20_596, 20_556, 20_519, 20_485, 20_453, 20_423,
];

/// The same for more degrees of freedom. Between two of them the smaller one counts, whose interval
/// is wider; above 120 it is within 1 % of that of the normal distribution.
const FURTHER: [(usize, u64); 3] = [(40, 20_211), (60, 20_003), (120, 19_800)];

/// The unit of the quantiles.
const UNIT: u128 = 10_000;

fn quantile(freedom: usize) -> u64 {
    let further = FURTHER.iter().rev().find(|(least, _)| freedom >= *least);
    let last = QUANTILES[freedom.clamp(1, QUANTILES.len()) - 1];
    further.map_or(last, |(_, quantile)| *quantile)
}

/// Half the width of the interval; `None` of fewer than two values.
pub fn half_width(values: &[Milli]) -> Option<Milli> {
    let (first, count) = (values.first()?, values.len() as u128);
    if count < 2 {
        return None;
    }
    // Distances from one of the values have small squares, and the same deviation.
    let distances = values.iter().map(|value| i128::from(value.0) - i128::from(first.0));
    let (sum, squares) = distances.fold((0i128, 0u128), |(sum, squares), distance| {
        let square = distance.unsigned_abs().saturating_mul(distance.unsigned_abs());
        (sum + distance, squares.saturating_add(square))
    });
    // (n Σd² - (Σd)²) / (n² (n - 1)) is s² / n.
    let square_of_sum = sum.unsigned_abs().saturating_mul(sum.unsigned_abs());
    let spread = squares.saturating_mul(count).saturating_sub(square_of_sum);
    let divisor = count * count * (count - 1);
    let quantile = u128::from(quantile(values.len() - 1));
    let half = match spread.checked_mul(quantile * quantile) {
        Some(scaled) => root_up(scaled.div_ceil(divisor * UNIT * UNIT)),
        None => (root_up(spread.div_ceil(divisor)).saturating_mul(quantile)).div_ceil(UNIT),
    };
    Some(Milli(i64::try_from(half).unwrap_or(i64::MAX)))
}

/// The square root, rounded up.
fn root_up(square: u128) -> u128 {
    let root = square.isqrt();
    root + u128::from(root * root < square)
}

/// Whether two means are told apart by their seeds: their intervals do not meet. Without an
/// interval any difference counts.
pub(super) fn are_apart(one: (Milli, Option<Milli>), other: (Milli, Option<Milli>)) -> bool {
    let half = |width: Option<Milli>| width.map_or(0, |width| width.0.unsigned_abs());
    one.0.0.abs_diff(other.0.0) > half(one.1).saturating_add(half(other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(values: &[i64]) -> Option<i64> {
        let values: Vec<Milli> = values.iter().map(|value| Milli(*value)).collect();
        half_width(&values).map(|width| width.0)
    }

    #[test]
    fn p1_the_interval_is_that_of_the_text_books() {
        // s = 1.5811, t = 2.7764: 2.7764 * 1.5811 / sqrt(5) = 1.9632.
        assert_eq!(half(&[1_000, 2_000, 3_000, 4_000, 5_000]), Some(1_964));
        // Two values: 12.706 * |a - b| / 2.
        assert_eq!(half(&[10_000, 12_000]), Some(12_707));
        assert_eq!(half(&[5_000, 5_000, 5_000]), Some(0), "no spread");
        assert_eq!((half(&[]), half(&[7])), (None, None), "one run has no interval");
    }

    #[test]
    fn p2_more_seeds_narrow_it_and_their_order_does_not_matter() {
        let widths: Vec<i64> = [2usize, 3, 5, 10, 31, 41, 100, 1_000]
            .iter()
            .map(|count| {
                let mut values: Vec<i64> =
                    (0..*count).map(|at| if at % 2 == 0 { 90_000 } else { 110_000 }).collect();
                let width = half(&values).expect("several");
                values.reverse();
                assert_eq!(half(&values), Some(width));
                width
            })
            .collect();
        assert!(widths.is_sorted_by(|a, b| a > b), "{widths:?}");
        // 10 * 1.98 / sqrt(1000) = 0.626 on a spread of 10.
        assert!((600..=640).contains(&widths[7]), "{widths:?}");
    }

    #[test]
    fn huge_figures_do_not_overflow() {
        let wide = half(&[i64::MAX, 0, i64::MAX / 2]).expect("three");
        assert!(wide > i64::MAX / 2);
        let (near, far) = (half(&[1 << 40, (1 << 40) + 2_000]), half(&[0, 2_000]));
        assert_eq!(near, far, "only distances count");
    }

    #[test]
    fn means_are_apart_if_their_intervals_do_not_meet() {
        let known = |mean, half| (Milli(mean), Some(Milli(half)));
        assert!(are_apart(known(10_000, 400), known(11_000, 500)));
        assert!(!are_apart(known(10_000, 400), known(11_000, 600)));
        assert!(are_apart((Milli(1), None), (Milli(2), None)));
        assert!(!are_apart((Milli(2), None), (Milli(2), None)));
    }
}
