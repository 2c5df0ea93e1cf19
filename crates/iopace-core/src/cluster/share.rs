//! How much of a limit each host is to have, from what all of them want.

use super::Allowance;
use crate::units::scaled;

/// How a host stands in a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The amount that it would use in a second if it had all; at least what it uses.
    pub wanted: Allowance,
    /// The amount that it has before weights count, as far as it wants it: of a guarantee.
    pub least: Allowance,
    /// Its weight among hosts that want more than there is, as of the tasks that wait there; zero
    /// counts as one.
    pub weight: u32,
}

/// The share of each host in `total`, in their order: by weight, but nobody less than his least,
/// nor more than he wants as long as another one wants it (weighted max-min, by filling). What
/// nobody wants goes to all alike, so that whoever begins need not ask first. The shares add up to
/// `total`, but for rounding down. If `total` is less than what all have at least, it is shared in
/// proportion to that.
pub fn shares(total: Allowance, demands: &[Demand]) -> Vec<Allowance> {
    let least: Vec<u64> =
        demands.iter().map(|demand| demand.least.0.min(demand.wanted.0)).collect();
    let all_least = least.iter().fold(0u64, |sum, least| sum.saturating_add(*least));
    if all_least > total.0 {
        return least.iter().map(|least| Allowance(scaled(*least, total.0, all_least))).collect();
    }
    let mut rest = demands.to_vec();
    let mut left = total;
    loop {
        let mut had = filled(left, &rest);
        let is_below = |at: &usize| rest[*at].wanted > Allowance(0) && had[*at].0 < least[*at];
        let below: Vec<usize> = (0..demands.len()).filter(is_below).collect();
        if below.is_empty() {
            // A host that has its least has nothing beyond it by weight.
            let has_least = |at: &usize| rest[*at].wanted < demands[*at].wanted;
            let fixed = (0..demands.len()).filter(has_least);
            fixed.for_each(|at| had[at].0 += least[at]);
            return had;
        }
        // These are out of it. What is left for the others is less by what these have more, so
        // that those stay below their least.
        for at in below {
            rest[at].wanted = Allowance(0);
            left.0 -= least[at];
        }
    }
}

/// The shares by weight alone.
fn filled(total: Allowance, demands: &[Demand]) -> Vec<Allowance> {
    let mut had = vec![Allowance(0); demands.len()];
    let mut open: Vec<usize> =
        (0..demands.len()).filter(|at| demands[*at].wanted > Allowance(0)).collect();
    let mut left = total.0;
    while !open.is_empty() {
        let weight: u64 = open.iter().map(|at| weight(&demands[*at])).sum();
        let due = |at: usize| Allowance(scaled(left, self::weight(&demands[at]), weight));
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|at| demands[**at].wanted <= due(**at));
        if full.is_empty() {
            rest.iter().for_each(|at| had[*at] = due(*at));
            return had;
        }
        for at in full {
            had[at] = demands[at].wanted;
            left -= demands[at].wanted.0;
        }
        open = rest;
    }
    let each = left / (demands.len() as u64).max(1);
    had.iter_mut().for_each(|had| had.0 += each);
    had
}

fn weight(demand: &Demand) -> u64 {
    u64::from(demand.weight.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(total: u64, demands: &[(u64, u64, u32)]) -> Vec<u64> {
        let demand = |(wanted, least, weight): &(u64, u64, u32)| Demand {
            wanted: Allowance(*wanted),
            least: Allowance(*least),
            weight: *weight,
        };
        let demands: Vec<Demand> = demands.iter().map(demand).collect();
        shares(Allowance(total), &demands).into_iter().map(|share| share.0).collect()
    }

    const ALL: u64 = u64::MAX;

    #[test]
    fn a_guarantee_goes_before_weights_as_far_as_it_is_wanted() {
        assert_eq!(shared(1_500, &[(ALL, 0, 400), (ALL, 500, 100)]), [1_000, 500]);
        assert_eq!(shared(5_000, &[(ALL, 0, 400), (ALL, 500, 100)]), [4_000, 1_000], "by weight");
        assert_eq!(shared(1_500, &[(ALL, 0, 400), (200, 500, 100)]), [1_300, 200]);
        assert_eq!(shared(1_500, &[(ALL, 0, 400), (0, 500, 100)]), [1_500, 0]);
        // The first guarantee leaves so little that the second one counts as well.
        let three = [(ALL, 900, 100), (ALL, 310, 100), (ALL, 0, 100)];
        assert_eq!(shared(1_500, &three), [900, 310, 290]);
        assert_eq!(shared(600, &[(ALL, 900, 100), (ALL, 300, 100), (ALL, 0, 9)]), [450, 150, 0]);
        assert_eq!(shared(90, &[(0, 50, 1), (0, 0, 1), (0, 0, 1)]), [30, 30, 30], "nobody wants");
    }

    #[test]
    fn nobody_has_less_than_his_least_nor_more_than_he_wants() {
        let mut number = 5u64;
        let mut below = |bound: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) % bound
        };
        for _ in 0..2_000 {
            let of = |below: &mut dyn FnMut(u64) -> u64| {
                let wanted = [0, below(2_000), ALL][below(3) as usize];
                (wanted, below(2) * below(900), 1 + below(5) as u32)
            };
            let demands: Vec<_> = (0..1 + below(8)).map(|_| of(&mut below)).collect();
            let total = 1 + below(6_000);
            let had = shared(total, &demands);
            let sum: u64 = had.iter().sum();
            assert!(sum <= total && sum + 20 > total, "{sum} of {total}: {demands:?} {had:?}");
            let least = |demand: &(u64, u64, u32)| demand.0.min(demand.1);
            if demands.iter().map(least).sum::<u64>() > total {
                continue;
            }
            let is_scarce = demands.iter().any(|demand| demand.0 == ALL);
            for (demand, had) in demands.iter().zip(&had) {
                assert!(*had >= least(demand), "{demands:?} {had:?}");
                assert!(!is_scarce || *had <= demand.0.max(least(demand)), "{demands:?} {had:?}");
            }
        }
    }
}
