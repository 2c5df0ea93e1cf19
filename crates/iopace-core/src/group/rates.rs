//! The rates of a group, as limits and as guarantees, each with its meter.
//!
//! A limit of reads and writes together (`bps`, `iops`) is met at two places where buffered writes
//! are: they wait for it at the door to memory, requests in stage admit. Each place has a meter of
//! its own, and both are charged with all that passes at either. Write-back of what was paid for at
//! the door is free; if it is more (pages of which little was written), the rest of it is a request
//! like others. So neither place lets in more than the other leaves. Lest a crowd at the door
//! leaves nothing, requests have half of the rate until what the door has taken is paid
//! ([`GroupRate::opens`]); writes at the door have their turn reserved already.
//!
//! ```text
//!   buffered write ─► door: its meter ──┐ charged    ┌─► disk        write-back: paid
//!   request ────────► admit: its meter, ┴─ with both ┘
//!                     or half of the rate
//! ```

use super::meter::Meter;
use super::{Limits, Rates};
use crate::limits::WRITE_BACK_LEN;
use crate::request::Lane;
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, PAGE, scaled};
use core::num::NonZeroU64;

/// What a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes,
    Operations,
}

/// For so long after a buffered write it is expected that there are more: a turn of write-back.
const SHARED: Nanos = Nanos::from_secs(1);

/// Service beyond a guarantee is charged to the clock of the guarantee for this long at most: a
/// group that had the disk for itself for an hour is owed its guarantee as soon as another one
/// comes. With none of it (mClock) a group could have up to its guarantee and its share for a
/// moment.
const SURPLUS_MAX: Nanos = Nanos::from_millis(100);

/// One rate of a group, as a limit or as a guarantee.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupRate {
    unit: Unit,
    /// Whether it counts reads, and writes.
    lanes: [bool; 2],
    meter: Meter,
    /// The same without a burst, charged twice with requests only: half of it.
    half: Meter,
    /// Until then buffered writes share it; none if they do not.
    shared_until: Option<Instant>,
    /// What buffered writes were charged that is not written back, and what the largest piece of
    /// write-back counts.
    paid: u64,
    piece: u64,
    /// From an instant on the meters go by another rate.
    end: Option<(Instant, NonZeroU64)>,
}

/// What a request was charged where reads and writes are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// By a limit of bytes.
    pub bytes: u64,
    /// By a limit of operations.
    pub operations_count: u64,
}

impl Total {
    /// Whether there is anything.
    pub fn is_any(&self) -> bool {
        *self != Total::default()
    }
}

impl GroupRate {
    pub(crate) fn counts(&self, lane: Lane) -> bool {
        let [reads, writes] = self.lanes;
        match lane {
            Lane::Read => reads,
            Lane::Write => writes,
            // Which piece is next is not known here.
            Lane::WriteBack => writes && (self.paid == 0 || self.paid < self.piece),
            Lane::Flush => false,
        }
    }

    /// Goes by the rate that holds now.
    fn look(&mut self, now: Instant) {
        if let Some((at, rate)) = self.end
            && now >= at
        {
            self.meter.set(now, &Meter::new(now, rate, Nanos::ZERO));
            self.half.set(now, &Meter::new(now, rate, Nanos::ZERO));
            self.end = None;
        }
    }

    /// Charges what passes now; returns how much.
    pub(crate) fn charge(
        &mut self,
        now: Instant,
        lane: Lane,
        bytes: u64,
        iops_size: Option<NonZeroU64>,
    ) -> u64 {
        self.look(now);
        let mut amount = match self.unit {
            Unit::Bytes => bytes,
            Unit::Operations => operations(bytes, iops_size),
        };
        let [reads, writes] = self.lanes;
        let is_counted = match lane {
            Lane::Read => reads,
            Lane::Write | Lane::WriteBack => writes,
            Lane::Flush => false,
        };
        if lane == Lane::WriteBack {
            let paid = self.paid.min(amount);
            (self.paid, amount) = (self.paid - paid, amount - paid);
            if amount == 0 && paid > 0 {
                return 0;
            }
        }
        if !is_counted {
            return 0;
        }
        // Requests add to what is owed by then, half of it at most: so it comes to an end.
        if self.shared_until.is_some_and(|until| until.max(self.meter.opens()) < now) {
            self.shared_until = None;
        }
        if self.shared_until.is_some() && self.half.opens() <= now {
            self.half.charge(now, amount.saturating_mul(2));
        }
        self.meter.charge(now, amount);
        amount
    }

    /// Charges a guarantee with what is served.
    pub(crate) fn serve(&mut self, now: Instant, lane: Lane, bytes: u64) {
        let before = self.meter.opens();
        self.charge(now, lane, bytes, None);
        if before > now {
            self.meter.owe_until(before.max(now + SURPLUS_MAX));
        }
    }

    /// Adds what a request was charged: with a burst there are two rates of a kind.
    pub(crate) fn note(&self, amount: u64, total: &mut Total) {
        if self.is_total() {
            let sum = match self.unit {
                Unit::Bytes => &mut total.bytes,
                Unit::Operations => &mut total.operations_count,
            };
            *sum = amount.max(*sum);
        }
    }

    /// Charges operations that buffered writes begin.
    pub(crate) fn charge_operations(&mut self, now: Instant, count: u64) {
        self.look(now);
        self.meter.charge(now, count);
    }

    /// Charges what a request was charged at another place.
    pub(crate) fn charge_total(&mut self, now: Instant, total: Total) {
        let Total { bytes, operations_count } = total;
        let amount = if self.unit == Unit::Bytes { bytes } else { operations_count };
        if self.is_total() && amount > 0 {
            self.look(now);
            self.meter.charge(now, amount);
        }
    }

    /// Whether it counts bytes, and not operations.
    pub(crate) fn counts_bytes(&self) -> bool {
        self.unit == Unit::Bytes
    }

    /// Whether it counts reads and writes together.
    pub(crate) fn is_total(&self) -> bool {
        self.lanes == [true; 2]
    }

    /// When it is open for a request; none waits for it longer than for half of the rate.
    pub(crate) fn opens(&self) -> Instant {
        let opens = self.meter.opens();
        self.shared_until.map_or(opens, |_| opens.min(self.half.opens()))
    }

    /// Somebody waits for it: lateness of his timer is not lost.
    pub(crate) fn wait(&mut self) {
        self.meter.wait();
        self.half.wait();
    }

    /// What passes next could not ask before it was its turn.
    pub(crate) fn turn(&mut self) {
        self.meter.turn();
    }

    /// Charges buffered writes that have passed the door. No more of it is kept for write-back than
    /// the operations or bytes of `dirty`, as writes may go to the same place again.
    pub(crate) fn buffered(
        &mut self,
        now: Instant,
        passed: Total,
        (dirty, iops_size): (u64, Option<NonZeroU64>),
    ) {
        let piece = WRITE_BACK_LEN.get();
        let (amount, most) = match self.unit {
            Unit::Bytes => (passed.bytes, dirty),
            Unit::Operations => {
                (passed.operations_count, operations(dirty, iops_size).max(dirty / PAGE))
            }
        };
        self.piece = match self.unit {
            Unit::Bytes => piece,
            Unit::Operations => operations(piece, iops_size),
        };
        self.look(now);
        self.meter.charge(now, amount);
        self.paid = self.paid.saturating_add(amount).min(most);
        self.shared_until = Some(now + SHARED);
    }

    /// Nobody charges buffered writes any more: write-back pays from now on, and what they owe is
    /// forgotten.
    pub(crate) fn forget_buffered(&mut self, now: Instant) {
        if self.shared_until.is_some() {
            self.meter.forgive(now);
        }
        (self.paid, self.shared_until) = (0, None);
    }
}

/// Takes over new rates; a rate that stays keeps what is owed. With a burst there are two of a
/// kind, in the same order before and after: each keeps its own.
pub(crate) fn set_rates(now: Instant, rates: &mut Vec<GroupRate>, mut new: Vec<GroupRate>) {
    for rate in &mut new {
        let same = |old: &GroupRate| old.unit == rate.unit && old.lanes == rate.lanes;
        if let Some(place) = rates.iter().position(same) {
            let mut kept = rates.remove(place);
            kept.meter.set(now, &rate.meter);
            kept.half.set(now, &rate.half);
            kept.end = rate.end;
            *rate = kept;
        }
    }
    *rates = new;
}

/// Rates of bytes and of operations: of reads, of writes, of both.
fn list(rates: &Rates) -> [Option<NonZeroU64>; 6] {
    [rates.rbps, rates.wbps, rates.bps, rates.riops, rates.wiops, rates.iops]
}

/// Each rate of `rates` that is set, with its place in the list.
fn each(rates: &Rates) -> impl Iterator<Item = (usize, NonZeroU64)> {
    list(rates).into_iter().enumerate().filter_map(|(place, rate)| Some((place, rate?)))
}

fn rate(now: Instant, place: usize, per_second: NonZeroU64, tolerance: Nanos) -> GroupRate {
    let unit = if place < 3 { Unit::Bytes } else { Unit::Operations };
    let lanes = [place % 3 != 1, !place.is_multiple_of(3)];
    let meter = Meter::new(now, per_second, tolerance);
    let half = Meter::new(now, per_second, Nanos::ZERO);
    GroupRate { unit, lanes, meter, half, shared_until: None, paid: 0, piece: 0, end: None }
}

/// The operations that a portion of a buffered write begins: write-back makes one of each 128 KiB.
pub(crate) fn pieces(done: Bytes, portion: Bytes, iops_size: Option<NonZeroU64>) -> u64 {
    let piece = iops_size.map_or(WRITE_BACK_LEN, |size| WRITE_BACK_LEN.min(Bytes(size.get())));
    let begun = |bytes: u64| bytes.div_ceil(piece.get());
    begun(done.get().saturating_add(portion.get())) - begun(done.get())
}

/// What so many bytes count as operations.
fn operations(bytes: u64, iops_size: Option<NonZeroU64>) -> u64 {
    iops_size.map_or(1, |size| bytes.div_ceil(size.get()).max(1))
}

pub(crate) fn guarantee_rates(now: Instant, rates: &Rates) -> Vec<GroupRate> {
    each(rates).map(|(place, per_second)| rate(now, place, per_second, Nanos::ZERO)).collect()
}

/// A limit without a burst is one meter. With one it is two: the sustained rate with so much
/// tolerance that the burst rate lasts for its length, and the burst rate itself. Rates that end
/// have no burst.
pub(crate) fn limit_rates(now: Instant, limits: &Limits) -> Vec<GroupRate> {
    let mut rates = Vec::new();
    for (place, sustained) in each(&limits.sustained) {
        let burst = list(&limits.burst)[place].filter(|burst| *burst > sustained);
        let end = limits.end.and_then(|end| Some((end.at, list(&end.then)[place]?)));
        let Some(burst) = burst.filter(|_| end.is_none()) else {
            rates.push(GroupRate { end, ..rate(now, place, sustained, Nanos::ZERO) });
            continue;
        };
        let above = burst.get() - sustained.get();
        let tolerance = Nanos(scaled(limits.burst_length.0, above, sustained.get()));
        rates.push(rate(now, place, sustained, tolerance));
        rates.push(rate(now, place, burst, Nanos::ZERO));
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::LimitsEnd;

    #[test]
    fn what_a_group_has_beyond_its_guarantee_is_soon_forgotten() {
        let riops = NonZeroU64::new(1_000);
        let mut rates = guarantee_rates(Instant(0), &Rates { riops, ..Rates::default() });
        let rate = &mut rates[0];
        // Twice as much as is guaranteed, for a minute.
        for at in 0..120_000u64 {
            rate.serve(Instant(at * 500_000), Lane::Read, 4_096);
        }
        let now = Instant(60_000_000_000);
        assert!(rate.opens() <= now + SURPLUS_MAX, "{:?}", rate.opens());
        // A group that is served as soon as it is owed something has the whole rate, no more.
        let (mut at, mut served) = (rate.opens(), 0);
        let end = at + Nanos::from_secs(10);
        while at < end {
            rate.serve(at, Lane::Read, 4_096);
            (at, served) = (rate.opens(), served + 1);
        }
        assert_eq!(served, 10_000);
    }

    fn opens(rates: &[GroupRate]) -> Instant {
        rates.iter().map(GroupRate::opens).max().expect("there is one")
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
        let charge = |rate: &mut GroupRate| _ = rate.charge(start, Lane::Read, 100_000, None);
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

    #[test]
    fn a_rate_that_ends_is_another_one_from_then_on_whoever_stands_still() {
        let only = |bps| Rates { bps: NonZeroU64::new(bps), ..Rates::default() };
        let second = |count: u64| Instant(count * 1_000_000_000);
        let end = |at, bps| Some(LimitsEnd { at, then: only(bps) });
        let limits =
            Limits { sustained: only(1_000), end: end(second(5), 10), ..Limits::default() };
        let (start, mut rates) = (Instant(0), Vec::new());
        set_rates(start, &mut rates, limit_rates(start, &limits));
        let charge = |rates: &mut Vec<GroupRate>, now| {
            rates.iter_mut().for_each(|rate| _ = rate.charge(now, Lane::Read, 1_000, None));
            opens(rates)
        };
        assert_eq!(charge(&mut rates, second(4)), Instant(4_999_000_000), "a second of it");
        // It is given longer.
        let longer = Limits { end: end(second(8), 10), ..limits };
        set_rates(second(4), &mut rates, limit_rates(second(4), &longer));
        assert_eq!(charge(&mut rates, Instant(7_999_999_999)).0 / 1_000_000, 8_998);
        // Nobody says anything for a minute: what passes then is paid for at the rate of the end.
        let late = charge(&mut rates, second(70));
        assert!(late >= second(169), "{late:?}");
    }
}
