//! A file or block device behind an engine, and the pump between them.
//!
//! Reads that the page cache can answer do not come to the engine: the thread that received them
//! serves them. A buffered write passes stage pace and is written into the page cache by the thread
//! that received it, if it may go at once, else by a thread of a pool: neither the timer nor who
//! learns of a completion ever waits for a page. Everything that needs the disk is submitted to the
//! engine; what it starts goes to the disk, and each completion is handled by the thread that
//! learns of it.

mod about;

use super::core::{Core, Drained};
use super::limited::Limited;
use super::portion::Portion;
use super::{Allocation, Device, DeviceInfo, DeviceStatus, Look, MemoryUse, thresholds};
use crate::config::{DeviceConfig, IoEngineChoice};
use crate::daemon::StartError;
use crate::io::durable::{self, DurableFiles};
use crate::io::file::File;
use crate::io::pool::Pool;
use crate::io::target::{Places, Target};
use crate::io::{Completions, Disk, IoDone, IoRequest};
use crate::job::Job;
use crate::limits::{self, DIRECT_BLOCK_BYTES, DIRTY_FALLBACK, FILE_WINDOW_DEFAULT, WRITE_THREADS};
use crate::nbd::reply::Touched;
use crate::timer::Timers;
use about::{info, is_rotational};
use iopace_core::engine::{Config, Control, ControlError, Start};
use iopace_core::limits::NR_REQUESTS_DEFAULT;
use iopace_core::request::{Area, Extent, GroupId, Op, TaskId};
use iopace_core::sched;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Most pieces that one allocation query returns: 16 bytes each on the wire.
const ALLOCATION_PIECES_MAX: usize = 1_024;

/// Portions that one thread writes in a row before it sends replies and lets others go on: some
/// milliseconds of small ones, as many as a connection's buffer holds.
const ROUNDS_MAX: usize = 256;

/// Who carries out what the engine said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// A connection's thread with one request: it may wait for the disk.
    Alone,
    /// A thread that may write into the page cache.
    Writer,
    /// A thread that others wait for: it does nothing that may block.
    Busy,
}

/// The device.
pub struct FileDevice {
    info: DeviceInfo,
    file: Arc<File>,
    disk: Disk,
    core: Core,
    limited: Limited,
    /// For durable requests on its own file.
    durable: DurableFiles,
    /// Where dirty memory lies, if it is that of many files.
    places: Option<Arc<dyn Places>>,
    /// For writes into the page cache that had to wait.
    writers: Pool<Portion>,
    cached_reads: AtomicU64,
    /// Mean service time of the disk in nanoseconds, each sample weighing 1/8.
    service_ns: AtomicU64,
    /// Threads that wait for the disk themselves, see [`FileDevice::start`].
    inline_count: AtomicUsize,
}

impl FileDevice {
    /// Opens it and starts its threads.
    ///
    /// # Errors
    /// What is wrong with the file, and what to do.
    pub fn open(
        config: &DeviceConfig,
        path: &Path,
        choice: IoEngineChoice,
        timers: &Arc<Timers>,
    ) -> Result<Arc<FileDevice>, StartError> {
        let opened = File::open(path, config.read_only, config.direct);
        let file = Arc::new(opened.map_err(|error| StartError::open(path, &error))?);
        let tail = file.size_bytes() % DIRECT_BLOCK_BYTES;
        if file.is_direct() && tail != 0 {
            return Err(StartError::Tail(path.display().to_string(), tail));
        }
        FileDevice::make(config, path, (file, None), choice, timers)
    }

    /// A directory whose files are behind one engine: every request names its file, and `places`
    /// knows those of dirty memory. `directory` is open, and locked by the caller.
    ///
    /// # Errors
    /// No threads.
    pub(crate) fn over_directory(
        config: &DeviceConfig,
        path: &Path,
        (directory, places): (Arc<File>, Arc<dyn Places>),
        choice: IoEngineChoice,
        timers: &Arc<Timers>,
    ) -> Result<Arc<FileDevice>, StartError> {
        FileDevice::make(config, path, (directory, Some(places)), choice, timers)
    }

    fn make(
        config: &DeviceConfig,
        path: &Path,
        (file, places): (Arc<File>, Option<Arc<dyn Places>>),
        choice: IoEngineChoice,
        timers: &Arc<Timers>,
    ) -> Result<Arc<FileDevice>, StartError> {
        let mut failed = None;
        let device = Arc::new_cyclic(|this: &Weak<FileDevice>| {
            let to: Weak<dyn Completions> = this.clone();
            let disk = match Disk::start(Arc::clone(&file), choice, to.clone()) {
                Ok(disk) => disk,
                Err(error) => {
                    failed = Some(StartError::IoEngine(error));
                    // Threads always start here or the process is beyond help.
                    Disk::start(Arc::clone(&file), IoEngineChoice::Threads, to)
                        .expect("threads can be started")
                }
            };
            let timed: Weak<dyn Device> = this.clone();
            let engine = Config {
                base: sched::recommended(),
                nr_requests: config.nr_requests.unwrap_or(NR_REQUESTS_DEFAULT),
                window_depth: config.window_depth.unwrap_or(FILE_WINDOW_DEFAULT),
                window: config.window,
                pace: config.pace,
                accounting: config.accounting,
                memory: thresholds(config, DIRTY_FALLBACK),
                capacity: Bytes(file.size_bytes()),
                rotational: is_rotational(path),
                ..Config::default()
            };
            let writer = this.clone();
            let write = move |portion: Portion| match writer.upgrade() {
                Some(device) => device.write(portion),
                None => portion.give_up(),
            };
            let writers = match Pool::start("write", WRITE_THREADS, write.clone()) {
                Ok(writers) => writers,
                Err(error) => {
                    failed = Some(StartError::Threads(error));
                    Pool::start("write", 0, write).expect("none is started")
                }
            };
            FileDevice {
                info: info(config, path, &file, disk.name()),
                core: Core::new(config.name.clone(), engine, Arc::clone(timers), timed),
                file: Arc::clone(&file),
                disk,
                durable: DurableFiles::default(),
                places,
                limited: Limited::default(),
                writers,
                cached_reads: AtomicU64::new(0),
                service_ns: AtomicU64::new(0),
                inline_count: AtomicUsize::new(0),
            }
        });
        failed.map_or(Ok(device), Err)
    }

    /// Hands what was started to the disk, writes what may go into the page cache, and answers
    /// what has finished.
    fn carry_out(&self, mut drained: Drained, caller: Caller) {
        let mut touched = Touched::default();
        for _ in 0..ROUNDS_MAX {
            if let (sum, count @ 1..) = std::mem::take(&mut drained.service) {
                self.learn(Nanos(sum.0 / count));
            }
            drained.finish(&mut touched);
            let mut portions = std::mem::take(&mut drained.portions);
            if portions.is_empty() {
                touched.send();
                return self.start(&mut drained, caller == Caller::Alone);
            }
            self.start(&mut drained, false);
            if caller == Caller::Busy {
                touched.send();
                return self.writers.submit(portions);
            }
            for portion in &mut portions {
                portion.write(&self.file);
            }
            self.core.wrote(portions, &mut drained);
        }
        drained.finish(&mut touched);
        touched.send();
        self.start(&mut drained, false);
        self.writers.submit(drained.portions);
    }

    /// Writes a portion that had to wait, and those that its end lets go.
    fn write(&self, mut portion: Portion) {
        let mut drained = Drained::default();
        portion.write(&self.file);
        self.core.wrote(vec![portion], &mut drained);
        self.carry_out(drained, Caller::Writer);
    }

    /// Hands started requests to the disk. One that is alone on a quick disk is carried out here:
    /// that is what saves the hop to another thread.
    fn start(&self, drained: &mut Drained, may_block: bool) {
        if drained.starts.is_empty() {
            return;
        }
        let mut requests: Vec<IoRequest> = Vec::with_capacity(drained.starts.len());
        for (start, buffer, target) in drained.starts.drain(..) {
            let Start { id, tag, op, extent, space, fua, class, write_back, .. } = start;
            let key = tag.0 as usize;
            let places = self.places.as_ref().filter(|_| write_back);
            let area = Area { space, extent };
            let target = places.map_or(target, |places| Some(places.target(area)));
            let mut request =
                IoRequest { id, key, op, extent, fua, class, write_back, target, buffer };
            if !self.info.direct {
                self.durable.lend((&self.info.name, &self.file), &mut request);
            }
            requests.push(request);
        }
        if may_block && requests.len() == 1 && is_transfer(&requests[0]) && self.may_wait() {
            let request = requests.pop().expect("there is one");
            let mut done = vec![request.carry_out(&self.file)];
            self.inline_count.fetch_sub(1, Relaxed);
            return self.completed(&mut done);
        }
        self.disk.start_all(&mut requests);
    }

    /// Whether this thread may wait for the disk: it is quick, and enough others do not.
    fn may_wait(&self) -> bool {
        let (quick, most) = match self.places {
            Some(_) => (limits::INLINE_SERVICE_MOUNT, limits::INLINE_THREADS),
            None => (limits::INLINE_SERVICE, usize::MAX),
        };
        let one_more = |count| (count < most).then_some(count + 1);
        u128::from(self.service_ns.load(Relaxed)) < quick.as_nanos()
            && self.inline_count.fetch_update(Relaxed, Relaxed, one_more).is_ok()
    }

    fn learn(&self, service: Nanos) {
        let old = self.service_ns.load(Relaxed);
        self.service_ns.store(old - old / 8 + service.0 / 8, Relaxed);
    }
}

fn is_transfer(request: &IoRequest) -> bool {
    matches!(request.op, Op::Read | Op::Write) && !request.write_back
}

impl Device for FileDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn read_cached(&self, group: GroupId, extent: Extent, into: &mut [u8]) -> bool {
        let may = !self.info.direct && !self.limited.holds(group);
        let hit = may && self.file.read_cached(into, extent.offset().get()).is_ok();
        if hit {
            self.cached_reads.fetch_add(1, Relaxed);
        }
        hit
    }

    fn cached_file(&self, group: GroupId, extent: Extent) -> Option<BorrowedFd<'_>> {
        let (offset, len) = (extent.offset().get(), extent.len().get());
        let may = !self.info.direct && !self.limited.holds(group);
        let hit = may && self.file.is_cached(offset, len);
        if hit {
            self.cached_reads.fetch_add(1, Relaxed);
        }
        hit.then(|| self.file.fd())
    }

    fn submit(&self, jobs: &mut Vec<Job>) {
        let mut drained = Drained::default();
        let caller = if jobs.len() == 1 { Caller::Alone } else { Caller::Writer };
        self.core.submit(jobs.drain(..), !self.info.direct, &mut drained);
        self.carry_out(drained, caller);
    }

    fn tick(&self) {
        let mut drained = Drained::default();
        self.core.tick(&mut drained);
        self.carry_out(drained, Caller::Busy);
    }

    fn has_limits(&self) -> bool {
        self.limited.has_any()
    }

    fn is_limited(&self, group: GroupId) -> bool {
        self.limited.holds(group)
    }

    fn read_by_caller(&self) {
        self.cached_reads.fetch_add(1, Relaxed);
    }

    fn write_at_once(
        &self,
        who: (TaskId, GroupId, Area),
        (data, target): (&[u8], &Target),
        make: &mut dyn FnMut() -> Job,
    ) -> Option<Result<(), (u64, io::Error)>> {
        let mut drained = Drained::default();
        let passed = self.core.write_at_once(who, make, &mut drained);
        self.carry_out(std::mem::take(&mut drained), Caller::Writer);
        let id = passed?;
        let written = target.write_from(0, data.len() as u64, false, data);
        self.core.wrote_at_once(id, written.is_ok(), &mut drained);
        self.carry_out(drained, Caller::Writer);
        Some(written)
    }

    fn flushed_by_client(&self) -> Option<Target> {
        if self.info.read_only || self.places.is_some() {
            return None;
        }
        durable::for_flushes((&self.info.name, &self.file))
    }

    fn void(&self, area: Area) {
        let mut drained = Drained::default();
        self.core.void(area, &mut drained);
        self.carry_out(drained, Caller::Busy);
    }

    fn are_clean(&self, areas: &[Area]) -> Vec<bool> {
        self.core.clean(areas)
    }

    fn allocation(&self, extent: Extent) -> io::Result<Vec<Allocation>> {
        self.file.allocation(extent, ALLOCATION_PIECES_MAX)
    }

    fn control(&self, control: Control) -> Result<(), ControlError> {
        self.limited.note(&control);
        let mut drained = Drained::default();
        let result = self.core.control(control, &mut drained);
        self.carry_out(drained, Caller::Busy);
        result
    }

    fn look(&self, look: &mut Look<'_>) {
        self.core.look(look);
    }

    fn memory_use(&self) -> Option<MemoryUse> {
        (!self.info.direct).then(|| self.core.memory_use())
    }

    fn on_half_dirty(&self, wake: super::HalfDirty) {
        self.core.on_half_dirty(wake);
    }

    fn forget_group(&self, id: GroupId) -> bool {
        self.control(Control::RemoveGroup(id)).expect("a group may always be removed");
        self.core.is_group_forgotten(id)
    }

    fn status(&self) -> DeviceStatus {
        let mut status = self.core.status();
        status.cached_reads_count = self.cached_reads.load(Relaxed);
        status.memory = status.memory.filter(|_| !self.info.direct);
        status
    }

    fn flush_all(&self) -> io::Result<()> {
        if self.info.read_only { Ok(()) } else { self.file.flush() }
    }
}

impl Completions for FileDevice {
    fn completed(&self, done: &mut Vec<IoDone>) {
        done.iter_mut().for_each(|done| self.durable.take_back(done));
        let mut drained = Drained::default();
        self.core.completed(done, &mut drained);
        self.carry_out(drained, Caller::Busy);
    }
}
