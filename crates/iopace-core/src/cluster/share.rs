//! How much of a limit each host is to have, from what all of them want.

use super::Allowance;
use crate::units::scaled;

/// How a host stands in a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The amount that it would use in a second if it had all; at least what it uses.
    pub wanted: Allowance,
    /// Its weight among hosts that want more than there is, as of the tasks that wait there; zero
    /// counts as one.
    pub weight: u32,
}

/// The share of each host in `total`, in their order: by weight, and nobody more than he wants as
/// long as another one wants it (weighted max-min, by filling). What nobody wants goes to all
/// alike, so that whoever begins need not ask first. The shares add up to `total`, but for rounding
/// down.
pub fn shares(total: Allowance, demands: &[Demand]) -> Vec<Allowance> {
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
