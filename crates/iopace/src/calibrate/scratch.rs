//! A scratch file in a directory: written, so that reads reach the disk, and nameless, so that it
//! goes with the process whatever happens.

use super::say;
use crate::cli::CalibrateArgs;
use crate::output::Failure;
use crate::units;
use iopace_core::time::Nanos;
use iopace_daemon::clock;
use iopace_daemon::measured::RealDisk;
use iopace_disk::calibrate::SIZE_MIN;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Written at a time; not zeroes, which some disks do not store.
const PIECE: usize = 1 << 20;

/// Part of the time that is spent on writing it.
const SHARE: u64 = 5;

/// Part of the free space that it takes at most.
const FREE_PART: u64 = 4;

/// Makes it and opens it.
pub(super) fn make(args: &CalibrateArgs, stop: &Arc<AtomicBool>) -> Result<RealDisk, Failure> {
    let name = args.path.display();
    let fail = |what: &str, error: std::io::Error| {
        Failure::new(format!("{name}: the scratch file cannot be {what}: {error}"))
    };
    let free = rustix::fs::statvfs(&args.path).map(|stat| stat.f_bavail * stat.f_frsize);
    let free = free.map_err(|error| fail("placed", error.into()))?;
    let size = args.size.get().min(free / FREE_PART);
    if size < SIZE_MIN.get() {
        return Err(Failure::usage(format!(
            "{name}: a scratch file of {} is too small or takes more than a quarter of the free \
             space: at least {SIZE_MIN} are needed",
            units::size(args.size.get())
        )));
    }
    let mut file = tempfile::tempfile_in(&args.path).map_err(|error| fail("made", error))?;
    let piece: Vec<u8> =
        (0..PIECE as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let begin = clock::now();
    let mut written = 0;
    while written < size {
        file.write_all(&piece).map_err(|error| fail("written", error))?;
        written += PIECE as u64;
        if written.is_multiple_of(SIZE_MIN.get()) {
            file.sync_data().map_err(|error| fail("written", error))?;
            say(&format!("scratch file: {}", units::size(written)));
            let is_late = clock::now().since(begin) > Nanos(args.time.0 / SHARE);
            if is_late || stop.load(Relaxed) {
                break;
            }
        }
    }
    file.sync_data().map_err(|error| fail("written", error))?;
    // It has no name; the process has it open as long as this takes.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    RealDisk::open(Path::new(&path), true, stop.clone()).map_err(|error| fail("opened", error))
}
