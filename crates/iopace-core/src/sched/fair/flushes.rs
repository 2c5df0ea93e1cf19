//! Commits first: others do not make a flush longer than it has to be.
//!
//! A flush ends when all that was written before it is durable, and somebody waits for each.
//!
//! *While one is at the disk.* On a disk with a head it is a command that the disk carries out
//! alone (FLUSH CACHE is not queued with NCQ, ATA8-ACS): requests sent meanwhile only delay it,
//! and beside an endless stream of them it may not begin at all. So nothing joins it there, and
//! the time that the disk has for it alone is charged to its task. On flash only those with many
//! requests, and class idle, write nothing meanwhile: the disk is busy with what they have
//! written before. And class idle reads nothing: a flush of a file system is several requests, one
//! after the other, and would wait behind two of class idle with each.
//!
//! *Between two.* What others have written into the disk's cache is written with the next flush.
//! With a pause `g` and the flush of one's own `a`, a cycle in which others write what takes `w`
//! is `g + a + w` long, and the product of both rates, `w / (g + a + w)^2`, is the largest at
//! `w = g + a` (see `bound` for why the product). So the *allowance* of bytes between two flushes
//! shrinks when one takes longer than `g + 2a`, and grows when it is used up and takes less. Class
//! idle has no claim to as much: it may write for a sixteenth of that time, or half of `a`.
//! ```text
//!   commits   ──think─log─┤flush a + w  ├──think─log─┤flush a + w  ├──
//!   others      write w   ┆ (head: wait)┆  write w   ┆
//! ```
//! *Disks with a head and pauses of no more than `wait_ms`.* The task that flushes has goes, as all
//! others have: they write nothing in its go, and it waits in theirs. With an allowance instead,
//! each flush would cost the head a way to their bytes and back. The next flush writes out what
//! they have put into the disk's cache in their go. So each write of theirs pays for the time that
//! it adds to the next flush, the *price* of a KiB, which is learned from flushes after such
//! writes; and the task that flushes pays for the rest only. Between two flushes they pay for
//! 100 ms at most, whatever they write, and for what a guarantee covers nothing.
//!
//! *Class idle on a disk with a head* waits out the pauses of a series of flushes, up to twice as
//! long as they usually are and 100 ms, but for a request each `idle_starve_ms`: it asked for the
//! time that nobody wants, and each of its requests costs the next commit a way back. That is the
//! grace period of ioprio_set(2).
//!
//! What one's own flush takes is seen by letting others write nothing now and then (one cycle of
//! [`PROBE_EVERY`]), and with goes by a second flush in one go; until then there is no price. A
//! price that no flush confirms fades. Without a flush for twice the usual pause, nobody waits for
//! one.

use super::bound::RECENT;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;

/// Others wait for a flush no longer than this, the default length of a go: a disk that has much to
/// write into places far apart would stop everybody for seconds.
pub(super) const HOLD_MAX: Nanos = Nanos::from_millis(100);

/// Bounds of the allowance, and what it is at first.
const ALLOWANCE: [u64; 3] = [64 << 10, 1 << 20, 1 << 30];

/// Class idle may write for a sixteenth of the time that others may, `w = (g + a) / 16`, or what
/// makes a flush half as long again: less is within chance.
const IDLE_PART: u64 = 16;

/// The least time of a flush is forgotten so slowly: doubled after some 180 of them.
const LEAST_GROWS: u64 = 256;

/// In one cycle of so many others write nothing.
const PROBE_EVERY: u32 = 16;

/// A pause longer than this is none between two flushes of a series: the disk has then had time to
/// write what its cache holds.
const PAUSE_MAX: Nanos = Nanos::from_millis(200);

/// The longest pause in which others are kept from writing to see what a flush takes without.
const PROBE_PAUSE_MAX: Nanos = Nanos::from_millis(50);

/// Fewer bytes of others say nothing about what they cost.
const PRICED_MIN: u64 = 64 << 10;

/// The most that a KiB costs, in ns: a page of 4 KiB written at a place of its own, at 7200 rpm.
const PRICE_MAX: u64 = 4_000_000;

/// The flushes at the disk, and what others may write between them.
#[derive(Debug)]
pub(super) struct Flushes {
    count: u32,
    /// When the first of them began.
    since: Instant,
    /// Since when they have the disk to themselves.
    alone_since: Option<Instant>,
    /// When the last one ended, when who flushes came again, and how long that usually takes.
    ended: Option<Instant>,
    came: Option<Instant>,
    pause: Nanos,
    /// What a flush takes at the least.
    least: Nanos,
    /// Time of a flush before which others have written nothing.
    own: Nanos,
    /// Time by which a KiB that others have written makes the next flush longer, in ns.
    price: u64,
    /// Whether another one came while the first was at the disk: what they took says nothing then.
    has_overlapped: bool,
    /// Time that others have paid for since the last flush, and had paid for before it.
    paid: Nanos,
    paid_before: Nanos,
    /// Bytes that others have written since the last one, and had written before it, and may.
    written: u64,
    written_before: u64,
    allowance: u64,
    /// How much of `written` was of class idle, and the part of the allowance that those who wrote
    /// before the last flush had.
    written_by_idle: u64,
    part_before: u64,
    /// Series of flushes that have ended.
    cycle: u32,
    /// The class of the group that flushes, whether all flushes at the disk are of class idle, and
    /// when one of others last began.
    pub(super) rank: u8,
    is_of_idle: bool,
    others_at: Option<Instant>,
}

impl Default for Flushes {
    fn default() -> Flushes {
        Flushes {
            count: 0,
            since: Instant::ZERO,
            alone_since: None,
            ended: None,
            came: None,
            pause: Nanos::ZERO,
            least: Nanos::ZERO,
            own: Nanos::ZERO,
            price: 0,
            has_overlapped: false,
            paid: Nanos::ZERO,
            paid_before: Nanos::ZERO,
            written: 0,
            written_before: 0,
            allowance: ALLOWANCE[1],
            written_by_idle: 0,
            part_before: 1,
            cycle: 0,
            rank: 0,
            is_of_idle: false,
            others_at: None,
        }
    }
}

impl Flushes {
    /// Until when others wait for the flush at the disk.
    #[inline]
    pub(super) fn hold(&self, now: Instant) -> Option<Instant> {
        let until = self.since + HOLD_MAX;
        (self.count > 0 && now < until).then_some(until)
    }

    /// Until when those with many requests write nothing, for the flush at the disk or the next; or
    /// class idle.
    #[inline]
    pub(super) fn hold_writes(&self, now: Instant, is_idle: bool) -> Option<Instant> {
        if self.count > 0 {
            return self.hold(now);
        }
        let until = self.next_until()?;
        let part = if is_idle { IDLE_PART } else { 1 };
        let allowance = if self.is_probe() { 0 } else { self.allowance / part };
        (self.written >= allowance && now < until).then_some(until)
    }

    /// Until when the next flush of a series is expected, or who flushes goes on with what it has
    /// begun.
    fn next_until(&self) -> Option<Instant> {
        let next = self.ended? + self.pause.times(2).min(HOLD_MAX);
        Some(self.came.map_or(next, |came| came + HOLD_MAX))
    }

    /// Until when class idle leaves a disk with a head where it is, for the next flush of others.
    #[inline]
    pub(super) fn grace(&self, now: Instant) -> Option<Instant> {
        self.next_until().filter(|until| now < *until && self.are_of_others(now))
    }

    /// Whether the series, if there is one, is not of class idle.
    fn are_of_others(&self, now: Instant) -> bool {
        self.others_at.is_some_and(|at| now.since(at) <= RECENT)
    }

    /// The class of who flushes.
    pub(super) fn rank(&self) -> u8 {
        self.rank
    }

    /// Whether class idle waits for the flush at the disk.
    #[inline]
    pub(super) fn holds_idle(&self, now: Instant) -> bool {
        !self.is_of_idle && self.hold(now).is_some()
    }

    /// Whether none is at the disk.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn is_probe(&self) -> bool {
        self.cycle.is_multiple_of(PROBE_EVERY) && self.pause <= PROBE_PAUSE_MAX
    }

    /// Nothing but flushes is at the disk from now on.
    #[inline]
    pub(super) fn are_alone(&mut self, now: Instant) {
        if self.count > 0 && self.alone_since.is_none() {
            self.alone_since = Some(now);
        }
    }

    /// Who flushes has a request again.
    #[inline]
    pub(super) fn comes(&mut self, now: Instant) {
        let is_soon = self.ended.is_some_and(|ended| now.since(ended) <= PAUSE_MAX);
        if self.count == 0 && self.came.is_none() && is_soon {
            self.came = Some(now);
        }
    }

    /// One of the others writes. What it pays for the next flush on a disk with a head: all of them
    /// together no more than for what a flush may hold them up.
    #[inline]
    pub(super) fn wrote(&mut self, now: Instant, bytes: Bytes, wait: Nanos) -> Nanos {
        self.written = self.written.saturating_add(bytes.get());
        if !self.are_in_goes(now, wait) {
            return Nanos::ZERO;
        }
        let costs = Nanos(bytes.get().saturating_mul(self.price) / 1024);
        let pays = costs.min(HOLD_MAX.saturating_sub(self.paid));
        self.paid += pays;
        pays
    }

    /// So much of what was just written is of class idle.
    pub(super) fn idle_wrote(&mut self, bytes: Bytes) {
        self.written_by_idle = self.written_by_idle.saturating_add(bytes.get());
    }

    /// Whether flushes follow each other so soon that the next one is waited for in a go.
    #[inline]
    pub(super) fn are_in_goes(&self, now: Instant, wait: Nanos) -> bool {
        let is_recent = self.ended.is_some_and(|ended| now.since(ended) <= RECENT);
        is_recent && self.pause > Nanos::ZERO && self.pause <= wait
    }

    /// Time of the flush at the disk, without that which others have paid for.
    pub(super) fn own_part(&mut self, took: Nanos) -> Nanos {
        let paid = self.paid_before.min(took);
        self.paid_before = self.paid_before.saturating_sub(paid);
        took.saturating_sub(paid)
    }

    /// A flush goes to the disk, of class idle or not. One of class idle is none of the series of
    /// others, whose next flush it only makes shorter.
    pub(super) fn start(&mut self, now: Instant, is_of_idle: bool) {
        let is_first = self.count == 0;
        self.count += 1;
        if is_of_idle && self.are_of_others(now) {
            if is_first {
                (self.since, self.alone_since, self.is_of_idle) = (now, None, true);
                (self.written, self.written_by_idle) = (0, 0);
            }
        } else if is_first || (self.is_of_idle && !is_of_idle) {
            self.begin(now);
            self.is_of_idle = is_of_idle;
        }
        self.has_overlapped = !is_first;
        if !is_of_idle {
            self.others_at = Some(now);
        }
    }

    /// A flush is done. For how long flushes had the disk to themselves until then. `is_alone`: the
    /// disk has nothing but flushes.
    pub(super) fn done(&mut self, now: Instant, is_alone: bool) -> Option<Nanos> {
        self.count = self.count.saturating_sub(1);
        let alone_since = self.alone_since.take();
        if self.count == 0 {
            if !self.is_of_idle || !self.are_of_others(now) {
                self.end(now);
            }
        } else if is_alone {
            self.are_alone(now);
        }
        alone_since.map(|since| now.since(since))
    }

    /// The first flush begins.
    pub(super) fn begin(&mut self, now: Instant) {
        let came = self.came.take().unwrap_or(now);
        let ended = self.ended.filter(|ended| now.since(*ended) <= RECENT);
        let pause = ended.map(|ended| came.since(ended)).filter(|pause| *pause <= PAUSE_MAX);
        self.pause = match pause {
            Some(pause) if self.pause > Nanos::ZERO => Nanos((3 * self.pause.0 + pause.0) / 4),
            pause => pause.unwrap_or_default(),
        };
        (self.since, self.alone_since, self.has_overlapped) = (now, None, false);
        let is_of_idle = self.written > 0 && self.written_by_idle == self.written;
        self.part_before = if is_of_idle { IDLE_PART } else { 1 };
        (self.written_before, self.written, self.written_by_idle) = (self.written, 0, 0);
        (self.paid_before, self.paid) = (self.paid, Nanos::ZERO);
    }

    /// The last flush has ended.
    pub(super) fn end(&mut self, now: Instant) {
        let took = now.since(self.since);
        let grown = self.least + Nanos(self.least.0 / LEAST_GROWS + 1);
        self.least = if self.least == Nanos::ZERO { took } else { took.min(grown) };
        if !self.has_overlapped {
            self.learn(took);
        }
        let step = if self.is_probe() { 0 } else { self.allowance / 4 };
        self.cycle = self.cycle.wrapping_add(1);
        let longer = Nanos((self.pause + self.least).0 / self.part_before);
        let longest = self.least + longer.max(Nanos(self.least.0 / 2));
        if took > longest {
            self.allowance -= step;
        } else if self.written_before >= self.allowance / self.part_before {
            self.allowance += step;
        }
        self.allowance = self.allowance.clamp(ALLOWANCE[0], ALLOWANCE[2]);
        self.ended = Some(now);
    }

    /// A flush took so long: what it takes alone, or what the bytes of others cost. A price that
    /// cannot be seen fades, and there is none while it is not known what a flush takes alone.
    fn learn(&mut self, took: Nanos) {
        if self.written_before == 0 {
            self.own = mean(self.own, took);
        } else if self.written_before < PRICED_MIN || self.own == Nanos::ZERO {
            self.price -= self.price.div_ceil(8);
        } else {
            let price = took.saturating_sub(self.own).0 / (self.written_before / 1024);
            self.price = mean(Nanos(self.price), Nanos(price.min(PRICE_MAX))).0;
        }
    }
}

/// The mean of what was seen so far and a new value, which counts for a quarter.
fn mean(of: Nanos, new: Nanos) -> Nanos {
    if of == Nanos::ZERO { new } else { Nanos((3 * of.0 + new.0) / 4) }
}
