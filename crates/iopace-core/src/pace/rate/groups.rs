//! What the rate policy knows of each group: its limits, its base rate, what it did lately.

use super::base::Base;
use super::caps::Caps;
use super::pause::Tempo;
use super::position::ONE;
use crate::group::Weight;
use crate::request::GroupId;
use crate::time::Instant;
use crate::units::{Bytes, BytesPerSec};

/// No group above has a limit.
const NONE: u32 = u32::MAX;

/// So many more tasks than twice those of the last interval are a surge.
const SURGE_TASKS: u32 = 8;

/// Groups above one that are looked at: more than the deepest legal tree has.
const ANCESTORS_MAX: usize = 64;

/// One group.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) parent: u32,
    pub(super) weight: Weight,
    pub(super) caps: Caps,
    /// The nearest group above that has limits.
    capped_above: u32,
    pub(super) base: Base,
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

impl Group {
    fn new(rate: BytesPerSec) -> Group {
        Group {
            parent: GroupId::ROOT.0,
            weight: Weight::DEFAULT,
            caps: Caps::default(),
            capped_above: NONE,
            base: Base::new(rate),
            bandwidth: rate,
            fraction: ONE,
            share: ONE,
            tempo: Tempo::default(),
            tempo_of: (0, 0, 0),
            dirty: 0,
            dirtied: 0,
            passed: 0,
            tasks_count: 0,
            tasks_last_count: 0,
            waited: false,
            ran_free: false,
            held_above: false,
            was_hungry: false,
            dirty_rate: 0,
            dirty_rate_smooth: 0,
            idle_count: 0,
            is_active: false,
            node: (0, 0),
        }
    }
}

impl Group {
    /// Whether many more tasks were seen in this interval than in the last.
    pub(super) fn is_surging(&self) -> bool {
        self.tasks_count > SURGE_TASKS + 2 * self.tasks_last_count
    }
}

/// All groups, by number. The root is always there.
#[derive(Debug)]
pub(super) struct Groups {
    groups: Vec<Option<Box<Group>>>,
    /// Those that dirtied lately.
    pub(super) active: Vec<u32>,
    /// Whether limits or parents have changed since [`Groups::link_caps`].
    pub(super) is_stale: bool,
}

impl Groups {
    pub(super) fn new(rate: BytesPerSec) -> Groups {
        Groups {
            groups: vec![Some(Box::new(Group::new(rate)))],
            active: Vec::new(),
            is_stale: false,
        }
    }

    /// The group; a new one if it is not known.
    pub(super) fn enter(&mut self, id: u32, rate: BytesPerSec) -> &mut Group {
        let place = id as usize;
        if self.groups.len() <= place {
            self.groups.resize_with(place + 1, || None);
        }
        self.groups[place].get_or_insert_with(|| Box::new(Group::new(rate)))
    }

    pub(super) fn get(&self, id: u32) -> Option<&Group> {
        self.groups.get(id as usize)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Group> {
        self.groups.get_mut(id as usize)?.as_deref_mut()
    }

    /// The group becomes one of those that dirty.
    pub(super) fn activate(&mut self, id: u32) {
        if let Some(group) = self.get_mut(id).filter(|group| !group.is_active) {
            group.is_active = true;
            self.active.push(id);
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.active.retain(|&active| active != id);
        if let Some(group) = self.groups.get_mut(id as usize) {
            *group = None;
        }
        if id == GroupId::ROOT.0 {
            self.enter(id, super::bandwidth::GUESS);
        }
        self.is_stale = true;
    }

    /// Notes for each group who above it has limits.
    pub(super) fn link_caps(&mut self) {
        self.is_stale = false;
        for id in 0..self.groups.len() as u32 {
            let Some(group) = self.get(id) else { continue };
            let (mut above, mut at) = (NONE, (id, group.parent));
            for _ in 0..ANCESTORS_MAX {
                let Some(parent) = self.get(at.1).filter(|_| at.0 != GroupId::ROOT.0) else {
                    break;
                };
                if parent.caps.is_any() {
                    above = at.1;
                    break;
                }
                at = (at.1, parent.parent);
            }
            if let Some(group) = self.get_mut(id) {
                group.capped_above = above;
            }
        }
    }

    /// Calls `each` for the limits that hold for a group: its own and those above.
    pub(super) fn each_cap(&mut self, id: u32, mut each: impl FnMut(&mut Caps)) {
        let mut at = id;
        for _ in 0..ANCESTORS_MAX {
            let Some(group) = self.get_mut(at) else { return };
            if group.caps.is_any() {
                each(&mut group.caps);
            }
            at = group.capped_above;
        }
    }

    /// Whether a limit holds for the group.
    pub(super) fn is_capped(&self, id: u32) -> bool {
        self.get(id).is_some_and(|group| group.capped_above != NONE || group.caps.is_any())
    }

    /// All limits of the group are open at an instant, the last one later than `now`: notes whose
    /// it is.
    pub(super) fn waits(&mut self, id: u32, now: Instant, opens: Instant, portion: (Bytes, Bytes)) {
        let Some(group) = self.get_mut(id) else { return };
        group.held_above |= opens > now.max(group.caps.opens(portion.0, portion.1));
    }

    /// The largest portion that the limits want.
    pub(super) fn portion(&mut self, id: u32) -> u64 {
        let mut portion = u64::MAX;
        self.each_cap(id, |caps| portion = portion.min(caps.portion()));
        portion
    }

    /// When all limits are open for a portion of `size` bytes, `done` bytes into its write.
    pub(super) fn opens(&mut self, id: u32, (done, size): (Bytes, Bytes)) -> Instant {
        let mut opens = Instant::ZERO;
        self.each_cap(id, |caps| opens = opens.max(caps.opens(done, size)));
        opens
    }
}
