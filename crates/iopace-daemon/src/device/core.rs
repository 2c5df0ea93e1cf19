//! An engine under its lock, with the requests that it knows by tag.
//!
//! The lock is held for handling and draining only. What comes out is collected in a [`Drained`]
//! and carried out after the lock is released: no I/O, no system call and no reply happens under
//! it.

use super::alarm::Alarm;
use super::events::{EventLog, is_exchange};
use super::portion::Portion;
use super::{DeviceStatus, HalfDirty, Look, MemoryStatus, MemoryUse};
use crate::buffer::Buffer;
use crate::clock;
use crate::io::IoDone;
use crate::io::target::Target;
use crate::job::{Job, disk_error};
use crate::nbd::reply::Touched;
use crate::timer::Timers;
use iopace_core::engine::{
    Config, Control, ControlError, Engine, Input, Output, Resume, Start, WriteId,
};
use iopace_core::pace::Thresholds;
use iopace_core::request::{Area, DiskError, Extent, GroupId, Op, Outcome, Tag, TaskId};
use iopace_core::stats::Histogram;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use slab::Slab;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// What the engine said, to be carried out.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    /// For the disk, with the data to write or room for the data to read, and the file if it is
    /// not the device's own.
    pub(crate) starts: Vec<(Start, Buffer, Option<Target>)>,
    /// For the page cache.
    pub(crate) portions: Vec<Portion>,
    /// For the clients.
    finished: Vec<(Job, Outcome)>,
    /// Sum and number of service times among them.
    pub(crate) service: (Nanos, u64),
}

impl Drained {
    /// Answers what has finished.
    pub(crate) fn finish(&mut self, touched: &mut Touched) {
        for (job, outcome) in self.finished.drain(..) {
            job.finish(outcome, touched);
        }
    }
}

/// More than is ever dirty.
const NEVER: Bytes = Bytes(u64::MAX);

struct Inner {
    engine: Engine,
    /// Requests in the engine, by tag.
    jobs: Slab<Job>,
    hold_up: Histogram,
    events: EventLog,
    /// What it may have dirty at present.
    thresholds: Thresholds,
    /// Dirty memory of which somebody wants to know, see [`super::Device::on_half_dirty`].
    wake_at: Bytes,
    buffered_writes_count: u64,
    written_back: Bytes,
}

impl Inner {
    /// A portion of a write that may go into memory: the write itself with its last one.
    fn portion(&mut self, id: WriteId, tag: Tag, extent: Extent, last: bool) -> Portion {
        let (key, failed) = (tag.0 as usize, None);
        let job = &mut self.jobs[key];
        let (base, target) = (job.extent.offset(), job.target.clone());
        let waiter = job.waiter();
        let (job, buffer) = if last {
            (Some(self.jobs.remove(key)), Buffer::default())
        } else {
            (None, std::mem::take(&mut job.buffer))
        };
        Portion { id, key, job, buffer, base, extent, target, waiter, failed }
    }
}

/// The engine of a device whose disk is outside.
pub(crate) struct Core {
    inner: Mutex<Inner>,
    alarm: Alarm,
    half_dirty: OnceLock<HalfDirty>,
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
        let thresholds = engine.memory;
        let engine = Config { tells_cleaned: false, ..engine }; // the kernel's cache knows
        let inner = Inner {
            engine: Engine::new(engine),
            jobs: Slab::new(),
            hold_up: Histogram::default(),
            events: EventLog::new(name),
            thresholds,
            wake_at: NEVER,
            buffered_writes_count: 0,
            written_back: Bytes::ZERO,
        };
        Core { inner: Mutex::new(inner), alarm, half_dirty: OnceLock::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes requests that arrived together: one lock, one drain. Writes for the page cache are
    /// paced if `buffered`.
    pub(crate) fn submit(
        &self,
        jobs: impl Iterator<Item = Job>,
        buffered: bool,
        drained: &mut Drained,
    ) {
        let mut inner = self.lock();
        let now = clock::now();
        for job in jobs {
            let place = inner.jobs.vacant_entry();
            let input = job.input(Tag(place.key() as u64), buffered);
            place.insert(job);
            inner.engine.handle(now, input);
        }
        self.drain(inner, now, drained);
    }

    /// A buffered write of a caller that still has the data at hand. If all of it may go into
    /// memory at once, it is the caller's to write, and [`Core::wrote_at_once`] is due; else it
    /// waits its turn as the job that `make` makes.
    pub(crate) fn write_at_once(
        &self,
        (task, group, area): (TaskId, GroupId, Area),
        make: impl FnOnce() -> Job,
        drained: &mut Drained,
    ) -> Option<WriteId> {
        let mut inner = self.lock();
        let now = clock::now();
        let tag = Tag(inner.jobs.vacant_key() as u64);
        inner.engine.handle(now, Input::Dirtied { tag, task, group, area });
        // It was drained before, so what passes at once is the first that it says.
        match inner.engine.poll(now) {
            Output::Resume(resume) if resume.tag == tag && resume.last => {
                self.drain(inner, now, drained);
                Some(resume.id)
            }
            first => {
                inner.jobs.insert(make());
                self.drain_from(inner, now, drained, first);
                None
            }
        }
    }

    /// A write that went at once is in memory, or could not be written there.
    pub(crate) fn wrote_at_once(&self, id: WriteId, ok: bool, drained: &mut Drained) {
        let mut inner = self.lock();
        let now = clock::now();
        inner.buffered_writes_count += u64::from(ok);
        inner.engine.handle(now, Input::Wrote { id, ok });
        self.drain(inner, now, drained);
    }

    /// The content of an area is void: nothing of it need be written back.
    pub(crate) fn void(&self, area: Area, drained: &mut Drained) {
        let mut inner = self.lock();
        let now = clock::now();
        inner.engine.handle(now, Input::Void(area));
        self.drain(inner, now, drained);
    }

    /// Which of these areas have nothing dirty in them, and nothing on its way to the disk.
    pub(crate) fn clean(&self, areas: &[Area]) -> Vec<bool> {
        let inner = self.lock();
        areas.iter().map(|area| inner.engine.is_clean(*area)).collect()
    }

    /// Takes portions that were written, and answers the writes that end with them.
    pub(crate) fn wrote(&self, portions: Vec<Portion>, drained: &mut Drained) {
        let mut inner = self.lock();
        let now = clock::now();
        for portion in portions {
            let Portion { id, key, job, buffer, extent, failed, .. } = portion;
            let ok = failed.is_none();
            match (job, failed) {
                (Some(job), None) => {
                    inner.buffered_writes_count += 1;
                    drained.finished.push((job, Outcome::Ok));
                }
                (None, None) => {
                    let job = &mut inner.jobs[key];
                    job.buffer = buffer;
                    job.progress.written += extent.len().get();
                }
                // The rest of the write is given up.
                (job, Some((written, error))) => {
                    // Given up with who asked for it, it is no failure of the disk.
                    if error.kind() != std::io::ErrorKind::Interrupted {
                        inner.events.failed(now, (Op::Write, extent), &error);
                    }
                    let mut job = job.unwrap_or_else(|| inner.jobs.remove(key));
                    job.progress.written += written;
                    job.progress.failed(&error);
                    drained.finished.push((job, Outcome::Failed(disk_error(&error))));
                }
            }
            inner.engine.handle(now, Input::Wrote { id, ok });
        }
        self.drain(inner, now, drained);
    }

    /// Takes completions that arrived together.
    pub(crate) fn completed(&self, done: &mut Vec<IoDone>, drained: &mut Drained) {
        let mut inner = self.lock();
        let now = clock::now();
        for IoDone { request, written, result } in done.drain(..) {
            if request.write_back {
                inner.written_back += request.extent.len();
            } else {
                let job = &mut inner.jobs[request.key];
                job.buffer = request.buffer;
                job.progress.written += written;
                if let Err(error) = &result {
                    job.progress.failed(error);
                }
            }
            let outcome = result.map_or_else(
                |error| {
                    inner.events.failed(now, (request.op, request.extent), &error);
                    Outcome::Failed(disk_error(&error))
                },
                |()| Outcome::Ok,
            );
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
        if let Control::Memory(budget) = &control {
            inner.thresholds = budget.device;
            let half = Bytes(budget.device.limit.get() / 2);
            let is_below = inner.engine.dirty(GroupId::ROOT).device < half;
            inner.wake_at = if is_below { half } else { NEVER };
        }
        let now = clock::now();
        let result = inner.engine.control(now, control);
        if result.is_ok() && is_exchange {
            inner.hold_up.record(clock::now().since(now));
        }
        self.drain(inner, now, drained);
        result
    }

    /// See [`super::Device::look`].
    pub(crate) fn look(&self, look: &mut Look<'_>) {
        let inner = &mut *self.lock();
        look(&inner.engine, &mut inner.events);
    }

    /// Dirty memory, and what was written back.
    pub(crate) fn memory_use(&self) -> MemoryUse {
        let inner = self.lock();
        let dirty = inner.engine.dirty(GroupId::ROOT).device;
        MemoryUse { dirty, written_back: inner.written_back }
    }

    /// Says whom to wake, once.
    pub(crate) fn on_half_dirty(&self, wake: HalfDirty) {
        let is_first = self.half_dirty.set(wake).is_ok();
        debug_assert!(is_first, "one wants to know");
    }

    /// As the engine's.
    pub(crate) fn is_group_forgotten(&self, id: GroupId) -> bool {
        self.lock().engine.is_group_forgotten(id)
    }

    pub(crate) fn status(&self) -> DeviceStatus {
        let inner = self.lock();
        DeviceStatus {
            engine: inner.engine.status(),
            stats: inner.engine.stats(),
            cached_reads_count: 0,
            buffered_writes_count: inner.buffered_writes_count,
            hold_up: inner.hold_up.clone(),
            events: inner.events.kept(),
            memory: Some(MemoryStatus::of(&inner.engine, inner.thresholds)),
            window: inner.engine.window_picture(),
        }
    }

    fn drain(&self, mut inner: MutexGuard<'_, Inner>, now: Instant, drained: &mut Drained) {
        let first = inner.engine.poll(now);
        self.drain_from(inner, now, drained, first);
    }

    /// Drains, beginning with what the engine has said already.
    fn drain_from(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        now: Instant,
        drained: &mut Drained,
        first: Output,
    ) {
        let mut next = Some(first);
        let at = loop {
            match next.take().unwrap_or_else(|| inner.engine.poll(now)) {
                Output::Start(start) if start.write_back => {
                    drained.starts.push((start, Buffer::default(), None));
                }
                Output::Start(start) => {
                    let job = &mut inner.jobs[start.tag.0 as usize];
                    if !job.begin() {
                        let outcome = Outcome::Failed(DiskError::Io);
                        inner.engine.handle(now, Input::Done { id: start.id, outcome });
                        continue;
                    }
                    let buffer = std::mem::take(&mut job.buffer);
                    drained.starts.push((start, buffer, job.target.clone()));
                }
                Output::Finish(finish) => {
                    // The time of a flush is not that of a transfer, nor is that of a refusal.
                    if finish.op != Op::Flush && finish.times.disk > Nanos::ZERO {
                        drained.service.0 += finish.times.disk;
                        drained.service.1 += 1;
                    }
                    let job = inner.jobs.remove(finish.tag.0 as usize);
                    drained.finished.push((job, finish.outcome));
                }
                Output::Resume(Resume { id, tag, extent, last, .. }) => {
                    let portion = inner.portion(id, tag, extent, last);
                    drained.portions.push(portion);
                }
                Output::Cleaned(_) => {} // not asked for
                Output::Event(event) => inner.events.add(*event),
                Output::Wait(at, _) => break at,
            }
        };
        let is_half = inner.engine.dirty(GroupId::ROOT).device >= inner.wake_at;
        if is_half {
            inner.wake_at = NEVER;
        }
        drop(inner);
        if let Some(wake) = self.half_dirty.get().filter(|_| is_half) {
            wake();
        }
        for (start, buffer, _) in &mut drained.starts {
            if start.op == Op::Read {
                buffer.resize(start.extent.len().get() as usize);
            }
        }
        if !at.is_never() {
            self.alarm.set(at);
        }
    }
}

impl Drop for Core {
    /// What a daemon has cut off at its end is answered all the same: its clients are gone, but
    /// what is counted for them is given back.
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut touched = Touched::default();
        for job in inner.jobs.drain() {
            job.finish(Outcome::Failed(DiskError::Gone), &mut touched);
        }
        touched.send();
    }
}
