//! A disk model, measured in virtual time.

use super::Measured;
use crate::disk::{Command, Completion, Disk};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use std::collections::VecDeque;

/// A model and its time. What it cannot hold waits before it, as in a kernel.
#[derive(Debug)]
pub struct TimedModel {
    disk: Box<dyn Disk>,
    now: Instant,
    outstanding: u32,
    waiting: VecDeque<Command>,
}

impl TimedModel {
    /// At rest, at the beginning of time.
    pub fn new(disk: Box<dyn Disk>) -> TimedModel {
        TimedModel { disk, now: Instant::ZERO, outstanding: 0, waiting: VecDeque::new() }
    }
}

impl Measured for TimedModel {
    fn capacity(&self) -> Bytes {
        self.disk.capacity()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn submit(&mut self, command: Command) {
        self.waiting.push_back(command);
    }

    fn wait(&mut self) -> (Instant, Completion) {
        loop {
            while self.outstanding < self.disk.depth() {
                let Some(command) = self.waiting.pop_front() else { break };
                self.disk.submit(self.now, command);
                self.outstanding += 1;
            }
            if let Some(done) = self.disk.poll(self.now) {
                self.outstanding -= 1;
                return (self.now, done);
            }
            let next = self.disk.next();
            assert!(!next.is_never(), "a command never ends");
            self.now = self.now.max(next);
        }
    }
}
