//! The shadow goes on: a request on its way through its engine, the virtual disk, the report.

use super::line::{Ended, Item};
use super::{Clients, Shadow};
use crate::engine::{Input, Output, Start};
use crate::limits::{SHADOW_EVENTS_MAX, SHADOW_FLUSHES_MAX, SHADOW_OPEN_MAX};
use crate::request::{Area, GroupId, Op, Outcome, StageTimes, Submit, Tag, TaskId};
use crate::time::Instant;
use crate::trace::Event;
use crate::units::Bytes;

/// A request in the shadow's engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followed {
    task: TaskId,
    group: GroupId,
    op: Op,
    size: Bytes,
    ended: Ended,
}

impl Shadow {
    /// Goes on as far as what has happened live is known. Bounded work.
    pub(crate) fn advance(&mut self, now: Instant) {
        if self.engine.is_none() || self.is_learning() {
            return;
        }
        self.report.missed_count += self.line.give_up();
        self.fenced(|shadow| {
            for _ in 0..SHADOW_EVENTS_MAX {
                if shadow.engine.is_none() || !shadow.step(now) {
                    return;
                }
            }
        });
    }

    /// The next thing that happens, if it is known by now.
    fn step(&mut self, now: Instant) -> bool {
        let (arrival, is_known) = self.line.next(now);
        let due = self.disk.next();
        let at = due.min(self.again).min(arrival).max(self.now);
        if at > now || (at >= arrival && !is_known) {
            return false;
        }
        self.now = at;
        let done = self.disk.done(at);
        let is_timer = self.again <= at;
        if let Some(id) = done {
            self.engine_mut().handle(at, Input::Done { id, outcome: Outcome::Ok });
        } else if !is_timer {
            // What came together live comes together here.
            while let Some((item, depth, ended)) = self.line.pop(at) {
                self.arrive(item, depth, ended);
            }
        }
        self.drain();
        true
    }

    /// Something comes; whether it is followed to its end.
    pub(super) fn arrive(&mut self, item: Item, depth: u32, ended: Option<Ended>) -> bool {
        let now = self.now;
        match item {
            Item::Void(area) => {
                self.engine_mut().handle(now, Input::Void(area));
                false
            }
            Item::Flush(submit, cover) => {
                // One that waits already covers about the same; a live task waits for each of them.
                if self.flushes_count >= SHADOW_FLUSHES_MAX || !self.has_place() {
                    return false;
                }
                let served = self.measured.flush();
                let ended = ended.unwrap_or(Ended { served, ..Ended::default() });
                self.enter(submit, ended, &|submit| Input::Flush(submit, cover));
                true
            }
            Item::Request(submit, space) => {
                let Some(ended) = ended.filter(|_| self.may_come(submit.task, depth)) else {
                    return false;
                };
                self.enter(submit, ended, &|submit| Input::SubmitIn(space, submit));
                true
            }
            Item::Write(submit, space) => {
                let dirtied = |Submit { tag, task, group, extent, .. }: Submit| Input::Dirtied {
                    tag,
                    task,
                    group,
                    area: Area { space, extent },
                };
                let Some(ended) = ended.filter(|_| self.may_come(submit.task, depth)) else {
                    return false;
                };
                self.enter(submit, ended, &dirtied);
                true
            }
        }
    }

    /// Whether the task would have asked for one more.
    fn may_come(&self, task: TaskId, depth: u32) -> bool {
        let shadow = self.depths.get(&task).map_or(0, |depth| depth.shadow);
        match self.plan.clients {
            Clients::Closed => shadow < depth && self.has_place(),
            Clients::Open => self.has_place(),
        }
    }

    /// Whether there is room for one more, whoever asks.
    fn has_place(&self) -> bool {
        self.waiting_count() < SHADOW_OPEN_MAX
    }

    /// Its engine is told of it in such words.
    fn enter(&mut self, submit: Submit, ended: Ended, words: &dyn Fn(Submit) -> Input) {
        let now = self.now;
        let Submit { task, mut group, op, extent, .. } = submit;
        if self.engine_mut().is_group_forgotten(group) || self.has_dead(group) {
            group = GroupId::ROOT;
        }
        match op {
            Op::Flush => self.flushes_count += 1,
            _ => self.depths.entry(task).or_default().shadow += 1,
        }
        self.followed_count += 1;
        let tag = Tag(self.followed_count);
        self.followed.insert(tag, Followed { task, group, op, size: extent.len(), ended });
        self.engine_mut().handle(now, words(Submit { tag, group, ..submit }));
    }

    /// Carries out what its engine says.
    pub(super) fn drain(&mut self) {
        let now = self.now;
        loop {
            match self.engine_mut().poll(now) {
                Output::Start(start) => self.start(&start),
                Output::Finish(finish) => {
                    let is_ok = finish.outcome == Outcome::Ok;
                    self.leave(finish.tag, is_ok.then_some(&finish.times));
                }
                Output::Resume(resume) => {
                    if resume.last {
                        self.leave(resume.tag, Some(&resume.waited));
                    }
                    self.engine_mut().handle(now, Input::Wrote { id: resume.id, ok: true });
                }
                Output::Cleaned(_) => {}
                Output::Event(event) => {
                    if let Event::SchedulerFailed { fault, .. } = *event {
                        return self.fail(fault.describe());
                    }
                }
                Output::Wait(at, _) => {
                    self.again = at;
                    return;
                }
            }
        }
    }

    fn start(&mut self, start: &Start) {
        let served = if start.write_back {
            self.measured.write_back(start.extent.len())
        } else {
            self.followed[&start.tag].ended.served
        };
        self.disk.start(self.now, start.id, &served);
    }

    /// A request of the shadow has ended; one that it refused is not compared.
    fn leave(&mut self, tag: Tag, times: Option<&StageTimes>) {
        let followed = self.followed.remove(&tag).expect("it is in the shadow");
        let Followed { task, group, op, size, ended } = followed;
        if let Some(replayed) = &mut self.replayed {
            replayed.push((ended.place, times.copied()));
        }
        if op == Op::Flush {
            self.flushes_count -= 1;
            return;
        }
        if let Some(depth) = self.depths.get_mut(&task) {
            depth.shadow = depth.shadow.saturating_sub(1);
            self.forget_if_gone(task);
        }
        match times {
            Some(times) => self.report.compare(group, size, &ended.times, times),
            None => self.report.missed_count += 1,
        }
    }

    /// Forgets a task that has nothing here nor live.
    pub(super) fn forget_if_gone(&mut self, task: TaskId) {
        let depth = self.depths.get(&task);
        if depth.is_some_and(|depth| depth.live == 0 && depth.shadow == 0) {
            self.depths.remove(&task);
        }
    }
}
