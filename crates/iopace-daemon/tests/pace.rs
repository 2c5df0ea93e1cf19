//! Buffered writes in a running daemon, while policies change and writes fail.

mod support;

use iopace_core::engine::Control;
use iopace_core::units::Bytes;
use iopace_core::{pace, window};
use iopace_daemon::config::{Backend, DaemonConfig};
use iopace_daemon::device::DeviceStatus;
use iopace_nbd::Error as NbdError;
use iopace_nbd::client::Failure;
use iopace_suites::random::Random;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use support::{Running, wait_for};

const SIZE: u64 = 64 << 20;

/// An image file through the page cache.
fn start(change: impl FnOnce(&mut DaemonConfig)) -> Running {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Running::image(&folder, SIZE);
    Running::start_in(folder, Backend::Path(path), change)
}

fn status(running: &Running) -> DeviceStatus {
    running.daemon.devices()[0].status()
}

/// Fills a block with what only this write of this block can have.
fn pattern(block: u64, version: u64, into: &mut [u8]) {
    let mut random = Random(block << 32 | version);
    for word in into.chunks_exact_mut(8) {
        word.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
    }
}

#[test]
fn policies_are_exchanged_under_load_and_no_write_is_lost() {
    const BLOCK: usize = 16 * 1024;
    const BLOCKS: u64 = 256;
    // Little enough that writers are paced and stand at the limit.
    let running = start(|config| {
        config.devices[0].dirty_limit = Some(Bytes::from_mib(2));
    });
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..4u64 {
            let (running, stop, count) = (&running, &stop, &count);
            scope.spawn(move || {
                let (mut client, mut random) = (running.client(), Random(number + 1));
                let mut versions = [0u64; BLOCKS as usize];
                let (mut data, mut back) = (vec![0; BLOCK], vec![0; BLOCK]);
                while !stop.load(Relaxed) {
                    let block = random.below(BLOCKS);
                    let offset = (number * BLOCKS + block) * BLOCK as u64;
                    versions[block as usize] += 1;
                    pattern(offset, versions[block as usize], &mut data);
                    client.write(offset, &data, random.below(16) == 0).expect("write");
                    if random.below(8) == 0 {
                        client.read(offset, &mut back).expect("read");
                        assert!(back == data, "client {number}: block {block}");
                    }
                    if random.below(256) == 0 {
                        client.flush().expect("flush");
                    }
                    count.fetch_add(1, Relaxed);
                }
                let written = (0..BLOCKS).zip(versions).filter(|(_, version)| *version > 0);
                for (block, version) in written {
                    let offset = (number * BLOCKS + block) * BLOCK as u64;
                    pattern(offset, version, &mut data);
                    client.read(offset, &mut back).expect("read");
                    assert!(back == data, "client {number}: block {block}");
                }
                client.disconnect().expect("orderly");
            });
        }
        let device = &running.daemon.devices()[0];
        for turn in 0..400 {
            let before = count.load(Relaxed);
            let pace = pace::REGISTRY[turn % pace::REGISTRY.len()];
            let window = window::REGISTRY[turn / 3 % window::REGISTRY.len()];
            device.control(Control::Pace(pace)).expect("exchanged");
            device.control(Control::WindowPolicy(window)).expect("exchanged");
            device.control(Control::Window(1 + turn as u32 % 32)).expect("set");
            wait_for("the next write", || count.load(Relaxed) > before + 5);
        }
        stop.store(true, Relaxed);
    });
    wait_for("the end of all writes", || status(&running).engine.paced_count == 0);
    running.client().flush().expect("flush");
    let status = status(&running);
    assert_eq!(status.stats.write.failed_count, 0);
    assert!(status.buffered_writes_count > 0);
    let memory = status.memory.expect("buffered");
    assert_eq!(memory.dirty.device, Bytes::ZERO, "a flush leaves nothing dirty");
}

/// A file in memory that will not grow.
struct Sealed(std::os::fd::OwnedFd);

impl Sealed {
    fn new() -> Sealed {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("sealed", flags).expect("memory");
        ftruncate(&file, SIZE).expect("sized");
        Sealed(file)
    }

    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    fn seal_at(&self, size: u64) {
        ftruncate(&self.0, size).expect("cut");
        fcntl_add_seals(&self.0, SealFlags::GROW).expect("sealed");
    }
}

#[test]
fn a_write_that_cannot_be_made_is_refused_and_the_others_go_on() {
    let file = Sealed::new();
    let running = Running::start(Backend::Path(file.path()), |_| {});
    let mut client = running.client();
    client.write(0, &[1; 4096], false).expect("write");
    file.seal_at(3 << 19);
    // In several portions: the first can be written, the second cannot, the third is not tried.
    let refused = client.write(0, &vec![2; 3 << 20], false);
    assert!(matches!(refused, Err(Failure::Refused(NbdError::NotPermitted))), "{refused:?}");
    let refused = client.write(2 << 20, &[2; 4096], false);
    assert!(matches!(refused, Err(Failure::Refused(NbdError::NotPermitted))), "{refused:?}");
    client.write(4096, &[3; 4096], false).expect("the next one");
    client.flush().expect("flush");
    let mut back = [0; 12288];
    client.read(0, &mut back).expect("read");
    assert!(back[..4096] == [2; 4096] && back[4096..8192] == [3; 4096] && back[8192] == 2);
    let status = status(&running);
    assert_eq!((status.engine.paced_count, status.buffered_writes_count), (0, 2));
}

#[test]
fn devices_share_what_may_be_dirty() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Running::image(&folder, SIZE);
    let second = folder.path().join("second.img");
    std::fs::File::create(&second).and_then(|file| file.set_len(SIZE)).expect("sparse");
    let third = folder.path().join("third.img");
    std::fs::File::create(&third).and_then(|file| file.set_len(SIZE)).expect("sparse");
    let running = Running::start_in(folder, Backend::Path(path), |config| {
        let mut device = config.devices[0].clone();
        (device.name, device.backend) = ("second".into(), Backend::Path(second));
        device.dirty_limit = Some(Bytes::from_mib(3));
        device.dirty_background = Some(Bytes::from_mib(1));
        config.devices.push(device.clone());
        (device.name, device.backend) = ("third".into(), Backend::Path(third));
        (device.dirty_limit, device.dirty_background, device.direct) = (None, None, true);
        config.devices.push(device);
    });
    let of = |at: usize| running.daemon.devices()[at].status().memory;
    let (first, second) = (of(0).expect("buffered"), of(1).expect("buffered"));
    assert!(of(2).is_none(), "direct");
    let (first, second) = (first.thresholds, second.thresholds);
    assert!(second.limit <= Bytes::from_mib(3) && second.background <= Bytes::from_mib(1));
    assert!(first.limit >= Bytes::from_mib(1) && first.background < first.limit);
    let kernel = iopace_daemon::kernel::KernelDirty::read().expect("Linux");
    assert!(first.limit + second.limit <= kernel.freerun(), "{first:?} {second:?} {kernel:?}");
    // Who writes gets more in time.
    let mut client = running.client();
    let data = vec![1; 1 << 20];
    wait_for("a larger part", || {
        client.write(0, &data, false).expect("write");
        client.flush().expect("flush");
        of(0).expect("buffered").thresholds.limit > first.limit
    });
}
