//! The shell of every device: the pump under its lock, with all that does not depend on the disk.
//!
//! The lock is held for handling and draining only. What comes out is collected and carried out
//! after the lock is released: no I/O, no system call and no reply happens under it.
//!
//! A kind of device is a [`Behind`]: it says what its disk is and carries out what the pump leaves
//! to do; everything else that a [`Device`] does is the same for all of them.

mod inner;

pub(crate) use inner::Inner;

use super::alarm::Alarm;
use super::limited::Limited;
use super::turn_mark::{RunningTurn, TurnMark};
use super::{Device, DeviceInfo, DeviceStatus, HalfDirty, Look, MemoryStatus, MemoryUse};
use super::{ResizeError, resize};
use crate::answer::Touched;
use crate::clock;
use crate::io::durable;
use crate::io::file::{Allocation, File};
use crate::io::remote::RemoteDisk;
use crate::io::target::Target;
use crate::job::Job;
use crate::timer::{Tick, Timers};
use iopace_core::engine::{Control, ControlError, Input};
use iopace_core::pace::Thresholds;
use iopace_core::request::{Area, DiskError, Extent, GroupId, Outcome, TaskId};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use iopace_disk::pump::{Backend, Pump};
use std::any::Any;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Most pieces that one allocation query returns: 16 bytes each on the wire.
const ALLOCATION_PIECES_MAX: usize = 1_024;

/// The thread that carries out what the engine said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A connection's thread with one request: it may wait for the disk.
    Alone,
    /// A thread that may write into the page cache.
    Writer,
    /// A thread that others wait for: it does nothing that may block.
    Busy,
}

/// The state that all devices have.
pub(crate) struct Shell<B: Backend<Request = Job>> {
    pub(super) info: DeviceInfo,
    /// The device's own file, or the store of an emulated disk; none where the disk is no file.
    file: Option<Arc<File>>,
    inner: Mutex<Inner<B>>,
    turn: TurnMark,
    alarm: Alarm,
    half_dirty: OnceLock<HalfDirty>,
    limited: Limited,
    /// Reads that a page cache served, and writes that it took.
    pub(super) cached_reads: AtomicU64,
    pub(super) buffered_writes: AtomicU64,
}

impl<B: Backend<Request = Job>> Shell<B> {
    /// A device at rest, which may have so much dirty.
    pub(super) fn new(
        (info, file): (DeviceInfo, Option<Arc<File>>),
        pump: Pump<B>,
        thresholds: Thresholds,
        timers: &Arc<Timers>,
    ) -> Shell<B> {
        let inner = Inner::new(&info.name, pump, thresholds);
        Shell {
            turn: TurnMark::new(info.base),
            info,
            file,
            inner: Mutex::new(inner),
            alarm: Alarm::new(Arc::clone(timers)),
            half_dirty: OnceLock::new(),
            limited: Limited::default(),
            cached_reads: AtomicU64::new(0),
            buffered_writes: AtomicU64::new(0),
        }
    }

    /// Its file, asked for by a device that has one.
    pub(super) fn file(&self) -> &File {
        self.file.as_deref().expect("a device with a file asks for it")
    }

    fn lock(&self) -> MutexGuard<'_, Inner<B>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the engine of what happened at one instant, and drains it: one lock.
    pub(super) fn turn<T>(
        &self,
        outside: &mut B::Outside,
        tell: impl FnOnce(&mut Inner<B>, Instant, &mut B::Outside) -> T,
    ) -> T {
        let mut inner = self.lock();
        let now = clock::now();
        let turn = self.turn.begin(now);
        let told = tell(&mut inner, now, outside);
        let Inner { pump, events, .. } = &mut *inner;
        let at = pump.drain(now, outside, |event| {
            self.turn.note(&event);
            events.add(*event);
        });
        let is_half = inner.dirty() >= inner.wake_at;
        if is_half {
            inner.wake_at = inner::NEVER;
        }
        drop(turn);
        drop(inner);
        if let Some(wake) = self.half_dirty.get().filter(|_| is_half) {
            wake();
        }
        if !at.is_never() {
            self.alarm.set(at);
        }
        told
    }

    /// Whether the kernel's page cache serves a read that is no matter of a limit.
    fn hits(&self, group: GroupId, is_hit: impl FnOnce(&File) -> bool) -> bool {
        let may = self.info.in_page_cache() && !self.limited.holds(group);
        let hit = may && self.file.as_deref().is_some_and(is_hit);
        if hit {
            self.cached_reads.fetch_add(1, Relaxed);
        }
        hit
    }
}

impl<B: Backend<Request = Job>> Drop for Shell<B> {
    /// A job that a daemon cuts off at its end is answered all the same: its clients are gone, but
    /// what is counted for them is given back.
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut touched = Touched::default();
        for job in inner.pump.requests_mut().drain() {
            job.finish(Outcome::Failed(DiskError::Gone), &mut touched);
        }
        touched.send();
    }
}

/// The work that the pump of a device leaves to be carried out.
pub(super) type Outside<D> = <<D as Behind>::Disk as Backend>::Outside;

/// A kind of device: what is behind the shell.
pub(crate) trait Behind: Send + Sync + Sized + 'static {
    /// The disk.
    type Disk: Backend<Request = Job, Outside: Default>;

    /// The state that all devices have.
    fn shell(&self) -> &Shell<Self::Disk>;

    /// The connection to the disk, if another server has it.
    fn remote(&self) -> Option<&RemoteDisk> {
        None
    }

    /// Carries out what the pump has left to do, by that thread.
    fn carry_out(&self, outside: Outside<Self>, caller: Caller);

    /// Tells the engine what happened, and carries out what comes of it.
    fn turn<T>(
        &self,
        caller: Caller,
        tell: impl FnOnce(&mut Inner<Self::Disk>, Instant, &mut Outside<Self>) -> T,
    ) -> T {
        let mut outside = Outside::<Self>::default();
        let told = self.shell().turn(&mut outside, tell);
        self.carry_out(outside, caller);
        told
    }
}

/// Makes a device known to its timers, which it needs before anything is submitted to it.
pub(super) fn registered<D: Behind>(device: Arc<D>) -> Arc<D> {
    let weak: Weak<D> = Arc::downgrade(&device);
    device.shell().alarm.register(weak);
    device
}

impl<D: Behind> Tick for D {
    fn tick(&self) {
        self.shell().alarm.rang();
        self.turn(Caller::Busy, |_, _, _| ());
    }
}

impl<D: Behind> Device for D {
    fn info(&self) -> &DeviceInfo {
        &self.shell().info
    }

    fn size_bytes(&self) -> u64 {
        let Shell { info, file, .. } = self.shell();
        file.as_ref().map_or(info.size_bytes, |file| file.size_bytes())
    }

    fn resize(&self, to: Option<u64>, may_shrink: bool) -> Result<u64, ResizeError> {
        let Shell { info, file, .. } = self.shell();
        let file = file.as_ref().filter(|file| info.model.is_none() && !file.is_directory());
        let file = file.ok_or(ResizeError::Fixed(info.kind))?;
        let size = resize::resize(file, to, (info.read_only, may_shrink))?;
        // Write-back reaches as far before anybody is told that he may.
        let told = self.control(Control::Capacity(Bytes(size)));
        told.expect("a size may always be set");
        file.set_size(size);
        Ok(size)
    }

    fn let_go(&self) -> Weak<dyn Any + Send + Sync> {
        let file = self.shell().file.as_ref();
        file.map_or_else(|| Weak::<()>::new() as Weak<_>, |file| file.let_go())
    }

    fn read_cached(&self, group: GroupId, extent: Extent, into: &mut [u8]) -> bool {
        self.shell().hits(group, |file| file.read_cached(into, extent.offset().get()).is_ok())
    }

    fn cached_file(&self, group: GroupId, extent: Extent) -> Option<BorrowedFd<'_>> {
        let (offset, len) = (extent.offset().get(), extent.len().get());
        let hit = self.shell().hits(group, |file| file.is_cached(offset, len));
        hit.then(|| self.shell().file().fd())
    }

    fn has_limits(&self) -> bool {
        self.shell().limited.has_any()
    }

    fn is_limited(&self, group: GroupId) -> bool {
        self.shell().limited.holds(group)
    }

    fn read_by_caller(&self) {
        self.shell().cached_reads.fetch_add(1, Relaxed);
    }

    fn write_at_once(
        &self,
        who: (TaskId, GroupId, Area),
        (data, target): (&[u8], &Target),
        make: &mut dyn FnMut() -> Job,
    ) -> Option<Result<(), (u64, io::Error)>> {
        if !self.info().in_page_cache() {
            self.submit(&mut vec![make()]);
            return None;
        }
        let extent = who.2.extent;
        let id = self.turn(Caller::Writer, |inner, now, outside| {
            let passed = inner.pump.write_at_once(now, who, make, outside);
            passed.map_err(|first| inner.note(first)).ok()
        })?;
        let written = target.write_from(0, data.len() as u64, false, data);
        let ok = written.is_ok();
        self.shell().buffered_writes.fetch_add(u64::from(ok), Relaxed);
        self.turn(Caller::Writer, |inner, now, _| {
            if let Err((_, error)) = &written {
                inner.events.write_failed(now, extent, error);
            }
            inner.pump.handle(now, Input::Wrote { id, ok });
        });
        Some(written)
    }

    fn flushed_by_client(&self) -> Option<Target> {
        let Shell { info, file, .. } = self.shell();
        let file = file.as_ref().filter(|file| info.model.is_none() && !file.is_directory())?;
        (!info.read_only).then(|| durable::for_flushes((&info.name, file))).flatten()
    }

    fn void(&self, area: Area) {
        self.turn(Caller::Busy, |inner, now, _| inner.pump.void(now, area));
    }

    fn are_clean(&self, areas: &[Area]) -> Vec<bool> {
        let inner = self.shell().lock();
        areas.iter().map(|area| inner.pump.engine().is_clean(*area)).collect()
    }

    fn submit(&self, jobs: &mut Vec<Job>) {
        let caller = if jobs.len() == 1 { Caller::Alone } else { Caller::Writer };
        self.turn(caller, |inner, now, outside| {
            jobs.drain(..).for_each(|job| inner.pump.submit(now, job, outside));
        });
    }

    fn allocation(&self, extent: Extent) -> io::Result<Vec<Allocation>> {
        match &self.shell().file {
            Some(file) => file.allocation(extent, ALLOCATION_PIECES_MAX),
            None => Ok(vec![Allocation { len_bytes: extent.len().get(), is_hole: false }]),
        }
    }

    fn control(&self, control: Control) -> Result<(), ControlError> {
        self.shell().limited.note(&control);
        self.shell().turn.foresee(&control);
        self.turn(Caller::Busy, |inner, now, _| inner.control(now, control))
    }

    fn look(&self, look: &mut Look<'_>) {
        let inner = &mut *self.shell().lock();
        look(inner.pump.engine(), &mut inner.events);
    }

    fn running_turn(&self) -> Option<RunningTurn> {
        self.shell().turn.get()
    }

    fn memory_use(&self) -> Option<MemoryUse> {
        self.info().in_page_cache().then(|| {
            let inner = self.shell().lock();
            MemoryUse { dirty: inner.dirty(), written_back: inner.written_back }
        })
    }

    fn on_half_dirty(&self, wake: HalfDirty) {
        let is_first = self.shell().half_dirty.set(wake).is_ok();
        debug_assert!(is_first, "one wants to know");
    }

    fn forget_group(&self, id: GroupId) -> bool {
        self.control(Control::RemoveGroup(id)).expect("a group may always be removed");
        self.shell().lock().pump.engine().is_group_forgotten(id)
    }

    fn status(&self) -> DeviceStatus {
        let shell = self.shell();
        let inner = shell.lock();
        let engine = inner.pump.engine();
        DeviceStatus {
            engine: engine.status(),
            stats: engine.stats(),
            cached_reads_count: shell.cached_reads.load(Relaxed),
            buffered_writes_count: shell.buffered_writes.load(Relaxed),
            hold_up: inner.hold_up.clone(),
            events: inner.events.kept(),
            failed: inner.events.failed_scheduler(),
            memory: (!shell.info.direct).then(|| MemoryStatus::of(engine, inner.thresholds)),
            window: engine.window_picture(),
            has_host_share: engine.queue_totals().is_some(),
            remote: self.remote().map(RemoteDisk::status),
        }
    }

    fn flush_all(&self) -> io::Result<()> {
        match (&self.shell().file, self.remote()) {
            _ if self.info().read_only => Ok(()),
            (_, Some(remote)) => remote.flush(),
            (file, None) => file.as_ref().map_or(Ok(()), |file| file.flush()),
        }
    }
}

#[cfg(test)]
mod tests;
