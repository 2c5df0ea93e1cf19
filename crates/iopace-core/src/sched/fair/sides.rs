//! Who has few requests, who has many, and who is of class idle: at the disk they are kept apart.

use super::bound::{Bound, Side};
use super::forest::Sight;
use super::rows::Row;
use crate::time::{Instant, Nanos};

/// Most requests of class idle at the disk while others come and go: whoever comes then stands
/// behind no more than these.
const IDLE_BEHIND_MAX: u32 = 2;

/// So long after a request of another class its next one is still expected: the default of
/// `idle_starve_ms`, from BFQ.
const OTHERS_RECENT: Nanos = Nanos::from_millis(200);

/// What the disk has of each side.
#[derive(Debug, Default)]
pub(super) struct Sides {
    /// Requests of class idle at the disk and queued, when one last went to the disk, and when one
    /// of another class last came.
    idle_in_flight: u32,
    idle_queued: usize,
    idle_at: Option<Instant>,
    others_at: Option<Instant>,
    bound: Bound,
}

impl Sides {
    /// A request comes, of one that is on that side.
    #[inline(always)]
    pub(super) fn comes(&mut self, now: Instant, side: Side, sight: &Sight, has_head: bool) {
        match side {
            Side::Idle => self.idle_queued += 1,
            _ => self.others_at = Some(now),
        }
        if side == Side::Few && !has_head {
            self.bound.few_come(now, sight.rank, sight.weight);
        }
    }

    /// A request goes to the disk.
    #[inline(always)]
    pub(super) fn start(&mut self, now: Instant, side: Side, weight: u32) {
        match side {
            Side::Idle => {
                self.idle_in_flight += 1;
                self.idle_at = Some(now);
            }
            Side::Many => self.bound.start(weight),
            Side::Few => {}
        }
    }

    /// A request is done.
    #[inline(always)]
    pub(super) fn done(&mut self, now: Instant, row: &Row, arrived: Instant) {
        match row.side {
            Side::Idle => self.idle_in_flight -= 1,
            // With what has joined it.
            Side::Many => self.bound.many_done(now, u64::from(row.kind.bytes)),
            Side::Few => self.bound.few_done(now, arrived),
        }
    }

    /// Whether the disk has as much of class idle as it may.
    #[inline(always)]
    pub(super) fn is_idle_full(&self, now: Instant) -> bool {
        let is_recent = |at: Instant| now < at + OTHERS_RECENT;
        self.idle_in_flight >= IDLE_BEHIND_MAX && self.others_at.is_some_and(is_recent)
    }

    /// A request is queued no more that came as one of that side.
    #[inline(always)]
    pub(super) fn leaves(&mut self, side: Side) {
        self.idle_queued -= usize::from(side == Side::Idle);
    }

    /// Requests of class idle that are queued.
    pub(super) fn idle_queued(&self) -> usize {
        self.idle_queued
    }

    /// When class idle has had none for so long.
    pub(super) fn idle_due(&self, starve: Nanos) -> Instant {
        self.idle_at.map_or(Instant::ZERO, |at| at + starve)
    }

    /// Whether it has as much of the many as it may, if it has no head.
    #[inline(always)]
    pub(super) fn is_bound(&self, now: Instant) -> bool {
        self.bound.is_full(now)
    }

    /// The class of the few.
    pub(super) fn few_rank(&self) -> u8 {
        self.bound.rank()
    }
}
