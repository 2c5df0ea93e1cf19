//! Where everything stands at this moment: one pass over all that has not ended.

use super::Engine;
use super::door::Stand;
use crate::request::{GroupId, Lane};
use crate::table::{Entry, State};
use crate::time::{Instant, Nanos};
use crate::verdict::Reason;

/// What a group alone, without those below it, has that is not finished.
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

    /// What a group alone has.
    pub fn of(&self, group: GroupId) -> GroupWaits {
        let place = self.places.get(group.0 as usize).copied().unwrap_or(0);
        let nothing = GroupWaits { group, ..GroupWaits::default() };
        place.checked_sub(1).map_or(nothing, |place| self.groups[place as usize])
    }

    /// What all have together, under the name of the root.
    pub fn all(&self) -> GroupWaits {
        let mut all = GroupWaits::default();
        self.groups.iter().for_each(|group| all.merge(group));
        all
    }

    fn clear(&mut self) {
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

    fn add(&mut self, group: GroupId, age: Nanos, reason: Reason) {
        self.line(group, age).counts[reason as usize] += 1;
    }
}

impl Engine {
    /// Fills in where everything stands at `now`, by what was known after the last drain. Costs a
    /// few nanoseconds for each request that is not finished.
    ///
    /// While the window is full everything that is queued counts under [`Reason::Window`]: whose
    /// turn it is next shows only when there is room again.
    pub fn waiting_now(&self, now: Instant, into: &mut WaitingNow) {
        into.clear();
        for entry in self.table.entries() {
            self.add_request(now, entry, into);
        }
        for write in self.memory.door.entries() {
            let reason = self.memory.door.reason(write);
            let reason = match write.stand {
                Stand::Writing { .. } => Reason::Idle,
                _ => pace_reason(reason),
            };
            into.add(write.group, now.since(write.arrived), reason);
        }
        for (group, since) in self.memory.syncs.waiting() {
            into.add(group, now.since(since), Reason::Disk);
        }
        for line in &mut into.groups {
            for lane in Lane::ALL {
                let count = std::mem::take(&mut line.waiting[lane as usize]);
                if count > 0 {
                    let reason = self.admit.reason(now, line.group, lane);
                    line.counts[reason as usize] += count;
                }
            }
        }
    }

    fn add_request(&self, now: Instant, entry: &Entry, into: &mut WaitingNow) {
        let group = entry.request.submit.group;
        let age = now.since(entry.request.arrived()) + entry.written.0;
        match entry.state() {
            State::Waiting => {
                let is_write_back = entry.run.is_some();
                let lane = Lane::of(entry.request.submit.op);
                let lane = if is_write_back { Lane::WriteBack } else { lane };
                into.line(group, age).waiting[lane as usize] += 1;
            }
            State::Queued => {
                let reason = match self.reason {
                    Reason::Window | Reason::Anticipation => self.reason,
                    _ => Reason::Turn,
                };
                into.add(group, age, reason);
            }
            State::Held => into.add(group, age, Reason::Window),
            State::InFlight => {
                into.add(group, age, Reason::Disk);
                let line = into.line(group, age);
                line.at_disk = line.at_disk.max(now.since(entry.started));
            }
        }
    }
}

/// As the times in stage pace are booked.
fn pace_reason(reason: Option<Reason>) -> Reason {
    reason
        .filter(|reason| matches!(reason, Reason::Memory | Reason::Budget))
        .unwrap_or(Reason::Dirty)
}
