//! A load for tests of disk models: a fixed number of commands always outstanding.

use crate::disk::{Command, Disk};
use iopace_core::request::{Extent, Op};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;

/// What a load has reached.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) per_second: u64,
    pub(crate) mb_per_second: u64,
    pub(crate) mean: Nanos,
}

/// Keeps `depth` commands of `len` bytes outstanding until `count` are done.
pub(crate) fn closed_loop(
    disk: &mut dyn Disk,
    op: Op,
    len: u64,
    depth: u64,
    count: u64,
    offset: impl Fn(u64) -> u64,
) -> Reached {
    let mut now = Instant::ZERO;
    let mut submitted = 0;
    let mut submit = |disk: &mut dyn Disk, now: Instant| {
        let offset = offset(submitted) % (disk.capacity().get() - len);
        let extent = Extent::new(Bytes(offset), Bytes(len)).expect("on the disk");
        disk.submit(now, Command { id: submitted, op, extent, fua: false });
        submitted += 1;
    };
    (0..depth).for_each(|_| submit(disk, now));
    let mut done = 0;
    while done < count {
        now = now.max(disk.next());
        while disk.poll(now).is_some() {
            done += 1;
            submit(disk, now);
        }
    }
    let nanos = now.0.max(1);
    let per_second = (u128::from(count) * 1_000_000_000 / u128::from(nanos)) as u64;
    Reached {
        per_second,
        mb_per_second: per_second * len / 1_000_000,
        mean: Nanos(nanos / count * depth),
    }
}

/// A place of a disk of 250 GB by number; every place is as likely as any other.
pub(crate) fn scattered(i: u64) -> u64 {
    // The finaliser of SplitMix64.
    let x = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) % 250_000_000_000 / 4096 * 4096
}
