//! Errors of the disk: a write that fails, and a write-back that fails when it is asked for.
//!
//! The kernel tells each open file once that a write-back has failed, whoever had asked for it
//! (`errseq_t`), and takes the pages for clean: a later sync does not write them again. The
//! recorder does the same.

use crate::node::{NodeId, Random};
use std::collections::BTreeMap;

/// The disk has failed: `EIO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A write, which was made all the same if that is true.
    Write(bool),
    /// A write-back.
    WriteBack,
    /// A sync, because of an older failure of a write-back.
    Told,
}

/// A call to which the disk answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Events that had arrived at the disk before.
    pub moment: usize,
    /// The open file; 0 if that is not known.
    pub handle: u64,
    /// Its kind.
    pub kind: FaultKind,
}

/// Errors at random.
#[derive(Debug, Default)]
pub struct Faults {
    /// One of so many writes and syncs fails; 0: none.
    pub one_in: u64,
    /// Errors are told to whoever asked only, and to no other open file: a kernel that forgets.
    pub forgets: bool,
    /// Every other failure of a write-back is told to nobody: a disk that hides errors.
    pub hides: bool,
    /// Calls that got an error.
    pub failures: Vec<Failure>,
    random: Random,
    /// Failed write-backs of each file.
    failed: BTreeMap<NodeId, u64>,
    /// How many of them each open file was told of.
    seen: BTreeMap<u64, u64>,
}

impl Faults {
    /// One of so many writes and syncs fails.
    pub fn begin(&mut self, one_in: u64, seed: u64) {
        (self.one_in, self.random) = (one_in, Random(seed));
    }

    /// Whether the next one fails; then a number for whatever else is left to chance.
    pub fn strike(&mut self) -> Option<u64> {
        if self.one_in == 0 || self.random.below(self.one_in) > 0 {
            return None;
        }
        Some(self.random.number())
    }

    /// A call got an error.
    pub fn failed(&mut self, moment: usize, handle: u64, kind: FaultKind) {
        self.failures.push(Failure { moment, handle, kind });
    }

    /// A file was opened: it is not told of what has failed before.
    pub fn opened(&mut self, node: NodeId, handle: u64) {
        self.seen.insert(handle, self.failed.get(&node).copied().unwrap_or(0));
    }

    /// It was closed.
    pub fn closed(&mut self, handle: u64) {
        self.seen.remove(&handle);
    }

    /// A write-back has failed that was asked for by way of `handle`.
    pub fn lost(&mut self, node: NodeId, handle: u64) {
        if !self.forgets {
            *self.failed.entry(node).or_default() += 1;
            self.opened(node, handle);
        }
    }

    /// Whether a sync by way of `handle` has to tell of an older error.
    pub fn tells(&mut self, node: NodeId, handle: u64) -> bool {
        let failed = self.failed.get(&node).copied().unwrap_or(0);
        self.seen.insert(handle, failed).is_some_and(|seen| seen < failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_open_file_is_told_once() {
        let mut faults = Faults::default();
        faults.opened(5, 1);
        faults.opened(5, 2);
        faults.opened(6, 3);
        faults.lost(5, 1);
        faults.opened(5, 4);
        let told = [1, 2, 2, 4].map(|handle| faults.tells(5, handle));
        assert_eq!((told, faults.tells(6, 3)), ([false, true, false, false], false));
        faults.forgets = true;
        faults.lost(5, 1);
        assert!(!faults.tells(5, 2));
    }
}
