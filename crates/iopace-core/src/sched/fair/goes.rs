//! On a disk with a head: who is served in one go, and who had the last one.

use super::bound::RECENT;
use super::config::FairConfig;
use super::load::FEW;
use super::tasks::FairTasks;
use crate::request::GroupId;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use std::collections::VecDeque;

/// The most device time of a go that a light task has to wait for, beside its own request:
/// with a seek and a turn of its own (up to 20 ms at 7200 rpm) it is served within 35 ms.
const LIGHT_BEHIND_MAX: Nanos = Nanos::from_millis(15);

/// A go: the task that is served in one go, or tasks of one group that each ask for one place after
/// the other, and then the last of them.
#[derive(Debug)]
struct Service {
    group: GroupId,
    task: u32,
    /// Device time of this go in ns, waits included.
    used: i64,
    bytes: Bytes,
    /// Since when and until when its next request is waited for.
    waiting: Option<(Instant, Instant)>,
}

/// The go at present, if there is one, and what follows from the last one.
#[derive(Debug, Default)]
pub(super) struct Goes {
    service: Option<Service>,
    /// The group and the task that had the last go, or part of it.
    last: Option<(GroupId, u32)>,
    /// Whether that task had few requests then.
    had_few: bool,
    /// Light tasks that interrupt the go, in order of arrival.
    light: VecDeque<u32>,
    /// When somebody else than who has the go last came, and when a light task last did.
    rival_at: Instant,
    light_at: Instant,
    /// How many there were.
    pub(super) count: u64,
}

impl Goes {
    /// The task that has it.
    #[inline]
    pub(super) fn task(&self) -> Option<u32> {
        self.service.as_ref().map(|service| service.task)
    }

    /// Since when and until when the next request of that task is waited for, if it is.
    pub(super) fn waiting(&self) -> Option<(Instant, Instant)> {
        self.service.as_ref()?.waiting
    }

    /// It is over.
    #[inline]
    pub(super) fn end(&mut self) {
        self.service = None;
    }

    /// It is over, and nothing of it is known any more.
    pub(super) fn forget(&mut self) {
        (self.service, self.last) = (None, None);
        self.light.clear();
    }

    /// Whether it has lasted as long as it may.
    pub(super) fn is_used_up(&self, config: &FairConfig) -> bool {
        self.service.as_ref().is_some_and(|service| {
            service.used >= config.quantum.0.cast_signed() || service.bytes >= config.quantum_bytes
        })
    }

    /// The go of a task of that group lasts the shorter, or the longer.
    pub(super) fn correct(&mut self, group: GroupId, cost: i64) {
        if let Some(service) = self.service.as_mut().filter(|service| service.group == group) {
            service.used += cost;
        }
    }

    /// A request of a task goes to the device; whether it belongs to the go.
    #[inline]
    pub(super) fn start(&mut self, task: u32, cost: u64, bytes: u64) -> bool {
        let service = self.service.as_mut().filter(|service| service.task == task);
        if let Some(service) = service {
            service.used += cost.cast_signed();
            service.bytes += Bytes(bytes);
            return true;
        }
        false
    }

    /// A task has a request: since when it was waited for, if it was.
    #[inline]
    pub(super) fn arrives(&mut self, task: u32) -> Option<Instant> {
        let service = self.service.as_mut().filter(|service| service.task == task);
        Some(service?.waiting.take()?.0)
    }

    /// The next request of who has it is waited for from now on, for so long, or not at all.
    pub(super) fn wait(&mut self, now: Instant, patience: Option<Nanos>) {
        if let Some(service) = &mut self.service {
            service.waiting = patience.map(|patience| (now, now + patience));
        }
    }

    /// A task has the disk for a go. Whether the disk is to have nothing of others when it begins.
    pub(super) fn begin(&mut self, tasks: &mut FairTasks, task: u32) -> Option<bool> {
        self.count += 1;
        let has_few = tasks[task].line.count() <= FEW;
        let is_alone = has_few || self.had_few;
        let is_other = !self.is_of_last(tasks, task);
        self.had_few = has_few;
        self.set(tasks, task, 0, Bytes::ZERO);
        is_other.then_some(is_alone)
    }

    /// Another task of the group goes on with it.
    pub(super) fn join(&mut self, tasks: &mut FairTasks, task: u32) {
        if let Some(Service { used, bytes, .. }) = self.service {
            self.set(tasks, task, used, bytes);
        }
    }

    fn set(&mut self, tasks: &mut FairTasks, task: u32, used: i64, bytes: Bytes) {
        let group = tasks[task].group;
        self.service = Some(Service { group, task, used, bytes, waiting: None });
        self.last = Some((group, task));
        tasks.pinned = Some(task);
    }

    /// Whether a task may have part of the go that another had last.
    pub(super) fn is_of_last(&self, tasks: &FairTasks, task: u32) -> bool {
        let Some((group, last)) = self.last else { return false };
        let is_single = |task: u32| tasks[task].line.is_single();
        task == last || (tasks[task].group == group && is_single(task) && is_single(last))
    }

    /// Somebody else comes; who has the go.
    pub(super) fn rival_comes(&mut self, now: Instant) -> Option<u32> {
        self.rival_at = now;
        self.task()
    }

    /// A light task comes.
    pub(super) fn light_comes(&mut self, now: Instant, task: u32) {
        self.light_at = now;
        self.light.push_back(task);
    }

    /// The next light task that interrupts the go.
    pub(super) fn pop_light(&mut self) -> Option<u32> {
        self.light.pop_front()
    }

    /// Whether the device has as much of this go as it may, of which so much is there, if one more
    /// request goes there: nobody is to wait long behind it.
    pub(super) fn is_full(&self, now: Instant, config: &FairConfig, there: u64, more: u64) -> bool {
        let most = if now < self.light_at + RECENT {
            LIGHT_BEHIND_MAX
        } else if now < self.rival_at + RECENT {
            config.quantum
        } else {
            return false;
        };
        there > 0 && there + more > most.0
    }
}
