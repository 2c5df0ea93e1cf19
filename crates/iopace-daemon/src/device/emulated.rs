//! A disk model in real time: the machine that the simulator turns in virtual time, turned by the
//! daemon's clock, with real data in memory or in a sparse file.
//!
//! The machine decides *when* a request is done; the data is moved at that moment, just before the
//! reply. So what was acknowledged is readable at once, and durable in the store after a flush.

mod store;

use super::alarm::Alarm;
use super::events::{EventLog, is_exchange};
use super::limited::Limited;
use super::{Allocation, Device, DeviceInfo, DeviceStatus, Look, MemoryStatus, thresholds};
use crate::clock;
use crate::config::{Backend, DeviceConfig};
use crate::daemon::StartError;
use crate::io::{file::File, pool::Pool};
use crate::job::{Job, disk_error};
use crate::limits::{EMULATED_CACHE_DEFAULT, MOVE_THREADS};
use crate::nbd::reply::Touched;
use crate::runtime_files::read_config;
use crate::timer::Timers;
use iopace_core::engine::{Config, Control, ControlError};
use iopace_core::limits::NR_REQUESTS_DEFAULT;
use iopace_core::pace::Thresholds;
use iopace_core::pace::domain::{BACKGROUND_PERCENT, LIMIT_PERCENT};
use iopace_core::request::{Area, DiskError, Extent, GroupId, Op, Outcome, Submit, Tag};
use iopace_core::sched;
use iopace_core::stats::Histogram;
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use iopace_disk::machine::{Io, Machine, MachineOutput};
use iopace_disk::model::Model;
use iopace_disk::model_file::ModelFile;
use iopace_disk::page_cache::PageCacheConfig;
use iopace_disk::presets;
use slab::Slab;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Most pieces that one allocation query returns: 16 bytes each on the wire.
const ALLOCATION_PIECES_MAX: usize = 1_024;

struct Inner {
    machine: Machine,
    jobs: Slab<Job>,
    hold_up: Histogram,
    events: EventLog,
    /// What it may have dirty at present.
    thresholds: Thresholds,
}

/// The device.
pub struct EmulatedDevice {
    info: DeviceInfo,
    store: File,
    inner: Mutex<Inner>,
    alarm: Alarm,
    cached_reads: AtomicU64,
    buffered_writes: AtomicU64,
    limited: Limited,
    /// For data of files, which may have to wait for a real disk: the timers must not.
    movers: OnceLock<Pool<(Job, Outcome)>>,
}

impl EmulatedDevice {
    /// Makes the model and its store.
    ///
    /// # Errors
    /// An unknown model (with those there are), or what is wrong with the store.
    pub fn open(
        config: &DeviceConfig,
        timers: &Arc<Timers>,
    ) -> Result<Arc<EmulatedDevice>, StartError> {
        EmulatedDevice::make(config, timers, None)
    }

    fn make(
        config: &DeviceConfig,
        timers: &Arc<Timers>,
        directory: Option<&Path>,
    ) -> Result<Arc<EmulatedDevice>, StartError> {
        let Backend::Emulated { model, store, size, cache } = &config.backend else {
            unreachable!("called for emulated devices only")
        };
        let model_of_it = find_model(model)?;
        let model_max = bytes_s_max(&model_of_it);
        let disk = model_of_it.build();
        let capacity = disk.capacity().get();
        let store_file = match store {
            Some(path) => store::open(path, *size, capacity, config.read_only)?,
            None => store::in_memory(size.map_or(capacity, |size| size.get().min(capacity)))?,
        };
        let rotational = disk.is_rotational();
        let cache = cache.unwrap_or(EMULATED_CACHE_DEFAULT);
        let memory = modelled(config, cache);
        let engine = Config {
            base: sched::recommended(),
            nr_requests: config.nr_requests.unwrap_or(NR_REQUESTS_DEFAULT),
            window_depth: config.window_depth.unwrap_or(disk.depth()),
            window: config.window,
            pace: config.pace,
            accounting: config.accounting,
            memory,
            ..Config::default()
        };
        let cache =
            (!config.direct).then_some(PageCacheConfig { memory: cache, drop_behind: true });
        let machine = Machine::new(engine, cache, disk);
        let path = store.as_deref().or(directory).map(Path::to_owned);
        let info = info(config, model, path, &store_file, (rotational, model_max));
        let inner = Inner {
            machine,
            jobs: Slab::new(),
            hold_up: Histogram::default(),
            events: EventLog::new(config.name.clone()),
            thresholds: memory,
        };
        let device = Arc::new(EmulatedDevice {
            info,
            store: store_file,
            inner: Mutex::new(inner),
            alarm: Alarm::new(Arc::clone(timers)),
            cached_reads: AtomicU64::new(0),
            buffered_writes: AtomicU64::new(0),
            limited: Limited::default(),
            movers: OnceLock::new(),
        });
        device.alarm.register(Arc::<EmulatedDevice>::downgrade(&device));
        Ok(device)
    }

    /// A directory whose files are on an emulated disk: every request names its file and is placed
    /// within the model. `path` is what it is known by.
    pub(crate) fn over_directory(
        config: &DeviceConfig,
        path: &Path,
        timers: &Arc<Timers>,
    ) -> Result<Arc<EmulatedDevice>, StartError> {
        let device = EmulatedDevice::make(config, timers, Some(path))?;
        let this = Arc::downgrade(&device);
        let work = move |(job, outcome): (Job, Outcome)| {
            let mut touched = Touched::default();
            match this.upgrade() {
                Some(device) => device.answer(job, outcome, &mut touched),
                None => job.finish(Outcome::Failed(DiskError::Gone), &mut touched),
            }
            touched.send();
        };
        let movers = Pool::start("move", MOVE_THREADS, work).map_err(StartError::Threads)?;
        let _ = device.movers.set(movers);
        Ok(device)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drains the machine, then moves the data of what has finished and answers it.
    fn drain(&self, mut inner: MutexGuard<'_, Inner>, now: Instant, is_timer: bool) {
        let mut finished: Vec<(Job, Outcome)> = Vec::new();
        let at = loop {
            match inner.machine.poll(now) {
                MachineOutput::Finished(finish) => {
                    let counter = match finish.op {
                        Op::Read => &self.cached_reads,
                        _ => &self.buffered_writes,
                    };
                    if finish.cached {
                        counter.fetch_add(1, Relaxed);
                    }
                    let job = inner.jobs.remove(finish.tag.0 as usize);
                    finished.push((job, finish.outcome));
                }
                MachineOutput::Event(event) => inner.events.add(*event),
                MachineOutput::Wait(at, _) => break at,
            }
        };
        drop(inner);
        if !at.is_never() {
            self.alarm.set(at);
        }
        if let Some(movers) = self.movers.get().filter(|_| is_timer && !finished.is_empty()) {
            return movers.submit(finished);
        }
        let mut touched = Touched::default();
        for (job, outcome) in finished {
            self.answer(job, outcome, &mut touched);
        }
        touched.send();
    }

    fn answer(&self, mut job: Job, outcome: Outcome, touched: &mut Touched) {
        let mut outcome = outcome;
        let is_nothing = job.extent.is_empty() && job.op != Op::Flush;
        if outcome == Outcome::Ok && !is_nothing && job.begin() {
            if job.op == Op::Read {
                job.buffer.resize(job.extent.len().get() as usize);
            }
            if let Err((written, error)) = self.carry_out(&mut job) {
                self.lock().events.failed(clock::now(), (job.op, job.extent), &error);
                job.progress.written = written;
                job.progress.failed(&error);
                outcome = Outcome::Failed(disk_error(&error));
            }
        }
        job.finish(outcome, touched);
    }

    /// Moves the data of a request: of the store, or of the file that it names.
    fn carry_out(&self, job: &mut Job) -> Result<(), (u64, io::Error)> {
        let Job { op, extent, fua, buffer, target, .. } = job;
        match target {
            Some(target) => target.perform(*op, extent.len().get(), *fua, buffer),
            None => {
                let done = self.store.perform(*op, *extent, *fua, buffer.as_mut_slice());
                done.map_err(|error| (0, error))
            }
        }
    }
}

/// What may be dirty of the modelled memory: as much as the kernel's defaults allow, unless
/// something else is set; never more than all of it.
fn modelled(config: &DeviceConfig, cache: Bytes) -> Thresholds {
    let usual = Thresholds::of_memory(cache, BACKGROUND_PERCENT, LIMIT_PERCENT).limit;
    thresholds(config, config.dirty_limit.map_or(usual, |own| own.min(cache)))
}

/// The model of that name, or of the model file of that name (`*.toml`).
fn find_model(name: &str) -> Result<Model, StartError> {
    if let Some(preset) = presets::find(name) {
        return Ok(preset.config);
    }
    if !name.ends_with(".toml") {
        let names: Vec<&str> = presets::PRESETS.iter().map(|preset| preset.name).collect();
        return Err(StartError::NoModel(name.to_owned(), names.join(", ")));
    }
    let text = read_config(Path::new(name));
    let text = text.map_err(|error| format!("the model {name} cannot be read: {error}"));
    let file =
        text.and_then(|text| ModelFile::parse(name, &text).map_err(|error| error.to_string()));
    file.map(|file| file.model).map_err(StartError::ModelFile)
}

/// The most that a model gives, in bytes per second: at the outer edge of a disk with a head, whose
/// cache is small beside what is asked for; over the interface or the network of others.
fn bytes_s_max(model: &Model) -> Option<u64> {
    match model {
        Model::Hdd(config) => Some(config.rate_outer.0),
        Model::Ssd(config) => Some(config.rate_bus.0),
        Model::Nfs(config) => Some(config.rate_link.0),
        Model::Null(_) => None,
    }
}

fn info(
    config: &DeviceConfig,
    model: &str,
    path: Option<PathBuf>,
    store: &File,
    (rotational, bytes_s_max): (bool, Option<u64>),
) -> DeviceInfo {
    DeviceInfo {
        name: config.name.clone(),
        kind: "emulated",
        path,
        model: Some(model.to_owned()),
        size_bytes: store.size_bytes(),
        read_only: config.read_only,
        direct: config.direct,
        rotational,
        io_engine: "model",
        base: sched::recommended().name,
        block_bytes: (1, 4096),
        bytes_s_max,
        below: None,
    }
}

impl Device for EmulatedDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn submit(&self, jobs: &mut Vec<Job>) {
        let mut inner = self.lock();
        let now = clock::now();
        for job in jobs.drain(..) {
            let Job { task, group, op, extent, fua, cover, .. } = job;
            // What has no bytes is not for the page cache.
            let buffered = !self.info.direct && !job.is_direct() && !extent.is_empty();
            let tag = Tag(inner.jobs.insert(job) as u64);
            let submit = Submit { tag, task, group, op, extent, fua, sync: true };
            match op {
                Op::Flush => inner.machine.flush(now, submit, cover),
                _ => inner.machine.submit(now, Io { submit, buffered }),
            }
        }
        self.drain(inner, now, false);
    }

    fn tick(&self) {
        self.alarm.rang();
        let inner = self.lock();
        self.drain(inner, clock::now(), true);
    }

    fn has_limits(&self) -> bool {
        self.limited.has_any()
    }

    fn is_limited(&self, group: GroupId) -> bool {
        self.limited.holds(group)
    }

    fn void(&self, area: Area) {
        let mut inner = self.lock();
        let now = clock::now();
        inner.machine.void(now, area.extent);
        self.drain(inner, now, false);
    }

    fn are_clean(&self, areas: &[Area]) -> Vec<bool> {
        let inner = self.lock();
        areas.iter().map(|area| inner.machine.engine().is_clean(*area)).collect()
    }

    fn allocation(&self, extent: Extent) -> io::Result<Vec<Allocation>> {
        self.store.allocation(extent, ALLOCATION_PIECES_MAX)
    }

    fn control(&self, control: Control) -> Result<(), ControlError> {
        self.limited.note(&control);
        let mut inner = self.lock();
        let is_exchange = is_exchange(&control);
        if let Control::Memory(budget) = &control {
            inner.thresholds = budget.device;
        }
        let now = clock::now();
        let result = inner.machine.control(now, control);
        if result.is_ok() && is_exchange {
            inner.hold_up.record(clock::now().since(now));
        }
        self.drain(inner, now, false);
        result
    }

    fn look(&self, look: &mut Look<'_>) {
        let inner = &mut *self.lock();
        look(inner.machine.engine(), &mut inner.events);
    }

    /// The modelled page cache may hold a request back before the engine sees it.
    fn forget_group(&self, id: GroupId) -> bool {
        if self.lock().jobs.iter().any(|(_, job)| job.group == id) {
            return false;
        }
        self.control(Control::RemoveGroup(id)).expect("a group may always be removed");
        self.lock().machine.engine().is_group_forgotten(id)
    }

    fn status(&self) -> DeviceStatus {
        let inner = self.lock();
        let engine = inner.machine.engine();
        DeviceStatus {
            engine: engine.status(),
            stats: engine.stats(),
            cached_reads_count: self.cached_reads.load(Relaxed),
            buffered_writes_count: self.buffered_writes.load(Relaxed),
            hold_up: inner.hold_up.clone(),
            events: inner.events.kept(),
            memory: (!self.info.direct).then(|| MemoryStatus::of(engine, inner.thresholds)),
            window: engine.window_picture(),
        }
    }

    fn flush_all(&self) -> io::Result<()> {
        if self.info.read_only { Ok(()) } else { self.store.flush() }
    }
}

impl Drop for EmulatedDevice {
    /// As for other devices: what is cut off is answered.
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut touched = Touched::default();
        for job in inner.jobs.drain() {
            job.finish(Outcome::Failed(DiskError::Gone), &mut touched);
        }
        touched.send();
    }
}
