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

use crate::clock;
use crate::config::DeviceConfig;
use crate::device::{Device, MemoryUse, thresholds};
use crate::kernel::{KernelDirty, cgroup_memory};
use crate::limits::DIRTY_FALLBACK;
use iopace_core::engine::Control;
use iopace_core::pace::domain::Domain;
use iopace_core::pace::{Budget, Thresholds};
use iopace_core::time::Instant;
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
    /// where no device takes buffered writes.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start<'a>(
        configs: impl Iterator<Item = &'a DeviceConfig>,
        devices: &[Arc<dyn Device>],
    ) -> io::Result<Manager> {
        let all = configs.zip(devices);
        let (configs, devices): (Vec<DeviceConfig>, Vec<Arc<dyn Device>>) = all
            .filter(|(_, device)| device.memory_use().is_some() && !device.info().read_only)
            .map(|(config, device)| (config.clone(), Arc::clone(device)))
            .unzip();
        let stop = Arc::new(Stop::default());
        let mut thread = None;
        if !devices.is_empty() {
            for device in &devices {
                let stop = Arc::clone(&stop);
                device.on_half_dirty(Box::new(move || stop.look()));
            }
            let mut watch = Watch::new(configs, devices);
            watch.look();
            let stop = Arc::clone(&stop);
            let run = move || {
                let mut pause = BUSY;
                while !stop.wait(pause) {
                    pause = if watch.look() { BUSY } else { IDLE };
                }
            };
            thread = Some(thread::Builder::new().name("dirty".into()).spawn(run)?);
        }
        Ok(Manager { stop, thread: Mutex::new(thread) })
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
    devices: Vec<Arc<dyn Device>>,
    division: Division,
    cgroup: Option<Bytes>,
    /// What the log has heard of.
    told: Kernel,
}

impl Watch {
    fn new(configs: Vec<DeviceConfig>, devices: Vec<Arc<dyn Device>>) -> Watch {
        Watch {
            devices,
            division: Division::new(configs),
            cgroup: cgroup_memory(),
            told: Kernel::Quiet,
        }
    }

    /// Looks, and tells the devices. Whether something is dirty.
    fn look(&mut self) -> bool {
        let uses = self.devices.iter().map(|device| device.memory_use().unwrap_or_default());
        let uses: Vec<MemoryUse> = uses.collect();
        let own = sum(&uses);
        let kernel = KernelDirty::read();
        if let Some(kernel) = &kernel {
            self.tell(Kernel::of(kernel), own);
        }
        let limit = kernel.map_or(DIRTY_FALLBACK, |kernel| kernel.allowance(own, self.cgroup));
        let budgets = self.division.divide(clock::now(), limit, &uses);
        for (device, budget) in self.devices.iter().zip(budgets) {
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

/// Who gets how much.
#[derive(Debug)]
struct Division {
    domain: Domain,
    configs: Vec<DeviceConfig>,
    /// What each had written back at the last look.
    written: Vec<Bytes>,
}

impl Division {
    fn new(configs: Vec<DeviceConfig>) -> Division {
        // Made of nothing, so that the first look gives every device its floor and none all of it.
        let mut domain = Domain::new(Thresholds { background: Bytes::ZERO, limit: Bytes::ZERO });
        let written = configs.iter().map(|_| domain.add()).map(|_| Bytes::ZERO).collect();
        Division { domain, configs, written }
    }

    /// Divides `limit` among the devices by what each has written back lately, none more than its
    /// own limit.
    fn divide(&mut self, now: Instant, limit: Bytes, uses: &[MemoryUse]) -> Vec<Budget> {
        self.domain.set_all(Thresholds { background: Bytes(limit.get() / 2), limit });
        for (index, used) in uses.iter().enumerate() {
            let most = self.configs[index].dirty_limit.map_or(limit, |own| own.min(limit));
            let permille =
                (u128::from(most.get()) * 1_000).div_ceil(u128::from(limit.get().max(1)));
            self.domain.set_ratios(index, 0, u16::try_from(permille).unwrap_or(1_000));
            let before = std::mem::replace(&mut self.written[index], used.written_back);
            self.domain.report(now, index, used.dirty, used.written_back - before);
        }
        let told = self.domain.budgets().into_iter().zip(&self.configs);
        told.map(|(budget, config)| Budget {
            device: thresholds(config, budget.device.limit),
            ..budget
        })
        .collect()
    }
}

fn sum(uses: &[MemoryUse]) -> Bytes {
    uses.iter().fold(Bytes::ZERO, |sum, used| sum + used.dirty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Backend;
    use iopace_core::time::Nanos;

    const MIB: u64 = 1 << 20;

    fn division(limits: &[Option<u64>]) -> Division {
        let config = |limit: &Option<u64>| DeviceConfig {
            dirty_limit: limit.map(Bytes::from_mib),
            ..DeviceConfig::new("disk", Backend::Path("disk.img".into()))
        };
        Division::new(limits.iter().map(config).collect())
    }

    /// Looks for `count` times 200 ms at devices that always have all dirty that they may, and
    /// write back so many MiB each time. The limits in MiB at the end.
    fn run(division: &mut Division, rates: &[u64], count: u64) -> Vec<u64> {
        let mut uses = vec![MemoryUse::default(); rates.len()];
        let mut limits = Vec::new();
        for turn in 0..count {
            let now = Instant::ZERO + Nanos::from_millis(200 * turn);
            let budgets = division.divide(now, Bytes::from_mib(100), &uses);
            limits = budgets.iter().map(|budget| budget.device.limit.get() / MIB).collect();
            assert!(limits.iter().sum::<u64>() <= 100, "{limits:?}");
            for ((used, budget), rate) in uses.iter_mut().zip(budgets).zip(rates) {
                used.written_back += Bytes::from_mib(*rate);
                used.dirty = if *rate > 0 { budget.device.limit } else { Bytes::ZERO };
                let (background, limit) = (budget.device.background, budget.device.limit);
                assert!(background < limit || limit == Bytes::ZERO, "{budget:?}");
            }
        }
        limits
    }

    #[test]
    fn a_device_alone_gets_all_and_no_more_than_its_own_limit() {
        assert_eq!(run(&mut division(&[None]), &[10], 5), [100]);
        assert_eq!(run(&mut division(&[Some(30)]), &[10], 5), [30]);
        assert_eq!(run(&mut division(&[Some(3_000)]), &[10], 5), [100]);
        let capped = DeviceConfig {
            dirty_background: Some(Bytes::from_mib(7)),
            ..division(&[None]).configs.remove(0)
        };
        let budgets = Division::new(vec![capped]).divide(
            Instant::ZERO,
            Bytes::from_mib(100),
            &[MemoryUse::default()],
        );
        assert_eq!(budgets[0].device.background, Bytes::from_mib(7));
    }

    #[test]
    fn every_device_has_its_floor_from_the_first_look_on() {
        // An eighth: nobody knows yet which of them is slow.
        let limits = run(&mut division(&[None, None, None]), &[0, 0, 0], 1);
        assert_eq!(limits, [12, 12, 12]);
        assert_eq!(run(&mut division(&[None, None, None]), &[0, 0, 0], 100), limits);
    }

    #[test]
    fn who_writes_more_gets_more_and_the_idle_keep_something() {
        let limits = run(&mut division(&[None, None, None]), &[30, 10, 0], 100);
        assert!(limits[0] > limits[1] && limits[1] > limits[2] && limits[2] >= 5, "{limits:?}");
        let limits = run(&mut division(&[Some(8), None]), &[20, 20], 100);
        assert!(limits[0] == 8 && limits[1] >= 91, "{limits:?}");
    }

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
    fn a_device_that_begins_alone_has_more_with_each_look() {
        let mut division = division(&[None, None, None]);
        let mut uses = vec![MemoryUse::default(); 3];
        let mut limits = Vec::new();
        for turn in 0..4 {
            let now = Instant::ZERO + Nanos::from_millis(turn);
            let budgets = division.divide(now, Bytes::from_mib(96), &uses);
            limits.push(budgets[1].device.limit.get() / MIB);
            uses[1].dirty = Bytes(budgets[1].device.limit.get() / 2);
        }
        assert_eq!(limits, [12, 24, 48, 72]);
    }

    #[test]
    fn what_the_kernel_does_is_told_by_its_thresholds() {
        let mib = Bytes::from_mib;
        let of = |dirty| Kernel::of(&KernelDirty { dirty, background: mib(100), limit: mib(200) });
        assert_eq!((of(mib(100)), of(mib(101))), (Kernel::Quiet, Kernel::WritesBack));
        assert_eq!((of(mib(150)), of(mib(151))), (Kernel::WritesBack, Kernel::Throttles));
    }
}
