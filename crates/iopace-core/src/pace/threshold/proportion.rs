//! Parts of a whole that forget: the floating proportions of Linux (lib/proportions.c, 2007).
//!
//! The whole counts events in periods; at the end of each, what every part has counted so far is
//! worth half. A part of the whole is `count / (length + events of this period)`: one that alone
//! counts has 1/2 after one period, 3/4 after two, 7/8 after three, and never all of it.

use crate::units::scaled;

/// All that is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// Length of a period, in bytes.
    length: u64,
    /// Bytes of the present period.
    events: u64,
    /// Periods that have ended.
    periods: u64,
}

/// One part of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Part {
    count: u64,
    /// Up to which period it is halved.
    periods: u64,
}

impl Whole {
    /// With nothing counted yet.
    pub(super) fn new(length: u64) -> Whole {
        Whole { length: length.max(1), events: 0, periods: 0 }
    }

    /// Another length of a period.
    pub(super) fn set_length(&mut self, length: u64) {
        self.length = length.max(1);
    }

    /// Counts so many bytes of one part.
    pub(super) fn count(&mut self, part: &mut Part, size: u64) {
        part.follow(self);
        part.count = part.count.saturating_add(size);
        self.events = self.events.saturating_add(size);
        self.periods += self.events / self.length;
        self.events %= self.length;
    }

    /// That part of an amount.
    pub(super) fn share(&self, part: &Part, amount: u64) -> u64 {
        let mut part = *part;
        part.follow(self);
        let whole = self.length.saturating_add(self.events);
        scaled(amount, part.count.min(whole), whole)
    }
}

impl Part {
    /// Halves it for every period that has ended since.
    fn follow(&mut self, whole: &Whole) {
        let missed = u32::try_from(whole.periods - self.periods).unwrap_or(u32::MAX);
        self.count = self.count.checked_shr(missed).unwrap_or(0);
        self.periods = whole.periods;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_counts_alone_has_a_half_more_of_the_rest_with_each_period() {
        let (mut whole, mut part) = (Whole::new(1_000), Part::default());
        let mut shares = Vec::new();
        for _ in 0..4 {
            for _ in 0..1_000 {
                whole.count(&mut part, 1);
            }
            shares.push(whole.share(&part, 1_000));
        }
        assert_eq!(shares, [500, 750, 875, 937]);
    }

    #[test]
    fn parts_follow_the_rates_and_silence_is_forgotten() {
        let mut whole = Whole::new(1_000);
        let (mut fast, mut slow) = (Part::default(), Part::default());
        for _ in 0..10_000 {
            whole.count(&mut fast, 3);
            whole.count(&mut slow, 1);
        }
        assert!((740..=750).contains(&whole.share(&fast, 1_000)), "{whole:?} {fast:?}");
        assert!((240..=250).contains(&whole.share(&slow, 1_000)), "{whole:?} {slow:?}");
        for _ in 0..20 {
            whole.count(&mut fast, 1_000);
        }
        assert_eq!(whole.share(&slow, 1_000), 0);
    }
}
