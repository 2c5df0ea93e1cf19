//! How far the kernel reads ahead through a mount: as much as the disk below reads in 25 ms.
//!
//! # Model
//! Where a program reads in order, the kernel asks for its whole read-ahead at once, and the disk
//! is not taken back from a request that it is at: a commit waits for the rest of it, whatever the
//! scheduler thinks of the reader. Read-ahead of 2 MiB is 20 ms of most disks, and a second of a
//! disk that reads 2 MiB/s. So once a second:
//! ```text
//!  rate       = bytes moved / time that the disk was busy with them
//!  read-ahead = rate x 25 ms, from 128 KiB to 2 MiB, in steps of 128 KiB
//! ```
//! Each request at a disk with a head costs a seek first, so the rate grows with the read-ahead,
//! up to the size that takes 25 ms with its seek: the steps end there.
//!
//! # Limits
//! Requests that are at the disk together are taken for one after the other, as long as that is
//! possible in the time that went by, and a flush for as much work: rates are too low rather than
//! too high, so the better of two in a row counts. A file keeps the read-ahead with which it was
//! opened.
//!
//! # Sources
//! SQLite commits beside `iopace nice tar` on a disk of 20 MiB/s and 120 requests/s without a head,
//! in 12 s (231 alone): 89 with 2 MiB of read-ahead, 123 with 512 KiB, 128 with 128 KiB, by which
//! tar has a third of its speed. On one of 2 MiB/s: 5 with 2 MiB, 30 with 128 KiB.

use crate::clock;
use crate::device::Device;
use crate::limits::{FUSE_DIRECT_READ_MIN, FUSE_READ_AHEAD_KB, FUSE_READ_AHEAD_MIN_KB};
use iopace_core::request::GroupId;
use iopace_core::stats::OpCounts;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Time for which the disk may be busy with one read-ahead: three seeks of a disk with a head, so
/// that seeks take less than half of the time that it reads for.
const WORTH: Nanos = Nanos::from_millis(25);

/// The disk was busy for so long before its rate is believed: five requests of 100 ms.
const BUSY_MIN: Nanos = Nanos::from_millis(500);

/// Read-ahead is a multiple of this: as many pages as it says, however large these are.
const STEP_KB: u64 = 128;

/// Looks after the read-ahead of a mount, from when it is mounted.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead(Mutex<Option<Adaptation>>);

impl ReadAhead {
    /// Sets the read-ahead of a mount that begins, by the device number of its files, and goes on
    /// from there. The kernel keeps its own where it may not be told (not as root).
    pub(crate) fn begin(&self, (major, minor): (u32, u32)) {
        let path = PathBuf::from(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"));
        match Adaptation::begin(path, clock::now()) {
            Ok(adaptation) => *self.state() = Some(adaptation),
            Err(error) => tracing::debug!(%error, "the kernel's read-ahead stays as it is"),
        }
    }

    /// Takes note of what the device has done, and sets another read-ahead if that is due.
    pub(crate) fn look(&self, device: &dyn Device) {
        let mut state = self.state();
        let Some(adaptation) = &mut *state else { return };
        let mut counts = None;
        device.look(&mut |engine, _| {
            counts = engine.account(GroupId::ROOT).map(|account| account.counts.clone());
        });
        let Some(counts) = counts else { return };
        match adaptation.look(clock::now(), counts) {
            Ok(true) => {}
            Ok(false) => {
                tracing::info!("read-ahead was set by somebody else, and stays so");
                *state = None;
            }
            Err(error) => {
                tracing::debug!(%error, "the kernel's read-ahead stays as it is");
                *state = None;
            }
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Option<Adaptation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The disk's work since the last decision, and the read-ahead that the kernel was told.
#[derive(Debug)]
struct Adaptation {
    /// The kernel's file for it.
    path: PathBuf,
    /// The read-ahead that was written there last.
    kib: u32,
    /// Counts of the device at the last look, and when that was.
    last: (Instant, OpCounts),
    moved: Bytes,
    busy: Nanos,
    /// The read-ahead that the rate before the last decision was worth.
    worth_kib: u32,
}

impl Adaptation {
    fn begin(path: PathBuf, now: Instant) -> io::Result<Adaptation> {
        let kib = FUSE_READ_AHEAD_KB;
        std::fs::write(&path, kib.to_string())?;
        let last = (now, OpCounts::default());
        Ok(Adaptation { path, kib, last, moved: Bytes::ZERO, busy: Nanos::ZERO, worth_kib: 0 })
    }

    /// The device has counted so much by now. False if somebody else has set the read-ahead.
    fn look(&mut self, now: Instant, counts: OpCounts) -> io::Result<bool> {
        let (then, before) = std::mem::replace(&mut self.last, (now, counts));
        let done = self.last.1.since(&before);
        // Of small reads nothing is learned: nobody has read ahead.
        let min = done.reads_count * u64::from(FUSE_DIRECT_READ_MIN);
        if done.reads_count == 0 || done.read.get() < min {
            return Ok(true);
        }
        self.moved += done.moved();
        self.busy += done.stages.disk.min(now.since(then));
        if self.busy < BUSY_MIN {
            return Ok(true);
        }
        let (moved, busy) = (std::mem::take(&mut self.moved), std::mem::take(&mut self.busy));
        let worth_kib = worth(moved, busy);
        let before_kib = std::mem::replace(&mut self.worth_kib, worth_kib);
        let kib = adapted(self.kib, worth_kib.max(before_kib));
        if kib == self.kib {
            return Ok(true);
        }
        let found = std::fs::read_to_string(&self.path)?;
        if found.trim().parse() != Ok(self.kib) {
            return Ok(false);
        }
        std::fs::write(&self.path, kib.to_string())?;
        tracing::debug!(kib, was = self.kib, "read-ahead of the mount");
        self.kib = kib;
        Ok(true)
    }
}

/// The read-ahead in KiB for a disk that has moved so much while it was busy for so long.
fn worth(moved: Bytes, busy: Nanos) -> u32 {
    let bytes = u128::from(moved.get()) * u128::from(WORTH.0) / u128::from(busy.0.max(1));
    let kib = u64::try_from(bytes >> 10).unwrap_or(u64::MAX) / STEP_KB * STEP_KB;
    let kib = u32::try_from(kib).unwrap_or(u32::MAX);
    kib.clamp(FUSE_READ_AHEAD_MIN_KB, FUSE_READ_AHEAD_KB)
}

/// The read-ahead to be set, where the disk is worth so much: the present one unless that differs
/// by a third, so that it does not follow every chance.
fn adapted(present_kib: u32, worth_kib: u32) -> u32 {
    let is_near = worth_kib.abs_diff(present_kib) * 3 < present_kib;
    // At the top there is nothing to swing to: the last step is taken however small it is.
    if is_near && worth_kib != FUSE_READ_AHEAD_KB { present_kib } else { worth_kib }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::request::StageTimes;

    const MIB: u64 = 1 << 20;

    fn rate(present_kib: u32, mib_s: u64) -> u32 {
        adapted(present_kib, worth(Bytes(mib_s * MIB), Nanos::from_secs(1)))
    }

    #[test]
    fn it_is_25_ms_of_the_disk_within_its_bounds() {
        assert_eq!(rate(2048, 2), 128);
        assert_eq!((rate(2048, 20), rate(128, 20)), (512, 512));
        assert_eq!(rate(2048, 50), 1280);
        assert_eq!((rate(128, 100), rate(2048, 100)), (2048, 2048));
        assert_eq!(worth(Bytes(1), Nanos::from_secs(1)), 128);
        assert_eq!(worth(Bytes(u64::MAX), Nanos(0)), 2048);
    }

    #[test]
    fn a_rate_that_differs_little_changes_nothing() {
        assert_eq!((rate(512, 28), rate(512, 17)), (512, 512));
        assert_eq!((rate(512, 30), rate(512, 12)), (768, 256));
        assert_eq!(rate(1664, 100), 2048);
    }

    #[test]
    fn a_disk_with_a_head_gets_the_size_that_takes_25_ms() {
        // Seeks of 8 ms and 100 MB/s: 17 ms are left for 1660 KiB.
        let mut kib = 128;
        for _ in 0..10 {
            let bytes = u64::from(kib) << 10;
            kib = adapted(kib, worth(Bytes(bytes), Nanos(8_000_000 + bytes * 10)));
        }
        assert!((1152..=1664).contains(&kib), "{kib}");
    }

    /// A device that has read so many requests, and how long it took for them.
    fn counts(reads_count: u64, read: u64, disk: Nanos) -> OpCounts {
        let stages = StageTimes { disk, ..StageTimes::default() };
        OpCounts { reads_count, read: Bytes(read), stages, ..OpCounts::default() }
    }

    #[test]
    fn the_kernel_is_told_and_somebody_else_is_left_alone() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("read_ahead_kb");
        let told = || std::fs::read_to_string(&path).expect("it is there");
        let at = |seconds| Instant(Nanos::from_secs(seconds).0);
        let mut adaptation = Adaptation::begin(path.clone(), at(1)).expect("a file");
        assert_eq!(told(), "2048");
        let ms = Nanos::from_millis;
        let mut look = |second, counts| adaptation.look(at(second), counts).expect("a file");
        // Small reads say nothing.
        assert!(look(2, counts(100, 100 << 12, ms(1_000))));
        assert_eq!(told(), "2048");
        // A second is all of a second, however many were at the disk.
        assert!(look(3, counts(102, (100 << 12) + 2 * MIB, ms(5_000))));
        assert_eq!(told(), "128");
        // Not yet half a second of a faster disk; then more than that.
        assert!(look(4, counts(202, 42 * MIB, ms(5_400))));
        assert_eq!(told(), "128");
        assert!(look(5, counts(302, 142 * MIB, ms(6_400))));
        assert_eq!(told(), "2048");
        // One slow second is no slow disk, two are.
        assert!(look(6, counts(312, 152 * MIB, ms(7_400))));
        assert_eq!(told(), "2048");
        assert!(look(7, counts(322, 162 * MIB, ms(8_400))));
        assert_eq!(told(), "256");
        std::fs::write(&path, "4096\n").expect("a file");
        assert!(!look(8, counts(422, 362 * MIB, ms(9_400))));
        assert_eq!(told(), "4096\n");
    }
}
