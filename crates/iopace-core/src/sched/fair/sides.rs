//! Who has few requests, who has many, and who is of class idle: at the disk they are kept apart.

use super::bound::{Bound, RECENT};
use super::forest::Sight;
use super::load::{FEW_BYTES, FairLoad, PIECE_AMONG_FEW, Side};
use super::rows::RequestRow;
use crate::time::{Instant, Nanos};

/// Most requests of class idle at the disk while others come and go: whoever comes then stands
/// behind no more than these.
const IDLE_BEHIND_MAX: u32 = 2;

/// The weight of a group of class idle, or a task in the root, among the many on a disk without a
/// head: the least there is. It is counted only where others have few, and they come first.
const IDLE_WEIGHT: u32 = 1;

/// So long after a request of another class its next one is still expected: the default of
/// `idle_starve_ms`, from BFQ.
const OTHERS_RECENT: Nanos = Nanos::from_millis(200);

/// What the disk has of each side.
#[derive(Debug)]
pub(super) struct Sides {
    /// Requests of class idle at the disk and queued, when one last went to the disk, and when one
    /// of another class last came.
    idle_in_flight: u32,
    idle_queued: usize,
    idle_at: Option<Instant>,
    others_at: Option<Instant>,
    /// See [`Sides::few_piece`], and when a request of somebody with more than [`FEW_BYTES`] came.
    few_piece: u64,
    many_at: Option<Instant>,
    bound: Bound,
}

impl Default for Sides {
    fn default() -> Sides {
        Sides {
            idle_in_flight: 0,
            idle_queued: 0,
            idle_at: None,
            others_at: None,
            few_piece: PIECE_AMONG_FEW,
            many_at: None,
            bound: Bound::default(),
        }
    }
}

impl Sides {
    /// A request comes, of a task that has so much; on which side it is, and whether its group, or
    /// the task in the root, is to be counted there: see [`FairLoad::count`].
    #[inline(always)]
    pub(super) fn comes(
        &mut self,
        now: Instant,
        sight: &mut Sight,
        own: &mut FairLoad,
        has_head: bool,
    ) -> (Side, Option<bool>) {
        if has_head {
            self.few_piece = FEW_BYTES;
        }
        let mut side = sight.side(own, self.few_piece);
        let mut counts = None;
        match side {
            Side::Idle => self.idle_queued += 1,
            _ => self.others_at = Some(now),
        }
        if has_head {
            sight.uncount(own);
        } else if side == Side::Idle {
            self.bound.end_epoch(now);
            (_, counts) = sight.count(own, self.bound.epoch(), true);
        } else {
            self.bound.end_epoch(now);
            let has_many = !sight.has_few(own, self.few_piece);
            (side, counts) = sight.count(own, self.bound.epoch(), has_many);
            if side == Side::Few {
                self.bound.few_come(now, sight.rank);
            } else if has_many && !sight.has_few(own, FEW_BYTES) {
                (self.few_piece, self.many_at) = (FEW_BYTES, Some(now));
            }
            if self.many_at.is_some_and(|at| now > at + RECENT) {
                self.few_piece = PIECE_AMONG_FEW;
            }
        }
        if side == Side::Few {
            self.bound.few_queued(now);
        }
        (side, counts)
    }

    /// A group of that weight, or a task in the root, is there; `moves`: it was counted as one of
    /// the few.
    #[cold]
    pub(super) fn count(&mut self, side: Side, weight: u32, moves: bool) {
        match side {
            Side::Idle => self.bound.count(Side::Many, IDLE_WEIGHT, false),
            _ => self.bound.count(side, weight, moves),
        }
    }

    /// The largest mean request of a task or group with few: see [`FairLoad::is_few`].
    #[inline(always)]
    pub(super) fn few_piece(&self) -> u64 {
        self.few_piece
    }

    /// A request goes to the disk.
    #[inline(always)]
    pub(super) fn start(&mut self, now: Instant, side: Side) {
        match side {
            Side::Idle => {
                self.idle_in_flight += 1;
                self.idle_at = Some(now);
                self.bound.start();
            }
            Side::Many => self.bound.start(),
            Side::Few => self.bound.few_change(1),
        }
    }

    /// A request is done.
    #[inline(always)]
    pub(super) fn done(&mut self, now: Instant, row: &RequestRow, arrived: Instant) {
        match row.side {
            Side::Few => return self.bound.few_done(now, arrived),
            Side::Many => {}
            Side::Idle => self.idle_in_flight -= 1,
        }
        // With what has joined it.
        self.bound.many_done(now, u64::from(row.kind.bytes));
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
        match side {
            Side::Idle => self.idle_queued -= 1,
            Side::Few => self.bound.few_change(-1),
            Side::Many => {}
        }
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

    /// Until when the many wait as it is the turn of the few.
    pub(super) fn turn_of_few(&self, now: Instant) -> Option<Instant> {
        self.bound.turn_of_few(now)
    }

    /// Whether it is the turn of the few, and not only tried.
    #[inline]
    pub(super) fn is_turn_paid(&self, now: Instant) -> bool {
        self.bound.is_turn_paid(now)
    }

    /// The disk has nothing and nobody of the few can go.
    pub(super) fn nobody_there(&mut self) {
        self.bound.nobody_there();
    }

    /// The class of the few.
    pub(super) fn few_rank(&self) -> u8 {
        self.bound.rank()
    }
}
