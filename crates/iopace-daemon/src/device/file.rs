//! A file or block device behind an engine.
//!
//! Reads that the page cache can answer do not come to the engine: the thread that received them
//! serves them. A buffered write passes stage pace and is written into the page cache by the thread
//! that received it, if it may go at once, else by a thread of a pool: neither the timer nor who
//! learns of a completion ever waits for a page. Everything that needs the disk is submitted to the
//! engine; what it starts goes to the disk, and each completion is handled by the thread that
//! learns of it.

mod about;
mod backend;

use super::beginning::engine_config;
use super::portion::Portion;
use super::shell::{Behind, Caller, Shell, registered};
use super::{DeviceInfo, thresholds};
use crate::answer::Touched;
use crate::below::Below;
use crate::config::{DeviceConfig, IoEngineChoice};
use crate::io::durable::DurableFiles;
use crate::io::file::File;
use crate::io::pool::Pool;
use crate::io::target::Places;
use crate::io::{Completions, Disk, IoDone, IoRequest};
use crate::job::disk_error;
use crate::limits::{self, DIRTY_FALLBACK, FILE_WINDOW_DEFAULT, WRITE_THREADS};
use crate::start_error::StartError;
use crate::timer::Timers;
use about::{is_rotational, kind};
pub(super) use backend::{Drained, RealDisk, complete};
use iopace_core::engine::{Config, Input, Start};
use iopace_core::request::{Area, Op, Outcome};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_disk::pump::Pump;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Portions that one thread writes in a row before it sends replies and lets others go on: some
/// milliseconds of small ones, as many as a connection's buffer holds.
const ROUNDS_MAX: usize = 256;

/// The device.
pub struct FileDevice {
    /// Ends before the shell does: nothing is written any more when what is cut off is answered.
    disk: Disk,
    shell: Shell<RealDisk>,
    /// For durable requests on its own file.
    durable: DurableFiles,
    /// Where dirty memory lies, if it is that of many files.
    places: Option<Arc<dyn Places>>,
    /// For writes into the page cache that had to wait.
    writers: Pool<Portion>,
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
        let failed = if config.read_only { StartError::open_to_read } else { StartError::open };
        let file = Arc::new(opened.map_err(|error| failed(path, &error))?);
        StartError::refuse_format(path, file.format(), config.raw)?;
        let tail = file.size_bytes() % u64::from(file.block_bytes());
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
            let (memory, rotational) = (thresholds(config, DIRTY_FALLBACK), is_rotational(path));
            let engine = Config {
                capacity: Bytes(file.size_bytes()),
                rotational,
                tells_cleaned: false, // the kernel's cache knows
                ..engine_config(config, FILE_WINDOW_DEFAULT, memory)
            };
            let pump = Pump::new(engine, RealDisk { buffered: !config.direct });
            let info = DeviceInfo {
                path: Some(path.to_path_buf()),
                rotational: rotational.unwrap_or(false),
                io_engine: disk.name(),
                below: Below::lowest(path),
                ..DeviceInfo::new(config, kind(&file), &file)
            };
            let writer = this.clone();
            let write = move |portion: Portion| {
                if let Some(device) = writer.upgrade() {
                    device.write(portion);
                }
            };
            let writers = match Pool::start("write", WRITE_THREADS, write.clone()) {
                Ok(writers) => writers,
                Err(error) => {
                    failed = Some(StartError::Threads(error));
                    Pool::start("write", 0, write).expect("none is started")
                }
            };
            FileDevice {
                disk,
                shell: Shell::new((info, Some(Arc::clone(&file))), pump, memory, timers),
                durable: DurableFiles::default(),
                places,
                writers,
                service_ns: AtomicU64::new(0),
                inline_count: AtomicUsize::new(0),
            }
        });
        failed.map_or_else(|| Ok(registered(device)), Err)
    }

    /// Writes a portion that had to wait, and those that its end lets go.
    fn write(&self, mut portion: Portion) {
        let mut drained = Drained::default();
        portion.write(self.shell.file());
        self.wrote(vec![portion], &mut drained);
        self.carry_out(drained, Caller::Writer);
    }

    /// Takes portions that were written, and answers the writes that end with them.
    fn wrote(&self, portions: Vec<Portion>, drained: &mut Drained) {
        self.shell.turn(drained, |inner, now, drained| {
            for Portion { id, key, last, buffer, extent, failed, .. } in portions {
                let job = &mut inner.pump.requests_mut()[key];
                job.buffer = buffer;
                let (ok, mut outcome) = (failed.is_none(), Outcome::Ok);
                match failed {
                    None => job.progress.written += extent.len().get(),
                    // The rest of the write is given up.
                    Some((written, error)) => {
                        job.progress.written += written;
                        job.progress.failed(&error);
                        outcome = Outcome::Failed(disk_error(&error));
                        inner.events.write_failed(now, extent, &error);
                    }
                }
                if last || !ok {
                    self.shell.buffered_writes.fetch_add(u64::from(ok), Relaxed);
                    drained.finished.push((inner.pump.requests_mut().remove(key), outcome));
                }
                inner.pump.handle(now, Input::Wrote { id, ok });
            }
        });
    }

    /// Hands started requests to the disk. One that is alone on a quick disk is carried out here:
    /// that is what saves the hop to another thread.
    fn start(&self, drained: &mut Drained, may_block: bool) {
        if drained.starts.is_empty() {
            return;
        }
        let mut requests: Vec<IoRequest> = Vec::with_capacity(drained.starts.len());
        for (start, mut buffer, target) in drained.starts.drain(..) {
            let Start { id, tag, op, extent, space, fua, class, write_back, .. } = start;
            if op == Op::Read {
                buffer.resize(extent.len().get() as usize);
            }
            let key = tag.0 as usize;
            let places = self.places.as_ref().filter(|_| write_back);
            let area = Area { space, extent };
            let target = places.map_or(target, |places| Some(places.target(area)));
            let mut request =
                IoRequest { id, key, op, extent, fua, class, write_back, target, buffer };
            let info = &self.shell.info;
            if !info.direct {
                self.durable.lend((&info.name, self.shell.file()), &mut request);
            }
            requests.push(request);
        }
        if may_block && requests.len() == 1 && is_transfer(&requests[0]) && self.may_wait() {
            let request = requests.pop().expect("there is one");
            let mut done = vec![request.carry_out(self.shell.file())];
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

impl Behind for FileDevice {
    type Disk = RealDisk;

    fn shell(&self) -> &Shell<RealDisk> {
        &self.shell
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
                portion.write(self.shell.file());
            }
            self.wrote(portions, &mut drained);
        }
        drained.finish(&mut touched);
        touched.send();
        self.start(&mut drained, false);
        self.writers.submit(drained.portions);
    }
}

impl Completions for FileDevice {
    fn completed(&self, done: &mut Vec<IoDone>) {
        done.iter_mut().for_each(|done| self.durable.take_back(done));
        self.turn(Caller::Busy, |inner, now, _| {
            done.drain(..).for_each(|done| complete(inner, now, done));
        });
    }
}
