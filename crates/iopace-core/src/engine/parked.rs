//! Write-back that its own group's limit holds up: it stands in nobody's line.
//!
//! The line for the disk is short (stage window), and a run in it takes a place from the others. So
//! a group whose limit is used up has one run at stage admit, which goes on the moment it may, and
//! counts as in line from then on; until then its other pages are no candidates.

use super::Engine;
use crate::limits::WRITE_BACK_REQUESTS_MAX;
use crate::request::{GroupId, Lane, RequestId};
use crate::units::Bytes;
use std::collections::{BTreeMap, VecDeque};

/// Most runs that are parked, half of the places that write-back has: the rest is for those that no
/// limit holds up.
const PARKED_MAX: usize = WRITE_BACK_REQUESTS_MAX / 2;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Parked {
    runs: BTreeMap<GroupId, RequestId>,
    /// The same of what small syncs wait for.
    urgent: BTreeMap<GroupId, RequestId>,
    /// Groups held back with no run here, since there was no place; each once: it is no candidate.
    without: VecDeque<GroupId>,
}

impl Parked {
    /// Whether no limit holds anything back.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.without.is_empty()
    }

    /// How many runs there are.
    pub(super) fn count(&self) -> usize {
        self.runs.len()
    }

    /// Whether a group has what a small sync waits for waiting for its limit.
    pub(super) fn has_urgent(&self, group: GroupId) -> bool {
        self.urgent.contains_key(&group)
    }
}

impl Engine {
    /// Whether a group's own limit holds it up and it has its run waiting for that already: then it
    /// is no candidate until that one goes on.
    pub(super) fn holds_back(&mut self, group: GroupId) -> bool {
        let parked = &mut self.memory.parked;
        let has_run = parked.runs.contains_key(&group);
        if !(has_run || parked.runs.len() >= PARKED_MAX)
            || !self.admit.is_closed(self.now, group, Lane::WriteBack)
        {
            return false;
        }
        if !has_run {
            parked.without.push_back(group);
        }
        self.memory.flusher.hold(group);
        true
    }

    /// A run of the group has been put into line; `is_closed`: a limit is used up.
    pub(super) fn stands(&mut self, group: GroupId, id: RequestId, size: Bytes, is_closed: bool) {
        if is_closed && self.table.is_waiting(id) && !self.memory.parked.runs.contains_key(&group) {
            self.memory.parked.runs.insert(group, id);
            return;
        }
        self.memory.in_line.requests_count += 1;
        self.memory.in_line.size += size;
    }

    /// The same of what a small sync waits for: a group has one of them, too.
    pub(super) fn stands_urgent(&mut self, group: GroupId, id: RequestId) {
        if self.table.is_waiting(id) && self.admit.is_closed(self.now, group, Lane::WriteBack) {
            self.memory.parked.urgent.insert(group, id);
        }
    }

    /// There is a place again for groups that were held back without a run. False if there is none,
    /// or no such group.
    pub(super) fn releases(&mut self) -> bool {
        let memory = &mut self.memory;
        if memory.parked.runs.len() >= PARKED_MAX || memory.parked.without.is_empty() {
            return false;
        }
        let without = std::mem::take(&mut memory.parked.without);
        without.into_iter().for_each(|group| memory.flusher.release(group));
        true
    }

    /// Write-back was admitted: if it was parked, it is in line now, and its group goes on.
    /// `run`: its group and size.
    pub(super) fn unpark(&mut self, id: RequestId, (group, size): (GroupId, Bytes)) {
        let memory = &mut self.memory;
        if memory.parked.urgent.get(&group) == Some(&id) {
            memory.parked.urgent.remove(&group);
            return memory.ask();
        }
        if memory.parked.runs.get(&group) != Some(&id) {
            return;
        }
        memory.parked.runs.remove(&group);
        memory.in_line.requests_count += 1;
        memory.in_line.size += size;
        memory.flusher.release(group);
        if let Some(other) = memory.parked.without.pop_front() {
            memory.flusher.release(other);
        }
        memory.ask();
    }
}
