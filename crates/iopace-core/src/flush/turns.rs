//! Whose turn it is: what each group has dirty and in line, and which group is written back next.
//!
//! ```text
//!  first   a group that has just begun to have something due
//!  then    the others: the turn goes round, a chunk each           ◄── this is the common case
//!  last    groups with as much in line as their allowance
//!  never   groups with too much in line, or held back by who asks
//! ```
//! "In line" is what was taken and is not done: it waits in stage admit or in the scheduler, or is
//! at the disk. A group whose own limit holds its write-back up would soon have all the room that
//! there is. But then it is *passed* by whoever else has runs in line: theirs, taken much later,
//! are done before its own. So each group has an allowance, in runs, as a sender has a congestion
//! window (slow start, and back to one at a loss):
//! ```text
//!  a run is done in time, with the allowance used      allowance + 1
//!  a run is passed                                     allowance = 1
//! ```
//! Groups that are not held up have more than the line holds, and take turns as if there were none.

use super::pages::{Page, bytes};
use super::{Dirty, Owner};
use crate::group::table::Column;
use crate::request::GroupId;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use core::ops::Bound::{Excluded, Included};
use std::collections::{BTreeMap, BTreeSet};

/// Most runs that one group has in line: twice the queue of a disk (32, NCQ), so that no disk is
/// short of work because of it, and a sixteenth of the places that write-back has.
pub const GROUP_IN_LINE_RUNS: u32 = 64;

/// Most bytes likewise (less than one run more): a tenth of a second of a disk of 160 MB/s.
pub const GROUP_IN_LINE_MAX: Bytes = Bytes::from_mib(16);

/// A group is passed when a run is done that was taken so many runs after its oldest one in line: a
/// disk's queue (32), more than schedulers and disks exchange by themselves.
pub const PASSED_RUNS: u64 = 32;

/// Allowance of a newcomer: one run at the disk, and one that follows it.
const ALLOWANCE: usize = 2;

/// Longest turn of a group while others wait: a chunk is meant to take half a second, so one that
/// takes twice as long is held up.
pub const TURN_MAX: Nanos = Nanos::from_secs(1);

/// Who goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FlushOrder {
    /// Nothing of it was taken since it has something dirty.
    New,
    Open,
    /// Its allowance is used up.
    Used,
}

/// The number of a group's oldest dirty page, since when it is dirty, and whether any page of the
/// group is due.
pub(super) type Oldest = (u64, Instant, bool);

/// Where a group stands in the sets of [`FlushTurns`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GroupPlace {
    /// If it has dirty pages and not too much in line.
    waiting: Option<DirtyGroup>,
    /// Its oldest run in line, if it has an allowance to lose.
    front: Option<u64>,
    /// The number of its oldest dirty page, and since when that is dirty.
    oldest: Option<(u64, Instant)>,
}

impl GroupPlace {
    fn in_any(&self, id: GroupId) -> Option<(FlushOrder, GroupId)> {
        self.waiting.map(|waiting| (waiting.line, id))
    }

    fn in_due(&self, id: GroupId) -> Option<(FlushOrder, GroupId)> {
        self.waiting.filter(|waiting| waiting.is_due).map(|waiting| (waiting.line, id))
    }

    fn in_young(&self, id: GroupId) -> Option<(u64, Instant, GroupId)> {
        let waiting = self.waiting.filter(|waiting| !waiting.is_due)?;
        Some((waiting.number, waiting.since, id))
    }

    fn in_fronts(&self, id: GroupId) -> Option<(u64, GroupId)> {
        self.front.map(|front| (front, id))
    }

    fn in_oldest(&self, id: GroupId) -> Option<(u64, Instant, GroupId)> {
        self.oldest.map(|(number, since)| (number, since, id))
    }
}

/// Puts what stands under one key under another.
fn move_key<K: Ord>(set: &mut BTreeSet<K>, from: Option<K>, to: Option<K>) {
    if from == to {
        return;
    }
    if let Some(from) = from {
        set.remove(&from);
    }
    set.extend(to);
}

/// A group with dirty pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DirtyGroup {
    line: FlushOrder,
    /// Its oldest page, and since when that is dirty.
    number: u64,
    since: Instant,
    is_due: bool,
}

/// How far a group has come with one owner's pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnerPosition {
    pub(super) owner: Owner,
    /// Behind the last page that was taken.
    pub(super) page: Page,
    /// Taken without a break in this place, in pages.
    pub(super) used: u64,
}

/// What a group has in memory, in pages, and in line.
#[derive(Debug, Default)]
pub(super) struct FlushGroup {
    pub(super) dirty: u64,
    /// On their way, by who dirtied them first.
    pub(super) writing: u64,
    /// Dirtied by this group while on their way (for whichever group).
    pub(super) again: u64,
    /// Of writes that are on their way into memory.
    pub(super) promised: Bytes,
    pub(super) position: Option<OwnerPosition>,
    /// Its runs in line, numbered as they were taken.
    runs: BTreeSet<u64>,
    /// Whether something was taken since it had nothing.
    is_served: bool,
    /// How many runs it may have in line while others have something due; zero is one that is not
    /// known.
    allowance: usize,
    /// It is passed over until it is released.
    pub(super) is_held: bool,
    /// With more dirty pages than this it is due, whatever their age.
    pub(super) background: Option<u64>,
    place: GroupPlace,
}

impl FlushGroup {
    pub(super) fn memory(&self) -> Bytes {
        bytes(self.dirty + self.writing) + self.promised
    }

    /// Whether more of it is dirty than it may leave.
    pub(super) fn is_over(&self) -> bool {
        self.background.is_some_and(|background| self.dirty > background)
    }

    pub(super) fn has_any(&self) -> bool {
        self.dirty + self.writing + self.again > 0 || self.promised > Bytes::ZERO
    }

    fn allowance(&self) -> usize {
        if self.allowance == 0 { ALLOWANCE } else { self.allowance }
    }

    /// Where it belongs. `oldest` as in [`FlushTurns::file`].
    fn place(&self, oldest: Option<Oldest>) -> GroupPlace {
        let line = match self.runs.len() {
            _ if !self.is_served => FlushOrder::New,
            count if count < self.allowance() => FlushOrder::Open,
            _ => FlushOrder::Used,
        };
        let is_full = self.runs.len() >= GROUP_IN_LINE_RUNS as usize
            || bytes(self.writing) >= GROUP_IN_LINE_MAX;
        let waiting = oldest.filter(|_| !is_full && !self.is_held);
        let waiting =
            waiting.map(|(number, since, is_due)| DirtyGroup { line, number, since, is_due });
        GroupPlace {
            waiting,
            front: self.runs.first().copied().filter(|_| self.allowance() > 1),
            oldest: oldest.map(|(number, since, _)| (number, since)),
        }
    }
}

/// Whether a run should have been done long ago.
fn is_passed(run: u64, latest: u64) -> bool {
    run + PASSED_RUNS < latest
}

/// All groups.
#[derive(Debug, Default)]
pub(super) struct FlushTurns {
    groups: Column<FlushGroup>,
    /// Groups with dirty pages, but for those with too much in line and those held back.
    any: BTreeSet<(FlushOrder, GroupId)>,
    /// Those that something is due of by itself.
    due: BTreeSet<(FlushOrder, GroupId)>,
    /// The others of `any`, by their oldest page.
    young: BTreeSet<(u64, Instant, GroupId)>,
    /// Groups with runs in line and an allowance to lose, by the oldest of these.
    fronts: BTreeSet<(u64, GroupId)>,
    /// All groups with dirty pages, by their oldest page.
    oldest: BTreeSet<(u64, Instant, GroupId)>,
    /// Number of each run in line, by its first page.
    runs: BTreeMap<Page, u64>,
    /// Runs that were taken so far, and the latest of them that is done.
    taken: u64,
    latest: u64,
    /// Who was written back last, since when, and how many pages in a row.
    last: GroupId,
    since: Instant,
    used: u64,
}

impl FlushTurns {
    pub(super) fn get(&self, id: GroupId) -> &FlushGroup {
        &self.groups[id]
    }

    pub(super) fn get_mut(&mut self, id: GroupId) -> &mut FlushGroup {
        &mut self.groups[id]
    }

    /// Forgets a group that has nothing.
    pub(super) fn remove(&mut self, id: GroupId) {
        let group = self.groups.take(id);
        assert!(!group.has_any(), "{id:?} still has dirty memory: {group:?}");
    }

    /// Puts a group where it belongs now. `oldest` is `None` if it has no dirty page.
    pub(super) fn file(&mut self, id: GroupId, oldest: Option<Oldest>) {
        let group = &mut self.groups[id];
        if oldest.is_none() && group.runs.is_empty() {
            group.is_served = false;
        }
        let new = group.place(oldest);
        if new == group.place {
            return;
        }
        let old = std::mem::replace(&mut group.place, new);
        move_key(&mut self.any, old.in_any(id), new.in_any(id));
        move_key(&mut self.due, old.in_due(id), new.in_due(id));
        move_key(&mut self.young, old.in_young(id), new.in_young(id));
        move_key(&mut self.fronts, old.in_fronts(id), new.in_fronts(id));
        move_key(&mut self.oldest, old.in_oldest(id), new.in_oldest(id));
    }

    /// The number of the oldest dirty page of all, and since when that is dirty.
    pub(super) fn oldest(&self) -> Option<(u64, Instant)> {
        self.oldest.first().map(|&(number, since, _)| (number, since))
    }

    /// The group with the oldest page among those that nothing is due of, and since when that page
    /// is dirty.
    pub(super) fn oldest_young(&self) -> Option<(GroupId, Instant)> {
        self.young.first().map(|&(_, since, id)| (id, since))
    }

    /// A group that was passed and still had an allowance, which it has lost now.
    pub(super) fn newly_passed(&mut self) -> Option<GroupId> {
        let &(front, id) = self.fronts.first()?;
        if !is_passed(front, self.latest) {
            return None;
        }
        self.get_mut(id).allowance = 1;
        Some(id)
    }

    /// Who is next among those with dirty pages, or those only that something is due of. `chunk` is
    /// in pages.
    pub(super) fn next(&self, now: Instant, is_all: bool, chunk: u64) -> Option<GroupId> {
        let set = if is_all { &self.any } else { &self.due };
        let &(line, first) = set.first()?;
        if self.goes_on(now, chunk) && set.contains(&(line, self.last)) {
            return Some(self.last);
        }
        let others = (Excluded((line, self.last)), Included((line, GroupId(u32::MAX))));
        Some(set.range(others).next().map_or(first, |&(_, id)| id))
    }

    /// Whether the last one's turn is not over.
    fn goes_on(&self, now: Instant, chunk: u64) -> bool {
        self.used < chunk && now.since(self.since) < TURN_MAX
    }

    /// A run of the group goes into line: its first page and how many there are.
    pub(super) fn took(&mut self, now: Instant, chunk: u64, id: GroupId, run: (Page, u64)) {
        if self.last != id || !self.goes_on(now, chunk) {
            (self.last, self.since, self.used) = (id, now, 0);
        }
        self.used += run.1;
        self.taken += 1;
        self.runs.insert(run.0, self.taken);
        let group = &mut self.groups[id];
        group.is_served = true;
        group.runs.insert(self.taken);
    }

    /// The run with that first page is not in line any more.
    pub(super) fn ended(&mut self, id: GroupId, first: Page) {
        let run = self.runs.remove(&first).expect("only a run that was taken is done");
        self.latest = self.latest.max(run);
        let group = &mut self.groups[id];
        let is_used = group.runs.len() >= group.allowance();
        group.runs.remove(&run);
        if is_passed(run, self.latest) {
            group.allowance = 1;
        } else if is_used {
            group.allowance = (group.allowance() + 1).min(GROUP_IN_LINE_RUNS as usize);
        }
    }

    /// What a group has of dirty memory; zero if it is unknown.
    pub(super) fn memory(&self, id: GroupId) -> Bytes {
        self.get(id).memory()
    }
}

/// Adds up pages in all states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) dirty: u64,
    pub(super) writing: u64,
    pub(super) promised: Bytes,
}

impl Totals {
    /// Dirty memory of the device, of which a group has `group`.
    pub(super) fn dirty(&self, group: Bytes) -> Dirty {
        let device = bytes(self.dirty + self.writing) + self.promised;
        Dirty { device, group, write_back: bytes(self.writing) }
    }
}
