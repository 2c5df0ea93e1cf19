//! A mount for which no scheduler is named: the default serves by class, so `ionice` works, and it
//! finds out what the disk is.

use crate::{Mounted, emulate, wait_for};
use iopace_core::sched;
use iopace_core::trace::Event;
use iopace_daemon::device::DeviceEvent;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 8192;

/// Busy readers: some of them always have requests that the idle one has to wait for, also on a
/// machine that lets them ask again late.
const BUSY: u64 = 8;

/// `IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)` of linux/ioprio.h.
const IDLE: libc::c_int = 3 << 13;

/// Says `true` when it goes, also if that is by a failure: nobody reads on then.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// As `ionice -c3` for the calling thread.
fn be_idle() {
    // SAFETY: the call takes three integers and changes the class of this thread only.
    let done = unsafe { libc::syscall(libc::SYS_ioprio_set, 1, 0, IDLE) };
    assert_eq!(done, 0, "ioprio_set: {}", std::io::Error::last_os_error());
}

/// Reads blocks all over the file, past the page cache, until it is over.
fn read_about(file: &File, seed: u64, is_over: &AtomicBool) {
    let (mut block, mut at) = ([0; BLOCK as usize], seed);
    while !is_over.load(Relaxed) {
        // A stride that is prime to the number of blocks.
        at = (at + 3_571) % BLOCKS;
        file.read_exact_at(&mut block, at * BLOCK).expect("read");
    }
}

#[test]
fn ionice_works_after_a_mount_without_options() {
    let prepare = |below: &std::path::Path| {
        fs::write(below.join("large"), vec![7; (BLOCK * BLOCKS) as usize]).expect("written");
    };
    let mounted = Mounted::over(prepare, |config| emulate(&mut config.mounts[0], "hdd-sata-250g"));
    let Some(mounted) = mounted else { return };
    let engine = || mounted.device().status().engine;
    assert!(std::ptr::eq(engine().algorithm, sched::recommended()) && !engine().inserted);
    assert_eq!(engine().disk.and_then(|disk| disk.has_head), None, "it has not asked it yet");
    let mut options = File::options();
    let options = options.read(true).custom_flags(libc::O_DIRECT);
    let file = options.open(mounted.at("large")).expect("opened");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        for seed in 0..BUSY {
            let (file, is_over) = (&file, &is_over);
            scope.spawn(move || read_about(file, seed * 1_000, is_over));
        }
        scope.spawn(|| {
            be_idle();
            read_about(&file, 7, &is_over);
        });
        // It is of class idle to the scheduler, has to wait for the others, and is not forgotten.
        let counters = sched::recommended().counters.iter();
        let idle = counters.map(|counter| counter.name).position(|name| name == "idle_served");
        let idle = idle.expect("a counter of it");
        wait_for("an idle request that waited", || engine().counters[idle] > 0);
        assert!(mounted.daemon().groups().find("/idle").is_ok());
        wait_for("the head", || engine().disk.and_then(|disk| disk.has_head) == Some(true));
        let is_judged = |event: &DeviceEvent| {
            matches!(event, DeviceEvent::Engine(Event::DiskJudged { has_head: true, .. }))
        };
        wait_for("an event of it", || {
            mounted.device().status().events.iter().any(|logged| is_judged(&logged.event))
        });
    });
    let disk = engine().disk.expect("an opinion");
    assert!(disk.is_learned && disk.seek > iopace_core::time::Nanos::ZERO, "{disk:?}");
}
