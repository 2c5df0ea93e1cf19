//! The volume that all hosts share: a disk behind a queue that is served in order of arrival.

use iopace_core::time::Instant;
use iopace_disk::{Command, Completion, Disk};
use std::collections::VecDeque;

/// A disk and the commands that wait for it: the queue of an array is longer than that of its disk,
/// and hosts share it.
#[derive(Debug)]
pub(super) struct Array {
    disk: Box<dyn Disk>,
    waiting: VecDeque<Command>,
    at_disk_count: u32,
}

impl Array {
    pub(super) fn new(disk: Box<dyn Disk>) -> Array {
        Array { disk, waiting: VecDeque::new(), at_disk_count: 0 }
    }

    pub(super) fn submit(&mut self, now: Instant, command: Command) {
        self.waiting.push_back(command);
        self.feed(now);
    }

    /// When [`Array::poll`] has something.
    pub(super) fn next(&self) -> Instant {
        self.disk.next()
    }

    /// The next completion that is due.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Completion> {
        let done = self.disk.poll(now)?;
        self.at_disk_count -= 1;
        self.feed(now);
        Some(done)
    }

    fn feed(&mut self, now: Instant) {
        while self.at_disk_count < self.disk.depth()
            && let Some(command) = self.waiting.pop_front()
        {
            self.at_disk_count += 1;
            self.disk.submit(now, command);
        }
    }
}
