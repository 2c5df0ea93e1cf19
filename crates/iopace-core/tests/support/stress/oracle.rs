//! What must hold of a group's admissions, computed without the engine's meters: a leaky bucket for
//! each limit, in whole units times nanoseconds.

use iopace_core::group::{Limits, Rates};
use iopace_core::request::Lane;
use iopace_core::time::{Instant, Nanos};
use std::num::NonZeroU64;

/// What a meter forgives a caller whose timer was late: the bound of `group/meter.rs`.
const LATENESS: Nanos = Nanos::from_millis(20);

/// What it does not take from write-back, which comes in turns.
const TURN: Nanos = Nanos::from_secs(1);

const NANOS_PER_SEC: i128 = 1_000_000_000;

/// One request that was admitted.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    pub at: Instant,
    pub lane: Lane,
    pub bytes: u64,
    pub sync: bool,
}

impl Admission {
    /// Whether no task waits for it and it writes.
    pub fn is_write_back(&self) -> bool {
        !self.sync && self.lane == Lane::Write
    }
}

/// One rate that must not be exceeded.
#[derive(Debug)]
struct Bucket {
    /// Its place in the list of rates: three in bytes, three in operations; of reads, writes, both.
    place: usize,
    per_second: i128,
    tolerance: i128,
    /// What it holds, in units times nanoseconds, as of `at`; below zero is what may come yet.
    level: i128,
    at: Instant,
}

impl Bucket {
    fn new(place: usize, rate: NonZeroU64, tolerance: u128, at: Instant) -> Bucket {
        let tolerance = i128::try_from(tolerance).expect("64 bits times 64 bits over 64");
        let per_second = i128::from(rate.get());
        Bucket { place, per_second, tolerance, level: -i128::from(TURN.0) * per_second, at }
    }

    /// Takes a request in; false if it was let through too early.
    ///
    /// All but the last request of any stretch of time fit into `rate x (time + tolerance +
    /// lateness)`: that is property 1 of the meter, for every stretch at once. For write-back the
    /// lateness is a turn.
    fn takes(&mut self, admission: &Admission, late: Nanos, operations: u64) -> bool {
        let counts = match self.place % 3 {
            0 => admission.lane == Lane::Read,
            1 => admission.lane == Lane::Write,
            _ => admission.lane != Lane::Flush,
        };
        if !counts {
            return true;
        }
        let passed = i128::from(admission.at.since(self.at).0);
        self.at = admission.at;
        let floor = -i128::from(late.0) * self.per_second;
        self.level = (self.level - passed * self.per_second).max(floor);
        // A nanosecond for the remainder that the meter carries.
        let fits = self.level <= (self.tolerance + 1) * self.per_second;
        let amount = if self.place < 3 { admission.bytes } else { operations };
        self.level += i128::from(amount) * NANOS_PER_SEC;
        fits
    }
}

fn list(rates: &Rates) -> [Option<NonZeroU64>; 6] {
    [rates.rbps, rates.wbps, rates.bps, rates.riops, rates.wiops, rates.iops]
}

fn buckets(limits: &Limits, at: Instant) -> Vec<Bucket> {
    let mut all = Vec::new();
    let burst = list(&limits.burst);
    for (place, rate) in list(&limits.sustained).into_iter().enumerate() {
        let Some(rate) = rate else { continue };
        let Some(burst) = burst[place].filter(|burst| *burst > rate) else {
            all.push(Bucket::new(place, rate, 0, at));
            continue;
        };
        let above = u128::from(burst.get() - rate.get());
        let tolerance = u128::from(limits.burst_length.0) * above / u128::from(rate.get());
        all.push(Bucket::new(place, rate, tolerance, at));
        all.push(Bucket::new(place, burst, 0, at));
    }
    all
}

/// Checks the admissions of one group and all below it against its limits, each in force from an
/// instant on; says what was exceeded. `admissions` are in order of time.
pub fn exceeded(history: &[(Instant, Limits)], admissions: &[Admission]) -> Option<String> {
    let mut held = Vec::new();
    let mut changes = history.iter().peekable();
    let (mut since, mut iops_size) = (Instant::ZERO, None);
    for (place, admission) in admissions.iter().enumerate() {
        while let Some((at, limits)) = changes.next_if(|(at, _)| *at <= admission.at) {
            // What was owed before is not checked: the buckets begin empty.
            held = buckets(limits, *at);
            (since, iops_size) = (*at, limits.iops_size);
        }
        if admission.at == since {
            // Before or after the change: it cannot be told.
            continue;
        }
        let is_same = |other: &&Admission| other.at == admission.at;
        let before = admissions[..place].iter().rev().take_while(is_same);
        let mut same = admissions[place..].iter().take_while(is_same).chain(before);
        let late = if same.any(Admission::is_write_back) { TURN } else { LATENESS };
        let pieces = iops_size.map_or(1, |size| admission.bytes.div_ceil(size.get()).max(1));
        let over =
            held.iter_mut().filter_map(|b| (!b.takes(admission, late, pieces)).then_some(b.place));
        let over: Vec<usize> = over.collect();
        if let Some(place) = over.first() {
            return Some(format!("rate {place} of {history:?} was exceeded at {:?}", admission.at));
        }
    }
    None
}
