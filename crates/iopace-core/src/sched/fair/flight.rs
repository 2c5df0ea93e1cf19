//! The requests at the device: whose each is, since when, and its charge.
//!
//! On a disk with a head goes are numbered. Requests of a light task that interrupts a go, and
//! those of the goes before it if its task or the last one has few requests, are *others* while
//! they are at the device: nothing of the go joins them, or a disk that orders what it holds by
//! place (NCQ) would pass the few over for as long as it likes.

use super::bound::Side;
use super::cost::{BUSY_MAX, Kind};
use crate::request::{Done, RequestId};
use crate::time::{Instant, Nanos};

/// By what right a request goes to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Right {
    /// A guarantee pays, its class is higher or has starved, or the disk has no head.
    #[default]
    Other,
    /// Its task is light, and interrupts a go.
    Light,
    /// The go is its task's.
    Go,
}

/// A request at the device, by its slot in the engine's table; the last one of the slot if there
/// is none now.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Flying {
    /// Its arrival number, and one more.
    pub(super) number: u64,
    pub(super) task: u32,
    pub(super) kind: Kind,
    /// Its charge, in ns.
    pub(super) cost: u64,
    pub(super) right: Right,
    pub(super) side: Side,
    /// What it counts for in the load of its task.
    pub(super) bytes: u64,
    pub(super) arrived: Instant,
    /// The go in which it went there.
    pub(super) go: u64,
}

/// A request that has come back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landed {
    pub(super) task: u32,
    pub(super) kind: Kind,
    pub(super) side: Side,
    pub(super) bytes: u64,
    pub(super) arrived: Instant,
    pub(super) right: Right,
    /// How long the device was busy since the completion before.
    pub(super) busy: Nanos,
    /// By how much its task was charged too little (negative: too much), now that it is known.
    pub(super) amends: i64,
    /// The true time of its go over what was charged, in 256ths, if the device did nothing else.
    pub(super) ratio: Option<u64>,
}

/// Requests that the device did with nothing else, from when it had none: its true time is theirs.
#[derive(Clone, Copy, Debug)]
struct Period {
    since: Instant,
    go: u64,
    right: Right,
    cost: u64,
}

/// All that is at the device.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// By slot of the engine's table.
    slots: Vec<Flying>,
    pub(super) count: usize,
    /// The sum of the charges of those that belong to goes, in ns.
    pub(super) cost_of_goes: u64,
    /// The number of this go.
    go: u64,
    /// Requests of earlier goes than this are of others, as are those of light tasks; `others` is
    /// how many there are.
    fence: u64,
    others: usize,
    /// When the device became busy, or last completed a request.
    busy_since: Instant,
    period: Option<Period>,
}

impl Flight {
    /// A go of somebody else begins. `is_alone`: what is there until then is of others.
    pub(super) fn next_go(&mut self, is_alone: bool) {
        self.go += 1;
        if is_alone {
            (self.fence, self.others) = (self.go, self.count);
        }
    }

    /// Whether something of others is there.
    pub(super) fn has_others(&self) -> bool {
        self.others > 0
    }

    /// The number of this go.
    #[inline]
    pub(super) fn go(&self) -> u64 {
        self.go
    }

    /// A request goes to the device.
    #[inline]
    pub(super) fn start(&mut self, now: Instant, id: RequestId, flying: &Flying) {
        let Flying { right, cost, go, .. } = *flying;
        if self.count == 0 {
            self.period = Some(Period { since: now, go, right, cost });
            self.busy_since = now;
        } else if let Some(period) = &mut self.period {
            if (period.go, period.right, right) == (go, Right::Go, Right::Go) {
                period.cost += cost;
            } else {
                self.period = None;
            }
        }
        let at = id.slot as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, Flying::default());
        }
        self.slots[at] = *flying;
        self.count += 1;
        self.cost_of_goes += if right == Right::Go { cost } else { 0 };
        self.others += usize::from(right == Right::Light);
    }

    /// A request is done, if it went there.
    pub(super) fn land(&mut self, now: Instant, done: &Done) -> Option<Landed> {
        let flying = self.slots.get_mut(done.id.slot as usize)?;
        if flying.number != done.id.sequence() + 1 {
            return None;
        }
        flying.number = 0;
        let Flying { task, kind, cost, right, side, bytes, arrived, go, .. } = *flying;
        self.count -= 1;
        self.cost_of_goes -= if right == Right::Go { cost } else { 0 };
        self.others -= usize::from(go < self.fence || right == Right::Light);
        let busy = now.since(self.busy_since);
        self.busy_since = now;
        if !done.ok || busy > BUSY_MAX {
            self.period = None;
        }
        let period = self.period.take_if(|_| self.count == 0);
        let truth = period.map(|period| now.since(period.since).0);
        let charged = period.map_or(0, |period| period.cost);
        let amends = truth.map_or(0, |truth| truth.cast_signed() - charged.cast_signed());
        let ratio = truth.filter(|_| right == Right::Go).map(|truth| truth * 256 / charged.max(1));
        Some(Landed { task, kind, side, bytes, arrived, right, busy, amends, ratio })
    }
}
