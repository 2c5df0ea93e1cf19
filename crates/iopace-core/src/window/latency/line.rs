//! Write-back in line, and how fast it gets done.

use crate::time::{Instant, Nanos};
use crate::units::{Bytes, scaled};

/// Where the write-back is that was let through.
#[derive(Debug, Default)]
pub(super) struct WriteBackLine {
    /// In line or at the device; the engine knows, whatever was lost on the way here.
    pub(super) len: u32,
    /// When some was last put into line or done, or a batch began.
    pub(super) at: Instant,
    /// How long the first of a batch waits in line, on the average: what the scheduler decides.
    pub(super) wait: Nanos,
    pub(super) bandwidth: WriteBackBandwidth,
}

impl WriteBackLine {
    /// One more.
    pub(super) fn enter(&mut self, now: Instant) {
        self.len += 1;
        self.at = now;
    }

    /// One of them is done.
    pub(super) fn done(&mut self, now: Instant) {
        self.len = self.len.saturating_sub(1);
        self.at = now;
    }

    /// Whether there has been nothing in line for some time.
    pub(super) fn is_empty_since(&self, now: Instant) -> bool {
        self.len == 0 && now > self.at
    }

    /// Time has passed in which write-back goes as fast as the device takes it.
    pub(super) fn pass(&mut self, time: Nanos) {
        if self.len > 0 {
            self.bandwidth.pass(time);
        }
    }
}

/// How fast write-back gets done while there is any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteBackBandwidth {
    time: Nanos,
    bytes: u64,
}

/// Forgotten by halves after so much time.
const BANDWIDTH_MEMORY: Nanos = Nanos::from_secs(1);

/// Nothing is said about the bandwidth before it was seen for this long.
const BANDWIDTH_MIN: Nanos = Nanos::from_millis(20);

impl WriteBackBandwidth {
    /// Write-back was under way for so long.
    pub(super) fn pass(&mut self, time: Nanos) {
        if self.time > BANDWIDTH_MEMORY {
            *self = WriteBackBandwidth { time: Nanos(self.time.0 / 2), bytes: self.bytes / 2 };
        }
        self.time += time;
    }

    /// So much is written.
    pub(super) fn done(&mut self, size: Bytes) {
        self.bytes = self.bytes.saturating_add(size.get());
    }

    /// What is written in that time, if it is known.
    pub(super) fn bytes_in(&self, time: Nanos) -> Option<Bytes> {
        if self.time < BANDWIDTH_MIN || self.bytes == 0 {
            return None;
        }
        Some(Bytes(scaled(self.bytes, time.0, self.time.0)))
    }
}
