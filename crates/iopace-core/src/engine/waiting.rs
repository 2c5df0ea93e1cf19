//! Where everything stands at this moment: filled in by one pass over all that has not ended.

use crate::request::{GroupId, Lane};
use crate::time::Nanos;
use crate::verdict::Reason;

/// All of a group alone, without those below it, that is not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupWaits {
    /// The group.
    pub group: GroupId,
    /// How long the oldest of it has been here.
    pub oldest: Nanos,
    /// How long the one that has been at the device for longest has been there.
    pub at_disk: Nanos,
    counts: [u32; Reason::ALL.len()],
    /// Those in stage admit by lane, until it is known what they wait for.
    waiting: [u32; Lane::ALL.len()],
}

impl GroupWaits {
    /// How many wait for the reason. [`Reason::Disk`] are those at the device, and flushes that
    /// wait for write-back; [`Reason::Idle`] are buffered writes that are going into memory and
    /// wait for nothing.
    pub fn count(&self, reason: Reason) -> u32 {
        self.counts[reason as usize]
    }

    /// All of them.
    pub fn total(&self) -> u32 {
        self.counts.iter().sum()
    }

    /// Takes those of another group in, as of a group below or of a whole device.
    pub fn merge(&mut self, other: &GroupWaits) {
        for (ours, theirs) in self.counts.iter_mut().zip(other.counts) {
            *ours += theirs;
        }
        self.oldest = self.oldest.max(other.oldest);
        self.at_disk = self.at_disk.max(other.at_disk);
    }
}

/// All requests and buffered writes that are not finished, by group: a buffer to be used again.
#[derive(Clone, Debug, Default)]
pub struct WaitingNow {
    groups: Vec<GroupWaits>,
    /// By number of the group: its place in the list, and one more.
    places: Vec<u32>,
}

impl WaitingNow {
    /// The groups that have something, in no order that means anything.
    pub fn groups(&self) -> &[GroupWaits] {
        &self.groups
    }

    /// Those of a group alone.
    pub fn of(&self, group: GroupId) -> GroupWaits {
        let place = self.places.get(group.0 as usize).copied().unwrap_or(0);
        let nothing = GroupWaits { group, ..GroupWaits::default() };
        place.checked_sub(1).map_or(nothing, |place| self.groups[place as usize])
    }

    /// Those of all together, under the name of the root.
    pub fn all(&self) -> GroupWaits {
        let mut all = GroupWaits::default();
        self.groups.iter().for_each(|group| all.merge(group));
        all
    }

    pub(super) fn clear(&mut self) {
        for group in self.groups.drain(..) {
            self.places[group.group.0 as usize] = 0;
        }
    }

    /// The line of a group for one more, which has been here for so long.
    fn line(&mut self, group: GroupId, age: Nanos) -> &mut GroupWaits {
        let at = group.0 as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, 0);
        }
        if self.places[at] == 0 {
            self.groups.push(GroupWaits { group, ..GroupWaits::default() });
            self.places[at] = self.groups.len() as u32;
        }
        let line = &mut self.groups[self.places[at] as usize - 1];
        line.oldest = line.oldest.max(age);
        line
    }

    /// One that waits for the reason.
    pub(super) fn add(&mut self, group: GroupId, age: Nanos, reason: Reason) {
        self.line(group, age).counts[reason as usize] += 1;
    }

    /// One at the device, for so long.
    pub(super) fn add_at_disk(&mut self, group: GroupId, age: Nanos, at_disk: Nanos) {
        let line = self.line(group, age);
        line.counts[Reason::Disk as usize] += 1;
        line.at_disk = line.at_disk.max(at_disk);
    }

    /// One in stage admit.
    pub(super) fn add_waiting(&mut self, group: GroupId, age: Nanos, lane: Lane) {
        self.line(group, age).waiting[lane as usize] += 1;
    }

    /// All in stage admit are here: what those of a group wait for there in a lane.
    pub(super) fn settle(&mut self, reason: impl Fn(GroupId, Lane) -> Reason) {
        for line in &mut self.groups {
            for lane in Lane::ALL {
                let count = std::mem::take(&mut line.waiting[lane as usize]);
                if count > 0 {
                    line.counts[reason(line.group, lane) as usize] += count;
                }
            }
        }
    }
}
