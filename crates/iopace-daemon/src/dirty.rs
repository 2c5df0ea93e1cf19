//! Dirty memory of all devices: one amount for the daemon, divided among them.
//!
//! ```text
//!   /proc/vmstat ──► what the kernel ──► domain ──► budget of each device ──► its engine
//!   memory.max       leaves to us          ▲
//!                                          └── what each device has dirty and writes back
//! ```
//! Devices share the kernel's page cache, and the kernel slows down the whole daemon when too much
//! of it is dirty, whoever did that. So the devices' budgets together stay below what the kernel
//! lets pass, and a device has no part in another one's pauses. It is looked at from time to time,
//! and when a device comes to half of its limit: one that begins alone is given more before it is
//! paced. Emulated disks have a page cache of
//! their own, and devices that bypass the page cache none: they are not in it.

mod division;

use crate::clock;
use crate::config::DeviceConfig;
use crate::device::{Device, MemoryUse};
use crate::kernel::{KernelDirty, cgroup_memory};
use crate::limits::DIRTY_FALLBACK;

use division::Division;
use iopace_core::engine::Control;
use iopace_core::units::Bytes;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often it looks while something is dirty: the interval of the bandwidth estimate.
const BUSY: Duration = Duration::from_millis(200);

/// How often it looks while nothing is: others may need the memory meanwhile, but nothing of ours
/// is in their way.
const IDLE: Duration = Duration::from_secs(2);

/// The thread that looks and tells the devices.
pub(crate) struct Manager {
    stop: Arc<Stop>,
    watch: Arc<Mutex<Watch>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Stop {
    asked: Mutex<Asked>,
    changed: Condvar,
}

/// What the thread is asked to do before its time.
#[derive(Clone, Copy, Default)]
struct Asked {
    to_end: bool,
    to_look: bool,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for so long, or until it is asked to look. True when it is time to end.
    fn wait(&self, time: Duration) -> bool {
        let is_quiet = |asked: &mut Asked| !asked.to_end && !asked.to_look;
        let waited = self.changed.wait_timeout_while(self.lock(), time, is_quiet);
        let mut asked = waited.unwrap_or_else(PoisonError::into_inner).0;
        asked.to_look = false;
        asked.to_end
    }

    fn look(&self) {
        self.lock().to_look = true;
        self.changed.notify_all();
    }
}

impl Manager {
    /// Gives the devices their first budgets, then looks from time to time. No thread is needed
    /// as long as no device takes buffered writes.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start<'a>(
        configs: impl Iterator<Item = &'a DeviceConfig>,
        devices: &[Arc<dyn Device>],
    ) -> io::Result<Manager> {
        let stop = Arc::new(Stop::default());
        let watch = Arc::new(Mutex::new(Watch::new()));
        let manager = Manager { stop, watch, thread: Mutex::default() };
        let watched = configs.zip(devices).filter(|(_, device)| manager.takes(&***device));
        let count = watched.map(|(config, device)| manager.lock().add(config, device)).count();
        if count > 0 {
            manager.begin()?;
        }
        Ok(manager)
    }

    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a device takes buffered writes; if so, it says when it is half full.
    fn takes(&self, device: &dyn Device) -> bool {
        let takes = device.memory_use().is_some() && !device.info().read_only;
        if takes {
            let stop = Arc::clone(&self.stop);
            device.on_half_dirty(Box::new(move || stop.look()));
        }
        takes
    }

    /// Divides anew, and has a thread do so from now on.
    fn begin(&self) -> io::Result<()> {
        self.lock().look();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (stop, watch) = (Arc::clone(&self.stop), Arc::clone(&self.watch));
            let run = move || {
                let mut pause = BUSY;
                while !stop.wait(pause) {
                    let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
                    pause = if watch.look() { BUSY } else { IDLE };
                }
            };
            *thread = Some(thread::Builder::new().name("dirty".into()).spawn(run)?);
        }
        Ok(())
    }

    /// One more device, which has a part in memory at once.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn add(&self, config: &DeviceConfig, device: &Arc<dyn Device>) -> io::Result<()> {
        if !self.takes(&**device) {
            return Ok(());
        }
        self.lock().add(config, device);
        self.begin()
    }

    /// A device is gone: its part is for the others.
    pub(crate) fn remove(&self, device: &dyn Device) {
        self.lock().remove(&device.info().name);
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.stop.lock().to_end = true;
        self.stop.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The thread itself may be the last that lets the daemon go.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread works with.
struct Watch {
    /// By their places in the division; `None` where one is gone.
    devices: Vec<Option<Arc<dyn Device>>>,
    division: Division,
    cgroup: Option<Bytes>,
    /// What the log has heard of.
    told: Kernel,
}

impl Watch {
    fn new() -> Watch {
        Watch {
            devices: Vec::new(),
            division: Division::new(Vec::new()),
            cgroup: cgroup_memory(),
            told: Kernel::Quiet,
        }
    }

    fn add(&mut self, config: &DeviceConfig, device: &Arc<dyn Device>) {
        let place = self.division.add(config.clone());
        self.devices.resize(self.devices.len().max(place + 1), None);
        self.devices[place] = Some(Arc::clone(device));
    }

    fn remove(&mut self, name: &str) {
        let is_it = |device: &Option<Arc<dyn Device>>| {
            device.as_ref().is_some_and(|device| device.info().name == name)
        };
        if let Some(place) = self.devices.iter().position(is_it) {
            self.devices[place] = None;
            self.division.remove(place);
        }
    }

    /// Looks, and tells the devices. Whether something is dirty.
    fn look(&mut self) -> bool {
        let memory_use = |device: &Arc<dyn Device>| device.memory_use();
        let uses = self.devices.iter();
        let uses = uses.map(|one| one.as_ref().and_then(memory_use).unwrap_or_default());
        let uses: Vec<MemoryUse> = uses.collect();
        let own = sum(&uses);
        let kernel = KernelDirty::read();
        if let Some(kernel) = &kernel {
            self.tell(Kernel::of(kernel), own);
        }
        let limit = kernel.map_or(DIRTY_FALLBACK, |kernel| kernel.allowance(own, self.cgroup));
        let budgets = self.division.divide(clock::now(), limit, &uses);
        let all = self.devices.iter().zip(budgets);
        for (device, budget) in all.filter_map(|(device, budget)| Some((device.as_ref()?, budget)))
        {
            device.control(Control::Memory(budget)).expect("a budget may always be set");
        }
        own > Bytes::ZERO
    }

    /// Logs what the kernel does by itself, each thing once.
    fn tell(&mut self, now: Kernel, own: Bytes) {
        if now <= self.told {
            return;
        }
        self.told = now;
        match now {
            Kernel::Quiet => {}
            Kernel::WritesBack => tracing::info!(
                "the kernel writes back by itself: others have dirtied more than its background \
                 threshold (of ours: {own})"
            ),
            Kernel::Throttles => tracing::warn!(
                "the kernel slows writers down, this daemon too: others have dirtied more than it \
                 lets pass (of ours: {own}); pauses may be longer than those that are reported"
            ),
        }
    }
}

/// What the kernel does about dirty memory by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kernel {
    /// Nothing but to write what is old.
    Quiet,
    /// It writes back.
    WritesBack,
    /// It makes writers sleep.
    Throttles,
}

impl Kernel {
    fn of(kernel: &KernelDirty) -> Kernel {
        if kernel.dirty > kernel.freerun() {
            Kernel::Throttles
        } else if kernel.dirty > kernel.background {
            Kernel::WritesBack
        } else {
            Kernel::Quiet
        }
    }
}

fn sum(uses: &[MemoryUse]) -> Bytes {
    uses.iter().fold(Bytes::ZERO, |sum, used| sum + used.dirty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_to_look_ends_the_wait_once() {
        let stop = Stop::default();
        stop.look();
        assert!(!stop.wait(Duration::from_secs(3600)), "it looks, and goes on");
        assert!(!stop.lock().to_look);
        stop.lock().to_end = true;
        assert!(stop.wait(Duration::from_secs(3600)));
    }

    #[test]
    fn what_the_kernel_does_is_told_by_its_thresholds() {
        let mib = Bytes::from_mib;
        let of = |dirty| Kernel::of(&KernelDirty { dirty, background: mib(100), limit: mib(200) });
        assert_eq!((of(mib(100)), of(mib(101))), (Kernel::Quiet, Kernel::WritesBack));
        assert_eq!((of(mib(150)), of(mib(151))), (Kernel::WritesBack, Kernel::Throttles));
    }
}
