//! What the kernel says of its own dirty memory.
//!
//! The kernel paces whoever calls `write`, and here that is the daemon, for all its clients at
//! once. It begins to do so above its free-run ceiling, the mean of its background and dirty
//! thresholds (`dirty_freerun_ceiling` in mm/page-writeback.c). Above its background threshold it
//! writes back by itself, in an order of its own, past every scheduler and limit here.
//!
//! So the daemon's own limit stays below the background threshold, less what others have dirty.
//! Where others leave little or nothing of that, the kernel is writing back anyway, and the daemon
//! takes half of what is left below the ceiling. If the daemon lives in a memory cgroup, the limit
//! is also below the background threshold of that.

use iopace_core::units::Bytes;
use std::fs;
use std::path::{Path, PathBuf};

/// Part of that which the daemon uses: the rest is for what it does not see coming,
/// within the 200 ms between two looks.
const USED_PERCENT: u64 = 90;

/// The background threshold of a memory cgroup, in percent of what it may use: the kernel's default
/// for the machine, which holds for cgroups as well.
const CGROUP_PERCENT: u64 = 10;

/// Least limit: below it nothing could be written in runs.
const LIMIT_MIN: Bytes = Bytes::from_mib(4);

/// Dirty memory as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelDirty {
    /// Dirty, or on its way to a disk; of everybody.
    pub dirty: Bytes,
    /// Above it the kernel writes back by itself.
    pub background: Bytes,
    /// More than this never is.
    pub limit: Bytes,
}

impl KernelDirty {
    /// Reads `/proc/vmstat`; `None` where there is none.
    pub fn read() -> Option<KernelDirty> {
        KernelDirty::parse(&fs::read_to_string("/proc/vmstat").ok()?)
    }

    fn parse(vmstat: &str) -> Option<KernelDirty> {
        let page = rustix::param::page_size() as u64;
        let pages = |name: &str| {
            let line =
                vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
            line.trim().parse::<u64>().ok()
        };
        let bytes = |name: &str| Some(Bytes(pages(name)?.saturating_mul(page)));
        Some(KernelDirty {
            dirty: bytes("nr_dirty")? + bytes("nr_writeback")?,
            background: bytes("nr_dirty_background_threshold")?,
            limit: bytes("nr_dirty_threshold")?,
        })
    }

    /// Above it the kernel makes writers sleep: its free-run ceiling.
    pub fn freerun(&self) -> Bytes {
        Bytes((self.background.0 / 2).saturating_add(self.limit.0 / 2))
    }

    /// How much the daemon may have dirty, if `own` of what is dirty is its own.
    pub fn allowance(&self, own: Bytes, cgroup: Option<Bytes>) -> Bytes {
        let others = self.dirty - own;
        let quiet = self.background - others;
        let machine = quiet.0.max((self.freerun() - others).0 / 2);
        let group = cgroup.map_or(u64::MAX, |max| max.0 / 100 * CGROUP_PERCENT);
        Bytes(machine.min(group) / 100 * USED_PERCENT).max(LIMIT_MIN)
    }
}

/// The memory limit of the cgroup (version 2) that the daemon lives in, or of one above it.
pub fn cgroup_memory() -> Option<Bytes> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    smallest_limit(Path::new("/sys/fs/cgroup"), Path::new(path))
}

fn smallest_limit(root: &Path, path: &Path) -> Option<Bytes> {
    let limits = path.ancestors().filter_map(|part| {
        let file: PathBuf = root.join(part).join("memory.max");
        fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
    });
    limits.min().map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMSTAT: &str = "nr_free_pages 100\nnr_dirty 10\nnr_writeback 6\nnr_writeback_temp 9\n\
                          nr_dirty_threshold 200000\nnr_dirty_background_threshold 100000\n";

    #[test]
    fn vmstat_is_read_in_pages() {
        let page = rustix::param::page_size() as u64;
        let dirty = KernelDirty::parse(VMSTAT).expect("all is there");
        assert_eq!(dirty.dirty, Bytes(16 * page));
        assert_eq!(dirty.limit, Bytes(200_000 * page));
        assert_eq!(KernelDirty::parse("nr_dirty 1\n"), None);
        assert!(KernelDirty::read().is_some(), "this machine has /proc/vmstat");
    }

    #[test]
    fn the_allowance_is_what_others_leave_below_the_thresholds() {
        let mib = Bytes::from_mib;
        let kernel = KernelDirty { dirty: mib(150), background: mib(200), limit: mib(400) };
        let of = |own: u64, dirty: u64, cgroup| {
            let bytes = KernelDirty { dirty: mib(dirty), ..kernel }.allowance(mib(own), cgroup);
            bytes.get().div_ceil(1 << 20)
        };
        assert_eq!(of(150, 150, None), 180, "nine tenths of the background threshold");
        assert_eq!(of(50, 150, None), 90, "others have 100 MiB, and half of 200 MiB are left");
        assert_eq!(of(0, 250, None), 23, "half of what is left below the ceiling of 300 MiB");
        assert_eq!(of(0, 4000, None), 4, "the least");
        assert_eq!(of(50, 50, Some(mib(100))), 9, "a tenth of the cgroup's memory");
        assert_eq!(of(50, 30, None), 180, "more of ours than there is: some is written already");
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts() {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(root.path().join("a/b")).expect("made");
        assert_eq!(smallest_limit(root.path(), Path::new("a/b")), None);
        fs::write(root.path().join("a/memory.max"), "1000\n").expect("written");
        fs::write(root.path().join("a/b/memory.max"), "max\n").expect("written");
        assert_eq!(smallest_limit(root.path(), Path::new("a/b")), Some(Bytes(1000)));
    }
}
