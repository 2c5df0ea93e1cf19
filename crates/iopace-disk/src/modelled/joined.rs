//! Commands of several requests: what the engine has merged is one transfer for the disk.

use iopace_core::engine::Start;
use iopace_core::request::{Extent, Outcome, RequestId};
use std::collections::{BTreeMap, VecDeque};

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Joined {
    /// The command whose parts are being told: what there is of it, and the parts.
    begun: Option<(Extent, Vec<RequestId>)>,
    /// Parts of commands at the disk, but for the last one of each.
    parts: BTreeMap<u64, Vec<RequestId>>,
    /// Parts whose command has ended, and how.
    ended: VecDeque<(RequestId, Outcome)>,
}

impl Joined {
    /// Whether more parts of a command are to come.
    pub(super) fn is_under_way(&self) -> bool {
        self.begun.is_some()
    }

    /// A part of the next command, which will have that number: all of the command if it is the
    /// last one, which stands for it.
    ///
    /// # Panics
    /// If it does not continue what there is of the command.
    pub(super) fn part(&mut self, command: u64, start: &Start) -> Option<Extent> {
        let begin = start.extent.offset();
        let (whole, mut parts) = self.begun.take().unwrap_or((start.extent, Vec::new()));
        assert!(parts.is_empty() || whole.end() == begin, "parts are contiguous");
        let whole = Extent::new(whole.offset(), start.extent.end() - whole.offset());
        let whole = whole.expect("within the disk");
        if start.more {
            parts.push(start.id);
            self.begun = Some((whole, parts));
            return None;
        }
        self.parts.insert(command, parts);
        Some(whole)
    }

    /// A command has ended, and with it all its parts.
    pub(super) fn end(&mut self, command: u64, outcome: Outcome) {
        let parts = self.parts.remove(&command).into_iter().flatten();
        self.ended.extend(parts.map(|id| (id, outcome)));
    }

    /// The next part that has ended.
    pub(super) fn next_ended(&mut self) -> Option<(RequestId, Outcome)> {
        self.ended.pop_front()
    }
}
