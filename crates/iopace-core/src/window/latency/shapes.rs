//! Which shape the next batch has: the one that gets most written, now and then another.

use super::batches::PARTS;
use super::price::{Price, Shape, Tally};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;

/// A shape other than the best is tried for one part in so many of the time.
const TRY_PARTS: u64 = 16;

/// What each shape has cost, and the tries.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    prices: [Price; 3],
    /// The longest mean latency in quiet with which they were learned.
    priced_at: Nanos,
    /// When another shape is tried next; never, while one is.
    try_at: Instant,
    tries_count: u64,
}

impl Shapes {
    /// The shape that gets most written for what readers give; now and then it tries another.
    pub(super) fn choose(&mut self, now: Instant) -> Shape {
        if let Some(unknown) = Shape::ALL.into_iter().find(|s| !self.price(*s).is_known()) {
            return unknown;
        }
        let mut best = Shape::Bulk;
        for shape in Shape::ALL {
            if self.price(shape).beats(self.price(best), PARTS) {
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

    /// What that shape has cost.
    pub(super) fn price(&self, shape: Shape) -> &Price {
        &self.prices[shape as usize]
    }

    /// A batch of `size` was over after `turn`; reads in quiet take `latency` on the average.
    pub(super) fn book(
        &mut self,
        shape: Shape,
        (turn, size, latency): (Nanos, Bytes, Nanos),
        (batch, quiet): (&Tally, &Tally),
    ) {
        self.prices[shape as usize].book(turn, batch, size, quiet);
        self.priced_at = self.priced_at.max(latency);
    }

    /// The longest mean latency in quiet with which prices were learned.
    pub(super) fn priced_at(&self) -> Nanos {
        self.priced_at
    }

    /// The device is another one.
    pub(super) fn forget(&mut self) {
        (self.prices, self.priced_at) = Default::default();
    }
}
