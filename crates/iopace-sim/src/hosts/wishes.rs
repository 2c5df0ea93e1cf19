//! What a host would use of the limit, by what it has used: as the daemon has it.

use iopace_core::cluster::Allowance;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;

/// A group that has used so many eighths of what it was allowed would use more.
const PRESSED_EIGHTHS: u64 = 7;

/// A host that is not held back is left room to grow by a quarter.
const ROOM_PART: u64 = 4;

/// Requests of some milliseconds come and go within less.
const SPAN_LEAST: Nanos = Nanos::from_millis(100);

/// The wishes of a host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LimitWishes {
    /// What it has had since the beginning.
    pub(super) had: Bytes,
    /// The last look, and what it had had then.
    before: Option<(Instant, Bytes)>,
    /// What it would use in a second.
    pub(super) wanted: Allowance,
    /// Whether the limit holds it back.
    pub(super) is_pressed: bool,
}

impl LimitWishes {
    /// A look, some times a second, by what the host is allowed now and by the limit of all.
    pub(super) fn look(&mut self, now: Instant, allowed: Allowance, limit: Allowance) {
        let (since, before) = *self.before.get_or_insert((now, self.had));
        let past = now.since(since);
        if past < SPAN_LEAST {
            return;
        }
        let used = per_second((self.had - before).get(), past);
        self.is_pressed = used.saturating_mul(8) >= allowed.0.saturating_mul(PRESSED_EIGHTHS);
        let wanted = if self.is_pressed { limit.0 } else { used + used / ROOM_PART };
        self.wanted = Allowance(wanted.min(limit.0));
        self.before = Some((now, self.had));
    }
}

fn per_second(amount: u64, past: Nanos) -> u64 {
    let rate = u128::from(amount) * 1_000_000_000 / u128::from(past.0);
    u64::try_from(rate).unwrap_or(u64::MAX)
}
