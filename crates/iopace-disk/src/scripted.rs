//! A disk that does what a list says: for tests of everything above a disk.
//!
//! # Model
//! The n-th command takes the n-th [`ScriptedStep`]: it is done that long after its submission,
//! with that outcome, whatever else the disk holds. So a list can reorder completions as it likes.
//! After the end of the list the last step repeats; an empty list is a disk that takes no time.

use crate::disk::{Command, Completion, Disk, DiskStats};
use iopace_core::request::{Op, Outcome};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::collections::BTreeMap;

/// What happens to one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptedStep {
    /// From its submission to its completion; `Nanos(u64::MAX)`: it is lost.
    pub service: Nanos,
    /// How it goes.
    pub outcome: Outcome,
}

impl ScriptedStep {
    /// Carried out after that time.
    pub const fn ok(service: Nanos) -> ScriptedStep {
        ScriptedStep { service, outcome: Outcome::Ok }
    }
}

/// The disk.
#[derive(Debug)]
pub struct Scripted {
    capacity: Bytes,
    depth: u32,
    steps: Vec<ScriptedStep>,
    /// Every command that it was given, in order, with its time.
    log: Vec<(Instant, Command)>,
    /// By time and order of submission.
    due: BTreeMap<(Instant, usize), Completion>,
    outstanding: u32,
    stats: DiskStats,
}

impl Scripted {
    /// A disk of that size that holds `depth` commands and follows `steps`.
    pub fn new(capacity: Bytes, depth: u32, steps: Vec<ScriptedStep>) -> Scripted {
        Scripted {
            capacity,
            depth,
            steps,
            log: Vec::new(),
            due: BTreeMap::new(),
            outstanding: 0,
            stats: DiskStats::default(),
        }
    }

    /// Every command that it was given, in order, with its time.
    pub fn log(&self) -> &[(Instant, Command)] {
        &self.log
    }
}

impl Disk for Scripted {
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
        let index = self.log.len();
        let step = self.steps.get(index).or(self.steps.last()).copied();
        let ScriptedStep { service, outcome } = step.unwrap_or(ScriptedStep::ok(Nanos::ZERO));
        self.log.push((now, command));
        // A lost command leaves its place to others, as after the reset of a real disk.
        let at = now + service;
        if at.is_never() {
            return;
        }
        self.outstanding += 1;
        assert!(self.outstanding <= self.depth, "more commands than the disk holds");
        self.due.insert((at, index), Completion { id: command.id, outcome });
        self.stats.busy += service;
    }

    fn next(&self) -> Instant {
        self.due.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at)
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((_, index), completion) = entry.remove_entry();
        self.outstanding -= 1;
        self.stats.commands_count += 1;
        let command = self.log[index].1;
        match command.op {
            Op::Read | Op::Cache => self.stats.read += command.extent.len(),
            Op::Write => self.stats.written += command.extent.len(),
            _ => {}
        }
        Some(completion)
    }

    fn stats(&self) -> DiskStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::request::{DiskError, Extent};

    fn command(id: u64) -> Command {
        Command { id, op: Op::Read, extent: Extent::EMPTY, fua: false }
    }

    #[test]
    fn the_list_decides_when_and_how() {
        let failed = Outcome::Failed(DiskError::Io);
        let steps =
            vec![ScriptedStep::ok(Nanos(30)), ScriptedStep { service: Nanos(10), outcome: failed }];
        let mut disk = Scripted::new(Bytes(4096), 3, steps);
        (0..3).for_each(|id| disk.submit(Instant(100), command(id)));
        assert_eq!(disk.next(), Instant(110));
        assert_eq!(disk.poll(Instant(109)), None);
        let done: Vec<u64> =
            std::iter::from_fn(|| disk.poll(Instant(110))).map(|done| done.id).collect();
        assert_eq!(done, [1, 2], "the last step repeats, equal times keep their order");
        assert_eq!(disk.next(), Instant(130));
        assert_eq!(disk.poll(Instant(130)), Some(Completion { id: 0, outcome: Outcome::Ok }));
        assert_eq!(disk.next(), Instant::NEVER);
        assert_eq!(disk.log().len(), 3);
    }

    #[test]
    #[should_panic(expected = "more commands than the disk holds")]
    fn the_depth_is_asserted() {
        let mut disk = Scripted::new(Bytes(4096), 1, vec![ScriptedStep::ok(Nanos(1))]);
        disk.submit(Instant(0), command(0));
        disk.submit(Instant(0), command(1));
    }

    #[test]
    fn a_lost_command_never_completes() {
        let mut disk = Scripted::new(Bytes(4096), 1, vec![ScriptedStep::ok(Nanos(u64::MAX))]);
        disk.submit(Instant(0), command(0));
        disk.submit(Instant(0), command(1));
        assert_eq!(disk.next(), Instant::NEVER);
    }
}
