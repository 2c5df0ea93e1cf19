//! The requests at the device: how many there are, by what right, and what they take in all.
//!
//! On a disk with a head goes are numbered. Requests of a light task that interrupts a go, and
//! those of the goes before it if its task or the last one has few requests, are *others* while
//! they are at the device: nothing of the go joins them, or a disk that orders what it holds by
//! place (NCQ) would pass the few over for as long as it likes.

use super::cost::RequestKind;
use super::load::Side;
use super::rows::{RequestRow, Right};
use crate::request::RequestId;
use crate::sched::Pop;
use crate::time::{Instant, Nanos};
use crate::verdict::Reason;

/// Nothing goes before something at the device is done.
pub(super) const UNTIL_DONE: Pop = Pop::At(Instant::NEVER, Reason::Turn);

/// A request that goes to the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) task: u32,
    pub(super) id: RequestId,
    /// Why it goes before others, if it does.
    pub(super) right: Option<Right>,
}

/// A choice, or none as nothing is queued; or why the disk is kept although something is.
pub(super) type Turn = Result<Option<Choice>, Pop>;

/// The true cost of a period, known when all its requests have come back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Truth {
    /// By how much the task was charged too little (negative: too much), now that it is known.
    pub(super) amends: i64,
    /// The true time of its go over what was charged, in 256ths.
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

    /// A request goes to the device by that right. `told`: its kind, its side and its charge.
    #[inline(always)]
    pub(super) fn start(
        &mut self,
        now: Instant,
        row: &mut RequestRow,
        right: Right,
        told: (RequestKind, Side, u64),
    ) {
        let (go, (.., cost)) = (self.go, told);
        (row.kind, row.side, row.cost) = told;
        (row.right, row.go, row.is_at_device) = (right, go, true);
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
        self.count += 1;
        match right {
            Right::Other => {}
            Right::Light => self.others += 1,
            Right::Go => self.cost_of_goes += cost,
        }
    }

    /// A request joins the one that has just gone there, which costs so much more.
    pub(super) fn joins(&mut self, lead: &mut RequestRow, cost: u64) {
        lead.cost += cost;
        if lead.right == Right::Go {
            self.cost_of_goes += cost;
        }
        if let Some(period) = &mut self.period {
            period.cost += cost;
        }
    }

    /// A request is done. How long the device was busy since the completion before.
    #[inline(always)]
    pub(super) fn land(&mut self, now: Instant, row: &RequestRow) -> Nanos {
        self.count -= 1;
        if row.right == Right::Go {
            self.cost_of_goes -= row.cost;
        }
        if row.right == Right::Light || row.go < self.fence {
            self.others -= 1;
        }
        let busy = now.since(self.busy_since);
        self.busy_since = now;
        busy
    }

    /// Whether the device does what is known to be of one task.
    pub(super) fn has_period(&self) -> bool {
        self.period.is_some()
    }

    /// A request of a period is done, by that right: what is known of it if it was the last one.
    pub(super) fn end_period(
        &mut self,
        now: Instant,
        right: Right,
        is_spoilt: bool,
    ) -> Option<Truth> {
        if is_spoilt {
            self.period = None;
        }
        let period = self.period.take_if(|_| self.count == 0)?;
        let truth = now.since(period.since).0;
        let amends = truth.cast_signed() - period.cost.cast_signed();
        let ratio = (right == Right::Go).then(|| truth * 256 / period.cost.max(1));
        Some(Truth { amends, ratio })
    }
}
