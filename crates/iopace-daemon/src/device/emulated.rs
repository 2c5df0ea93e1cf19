//! A disk model in real time: the machine that the simulator turns in virtual time, turned by the
//! daemon's clock, with real data in memory or in a sparse file.
//!
//! The machine decides *when* a request is done; the data is moved at that moment, just before the
//! reply, or with it: a large read of a store in memory is sent from there. So a write that was
//! acknowledged is readable at once, and durable in the store after a flush.

mod store;

use super::beginning::engine_config;
use super::shell::{Behind, Caller, Shell, registered};
use super::{Device, DeviceInfo, thresholds};
use crate::answer::{SEND_FILE_BYTES, Touched};
use crate::clock;
use crate::config::{Backend, DeviceConfig};
use crate::io::pool::Pool;
use crate::job::{Job, disk_error};
use crate::limits::{EMULATED_CACHE_DEFAULT, MOVE_THREADS};
use crate::runtime_files::read_config;
use crate::start_error::StartError;
use crate::timer::Timers;
use iopace_core::pace::Thresholds;
use iopace_core::pace::domain::{BACKGROUND_PERCENT, LIMIT_PERCENT};
use iopace_core::request::{Cover, DiskError, Extent, Op, Outcome, Tag};
use iopace_core::units::Bytes;
use iopace_disk::model::Model;
use iopace_disk::model_file::ModelFile;
use iopace_disk::modelled::{Asked, Io, Modelled};
use iopace_disk::page_cache::PageCacheConfig;
use iopace_disk::presets;
use iopace_disk::pump::End;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use store::MappedStore;

impl Asked for Job {
    fn io(&self) -> Io {
        // A request of no bytes is not for the page cache.
        let buffered = !self.is_direct() && !self.extent.is_empty();
        Io { submit: self.submit(Tag(0)), buffered }
    }

    fn cover(&self) -> Cover {
        self.cover
    }
}

/// The device.
pub struct EmulatedDevice {
    shell: Shell<Modelled<Job>>,
    /// The store, if it is in memory.
    memory: Option<MappedStore>,
    /// For data of files, which may have to wait for a real disk: the timers must not.
    movers: OnceLock<Pool<(Job, End)>>,
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
        let disk = model_of_it.build();
        let capacity = disk.capacity().get();
        let store_file = match store {
            Some(path) => store::open(path, *size, capacity, (config.read_only, config.raw))?,
            None => store::in_memory(size.map_or(capacity, |size| size.get().min(capacity)))?,
        };
        let rotational = disk.is_rotational();
        let cache = cache.unwrap_or(EMULATED_CACHE_DEFAULT);
        let memory = modelled(config, cache);
        let engine = engine_config(config, disk.depth(), memory);
        let cache =
            (!config.direct).then_some(PageCacheConfig { memory: cache, drop_behind: true });
        let pump = Modelled::pump(engine, cache, disk);
        let info = DeviceInfo {
            path: store.as_deref().or(directory).map(Path::to_owned),
            model: Some(model.to_owned()),
            rotational,
            io_engine: "model",
            bytes_s_max: bytes_s_max(&model_of_it),
            ..DeviceInfo::new(config, "emulated", &store_file)
        };
        let mapped = || MappedStore::new(store_file.std(), store_file.size_bytes());
        let in_memory = store.is_none().then(mapped).flatten();
        let shell = Shell::new((info, Some(Arc::new(store_file))), pump, memory, timers);
        let movers = OnceLock::new();
        Ok(registered(Arc::new(EmulatedDevice { shell, memory: in_memory, movers })))
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
        let work = move |(job, end): (Job, End)| {
            let mut touched = Touched::default();
            match this.upgrade() {
                Some(device) => device.answer(job, end.outcome, &mut touched),
                None => job.finish(Outcome::Failed(DiskError::Gone), &mut touched),
            }
            touched.send();
        };
        let movers = Pool::start("move", MOVE_THREADS, work).map_err(StartError::Threads)?;
        let _ = device.movers.set(movers);
        Ok(device)
    }

    /// Whether the data of a read is sent from memory without a copy: by the thread of its client
    /// only, as that thread has to wait until the client takes it. A hole is not sent so: before
    /// version 5.18 the kernel takes memory for a hole that is sent.
    fn is_sent_from_store(&self, job: &Job) -> bool {
        let (offset, len) = (job.extent.offset().get(), job.extent.len().get());
        job.op == Op::Read
            && len >= SEND_FILE_BYTES as u64
            && job.target.is_none()
            && job.ticket.may_wait_here()
            && self.memory.as_ref().is_some_and(|memory| memory.has_all(offset, len))
    }

    fn answer(&self, mut job: Job, outcome: Outcome, touched: &mut Touched) {
        let mut outcome = outcome;
        let is_nothing = job.extent.is_empty() && job.op != Op::Flush;
        if outcome == Outcome::Ok && !is_nothing && job.begin() {
            if job.op == Op::Read {
                job.buffer.resize(job.extent.len().get() as usize);
            }
            if let Err((written, error)) = self.move_data(&mut job) {
                self.look(&mut |_, events| {
                    events.failed(clock::now(), (job.op, job.extent), &error);
                });
                job.progress.written = written;
                job.progress.failed(&error);
                outcome = Outcome::Failed(disk_error(&error));
            }
        }
        job.finish(outcome, touched);
    }

    /// Moves the data of a request: of the store, or of the file that it names.
    fn move_data(&self, job: &mut Job) -> Result<(), (u64, io::Error)> {
        let Job { op, extent, fua, buffer, target, .. } = job;
        match target {
            Some(target) => target.perform(*op, extent.len().get(), *fua, buffer),
            None => {
                let done = self.perform(*op, *extent, *fua, buffer.as_mut_slice());
                done.map_err(|error| (0, error))
            }
        }
    }

    /// Moves the data of a request of the store.
    fn perform(&self, op: Op, extent: Extent, fua: bool, buffer: &mut [u8]) -> io::Result<()> {
        let (offset, len) = (extent.offset().get(), extent.len().get());
        let by_call = |buffer: &mut [u8]| self.shell.file().perform(op, extent, fua, buffer);
        let Some(memory) = &self.memory else { return by_call(buffer) };
        match op {
            Op::Read if memory.read(offset, buffer) => Ok(()),
            Op::Write => memory.write(offset, buffer, by_call),
            Op::Trim | Op::WriteZeroes => memory.give_back(offset, len, || by_call(buffer)),
            _ => by_call(buffer),
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

impl Behind for EmulatedDevice {
    type Disk = Modelled<Job>;

    fn shell(&self) -> &Shell<Modelled<Job>> {
        &self.shell
    }

    /// Moves the data of what has finished and answers it.
    fn carry_out(&self, ended: Vec<(Job, End)>, caller: Caller) {
        for (job, _) in ended.iter().filter(|(_, end)| end.cached) {
            let counter = match job.op {
                Op::Read => &self.shell.cached_reads,
                _ => &self.shell.buffered_writes,
            };
            counter.fetch_add(1, Relaxed);
        }
        let is_busy = caller == Caller::Busy && !ended.is_empty();
        if let Some(movers) = self.movers.get().filter(|_| is_busy) {
            return movers.submit(ended);
        }
        let (mut touched, mut large) = (Touched::default(), Vec::new());
        for (job, end) in ended {
            if end.outcome == Outcome::Ok && self.is_sent_from_store(&job) {
                large.push(job);
            } else {
                self.answer(job, end.outcome, &mut touched);
            }
        }
        touched.send_some();
        // No other client waits for this thread now.
        for job in large {
            job.ticket.answer_from_file(self.shell.file().fd(), job.extent);
        }
    }
}

#[cfg(test)]
mod tests;
