//! How long a host may go by what a store has promised it.

use super::SessionId;
use crate::time::{Instant, Nanos};

/// A clock may go wrong by a hundredth: NTP corrects by at most a two-thousandth (`ntp_adjtime`,
/// 500 parts in a million), and crystals are better than a ten-thousandth. A host counts by its own
/// clock and the store by its own: a session ends for the host earlier by a thirty-second, which is
/// more than two hundredths.
pub const DRIFT_PART: u64 = 100;

/// See [`DRIFT_PART`].
const EARLIER_PART: u64 = 32;

/// A lease of the store, as its host sees it: the store keeps it at least until [`Session::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The number that the store has given it.
    pub id: SessionId,
    /// Until then by the host's own clock; what it was given is not used from here on.
    pub end: Instant,
}

impl Session {
    /// A session that was asked for at `sent`, and lasts `length` from when the store has heard of
    /// it.
    pub fn begun(id: SessionId, sent: Instant, length: Nanos) -> Session {
        Session { id, end: end(sent, length) }
    }

    /// The store says that it lasts `length` more from when it has heard what was sent at `sent`.
    /// One that has ended by then stays so: its records may be gone.
    pub fn renewed(&mut self, sent: Instant, length: Nanos) {
        if sent < self.end {
            self.end = self.end.max(end(sent, length));
        }
    }

    /// Whether what it was given may be used.
    pub fn is_on(&self, now: Instant) -> bool {
        now < self.end
    }
}

fn end(sent: Instant, length: Nanos) -> Instant {
    sent + Nanos(length.0 - length.0.div_ceil(EARLIER_PART))
}
