//! The lines that policies write to the log: few, whatever they write.

use crate::clock;
use iopace_core::time::{Instant, Nanos};
use std::sync::{Mutex, PoisonError};

/// Lines that all policies together may write in a second. A policy may write sixteen in each call,
/// and the thread that asks it has requests to carry out.
const LINES_PER_SECOND: u32 = 10;

const SECOND: Nanos = Nanos::from_secs(1);

static BUDGET: Mutex<LineBudget> =
    Mutex::new(LineBudget { since: None, written_count: 0, dropped_count: 0 });

/// Writes a line of a policy to the log, if there is room for it in this second.
pub(super) fn write(policy: &str, line: &str) {
    let admitted = BUDGET.lock().unwrap_or_else(PoisonError::into_inner).admit(clock::now());
    match admitted {
        Some(0) => tracing::info!(policy, "{line}"),
        Some(dropped_count) => tracing::info!(policy, dropped_count, "{line}"),
        None => {}
    }
}

/// The lines of the present second.
#[derive(Debug)]
struct LineBudget {
    /// Its beginning.
    since: Option<Instant>,
    written_count: u32,
    /// Lines that were not written since the last that was.
    dropped_count: u64,
}

impl LineBudget {
    /// One more line: if it is to be written, how many were not since the last one.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.since(since) >= SECOND) {
            (self.since, self.written_count) = (Some(now), 0);
        }
        if self.written_count == LINES_PER_SECOND {
            self.dropped_count += 1;
            return None;
        }
        self.written_count += 1;
        Some(std::mem::take(&mut self.dropped_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_lines_of_a_second_is_counted() {
        let mut budget = LineBudget { since: None, written_count: 0, dropped_count: 0 };
        let at = |millis: u64| Instant(5_000_000_000 + millis * 1_000_000);
        assert!((0..10).all(|_| budget.admit(at(0)) == Some(0)));
        assert!((0..7).all(|_| budget.admit(at(999)).is_none()));
        assert_eq!((budget.admit(at(1_000)), budget.admit(at(1_000))), (Some(7), Some(0)));
    }
}
