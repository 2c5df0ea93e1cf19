//! What the kernel counts of the disk below a device.

use crate::api::KernelReport;
use crate::below::Below;
use iopace_core::shadow::Recorded;
use iopace_core::time::Nanos;
use std::path::Path;

/// Bytes of a sector in the kernel's counters, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;

/// Counters of a disk since its start (`Documentation/block/stat.rst`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) ops_count: u64,
    pub(super) merged_count: u64,
    pub(super) sectors: u64,
    pub(super) in_flight_count: u64,
    pub(super) busy_ms: u64,
    pub(super) queue_ms: u64,
}

impl Counters {
    /// As they stand in `stat`; none if it is not such a text.
    pub(super) fn parse(text: &str) -> Option<Counters> {
        let all: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        let all = all.filter(|all| all.len() >= 11)?;
        // Discards and flushes came with Linux 4.18 and 5.5.
        let later = |place: usize| all.get(place).copied().unwrap_or(0);
        Some(Counters {
            ops_count: all[0] + all[4] + later(11) + later(15),
            merged_count: all[1] + all[5] + later(12),
            sectors: all[2] + all[6],
            in_flight_count: all[8],
            busy_ms: all[9],
            queue_ms: all[10],
        })
    }
}

/// A disk of the kernel, before and after.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(super) name: String,
    pub(super) scheduler: String,
    /// The largest request that the disk takes: larger ones are divided by the kernel.
    pub(super) request_bytes_max: u64,
    pub(super) before: Counters,
    pub(super) after: Counters,
}

impl Disk {
    /// The disk below a file or block device, as it stands; none if the kernel does not tell.
    pub(super) fn below(path: &Path) -> Option<Disk> {
        let disk = Below::lowest(path)?;
        let read = |name: &str| disk.attribute(name);
        let before = Counters::parse(&read("stat")?)?;
        let kib: Option<u64> = read("queue/max_sectors_kb").and_then(|kib| kib.trim().parse().ok());
        Some(Disk {
            name: disk.name(),
            scheduler: disk.scheduler().map(|chosen| chosen.name).unwrap_or_default(),
            request_bytes_max: kib.unwrap_or(u64::MAX >> 10) << 10,
            before,
            after: before,
        })
    }

    /// The same disk, later.
    pub(super) fn again(mut self, path: &Path) -> Option<Disk> {
        let later = Disk::below(path).filter(|later| later.name == self.name)?;
        self.after = later.before;
        Some(self)
    }

    /// What happened between, beside what iopace asked for.
    pub(super) fn report(&self, ended: &[Recorded], over: Nanos) -> KernelReport {
        let (before, after) = (&self.before, &self.after);
        let delta = |of: fn(&Counters) -> u64| of(after).saturating_sub(of(before));
        let mut own = (0_u64, 0_u64);
        for one in ended.iter().filter(|one| one.was_at_disk()) {
            let size = one.submit.extent.len().get();
            // Each piece has a time of its own there.
            let pieces = size.div_ceil(self.request_bytes_max.max(1)).max(1);
            own.0 = own.0.saturating_add(size);
            own.1 = own.1.saturating_add(one.took().as_nanos().saturating_mul(pieces));
        }
        let queue_ns = delta(|all| all.queue_ms).saturating_mul(1_000_000);
        let bytes = delta(|all| all.sectors).saturating_mul(SECTOR_BYTES);
        let busy_ns = delta(|all| all.busy_ms).saturating_mul(1_000_000);
        let busy = crate::figures::permille(busy_ns.into(), over.as_nanos().into());
        KernelReport {
            disk: self.name.clone(),
            scheduler: self.scheduler.clone(),
            ops_count: delta(|all| all.ops_count),
            merged_count: delta(|all| all.merged_count),
            bytes,
            own_bytes: own.0.min(bytes),
            queue_ns,
            own_queue_ns: own.1.min(queue_ns),
            in_flight_count: after.in_flight_count,
            busy_permille: busy.min(1_000),
        }
    }
}
