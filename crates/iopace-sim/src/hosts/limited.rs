//! The outcome of a run with a limit: what passed when.

use super::measure::{HostsOutcome, STEP};
use iopace_core::time::Nanos;

/// A limit is one of each second.
const SECOND: Nanos = Nanos::from_secs(1);

impl HostsOutcome {
    /// The most bytes that passed in any second.
    pub fn most_in_second(&self) -> u64 {
        let (mut first, mut sum, mut most) = (0, 0u64, 0);
        for (at, bytes) in &self.starts {
            sum += bytes;
            while at.saturating_sub(self.starts[first].0) >= SECOND {
                sum -= self.starts[first].1;
                first += 1;
            }
            most = sum.max(most);
        }
        most
    }

    /// The bytes that passed between two instants.
    pub fn passed(&self, from: Nanos, until: Nanos) -> u64 {
        let place = |at: Nanos| self.starts.partition_point(|(start, _)| *start < at);
        self.starts[place(from)..place(until).max(place(from))].iter().map(|(_, b)| b).sum()
    }

    /// How long after `from` at least `least` bytes pass in each second until `until`; `None` if
    /// they do not in the last one.
    pub fn back(&self, (from, until): (Nanos, Nanos), least: u64) -> Option<Nanos> {
        let mut begin = until.saturating_sub(SECOND);
        let mut back = None;
        while begin >= from && self.passed(begin, begin + SECOND) >= least {
            back = Some(begin.saturating_sub(from));
            if begin < from + STEP {
                break;
            }
            begin = begin.saturating_sub(STEP);
        }
        back
    }
}
