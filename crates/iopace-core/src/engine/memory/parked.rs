//! Write-back that its own group's limit holds up: it stands in nobody's line.
//!
//! The line for the disk is short (stage window), and a run in it takes a place from the others. So
//! a group whose limit is used up has one run at stage admit, which goes on the moment it may, and
//! counts as in line from then on; until then its other pages are no candidates.

use crate::flush::Flusher;
use crate::limits::WRITE_BACK_REQUESTS_MAX;
use crate::request::{GroupId, RequestId};
use std::collections::{BTreeMap, VecDeque};

/// Most runs that are parked, half of the places that write-back has: the rest is for those that no
/// limit holds up.
const PARKED_MAX: usize = WRITE_BACK_REQUESTS_MAX / 2;

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Parked {
    runs: BTreeMap<GroupId, RequestId>,
    /// The same of what small syncs wait for.
    pub(super) urgent: BTreeMap<GroupId, RequestId>,
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

    /// Whether no more of the group may be put into line if `is_closed`, its limit being used up:
    /// it has its run waiting for that already, or there is no place for one.
    pub(super) fn holds_back(
        &mut self,
        flusher: &mut Flusher,
        group: GroupId,
        is_closed: impl FnOnce() -> bool,
    ) -> bool {
        let has_run = self.runs.contains_key(&group);
        if !(has_run || self.runs.len() >= PARKED_MAX) || !is_closed() {
            return false;
        }
        if !has_run {
            self.without.push_back(group);
        }
        flusher.hold(group);
        true
    }

    /// A run of a group waits for its limit. False if one does already, which counts alone.
    pub(super) fn park(&mut self, group: GroupId, id: RequestId) -> bool {
        let is_first = !self.runs.contains_key(&group);
        if is_first {
            self.runs.insert(group, id);
        }
        is_first
    }

    /// There is a place again for groups that were held back without a run. False if there is none,
    /// or no such group.
    pub(super) fn releases(&mut self, flusher: &mut Flusher) -> bool {
        if self.runs.len() >= PARKED_MAX || self.without.is_empty() {
            return false;
        }
        self.without.drain(..).for_each(|group| flusher.release(group));
        true
    }

    /// A run was admitted: its group goes on. True if it was parked.
    pub(super) fn leave(&mut self, flusher: &mut Flusher, group: GroupId, id: RequestId) -> bool {
        if self.runs.get(&group) != Some(&id) {
            return false;
        }
        self.runs.remove(&group);
        flusher.release(group);
        if let Some(other) = self.without.pop_front() {
            flusher.release(other);
        }
        true
    }
}
