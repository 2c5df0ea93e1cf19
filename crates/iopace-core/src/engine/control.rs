//! A live device from outside: changes, taken apart here and made by the machines, and how it
//! stands.

use super::touched::Touched;
use super::{Config, Control, ControlError, Engine, Output, Status, WaitingNow};
use crate::admit::GroupSlots;
use crate::group::{Settings, accounts::Account, table::Groups};
use crate::pace::{self, Dirty};
use crate::request::{Area, GroupId, TaskId};
use crate::shadow::{PANICKED, Plan, Recording, Replay, Shadow, View};
use crate::stats::{DeviceStats, Histogram, TaskAccount};
use crate::time::Instant;
use crate::trace::Event;
use crate::units::Bytes;
use core::num::NonZeroU64;
use core::ops::Range;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Engine {
    /// Changes the device while it runs. Takes effect between two requests.
    ///
    /// # Errors
    /// See [`ControlError`]; nothing is changed then.
    pub fn control(&mut self, now: Instant, control: Control) -> Result<(), ControlError> {
        self.advance(now);
        self.cx.look();
        let Engine { queue, memory, cx, config, .. } = self;
        match control {
            Control::Insert(algorithm, params) => queue.insert(cx, algorithm, params)?,
            Control::Configure(algorithm, changes) => queue.configure(cx, algorithm, &changes)?,
            Control::Destroy => queue.destroy(cx, config.base)?,
            Control::Slots(nr_requests) => {
                config.nr_requests = nr_requests;
                queue.set_slots(nr_requests);
            }
            Control::Window(depth) => {
                config.window_depth = depth;
                queue.set_window_depth(depth);
            }
            Control::WindowPolicy(policy) => {
                config.window = policy;
                queue.set_window(cx.now, config);
                memory.ask(cx.now);
            }
            Control::Pace(policy) => {
                config.pace = policy;
                memory.set_pace(queue, cx, config);
            }
            Control::PauseTarget(pause) => {
                config.pause_target = pause;
                memory.set_pause_target(cx.now, pause);
            }
            Control::TaskCap(task, rate) => memory.set_cap(cx.now, config.pace, task, rate)?,
            other => {
                self.change(other);
                return Ok(());
            }
        }
        // The shadow has these settings of the live device too.
        self.restart_shadow(false);
        Ok(())
    }

    /// Changes that are never refused, and which a shadow takes over as they are made or not at
    /// all.
    fn change(&mut self, control: Control) {
        let Engine { queue, memory, cx, config, .. } = self;
        match control {
            Control::Memory(budget) => {
                config.memory = budget.device;
                cx.observers.control(Control::Memory(budget));
                memory.set_budget(queue, cx, &budget);
            }
            Control::HostShare(share) => self.set_host_share(share),
            Control::Capacity(capacity) => {
                config.capacity = capacity;
                memory.set_capacity(capacity);
            }
            Control::SetGroup(id, parent, settings) => self.set_group(id, parent, &settings),
            Control::RemoveGroup(id) => self.remove_group(id),
            Control::Recommend(plan) => {
                if cx.observers.recommend(plan) {
                    self.restart_shadow(true);
                }
            }
            Control::RecommendGroup(id, settings) => {
                if cx.observers.recommend_group(id, settings) {
                    self.restart_shadow(true);
                }
            }
            Control::Record(most_count) => cx.observers.record(cx.now, most_count),
            Control::ForgetRecorded(count) => cx.observers.forget_recorded(count),
            other => unreachable!("{other:?} is a change of the device"),
        }
    }

    // Groups.

    fn set_group(&mut self, id: GroupId, parent: GroupId, settings: &Settings) {
        #[cfg(feature = "broken-limiter")]
        let settings = &ignore_write_limit(settings);
        let Engine { queue, memory, cx, .. } = self;
        let now = cx.now;
        assert!(
            !cx.groups.is_torn(id, parent),
            "{id:?} is moved with requests of its own or below"
        );
        let touched = Touched::by(cx.groups.table.set(id, parent, settings), settings);
        if touched.target {
            cx.targets.set(now, id, settings.latency);
        }
        if touched.pace {
            memory.set_group(now, id, &cx.groups.table);
        }
        queue.set_group(cx, &touched, id);
        let group = (id, parent, settings);
        let restarts = cx.observers.set_group(now, &cx.groups.table, group);
        if restarts {
            self.restart_shadow(false);
        }
    }

    /// A group is removed. What it has dirty and what waits goes on as fast as the groups above let
    /// it: its own limits hold for nobody any more, and a guarantee, a target or slots kept for it
    /// would only be missing elsewhere. Its weight and class remain.
    fn remove_group(&mut self, id: GroupId) {
        let groups = &self.cx.groups.table;
        if id == GroupId::ROOT || !groups.knows(id) {
            return;
        }
        let Settings { weight, class, .. } = *groups.settings(id);
        let settings = Settings { weight, class, ..Settings::default() };
        if *groups.settings(id) != settings {
            self.set_group(id, groups.parent(id), &settings);
        }
        self.cx.groups.table.remove(id);
        if self.cx.observers.remove_group(id) {
            self.tell_shadow_ended("was of a group that is removed");
        }
        self.cx.left(id);
        self.forget_ended_groups();
    }

    /// Forgets groups that were removed, once nothing of them is left.
    #[inline]
    pub(super) fn forget_ended_groups(&mut self) {
        if !self.cx.ended_groups.is_empty() {
            self.forget_groups();
        }
    }

    #[cold]
    fn forget_groups(&mut self) {
        for id in std::mem::take(&mut self.cx.ended_groups) {
            if !self.cx.groups.is_dead(id) || self.memory.flusher().has_dirty(id) {
                continue;
            }
            self.cx.look();
            self.cx.groups.forget(id);
            self.cx.targets.remove(id);
            self.memory.remove_group(id);
            self.queue.remove_group(&mut self.cx, id);
        }
    }

    // The shadow.

    /// The shadow begins anew, with the live settings as they are now.
    fn restart_shadow(&mut self, forget: bool) {
        let Some(shadow) = self.cx.observers.shadow() else { return };
        let engine = self.like_this(&shadow.plan, self.cx.now);
        self.cx.observers.restart(self.cx.now, engine, &self.cx.groups.table, forget);
    }

    /// A shadow that is to meet what was recorded from `began` on, under the plan, and with these
    /// settings of groups; it is told of these groups and those above them only.
    ///
    /// # Errors
    /// Why a policy did not start.
    pub fn replay(
        &self,
        began: Instant,
        (plan, tried): (Plan, BTreeMap<GroupId, Settings>),
        groups: &[GroupId],
    ) -> Result<Replay, &'static str> {
        let engine = self.like_this(&plan, began)?;
        Replay::new(began, engine, (plan, tried), (&self.cx.groups.table, groups))
    }

    /// An engine at rest at `now` with the settings of this one but for the plan's, without groups;
    /// why there is none: a policy may panic already when it is built.
    fn like_this(&self, plan: &Plan, now: Instant) -> Result<Engine, &'static str> {
        let live = self.config.clone();
        let built = catch_unwind(AssertUnwindSafe(|| {
            let mut engine = Engine::new(Config {
                nr_requests: plan.nr_requests.unwrap_or(live.nr_requests),
                window_depth: plan.window_depth.unwrap_or(live.window_depth),
                window: plan.window.unwrap_or(live.window),
                pace: plan.pace.unwrap_or(live.pace),
                tells_cleaned: false,
                accounting: false,
                // Its virtual disk does one request after the other.
                merge_max: Bytes::ZERO,
                ..live
            });
            let scheduler = plan.scheduler.clone().or_else(|| self.queue.inserted());
            if let Some((algorithm, params)) = scheduler {
                engine.settle(now, Control::Insert(algorithm, params))?;
            }
            engine.settle(now, Control::Memory(self.memory.budget()))?;
            engine.memory.take_over_caps(now, &self.memory);
            Ok(engine)
        }));
        built.unwrap_or(Err(PANICKED))
    }

    /// Changes an engine at rest and drains it.
    pub(crate) fn settle(&mut self, now: Instant, control: Control) -> Result<(), &'static str> {
        self.control(now, control).map_err(|_| "its scheduler failed to start")?;
        loop {
            match self.poll(now) {
                Output::Wait(..) => return Ok(()),
                Output::Event(event) => {
                    if let Event::SchedulerFailed { fault, .. } = *event {
                        return Err(fault.describe());
                    }
                }
                _ => {}
            }
        }
    }

    /// The live engine is drained: the shadow goes on.
    #[inline]
    pub(super) fn advance_shadow(&mut self) {
        if let Some(why) = self.cx.observers.advance(self.cx.now, &self.cx.groups.table) {
            self.tell_shadow_ended(why);
        }
    }

    #[cold]
    fn tell_shadow_ended(&mut self, why: &'static str) {
        self.cx.outputs.event(Event::RecommendEnded { why });
    }

    // How it stands.

    /// The device as it stands.
    pub fn status(&self) -> Status {
        let pause_target = self.memory.pace().pause_target();
        let caps_count = self.memory.caps().count();
        Status {
            pause_target,
            caps_count,
            ..self.queue.status(&self.config, self.memory.paced_count())
        }
    }

    /// The counts of the device since the beginning.
    pub fn stats(&self) -> DeviceStats {
        self.cx.stats.stats(&self.cx.tasks.counts())
    }

    /// The accounts of tasks that have something here, or had at `since` or later, in no order
    /// that means anything. `into` is emptied first; at most `limits::TASK_ACCOUNTS_MAX` and one
    /// more for the tasks that found no room.
    pub fn tasks(&self, since: Instant, into: &mut Vec<TaskAccount>) {
        into.clear();
        into.extend(self.cx.tasks.since(since).cloned());
    }

    /// The same of the tasks in these places only, added to `into`; returns how many places there
    /// are. For who would hold the engine up with all of them at once: a task stays in its place
    /// unless it is forgotten meanwhile.
    pub fn tasks_in(
        &self,
        places: Range<usize>,
        since: Instant,
        into: &mut Vec<TaskAccount>,
    ) -> usize {
        into.extend(self.cx.tasks.since_in(places, since).cloned());
        self.cx.tasks.places_count()
    }

    /// Requests and buffered writes that came and have not ended.
    pub fn live_count(&self) -> usize {
        self.queue.live_count() + self.memory.live_count()
    }

    /// Fills in where everything stands at `now`, by what was known after the last drain. Costs a
    /// few nanoseconds for each request that is not finished.
    ///
    /// While the window is full everything that is queued counts under `Reason::Window`: whose
    /// turn it is next shows only when there is room again.
    pub fn waiting_now(&self, now: Instant, into: &mut WaitingNow) {
        into.clear();
        self.queue.waiting_now(now, &self.cx.groups.table, into);
        self.memory.waiting_now(now, into);
    }

    /// Whether nothing in an area is dirty or on its way to the disk.
    pub fn is_clean(&self, area: Area) -> bool {
        self.memory.flusher().is_clean(area)
    }

    /// Dirty memory of the device, and of a group alone.
    pub fn dirty(&self, group: GroupId) -> Dirty {
        self.memory.flusher().dirty(group)
    }

    /// How stage pace sees the device; dirty memory and its limit are there for every policy.
    pub fn pace_picture(&self) -> pace::PacePicture {
        let dirty = self.memory.flusher().dirty(GroupId::ROOT);
        let limit = self.memory.budget().device.limit;
        pace::PacePicture { dirty: dirty.device, limit, ..self.memory.pace().picture(&dirty) }
    }

    /// How stage pace sees a group; `None` if its policy has no view of groups or does not know it.
    pub fn group_pace_picture(&self, id: GroupId) -> Option<pace::PacePicture> {
        self.memory.pace().group_picture(id, &self.dirty(id))
    }

    /// The tasks that have a cap, with its bytes per second, by task.
    pub fn task_caps(&self) -> impl Iterator<Item = (TaskId, NonZeroU64)> {
        self.memory.caps()
    }

    /// The pauses of buffered writes: from the first question for a portion until it went on.
    pub fn pauses(&self) -> &Histogram {
        self.memory.pauses()
    }

    /// The account of a group as of the present instant; `None` if the device does not know it.
    pub fn group(&self, id: GroupId) -> Option<(Account, GroupSlots)> {
        let mut account = self.account(id)?.into_owned();
        account.pressure.advance(self.cx.now);
        Some((account, self.group_slots(id)))
    }

    /// The account of a group as of its last request: borrowed, and made for the root; `None` if
    /// the device does not know the group.
    pub fn account(&self, id: GroupId) -> Option<Cow<'_, Account>> {
        let account = self.cx.groups.get(id)?;
        if id != GroupId::ROOT {
            return Some(Cow::Borrowed(account));
        }
        let live_count = self.queue.live_count() + self.memory.paced_count();
        let counts = self.cx.tasks.counts();
        Some(Cow::Owned(account.with_device(&self.cx.stats, counts, live_count)))
    }

    /// The groups of this device, and what holds for each.
    pub fn groups(&self) -> &Groups {
        &self.cx.groups.table
    }

    /// How a group stands in stage admit.
    pub fn group_slots(&self, id: GroupId) -> GroupSlots {
        self.queue.group(id)
    }

    /// Whether no request of a group that was removed is left, so that its number may be given to
    /// another one.
    pub fn is_group_forgotten(&self, id: GroupId) -> bool {
        !self.cx.groups.table.knows(id)
    }

    /// The outcome of other settings; `None` while nothing is tried. As of the oldest request
    /// that has not ended.
    pub fn recommendation(&self) -> Option<View<'_>> {
        self.cx.observers.shadow().map(Shadow::view)
    }

    /// The shadow itself.
    #[cfg(test)]
    pub(crate) fn shadow(&self) -> Option<&Shadow> {
        self.cx.observers.shadow()
    }

    /// The recording until now, while a look goes on.
    pub fn recording(&self) -> Option<&Recording> {
        self.cx.observers.recording()
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
