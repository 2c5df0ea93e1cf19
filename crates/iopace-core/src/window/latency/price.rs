//! What write-back costs the readers, in time, measured by how many of their requests get done; and
//! which shape the next batch has: the one that gets most written for it, now and then another.

use crate::time::{Instant, Nanos};
use crate::units::Bytes;

/// Readers lose one part in so many of what they get alone: 6.25 %, so that with the errors of
/// measurement and the minimum of write-back they keep 90 % and more.
pub(super) const PARTS: u64 = 16;

/// How a batch is put into line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// All of it at once: one seek there and one back.
    Bulk = 0,
    /// One request after the other: fits into the time that readers leave.
    Trickle = 1,
    /// As bulk, and one request at the disk at a time, reads too: a disk that sorts would seek to
    /// and fro between them.
    Narrow = 2,
}

impl Shape {
    pub(super) const ALL: [Shape; 3] = [Shape::Bulk, Shape::Trickle, Shape::Narrow];
}

/// Time of readers and how many of their requests were done in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReaderTally {
    /// How long.
    pub(super) time: Nanos,
    /// How many.
    pub(super) count: u64,
}

/// The rate in quiet is forgotten by halves once it stands for so much time and so many requests:
/// within some seconds a new reader is known, and 64 random services average to some 4 %.
const MEMORY_TIME: Nanos = Nanos::from_secs(2);
const MEMORY_COUNT: u64 = 128;

impl ReaderTally {
    /// Forgets half of it when it is much.
    pub(super) fn fade(&mut self) {
        if self.time > MEMORY_TIME && self.count > MEMORY_COUNT {
            *self = ReaderTally { time: Nanos(self.time.0 / 2), count: self.count / 2 };
        }
    }

    /// Whether there is more in it than at the rate of `other`, and not by chance: the counts of
    /// random arrivals scatter by their root, so by four times that once in 30 000.
    pub(super) fn is_above(&self, other: &ReaderTally) -> bool {
        self.count > self.expected(other).saturating_add(self.scatter(other))
    }

    /// Whether there is less in it, and not by chance.
    pub(super) fn is_below(&self, other: &ReaderTally) -> bool {
        self.count.saturating_add(self.scatter(other)) < self.expected(other)
    }

    fn scatter(&self, other: &ReaderTally) -> u64 {
        self.expected(other).isqrt() * 4 + 4
    }

    /// How many it would be at the rate of `other`.
    fn expected(&self, other: &ReaderTally) -> u64 {
        let count = u128::from(self.time.0) * u128::from(other.count);
        let count = count.checked_div(u128::from(other.time.0)).unwrap_or(0);
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// How much of `self.time` was taken from readers, who in quiet get `quiet.count` done in
    /// `quiet.time`: positive or negative, within ±2^62 ns.
    fn taken(&self, quiet: &ReaderTally) -> i64 {
        let worth = u128::from(self.count) * u128::from(quiet.time.0);
        let worth = worth.checked_div(u128::from(quiet.count)).unwrap_or(0);
        to_i64(u128::from(self.time.0)) - to_i64(worth)
    }
}

fn to_i64(value: u128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX).min(1 << 62)
}

/// Older batches count half after so many batches in whose time so many reads would have been done
/// in quiet: enough to average what a batch happens to hit. Batches alone do not tell: next to a
/// reader who thinks, most short batches hit nothing.
const BATCHES: u32 = 8;
const READS: u64 = 64;

/// With hardly any reads, batches are forgotten by this count.
const BATCHES_MAX: u32 = 1 << 16;

/// What batches of one shape have cost so far; the latest count most.
#[derive(Clone, Copy, Debug, Default)]
struct Price {
    time: i64,
    taken: i64,
    bytes: u64,
    batches_count: u32,
}

impl Price {
    /// A batch was over after `turn`, and so much of the readers' time is gone.
    fn book(&mut self, turn: Nanos, batch: &ReaderTally, size: Bytes, quiet: &ReaderTally) {
        let reads = u128::from(self.time.unsigned_abs()) * u128::from(quiet.count);
        let is_enough = reads >= u128::from(quiet.time.0) * u128::from(READS);
        if (is_enough && self.batches_count >= BATCHES) || self.batches_count >= BATCHES_MAX {
            self.time /= 2;
            self.taken /= 2;
            self.bytes /= 2;
            self.batches_count /= 2;
        }
        self.time = self.time.saturating_add(to_i64(u128::from(turn.0)));
        self.taken = self.taken.saturating_add(batch.taken(quiet));
        self.bytes = self.bytes.saturating_add(size.get());
        self.batches_count += 1;
    }

    /// Whether there is anything to go by.
    fn is_known(&self) -> bool {
        self.bytes > 0
    }

    /// What `size` takes of the readers' time: zero if they gain by chance.
    fn of(&self, size: Bytes) -> Nanos {
        let taken = self.taken.max(0) as u128 * u128::from(size.get());
        let taken = taken.checked_div(u128::from(self.bytes)).unwrap_or(0);
        Nanos(u64::try_from(taken).unwrap_or(u64::MAX))
    }

    /// Whether this shape gets more written than `other`, when readers may lose one part in
    /// [`PARTS`] of their time: bytes per turn, which lasts for the batch, or until it is paid for.
    fn beats(&self, other: &Price) -> bool {
        let turn = |price: &Price| {
            let paid = i128::from(price.taken.max(0)) * i128::from(PARTS);
            i128::from(price.time).max(paid).max(1) as u128
        };
        // Overflow: bytes below 2^60, turns below 2^66.
        u128::from(self.bytes).saturating_mul(turn(other))
            > u128::from(other.bytes).saturating_mul(turn(self))
    }
}

/// A shape other than the best is tried for one part in so many of the time.
const TRY_PARTS: u64 = 16;

/// What each shape has cost, and the tries.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    prices: [Price; 3],
    /// The longest mean latency in quiet with which they were learned.
    pub(super) priced_at: Nanos,
    /// When another shape is tried next; never, while one is.
    try_at: Instant,
    tries_count: u64,
}

impl Shapes {
    /// The shape that gets most written for what readers give; now and then it tries another.
    pub(super) fn choose(&mut self, now: Instant) -> Shape {
        if let Some(unknown) = Shape::ALL.into_iter().find(|s| !self.prices[*s as usize].is_known())
        {
            return unknown;
        }
        let mut best = Shape::Bulk;
        for shape in Shape::ALL {
            if self.prices[shape as usize].beats(&self.prices[best as usize]) {
                best = shape;
            }
        }
        if now < self.try_at {
            return best;
        }
        // The next try is set when this one has shown how long its cycle is.
        self.tries_count += 1;
        self.try_at = Instant::NEVER;
        let step = 1 + self.tries_count as usize % 2;
        Shape::ALL[(best as usize + step) % Shape::ALL.len()]
    }

    /// A cycle of the shape in use goes from `since` to `until`.
    pub(super) fn cycle_set(&mut self, since: Instant, until: Instant) {
        if self.try_at.is_never() {
            self.try_at = until + until.since(since).times(TRY_PARTS);
        }
    }

    /// What `size` in that shape takes of the readers' time.
    pub(super) fn cost(&self, shape: Shape, size: Bytes) -> Nanos {
        self.prices[shape as usize].of(size)
    }

    /// A batch of `size` was over after `turn`; reads in quiet take `latency` on the average.
    pub(super) fn book(
        &mut self,
        shape: Shape,
        (turn, size, latency): (Nanos, Bytes, Nanos),
        (batch, quiet): (&ReaderTally, &ReaderTally),
    ) {
        self.prices[shape as usize].book(turn, batch, size, quiet);
        self.priced_at = self.priced_at.max(latency);
    }

    /// The device is another one.
    pub(super) fn forget(&mut self) {
        (self.prices, self.priced_at) = Default::default();
    }
}
