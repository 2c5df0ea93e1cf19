//! The rates of a group, as limits and as guarantees, each with its meter.

use super::meter::Meter;
use super::{Limits, Rates};
use crate::request::Lane;
use crate::time::{Instant, Nanos};
use core::num::NonZeroU64;

/// What a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes,
    Operations,
}

/// One rate of a group, as a limit or as a guarantee.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    unit: Unit,
    /// Whether it counts reads, and writes.
    lanes: [bool; 2],
    pub(crate) meter: Meter,
}

impl Rate {
    pub(crate) fn counts(&self, lane: Lane) -> bool {
        self.lanes.get(lane as usize).copied().unwrap_or(false)
    }

    pub(crate) fn charge(
        &mut self,
        now: Instant,
        lane: Lane,
        bytes: u64,
        iops_size: Option<NonZeroU64>,
    ) {
        if !self.counts(lane) {
            return;
        }
        let operations = iops_size.map_or(1, |size| bytes.div_ceil(size.get()).max(1));
        let amount = if self.unit == Unit::Bytes { bytes } else { operations };
        self.meter.charge(now, amount);
    }
}

/// A rate with what its meter is to be set to.
type NewRate = (Rate, NonZeroU64, Nanos);

/// Takes over new rates; a rate that stays keeps what is owed. With a burst there are two of a
/// kind, in the same order before and after: each keeps its own.
pub(crate) fn set_rates(now: Instant, rates: &mut Vec<Rate>, mut new: Vec<NewRate>) {
    for (rate, per_second, tolerance) in &mut new {
        let same = |old: &Rate| old.unit == rate.unit && old.lanes == rate.lanes;
        if let Some(place) = rates.iter().position(same) {
            rate.meter = rates.remove(place).meter;
            rate.meter.set(now, *per_second, *tolerance);
        }
    }
    *rates = new.into_iter().map(|(rate, ..)| rate).collect();
}

/// Each rate of `rates` that is set, with its place in the list.
fn each(rates: &Rates) -> impl Iterator<Item = (usize, NonZeroU64)> {
    let list = [rates.rbps, rates.wbps, rates.bps, rates.riops, rates.wiops, rates.iops];
    list.into_iter().enumerate().filter_map(|(place, rate)| Some((place, rate?)))
}

fn rate(now: Instant, place: usize, per_second: NonZeroU64, tolerance: Nanos) -> NewRate {
    let unit = if place < 3 { Unit::Bytes } else { Unit::Operations };
    let lanes = [place % 3 != 1, !place.is_multiple_of(3)];
    let meter = Meter::new(now, per_second, tolerance);
    (Rate { unit, lanes, meter }, per_second, tolerance)
}

pub(crate) fn guarantee_rates(now: Instant, rates: &Rates) -> Vec<NewRate> {
    each(rates).map(|(place, per_second)| rate(now, place, per_second, Nanos::ZERO)).collect()
}

/// A limit without a burst is one meter. With one it is two: the sustained rate with so much
/// tolerance that the burst rate lasts for its length, and the burst rate itself.
pub(crate) fn limit_rates(now: Instant, limits: &Limits) -> Vec<NewRate> {
    let mut rates = Vec::new();
    for (place, sustained) in each(&limits.sustained) {
        let burst = each(&limits.burst).find(|(other, _)| *other == place).map(|(_, rate)| rate);
        let Some(burst) = burst.filter(|burst| *burst > sustained) else {
            rates.push(rate(now, place, sustained, Nanos::ZERO));
            continue;
        };
        let above = u128::from(burst.get() - sustained.get());
        let tolerance = u128::from(limits.burst_length.0) * above / u128::from(sustained.get());
        let tolerance = Nanos(u64::try_from(tolerance).unwrap_or(u64::MAX / 2));
        rates.push(rate(now, place, sustained, tolerance));
        rates.push(rate(now, place, burst, Nanos::ZERO));
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens(rates: &[Rate]) -> Instant {
        rates.iter().map(|rate| rate.meter.opens()).max().expect("there is one")
    }

    #[test]
    fn a_group_in_its_burst_is_not_stopped_by_a_change_of_something_else() {
        let (sustained, burst) = (NonZeroU64::new(1_000), NonZeroU64::new(10_000));
        let only = |bps| Rates { bps, ..Rates::default() };
        let burst_length = Nanos::from_secs(60);
        let limits = Limits {
            sustained: only(sustained),
            burst: only(burst),
            burst_length,
            ..Limits::default()
        };
        let (start, mut rates) = (Instant(0), Vec::new());
        set_rates(start, &mut rates, limit_rates(start, &limits));
        let charge = |rate: &mut Rate| rate.charge(start, Lane::Read, 100_000, None);
        rates.iter_mut().for_each(charge);
        let before = opens(&rates);
        assert_eq!(before, Instant(10_000_000_000), "ten seconds at the burst rate");
        // As with every write to any file of the group.
        let now = Instant(1);
        set_rates(now, &mut rates, limit_rates(now, &limits));
        assert_eq!(opens(&rates), before);
        // Without the burst, and with it again.
        let without = Limits { burst: Rates::default(), ..limits };
        set_rates(now, &mut rates, limit_rates(now, &without));
        assert!(rates.len() == 1 && opens(&rates) <= now);
        set_rates(now, &mut rates, limit_rates(now, &limits));
        assert!(rates.len() == 2 && opens(&rates) <= now);
    }
}
