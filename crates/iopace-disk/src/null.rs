//! A disk that takes no time: for measuring everything else.

use crate::disk::{Command, Completion, Disk, DiskStats};
use iopace_core::request::{Op, Outcome};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use std::collections::VecDeque;

/// The parameters of a disk that takes no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullConfig {
    /// Size.
    pub capacity: Bytes,
    /// Commands held at once.
    pub depth: u32,
}

/// Completes at once, in order.
#[derive(Debug)]
pub struct Null {
    capacity: Bytes,
    depth: u32,
    done: VecDeque<(Instant, u64)>,
    stats: DiskStats,
}

impl Null {
    /// A disk of that size that holds `depth` commands.
    pub fn new(capacity: Bytes, depth: u32) -> Null {
        Null { capacity, depth, done: VecDeque::new(), stats: DiskStats::default() }
    }
}

impl Disk for Null {
    fn capacity(&self) -> Bytes {
        self.capacity
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn is_rotational(&self) -> bool {
        false
    }

    fn submit(&mut self, now: Instant, command: Command) {
        assert!(self.done.len() < self.depth as usize, "more commands than the disk holds");
        self.done.push_back((now, command.id));
        self.stats.commands_count += 1;
        match command.op {
            Op::Read | Op::Cache => self.stats.read += command.extent.len(),
            Op::Write => self.stats.written += command.extent.len(),
            _ => {}
        }
    }

    fn next(&self) -> Instant {
        self.done.front().map_or(Instant::NEVER, |(at, _)| *at)
    }

    fn poll(&mut self, _now: Instant) -> Option<Completion> {
        let (_, id) = self.done.pop_front()?;
        Some(Completion { id, outcome: Outcome::Ok })
    }

    fn stats(&self) -> DiskStats {
        self.stats
    }
}
