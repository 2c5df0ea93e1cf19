//! Write-back in line, and how fast it gets done.

use super::depth::smooth;
use super::price::Bandwidth;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;

/// Where the write-back is that was let through.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// In line or at the device.
    len: u32,
    /// When some was last put into line or done.
    at: Instant,
    /// How long the first of a batch waits in line: what the scheduler decides.
    wait: Nanos,
    bandwidth: Bandwidth,
}

impl Line {
    /// So much is in line. The engine knows, whatever was lost on the way here.
    pub(super) fn set_len(&mut self, len: u32) {
        self.len = len;
    }

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

    /// A batch begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.at = now;
    }

    /// The first of a batch waited for so long.
    pub(super) fn waited(&mut self, wait: Nanos) {
        self.wait = smooth(self.wait, wait);
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Whether there has been nothing in line for some time.
    pub(super) fn is_empty_since(&self, now: Instant) -> bool {
        self.len == 0 && now > self.at
    }

    /// The mean wait of the first of a batch.
    pub(super) fn wait(&self) -> Nanos {
        self.wait
    }

    /// Time has passed in which write-back goes as fast as the device takes it.
    pub(super) fn pass(&mut self, time: Nanos) {
        if self.len > 0 {
            self.bandwidth.pass(time);
        }
    }

    /// So much was written in that time.
    pub(super) fn written(&mut self, size: Bytes) {
        self.bandwidth.done(size);
    }

    /// What is written in that time, if it is known.
    pub(super) fn bytes_in(&self, time: Nanos) -> Option<Bytes> {
        self.bandwidth.bytes_in(time)
    }

    /// The device is another one.
    pub(super) fn forget(&mut self) {
        self.bandwidth = Bandwidth::default();
    }
}
