//! An engine under its lock, with the requests that it knows by tag.
//!
//! The lock is held for handling and draining only. What comes out is collected in a [`Drained`]
//! and carried out after the lock is released: no I/O, no system call and no reply happens under
//! it.

use super::{DeviceStatus, LoggedEvent};
use crate::buffer::Buffer;
use crate::clock;
use crate::io::IoDone;
use crate::limits::EVENTS_KEPT;
use crate::nbd::reply::{Job, Touched, disk_error, nbd_outcome};
use crate::timer::Timers;
use iopace_core::admit::GroupSlots;
use iopace_core::engine::{Config, Control, ControlError, Engine, Input, Output, Start};
use iopace_core::group::accounts::Account;
use iopace_core::request::{GroupId, Op, Outcome, Submit, Tag, TaskId};
use iopace_core::stats::Histogram;
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::Event;
use iopace_core::units::Bytes;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// What the engine said, to be carried out.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    /// For the disk, with the data to write or room for the data to read.
    pub(crate) starts: Vec<(Start, Buffer)>,
    /// For the clients.
    finished: Vec<(Job, Outcome)>,
    /// Sum and number of service times among them.
    pub(crate) service: (Nanos, u64),
}

impl Drained {
    /// Answers what has finished.
    pub(crate) fn finish(&mut self, touched: &mut Touched) {
        for (job, outcome) in self.finished.drain(..) {
            job.finish(nbd_outcome(outcome), touched);
        }
    }
}

/// Events of a device: the latest are kept, all are logged.
#[derive(Debug)]
pub(crate) struct EventLog {
    device: String,
    kept: VecDeque<LoggedEvent>,
}

impl EventLog {
    pub(crate) fn new(device: String) -> EventLog {
        EventLog { device, kept: VecDeque::new() }
    }

    pub(crate) fn add(&mut self, event: Event) {
        let device = &self.device;
        match &event {
            Event::SchedulerExchanged { .. } => tracing::debug!(%device, "{event}"),
            Event::SchedulerFailed { dump, .. } => {
                tracing::error!(%device, "{event}");
                tracing::error!(%device, "state of the failed scheduler: {dump}");
            }
        }
        if self.kept.len() == EVENTS_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(LoggedEvent { at: clock::now(), event });
    }

    pub(crate) fn kept(&self) -> Vec<LoggedEvent> {
        self.kept.iter().cloned().collect()
    }
}

/// When a device asked to be called back; asks the timers only when that gets earlier.
pub(crate) struct Alarm {
    timers: Arc<Timers>,
    key: OnceLock<usize>,
    armed: Mutex<Instant>,
}

impl Alarm {
    pub(crate) fn new(timers: Arc<Timers>) -> Alarm {
        Alarm { timers, key: OnceLock::new(), armed: Mutex::new(Instant::NEVER) }
    }

    /// Makes the device known to the timers, once.
    pub(crate) fn register(&self, device: Weak<dyn super::Device>) {
        self.key.get_or_init(|| self.timers.register(device));
    }

    pub(crate) fn set(&self, at: Instant) {
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        if at < *armed {
            *armed = at;
            self.timers.arm(*self.key.get().expect("registered at the start"), at);
        }
    }

    /// The timers' call has come.
    pub(crate) fn rang(&self) {
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::NEVER;
    }
}

struct Inner {
    engine: Engine,
    /// Requests in the engine, by tag.
    jobs: Slab<Job>,
    hold_up: Histogram,
    events: EventLog,
}

/// Whether the change concerns the scheduler: the only kind that is long enough to be measured.
pub(crate) fn is_exchange(control: &Control) -> bool {
    matches!(control, Control::Insert(..) | Control::Configure(..) | Control::Destroy)
}

/// The engine of a device whose disk is outside.
pub(crate) struct Core {
    inner: Mutex<Inner>,
    alarm: Alarm,
}

impl Core {
    pub(crate) fn new(
        name: String,
        engine: Config,
        timers: Arc<Timers>,
        device: Weak<dyn super::Device>,
    ) -> Core {
        let alarm = Alarm::new(timers);
        alarm.register(device);
        let inner = Inner {
            engine: Engine::new(engine),
            jobs: Slab::new(),
            hold_up: Histogram::default(),
            events: EventLog::new(name),
        };
        Core { inner: Mutex::new(inner), alarm }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stage pace, for a write that the page cache takes.
    pub(crate) fn pace(
        &self,
        (task, group): (TaskId, GroupId),
        size: Bytes,
        drained: &mut Drained,
    ) {
        let mut inner = self.lock();
        let tag = Tag(u64::MAX);
        let now = clock::now();
        inner.engine.handle(now, Input::Dirtied { tag, task, group, size });
        // No pacing policy waits yet: the write is resumed within this drain.
        self.drain(inner, now, drained);
    }

    /// Takes requests that arrived together: one lock, one drain.
    pub(crate) fn submit(&self, jobs: impl Iterator<Item = Job>, drained: &mut Drained) {
        let mut inner = self.lock();
        let now = clock::now();
        for job in jobs {
            let Job { task, group, op, extent, fua, .. } = job;
            let tag = Tag(inner.jobs.insert(job) as u64);
            let submit = Submit { tag, task, group, op, extent, fua, sync: true };
            inner.engine.handle(now, Input::Submit(submit));
        }
        self.drain(inner, now, drained);
    }

    /// Takes completions that arrived together.
    pub(crate) fn completed(&self, done: &mut Vec<IoDone>, drained: &mut Drained) {
        let mut inner = self.lock();
        let now = clock::now();
        for IoDone { request, result } in done.drain(..) {
            let outcome = match result {
                Ok(()) => Outcome::Ok,
                Err(error) => {
                    let device = &inner.events.device;
                    let (op, extent) = (request.op, request.extent);
                    tracing::warn!(%device, %error, "{op:?} {extent} failed");
                    Outcome::Failed(disk_error(&error))
                }
            };
            inner.jobs[request.key].buffer = request.buffer;
            inner.engine.handle(now, Input::Done { id: request.id, outcome });
        }
        self.drain(inner, now, drained);
    }

    pub(crate) fn tick(&self, drained: &mut Drained) {
        self.alarm.rang();
        let inner = self.lock();
        let now = clock::now();
        self.drain(inner, now, drained);
    }

    /// Changes the engine; the time under the lock is what dispatch is held up.
    pub(crate) fn control(
        &self,
        control: Control,
        drained: &mut Drained,
    ) -> Result<(), ControlError> {
        let mut inner = self.lock();
        let is_exchange = is_exchange(&control);
        let now = clock::now();
        let result = inner.engine.control(now, control);
        if result.is_ok() && is_exchange {
            inner.hold_up.record(clock::now().since(now));
        }
        self.drain(inner, now, drained);
        result
    }

    /// What a group did, as of now.
    pub(crate) fn group(&self, id: GroupId) -> Option<(Account, GroupSlots)> {
        let (mut account, slots) = self.lock().engine.group(id)?;
        account.pressure.advance(clock::now());
        Some((account, slots))
    }

    /// Whether no request of a group that was removed is left.
    pub(crate) fn is_group_forgotten(&self, id: GroupId) -> bool {
        self.lock().engine.is_group_forgotten(id)
    }

    pub(crate) fn status(&self) -> DeviceStatus {
        let inner = self.lock();
        DeviceStatus {
            engine: inner.engine.status(),
            stats: inner.engine.stats().clone(),
            cached_reads_count: 0,
            buffered_writes_count: 0,
            hold_up: inner.hold_up.clone(),
            events: inner.events.kept(),
        }
    }

    fn drain(&self, mut inner: MutexGuard<'_, Inner>, now: Instant, drained: &mut Drained) {
        let at = loop {
            match inner.engine.poll(now) {
                Output::Start(start) => {
                    let job = &mut inner.jobs[start.tag.0 as usize];
                    let buffer = std::mem::take(&mut job.buffer);
                    drained.starts.push((start, buffer));
                }
                Output::Finish(finish) => {
                    drained.service.0 += finish.times.disk;
                    drained.service.1 += 1;
                    let job = inner.jobs.remove(finish.tag.0 as usize);
                    drained.finished.push((job, finish.outcome));
                }
                Output::Resume { .. } => {}
                Output::Event(event) => inner.events.add(*event),
                Output::Wait(at, _) => break at,
            }
        };
        drop(inner);
        for (start, buffer) in &mut drained.starts {
            if start.op == Op::Read {
                buffer.resize(start.extent.len().get() as usize);
            }
        }
        if !at.is_never() {
            self.alarm.set(at);
        }
    }
}
