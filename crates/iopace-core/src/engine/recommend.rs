//! A shadow beside the engine: what other settings would have done.

use super::door::Buffered;
use super::{Config, Control, Engine, Output};
use crate::flush::Run;
use crate::group::Settings;
use crate::request::{
    Area, Cover, Extent, GroupId, Op, RequestId, StageTimes, Submit, Tag, TaskId,
};
use crate::shadow::{
    Ended, PANICKED, Plan, Recorded, RecordedKind, Recording, Replay, Served, Shadow, View,
};
use crate::table::Entry;
use crate::time::{Instant, Nanos};
use crate::trace::Event;
use crate::units::Bytes;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Engine {
    /// What other settings would have done; `None` while nothing is tried. As of the oldest request
    /// that has not ended.
    pub fn recommendation(&self) -> Option<View<'_>> {
        self.shadow.as_deref().map(Shadow::view)
    }

    /// Tries other settings of the device, from the beginning, or ends that.
    pub(super) fn recommend(&mut self, plan: Option<Plan>) {
        let Some(plan) = plan else {
            self.end_shadow();
            return;
        };
        self.ensure_shadow().plan = plan;
        self.restart_shadow(true);
    }

    /// Tries other settings for a group beside what is tried already, or ends that.
    pub(super) fn recommend_group(&mut self, id: GroupId, settings: Option<Settings>) {
        match settings {
            Some(settings) => {
                self.ensure_shadow().groups.insert(id, settings);
            }
            None => {
                let Some(shadow) = &mut self.shadow else { return };
                shadow.groups.remove(&id);
                if shadow.is_empty() {
                    self.end_shadow();
                    return;
                }
            }
        }
        self.restart_shadow(true);
    }

    fn ensure_shadow(&mut self) -> &mut Shadow {
        let first = self.follow_next;
        self.shadow.get_or_insert_with(|| Box::new(Shadow::from(first)))
    }

    fn end_shadow(&mut self) {
        let Some(shadow) = self.shadow.take() else { return };
        self.follow_next = shadow.next_number();
        self.shadow_told = false;
    }

    /// The shadow begins anew, with the live settings as they are now.
    pub(super) fn restart_shadow(&mut self, forget: bool) {
        let Some(mut shadow) = self.shadow.take() else { return };
        if forget {
            shadow.reset(self.now);
            self.shadow_told = false;
        }
        // A policy may panic already when it is built or told of a group.
        let built = catch_unwind(AssertUnwindSafe(|| self.like_this(&shadow.plan, self.now)));
        shadow.restart(self.now, built.unwrap_or(Err(PANICKED)));
        shadow.learn_on(self.now, &self.groups);
        self.shadow = Some(shadow);
    }

    /// The recording until now, while a look goes on.
    pub fn recording(&self) -> Option<&Recording> {
        self.recording.as_deref()
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
        let built = catch_unwind(AssertUnwindSafe(|| self.like_this(&plan, began)));
        let engine = built.unwrap_or(Err(PANICKED))?;
        Replay::new(began, engine, (plan, tried), (&self.groups, groups))
    }

    /// An engine at rest at `now` with the settings of this one but for the plan's, without groups;
    /// why there is none.
    fn like_this(&self, plan: &Plan, now: Instant) -> Result<Engine, &'static str> {
        let mut engine = Engine::new(Config {
            base: self.base,
            nr_requests: plan.nr_requests.unwrap_or(self.admit.slots().0),
            window_depth: plan.window_depth.unwrap_or(self.window_max),
            slots: self.slots,
            window: plan.window.unwrap_or(self.window_policy),
            pace: plan.pace.unwrap_or(self.memory.policy),
            memory: self.memory.frames.budget().device,
            write_back_len: self.memory.write_back_len,
            capacity: self.memory.capacity,
            tells_cleaned: false,
            rotational: self.sched.rotational,
            accounting: false,
        });
        let live = (self.sched.algorithm, self.sched.params.clone());
        let scheduler = plan.scheduler.clone().or(self.inserted.then_some(live));
        if let Some((algorithm, params)) = scheduler {
            engine.settle(now, Control::Insert(algorithm, params))?;
        }
        engine.settle(now, Control::Memory(self.memory.frames.budget()))?;
        Ok(engine)
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

    /// A group is set for the live engine: in the shadow too, unless it is in recommend mode.
    pub(super) fn shadow_group(&mut self, id: GroupId, parent: GroupId, settings: &Settings) {
        let Some(shadow) = &mut self.shadow else { return };
        if shadow.has_dead(id) {
            return self.restart_shadow(false);
        }
        if shadow.is_learning() {
            return shadow.learn(self.now, &self.groups, id, true);
        }
        let settings = shadow.groups.get(&id).copied().unwrap_or(*settings);
        shadow.control(Control::SetGroup(id, parent, settings));
    }

    /// A group is removed.
    pub(super) fn shadow_removes(&mut self, id: GroupId) {
        if self.shadow.as_mut().is_some_and(|shadow| shadow.removed(id)) {
            self.end_shadow();
            self.tell_shadow_ended("was of a group that is removed");
        }
    }

    /// A request comes that is no flush.
    pub(super) fn follow(&mut self, submit: &Submit) -> u64 {
        let now = self.now;
        self.shadow.as_mut().map_or(0, |shadow| shadow.arrived(now, *submit))
    }

    /// A flush comes.
    pub(super) fn follow_flush(&mut self, submit: &Submit, cover: &Cover) {
        if let Some(shadow) = &mut self.shadow {
            shadow.flush(self.now, *submit, *cover);
        }
    }

    /// A buffered write comes.
    pub(super) fn follow_write(&mut self, task: TaskId, group: GroupId, area: Area) -> u64 {
        let now = self.now;
        let submit = paced(task, group, area.extent);
        self.shadow.as_mut().map_or(0, |shadow| shadow.dirtied(now, submit, area.space))
    }

    /// A request has completed.
    #[inline]
    pub(super) fn followed(&mut self, id: RequestId, times: &StageTimes) {
        if self.shadow.is_some() || self.recording.is_some() {
            self.followed_on(id, times);
        }
    }

    #[inline(never)]
    fn followed_on(&mut self, id: RequestId, times: &StageTimes) {
        let entry = self.table.left(id);
        if let Some(recording) = &mut self.recording {
            recording.add(recorded(self.now, entry, times));
        }
        let Some(shadow) = &mut self.shadow else { return };
        let (op, mut size) = (entry.request.submit.op, entry.request.submit.extent.len());
        if let Some(Run { area, .. }) = &entry.run {
            size = area.extent.len();
        }
        let is_write_back = entry.run.is_some();
        let mut served = Served::default();
        // What moves nothing was not at the disk.
        if size > Bytes::ZERO || op == Op::Flush {
            let measured = &mut shadow.measured;
            served = measured.done(self.now, entry.started, (op, size), is_write_back);
            served.beside = entry.beside;
        }
        let ended = Ended { times: *times, served, place: 0 };
        shadow.ended(entry.followed, &entry.request.submit, ended);
    }

    /// A buffered write has ended.
    pub(super) fn followed_write(&mut self, write: &Buffered) {
        if self.shadow.is_none() && self.recording.is_none() {
            return;
        }
        let submit = paced(write.task, write.group, write.size);
        if let Some(recording) = &mut self.recording {
            recording.add(Recorded {
                kind: RecordedKind::Buffered,
                submit,
                arrived: write.arrived,
                started: self.now,
                ended: self.now,
                times: write.waited,
                written: Nanos::ZERO,
                beside: 0,
                cover: Cover::Piece(Area { extent: write.size, ..write.rest }),
            });
        }
        if let Some(shadow) = &mut self.shadow {
            let ended = Ended { times: write.waited, ..Ended::default() };
            shadow.ended(write.followed, &submit, ended);
        }
    }

    /// Dirty pages of an area are void.
    pub(super) fn follow_void(&mut self, area: Area) {
        if let Some(shadow) = &mut self.shadow {
            shadow.voided(self.now, area);
        }
    }

    /// The live engine is drained: the shadow goes on.
    #[inline]
    pub(super) fn follow_on(&mut self) {
        if self.shadow.is_some() {
            self.shadow_goes_on();
        }
    }

    #[inline(never)]
    fn shadow_goes_on(&mut self) {
        if let Some(shadow) = &mut self.shadow {
            shadow.learn_on(self.now, &self.groups);
            shadow.advance(self.now);
            let failed = shadow.view().failed;
            if let Some(why) = failed.filter(|_| !self.shadow_told) {
                self.tell_shadow_ended(why);
            }
            self.shadow_told = failed.is_some();
        }
    }

    fn tell_shadow_ended(&mut self, why: &'static str) {
        self.outputs.push_back(Output::Event(Box::new(Event::RecommendEnded { why })));
    }

    /// Whether a group was removed and something of it is left.
    pub(crate) fn is_group_dying(&self, id: GroupId) -> bool {
        self.groups.get(id).is_some_and(|account| account.is_dying())
    }
}

/// The record of a request that has ended.
fn recorded(now: Instant, entry: &Entry, times: &StageTimes) -> Recorded {
    let mut submit = entry.request.submit;
    let kind = match (&entry.run, submit.op) {
        (Some(run), _) => {
            submit.extent = run.area.in_order();
            RecordedKind::WriteBack
        }
        (None, Op::Flush) => RecordedKind::Flush,
        (None, _) => RecordedKind::Request,
    };
    Recorded {
        kind,
        submit,
        // A flush stood behind write-back before it came to stage admit.
        arrived: entry.request.arrived() - entry.written.0,
        started: entry.started,
        ended: now,
        times: *times,
        written: entry.written.0,
        beside: entry.beside,
        cover: Cover::All,
    }
}

/// A buffered write in the words of a request.
fn paced(task: TaskId, group: GroupId, extent: Extent) -> Submit {
    Submit { tag: Tag(0), task, group, op: Op::Write, extent, fua: false, sync: true }
}
