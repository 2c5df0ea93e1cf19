//! Groups with a limit on this device: whatever they ask for goes through the engine, so that
//! `io.max` holds for what the page cache serves as well.

use iopace_core::engine::Control;
use iopace_core::group::{Limits, Rates};
use iopace_core::request::GroupId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The groups that a device knows: each with the group above it, and whether it has a limit.
#[derive(Debug, Default)]
pub(super) struct Limited {
    groups: Mutex<BTreeMap<GroupId, (GroupId, bool)>>,
    /// How many have one: usually none, and then nobody has to look.
    count: AtomicUsize,
}

impl Limited {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupId, (GroupId, bool)>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a change that the engine is told of.
    pub(super) fn note(&self, control: &Control) {
        let mut groups = self.lock();
        let (before, is_limited) = match control {
            Control::SetGroup(id, parent, settings) => {
                let is_limited = is_limit(&settings.max);
                (groups.insert(*id, (*parent, is_limited)), is_limited)
            }
            Control::RemoveGroup(id) => (groups.remove(id), false),
            _ => return,
        };
        // Changed under the lock only: there may be tens of thousands of groups to count.
        let was_limited = before.is_some_and(|(_, limited)| limited);
        let count = self.count.load(Relaxed) + usize::from(is_limited) - usize::from(was_limited);
        self.count.store(count, Relaxed);
    }

    /// Whether any group has one.
    pub(super) fn has_any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Whether the group or one above it has a limit.
    pub(super) fn holds(&self, group: GroupId) -> bool {
        if !self.has_any() {
            return false;
        }
        let groups = self.lock();
        let mut id = group;
        while let Some((parent, limited)) = groups.get(&id) {
            if *limited || id == GroupId::ROOT {
                return *limited;
            }
            id = *parent;
        }
        false
    }
}

fn is_limit(max: &Limits) -> bool {
    max.sustained != Rates::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::group::Settings;
    use std::num::NonZeroU64;

    #[test]
    fn a_limit_holds_for_all_below() {
        let limited = Limited::default();
        let free = Settings::default();
        let sustained = Rates { rbps: NonZeroU64::new(1), ..Rates::default() };
        let max = Limits { sustained, ..Limits::default() };
        let set = |id, parent, settings| {
            limited.note(&Control::SetGroup(GroupId(id), GroupId(parent), settings));
        };
        set(0, 0, free);
        set(1, 0, free);
        set(2, 1, free);
        assert!(!limited.holds(GroupId(2)));
        set(1, 0, Settings { max, ..free });
        assert!(limited.holds(GroupId(2)) && limited.holds(GroupId(1)));
        assert!(!limited.holds(GroupId(0)));
        set(1, 0, free);
        set(0, 0, Settings { max, ..free });
        assert!(limited.holds(GroupId(2)));
        limited.note(&Control::RemoveGroup(GroupId(2)));
        assert!(!limited.holds(GroupId(2)));
        set(0, 0, Settings { max, ..free });
        set(1, 0, Settings { max, ..free });
        assert_eq!(limited.count.load(Relaxed), 2, "each once");
        limited.note(&Control::RemoveGroup(GroupId(1)));
        limited.note(&Control::RemoveGroup(GroupId(1)));
        assert_eq!(limited.count.load(Relaxed), 1);
        set(0, 0, free);
        assert_eq!(limited.count.load(Relaxed), 0);
    }
}
