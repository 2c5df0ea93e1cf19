//! What the engine of a device knows of groups, and tells the stages.

use super::Engine;
use crate::admit::GroupSlots;
use crate::group::Settings;
use crate::group::accounts::Account;
use crate::request::GroupId;
use crate::trace::Fault;
use std::borrow::Cow;

impl Engine {
    pub(super) fn set_group(&mut self, id: GroupId, parent: GroupId, settings: &Settings) {
        #[cfg(feature = "broken-limiter")]
        let settings = &ignore_write_limit(settings);
        let touched = Touched::by(self.groups.set(id, parent, settings), settings);
        self.targets.set(self.now, id, settings.latency);
        if touched.pace {
            self.memory.pace.set_group(self.now, id, parent, settings);
            self.memory.door.ask_all(self.now);
        }
        if touched.admit {
            self.admit.set_group(self.now, id, parent, settings);
        }
        self.shadow_group(id, parent, settings);
        if touched.sched
            && id != GroupId::ROOT
            && let Err(fault) = self.sched.set_group(self.now, id, parent, settings)
        {
            self.fail_over(fault);
        }
    }

    /// Tells a new scheduler of all groups.
    pub(super) fn tell_groups(&mut self) -> Result<(), Fault> {
        let mut all = self.groups.settings().into_iter();
        all.try_for_each(|(id, parent, settings)| {
            self.sched.set_group(self.now, id, parent, &settings)
        })
    }

    /// A group is removed. What it has dirty and what waits goes on as fast as the groups above let
    /// it: its own limits hold for nobody any more, and a guarantee, a target or slots kept for it
    /// would only be missing elsewhere. Its weight and class remain.
    pub(super) fn remove_group(&mut self, id: GroupId) {
        let Some(account) = self.groups.get(id).filter(|_| id != GroupId::ROOT) else { return };
        let Settings { weight, class, .. } = account.settings;
        let settings = Settings { weight, class, ..Settings::default() };
        if account.settings != settings {
            let parent = account.parent();
            self.set_group(id, parent, &settings);
        }
        self.groups.dies(id);
        self.shadow_removes(id);
        self.forget_if_dead(id);
    }

    /// Forgets a group that was removed, once nothing of it is left.
    #[inline]
    pub(super) fn forget_if_dead(&mut self, id: GroupId) {
        if self.groups.is_dead(id) {
            self.forget_dead(id);
        }
    }

    #[cold]
    fn forget_dead(&mut self, id: GroupId) {
        if self.memory.holds(id) {
            return;
        }
        self.is_changed = true;
        self.groups.forget(id);
        self.targets.remove(id);
        self.memory.pace.remove_group(id);
        self.memory.flusher.remove_group(id);
        self.admit.remove_group(id);
        if let Err(fault) = self.sched.remove_group(id) {
            self.fail_over(fault);
        }
    }

    /// Narrows or widens groups whose siblings have missed or met their latency targets.
    #[inline]
    pub(super) fn judge_latency(&mut self) {
        if self.now >= self.targets.next() {
            self.judge_targets();
        }
    }

    #[cold]
    fn judge_targets(&mut self) {
        for (id, cap) in self.targets.judge(self.now, &self.groups) {
            self.admit.narrow(self.now, id, cap);
        }
    }

    /// What a group did here, as of the present instant; `None` if the device does not know it.
    pub fn group(&self, id: GroupId) -> Option<(Account, GroupSlots)> {
        let mut account = self.account(id)?.into_owned();
        account.pressure.advance(self.now);
        Some((account, self.admit.group(id)))
    }

    /// The account of a group as of its last request: borrowed, and made for the root; `None` if
    /// the device does not know the group.
    pub fn account(&self, id: GroupId) -> Option<Cow<'_, Account>> {
        let account = self.groups.get(id)?;
        if id != GroupId::ROOT {
            return Some(Cow::Borrowed(account));
        }
        let live_count = self.table.live() + self.memory.door.live_count();
        Some(Cow::Owned(account.with_device(&self.stats, live_count)))
    }

    /// How a group stands in stage admit.
    pub fn group_slots(&self, id: GroupId) -> GroupSlots {
        self.admit.group(id)
    }

    /// Whether no request of a group that was removed is left, so that its number may be given to
    /// another one.
    pub fn is_group_forgotten(&self, id: GroupId) -> bool {
        self.groups.get(id).is_none()
    }
}

/// Which stages depend on what has changed of a group's settings.
struct Touched {
    pace: bool,
    admit: bool,
    sched: bool,
}

impl Touched {
    /// `before` held until now, `None` if the group was not here, or elsewhere in the hierarchy.
    fn by(before: Option<Settings>, now: &Settings) -> Touched {
        let Some(before) = before else { return Touched { pace: true, admit: true, sched: true } };
        let (weight, max) = (before.weight != now.weight, before.max != now.max);
        let (min, slots) = (before.min != now.min, before.slots != now.slots);
        Touched {
            pace: weight || max,
            admit: weight || max || min || slots,
            sched: weight || min || before.class != now.class,
        }
    }
}

/// The fault of the build that `iopace verify` has to find.
#[cfg(feature = "broken-limiter")]
fn ignore_write_limit(settings: &Settings) -> Settings {
    let mut ignored = *settings;
    ignored.max.sustained.wbps = None;
    ignored.max.burst.wbps = None;
    ignored
}
