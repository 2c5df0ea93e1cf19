//! What the engine of a shadow has to know of the live groups before it follows anything: a few at
//! a time, as the live engine waits for it.

use super::Shadow;
use crate::engine::Control;
use crate::group::table::Groups;
use crate::limits::SHADOW_GROUPS_STEP;
use crate::request::GroupId;
use crate::time::Instant;

impl Shadow {
    /// Whether what comes is followed; it is left out while the groups are not known.
    pub(super) fn is_following(&mut self) -> bool {
        let is_waiting = self.engine.is_some() && self.unknown_from.is_some();
        self.report.missed_count += u64::from(is_waiting);
        self.engine.is_some() && !is_waiting
    }

    /// Whether there are groups that it has not been told of.
    pub(crate) fn is_learning(&self) -> bool {
        self.unknown_from.is_some()
    }

    /// Tells its engine, which is at rest, of the next few groups.
    pub(crate) fn learn_on(&mut self, now: Instant, live: &Groups) {
        let Some(first) = self.unknown_from else { return };
        let end = first.saturating_add(SHADOW_GROUPS_STEP).min(live.end().max(1));
        (first..end).for_each(|id| self.learn(now, live, GroupId(id), false));
        self.unknown_from = Some(end).filter(|end| *end < live.end() && self.engine.is_some());
    }

    /// Tells its engine, which is at rest, of a live group, if it knows it and `anew` or does not,
    /// and of those above it, if it does not know them.
    pub(crate) fn learn(&mut self, now: Instant, live: &Groups, id: GroupId, anew: bool) {
        self.now = self.now.max(now);
        let now = self.now;
        self.fenced(|shadow| {
            let is_known = |id| shadow.engine.as_ref().is_some_and(|it| !it.is_group_forgotten(id));
            let above = live.up(id).filter(|above| *above != id && !is_known(*above));
            let mut all: Vec<GroupId> = above.collect();
            if anew || id == GroupId::ROOT || !is_known(id) {
                all.insert(0, id);
            }
            for id in all.into_iter().rev() {
                if !live.knows(id) {
                    continue;
                }
                let settings = *shadow.groups.get(&id).unwrap_or(live.settings(id));
                let told = Control::SetGroup(id, live.parent(id), settings);
                if let Err(why) = shadow.engine_mut().settle(now, told) {
                    return shadow.fail(why);
                }
            }
        });
    }
}
