//! Who pays: a tree of groups with weights, classes, limits and guarantees, as in cgroup v2.
//!
//! Not a stage: admit and sched consult it. [`Settings`] is what holds for one group on one device.
//! A device knows groups by number only; names and what users write are above it
//! (`iopace-groups`).

use crate::limits::{GROUP_WEIGHT_DEFAULT, GROUP_WEIGHT_MAX, GROUP_WEIGHT_MIN};
use crate::time::{Instant, Nanos};
use core::num::NonZeroU64;

pub mod accounts;
pub(crate) mod latency;
pub mod meter;
pub mod pressure;
pub(crate) mod rates;
pub mod table;

/// The share of what is left, relative to the siblings: 1 to 10 000, default 100, as `io.weight`
/// of cgroup v2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u32);

impl Weight {
    /// What a group has that was given none.
    pub const DEFAULT: Weight = Weight(GROUP_WEIGHT_DEFAULT);

    /// A legal weight, or `None`.
    pub const fn new(weight: u32) -> Option<Weight> {
        if weight < GROUP_WEIGHT_MIN || weight > GROUP_WEIGHT_MAX {
            None
        } else {
            Some(Weight(weight))
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight::DEFAULT
    }
}

/// Strict order among siblings: while a real-time group has something to do, best-effort siblings
/// wait, and idle ones get what nobody else wants (with a small bound against starvation).
/// The numbers are those of `io.ioprio_class` of the io-controller of 2009.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// 1: before all others.
    RealTime = 1,
    /// 2: by weight. The default.
    #[default]
    BestEffort = 2,
    /// 3: when nobody else has anything to do.
    Idle = 3,
}

impl Class {
    /// In one with the class above it, for who knows no groups: idle if either is, else real-time
    /// if either is.
    pub fn within(self, above: Class) -> Class {
        match (self, above) {
            (Class::Idle, _) | (_, Class::Idle) => Class::Idle,
            (Class::RealTime, _) | (_, Class::RealTime) => Class::RealTime,
            _ => Class::BestEffort,
        }
    }
}

/// Rates per second for each direction and for both together; `None` is no limit (or, as a
/// guarantee, none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Bytes read per second.
    pub rbps: Option<NonZeroU64>,
    /// Bytes written per second.
    pub wbps: Option<NonZeroU64>,
    /// Bytes per second, reads and writes together.
    pub bps: Option<NonZeroU64>,
    /// Read requests per second.
    pub riops: Option<NonZeroU64>,
    /// Write requests per second.
    pub wiops: Option<NonZeroU64>,
    /// Requests per second, reads and writes together.
    pub iops: Option<NonZeroU64>,
}

/// What a group never exceeds: [`Rates`] in the long run, more for a moment.
///
/// With a burst, the rate may go up to `burst` for `burst_length`; the bucket that this empties
/// refills at the sustained rate. A burst below the sustained rate is an error of the caller and is
/// taken as none. As `*-max` and `*-max-length` of QEMU's throttling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In the long run.
    pub sustained: Rates,
    /// For a moment; `None` for a rate is no burst.
    pub burst: Rates,
    /// How long the burst rate may last after a long idle time.
    pub burst_length: Nanos,
    /// A request counts as one operation for every so many bytes that it begins; `None` counts
    /// every request as one. As QEMU's `iops-size`.
    pub iops_size: Option<NonZeroU64>,
    /// From then on other rates hold, whoever says nothing any more.
    pub end: Option<LimitsEnd>,
}

/// The end of rates that were given for a time ([`crate::cluster`]): the engine goes by it itself,
/// so that it holds to the request also when whoever gave them, or the whole process, stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsEnd {
    /// From here on, by the engine's clock.
    pub at: Instant,
    /// These hold in the place of the sustained ones; `None` leaves a rate as it is.
    pub then: Rates,
}

impl Default for Limits {
    /// None at all; one second of burst once there is one, as in QEMU.
    fn default() -> Limits {
        let (sustained, burst) = (Rates::default(), Rates::default());
        let burst_length = Nanos::from_secs(1);
        Limits { sustained, burst, burst_length, iops_size: None, end: None }
    }
}

/// Slots of a group on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Most requests that the group and its descendants may have in the scheduler and at the disk;
    /// `None`: as many as the device.
    pub max: Option<u32>,
    /// So many it gets before anybody gets more than a guarantee, whatever the weights.
    pub guaranteed: u32,
}

/// Everything that is set for one group on one device, effective values only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `io.weight`.
    pub weight: Weight,
    /// `io.ioprio_class`.
    pub class: Class,
    /// `io.nr_group_requests`.
    pub slots: Slots,
    /// `io.max`.
    pub max: Limits,
    /// `io.min`: what it gets before weights count.
    pub min: Rates,
    /// `io.latency`: the completion latency that the group is to have; siblings without or with a
    /// looser target are narrowed while it has not.
    pub latency: Option<Nanos>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            weight: Weight::DEFAULT,
            class: Class::default(),
            slots: Slots::default(),
            max: Limits::default(),
            min: Rates::default(),
            latency: None,
        }
    }
}
