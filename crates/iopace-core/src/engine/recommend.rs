//! A shadow beside the engine: what other settings would have done.

use super::door::Buffered;
use super::{Config, Control, Engine, Output};
use crate::flush::Run;
use crate::group::Settings;
use crate::request::{Cover, Extent, GroupId, Op, RequestId, StageTimes, Submit, Tag, TaskId};
use crate::shadow::{Ended, PANICKED, Plan, Served, Shadow, View};
use crate::time::Instant;
use crate::trace::Event;
use crate::units::Bytes;
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
        let built = catch_unwind(AssertUnwindSafe(|| self.like_this(&shadow)));
        shadow.restart(self.now, built.unwrap_or(Err(PANICKED)));
        shadow.learn_on(self.now, &self.groups);
        self.shadow = Some(shadow);
    }

    /// An engine at rest with the settings of this one but for the shadow's, without groups; why
    /// there is none.
    fn like_this(&self, shadow: &Shadow) -> Result<Engine, &'static str> {
        let plan = &shadow.plan;
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
        let (now, live) = (self.now, (self.sched.algorithm, self.sched.params.clone()));
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

    /// A request comes.
    pub(super) fn follow(&mut self, submit: &Submit, cover: &Cover) -> u64 {
        let now = self.now;
        self.shadow.as_mut().map_or(0, |shadow| shadow.arrived(now, *submit, *cover))
    }

    /// A buffered write comes.
    pub(super) fn follow_write(&mut self, task: TaskId, group: GroupId, extent: Extent) -> u64 {
        let now = self.now;
        let submit = paced(task, group, extent);
        self.shadow.as_mut().map_or(0, |shadow| shadow.dirtied(now, submit))
    }

    /// A request has completed.
    #[inline]
    pub(super) fn followed(&mut self, id: RequestId, times: &StageTimes) {
        if self.shadow.is_some() {
            self.followed_on(id, times);
        }
    }

    #[inline(never)]
    fn followed_on(&mut self, id: RequestId, times: &StageTimes) {
        let Some(shadow) = &mut self.shadow else { return };
        let entry = self.table.left(id);
        let (op, mut size) = (entry.request.submit.op, entry.request.submit.extent.len());
        if let Some(Run { extent, .. }) = &entry.run {
            size = extent.len();
        }
        let is_write_back = entry.run.is_some();
        let mut served = Served::default();
        // What moves nothing was not at the disk.
        if size > Bytes::ZERO || op == Op::Flush {
            let measured = &mut shadow.measured;
            served = measured.done(self.now, entry.started, (op, size), is_write_back);
            served.beside = entry.beside;
        }
        shadow.ended(entry.followed, &entry.request.submit, Ended { times: *times, served });
    }

    /// A buffered write has ended.
    pub(super) fn followed_write(&mut self, write: &Buffered) {
        let Some(shadow) = &mut self.shadow else { return };
        let submit = paced(write.task, write.group, write.size);
        let ended = Ended { times: write.waited, served: Served::default() };
        shadow.ended(write.followed, &submit, ended);
    }

    /// What is dirty in an extent is void.
    pub(super) fn follow_void(&mut self, extent: Extent) {
        if let Some(shadow) = &mut self.shadow {
            shadow.voided(self.now, extent);
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

/// A buffered write in the words of a request.
fn paced(task: TaskId, group: GroupId, extent: Extent) -> Submit {
    Submit { tag: Tag(0), task, group, op: Op::Write, extent, fua: false, sync: true }
}
