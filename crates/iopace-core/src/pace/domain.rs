//! Divides one memory among the devices that dirty it, by what each has lately written.
//!
//! ```text
//!   limit of all  ├── held by device 1 ──┼── held by 2 ──┼─ free ─┤
//!                   limit 1 <= held 1      dirty 2 > limit 2: it has to give back, and what is
//!                                          dirty there stays held until it is written
//! ```
//! A device learns its budget when it reports, and at no other time. So that limits never add up to
//! more than there is, a device's limit goes down in its own report first; what it gives back is
//! free when its dirty memory is below; and limits go up only by what is free, to twice themselves
//! at most. The target of a device is its part of what was written in the last seconds, above a
//! floor that an idle device keeps, so that it can start at once. What a device may not have, since
//! its own most is below its part, goes to the others by what they wrote (`fill`). While nothing is
//! written all have the floor: nobody knows yet which of them is slow, and what a slow one has
//! filled it has for long. Only a device that dirties alone grows from there at once: nobody else
//! wants the memory, and with its first write it would get all anyway.
//!
//! # Properties
//! 1. Limits, and dirty memory above them, never add up to more than the memory's limit, whatever
//!    is reported in whatever order, as long as each device keeps to its own.
//! 2. A slow device that fills memory comes down to its share within 10 s, as fast as it writes.
//! 3. An idle device has its floor at any time.
//! 4. A device alone has all memory.
//! 5. What a device leaves by its own most, the others that write get, to the byte.
//! 6. Of idle devices, one that begins has four times its floor with the second report.
//!
//! # Sources
//! __wb_calc_thresh of Linux (mm/page-writeback.c): proportions of completed writes, aged over
//! 3 s, minimum and maximum ratio, floors for idle devices. There each device computes its own
//! limit, and limits may add up to more; holding what is not free is ours.

use super::{Budget, Thresholds};
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, scaled};

/// Write-back begins at this part of memory by default, and dirty memory ends at that: the
/// dirty_background_ratio and dirty_ratio of Linux.
pub const BACKGROUND_PERCENT: u8 = 10;
/// See [`BACKGROUND_PERCENT`].
pub const LIMIT_PERCENT: u8 = 20;

/// What was written counts for so long (VM_COMPLETIONS_PERIOD_LEN of Linux).
const PERIOD: u64 = 3_000_000_000;

/// A limit goes down by a sixteenth in this time: below a device whose limit is taken away at once
/// every task would stand still until it has drained. Ten times less takes 7.5 s.
const STEP: u64 = 200_000_000;
const STEP_PART: u64 = 16;

/// A limit grows to so many times itself in one report, or to the floor. What the others have
/// written since their last reports is not known: after a quiet time the first one to report would
/// have written all there is, and be given all memory for it.
const GROWTH: u64 = 2;

/// The floor of an idle device is this part of memory, or less with many: all floors together are
/// at most half.
const FLOOR_PART: u64 = 8;

impl Thresholds {
    /// From two sizes. A background that is not below the limit becomes half of it, as in Linux.
    pub fn new(background: Bytes, limit: Bytes) -> Thresholds {
        let background = if background >= limit { Bytes(limit.0 / 2) } else { background };
        Thresholds { background, limit }
    }

    /// From parts of a memory, in per cent (more than 100 is 100).
    pub fn of_memory(memory: Bytes, background_percent: u8, limit_percent: u8) -> Thresholds {
        let part = |percent: u8| Bytes(scaled(memory.0, u64::from(percent.min(100)), 100));
        Thresholds::new(part(background_percent), part(limit_percent))
    }
}

/// One device in the memory of all.
#[derive(Clone, Copy, Debug, Default)]
struct Device {
    dirty: u64,
    /// Written lately, aged.
    written: u64,
    /// Written since the beginning.
    written_ever: u64,
    /// What it was told.
    limit: u64,
    /// At least its limit, and what is dirty.
    held: u64,
    /// Least and most that it may have, in thousandths of memory.
    min_permille: u16,
    max_permille: u16,
    reported: Option<Instant>,
}

/// One memory and its devices.
#[derive(Clone, Debug)]
pub struct Domain {
    all: Thresholds,
    devices: Vec<Device>,
}

impl Domain {
    /// A memory without devices.
    pub fn new(all: Thresholds) -> Domain {
        Domain { all: Thresholds::new(all.background, all.limit), devices: Vec::new() }
    }

    /// A memory with so many devices that have written nothing yet: each has its floor. With an
    /// equal part a slow one would fill more in a second than it can write in half a minute.
    pub fn at_rest(all: Thresholds, count: usize) -> Domain {
        let mut domain = Domain::new(all);
        for _ in 0..count {
            domain.add();
        }
        let floor = domain.floor();
        for device in &mut domain.devices {
            (device.limit, device.held) = (floor, floor);
        }
        domain
    }

    /// A new device; says its index. It has what is free, up to its floor.
    pub fn add(&mut self) -> usize {
        self.devices.push(Device { max_permille: 1_000, ..Device::default() });
        let index = self.devices.len() - 1;
        let start = if index == 0 { self.all.limit.0 } else { self.floor() };
        let limit = start.min(self.free());
        (self.devices[index].limit, self.devices[index].held) = (limit, limit);
        index
    }

    /// The least and the most that a device may have, in thousandths of memory. What all devices
    /// are to have at least should be below 1000 in sum: more is given in order of reports.
    pub fn set_ratios(&mut self, index: usize, min_permille: u16, max_permille: u16) {
        let device = &mut self.devices[index];
        (device.min_permille, device.max_permille) = (min_permille, max_permille);
    }

    /// Another size of memory. Limits follow with the reports; until then they may add up to more
    /// than a smaller one.
    pub fn set_all(&mut self, all: Thresholds) {
        self.all = Thresholds::new(all.background, all.limit);
    }

    /// A device tells what it has dirty and what it wrote since its last report, and learns what it
    /// may use from now on. To be called about every 200 ms for each device.
    pub fn report(&mut self, now: Instant, index: usize, dirty: Bytes, written: Bytes) -> Budget {
        let device = &mut self.devices[index];
        let elapsed = now.since(device.reported.unwrap_or(now));
        device.reported = Some(device.reported.map_or(now, |last| last.max(now)));
        device.dirty = dirty.0;
        device.written = aged(device.written, elapsed).saturating_add(written.0);
        device.written_ever = device.written_ever.saturating_add(written.0);
        let target = self.target(now, index);
        let floor = self.floor();
        let device = &mut self.devices[index];
        let target = target.min(floor.max(device.limit.saturating_mul(GROWTH)));
        if target < device.limit {
            let step = scaled(device.limit / STEP_PART + 1, elapsed.0.min(4 * STEP), STEP);
            device.limit = device.limit.saturating_sub(step).max(target);
        }
        device.held = device.limit.max(dirty.0);
        let more = target.saturating_sub(self.devices[index].held).min(self.free());
        let device = &mut self.devices[index];
        if target > device.limit {
            device.held += more;
            device.limit = device.held.min(target);
        }
        self.budget(index)
    }

    /// What a device was told.
    pub fn budget(&self, index: usize) -> Budget {
        let limit = self.devices[index].limit;
        let background = scaled(limit, self.all.background.0, self.all.limit.0.max(1));
        let device = Thresholds { background: Bytes(background), limit: Bytes(limit) };
        let elsewhere = |of: fn(&Device) -> u64| {
            let sum = self.devices.iter().map(of).fold(0u64, u64::saturating_add);
            Bytes(sum - of(&self.devices[index]).min(sum))
        };
        Budget {
            device,
            all: self.all,
            dirty_elsewhere: elsewhere(|device| device.dirty),
            written_elsewhere: elsewhere(|device| device.written_ever),
        }
    }

    /// What all devices were told, by index.
    pub fn budgets(&self) -> Vec<Budget> {
        (0..self.devices.len()).map(|index| self.budget(index)).collect()
    }

    fn free(&self) -> u64 {
        let held = self.devices.iter().fold(0u64, |sum, device| sum.saturating_add(device.held));
        self.all.limit.0.saturating_sub(held)
    }

    fn floor(&self) -> u64 {
        let parts = FLOOR_PART.max(2 * self.devices.len() as u64);
        if self.devices.len() == 1 { self.all.limit.0 } else { self.all.limit.0 / parts }
    }

    /// What a device should have.
    fn target(&self, now: Instant, index: usize) -> u64 {
        let (all, floor) = (self.all.limit.0, self.floor());
        let permille = |permille: u16| scaled(all, u64::from(permille.min(1_000)), 1_000);
        let mut wants: Vec<Want> = self
            .devices
            .iter()
            .map(|device| {
                let most = permille(device.max_permille);
                let has = floor.max(permille(device.min_permille)).min(most);
                let weight = aged(device.written, now.since(device.reported.unwrap_or(now)));
                Want { weight, has, most }
            })
            .collect();
        let is_used = |other: usize| wants[other].weight > 0 || self.devices[other].dirty > 0;
        if (0..wants.len()).all(|other| is_used(other) == (other == index)) {
            wants[index].weight = wants[index].weight.max(1);
        }
        let had = wants.iter().fold(0u64, |sum, want| sum.saturating_add(want.has));
        fill(&mut wants, all.saturating_sub(had));
        wants[index].has
    }
}

/// What a device has, and could have.
#[derive(Clone, Copy, Debug)]
struct Want {
    /// Its part of what is divided counts so much.
    weight: u64,
    has: u64,
    /// It may have no more.
    most: u64,
}

/// Divides `rest` by weight. Who would get more than he may gets that; what he leaves is divided
/// again. What nobody with a weight may have, and less than a byte for each, is left.
fn fill(wants: &mut [Want], mut rest: u64) {
    loop {
        let open = |want: &&mut Want| want.weight > 0 && want.has < want.most;
        let sum: u128 = wants.iter_mut().filter(open).map(|want| u128::from(want.weight)).sum();
        let whole = u128::from(rest);
        // Below 2^128: both have 64 bits. At most `rest`: a weight is at most the sum.
        let part = |want: &Want| (whole * u128::from(want.weight) / sum) as u64;
        let full = wants.iter_mut().filter(open).filter(|want| part(want) >= want.most - want.has);
        let mut is_any_full = false;
        for want in full {
            rest -= want.most - want.has;
            want.has = want.most;
            is_any_full = true;
        }
        if !is_any_full {
            wants.iter_mut().filter(open).for_each(|want| want.has += part(want));
            return;
        }
    }
}

/// What is left of an amount after some time: e folds in a period, nearly.
fn aged(amount: u64, elapsed: Nanos) -> u64 {
    scaled(amount, PERIOD, elapsed.0.saturating_add(PERIOD))
}

#[cfg(test)]
mod tests;
