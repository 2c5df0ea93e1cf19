//! What the rate policy knows of each group: its limits, its base rate, what it did lately.

use super::base::BaseRate;
use super::caps::CapMeters;
use super::pause::Tempo;
use super::position::ONE;
use crate::group::table::Column;
use crate::pace::PacePicture;
use crate::request::GroupId;
use crate::time::Nanos;
use crate::units::BytesPerSec;

/// So many more tasks than twice those of the last interval are a surge.
const SURGE_TASKS: u32 = 8;

/// One group.
#[derive(Debug, Default)]
pub(super) struct PacedGroup {
    pub(super) caps: CapMeters,
    pub(super) base: BaseRate,
    /// What it may have of the device's bandwidth.
    pub(super) bandwidth: BytesPerSec,
    /// The same as part of the whole, in 1/65536.
    pub(super) fraction: u64,
    /// The same smoothed: its part of dirty memory.
    pub(super) share: u64,
    pub(super) tempo: Tempo,
    /// For which state of the policy and which dirty memory, device and group, `tempo` holds.
    pub(super) tempo_of: (u32, u64, u64),
    /// Dirty memory, as of the last call that was about the group.
    pub(super) dirty: u64,
    /// In the present interval: bytes that became dirty, bytes that passed as such, tasks seen.
    pub(super) dirtied: u64,
    pub(super) passed: u64,
    pub(super) tasks_count: u32,
    pub(super) tasks_last_count: u32,
    /// In the present interval: somebody waited for the rate, somebody passed without a rate.
    pub(super) waited: bool,
    pub(super) ran_free: bool,
    /// In the present interval: somebody waited for a limit of a group above.
    pub(super) held_above: bool,
    /// It waited in the last interval.
    pub(super) was_hungry: bool,
    /// Rate at which it dirtied in the last interval, and lately.
    pub(super) dirty_rate: u64,
    pub(super) dirty_rate_smooth: u64,
    /// Intervals since it did anything.
    pub(super) idle_count: u32,
    pub(super) is_active: bool,
    /// Its place in the division of this interval.
    pub(super) node: (u32, usize),
}

impl PacedGroup {
    fn new(rate: BytesPerSec) -> PacedGroup {
        PacedGroup {
            base: BaseRate::new(rate),
            bandwidth: rate,
            fraction: ONE,
            share: ONE,
            ..PacedGroup::default()
        }
    }

    /// Its rates beside the marks, for those who look.
    pub(super) fn picture(&self, position: u64, pause: Nanos, marks: PacePicture) -> PacePicture {
        PacePicture {
            base_rate: BytesPerSec(self.base.rate),
            balanced_rate: BytesPerSec(self.base.balanced),
            task_rate: BytesPerSec(self.base.task_rate(position)),
            position_permille: (position * 1_000 / ONE) as u32,
            pause,
            ..marks
        }
    }

    /// Whether many more tasks were seen in this interval than in the last.
    pub(super) fn is_surging(&self) -> bool {
        self.tasks_count > SURGE_TASKS + 2 * self.tasks_last_count
    }
}

/// All groups. The root is always there.
#[derive(Debug)]
pub(super) struct States {
    groups: Column<Option<Box<PacedGroup>>>,
    /// Those that dirtied lately.
    pub(super) active: Vec<GroupId>,
}

impl States {
    pub(super) fn new(rate: BytesPerSec) -> States {
        let mut states = States { groups: Column::default(), active: Vec::new() };
        states.enter(GroupId::ROOT, rate);
        states
    }

    /// The group; a new one if it is not known.
    pub(super) fn enter(&mut self, id: GroupId, rate: BytesPerSec) -> &mut PacedGroup {
        self.groups[id].get_or_insert_with(|| Box::new(PacedGroup::new(rate)))
    }

    pub(super) fn get(&self, id: GroupId) -> Option<&PacedGroup> {
        self.groups[id].as_deref()
    }

    pub(super) fn get_mut(&mut self, id: GroupId) -> Option<&mut PacedGroup> {
        self.groups[id].as_deref_mut()
    }

    /// The limits of a group that has some.
    pub(super) fn caps(&mut self, id: GroupId) -> &mut CapMeters {
        &mut self.groups[id].as_mut().expect("a group with limits was told of").caps
    }

    /// The group becomes one of those that dirty.
    pub(super) fn activate(&mut self, id: GroupId) {
        if let Some(group) = self.get_mut(id).filter(|group| !group.is_active) {
            group.is_active = true;
            self.active.push(id);
        }
    }

    pub(super) fn remove(&mut self, id: GroupId) {
        self.active.retain(|&active| active != id);
        self.groups.take(id);
        if id == GroupId::ROOT {
            self.enter(id, super::bandwidth::GUESS);
        }
    }
}
