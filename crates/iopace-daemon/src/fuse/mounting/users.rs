//! All processes that use something.

use super::budget::Bounds;
use super::busy::{Scope, User, numbers};
use super::look::{Looked, look};
use crate::limits::{BUSY_FILES_MAX, BUSY_LOOK_PATIENCE, BUSY_SHOWN_MAX};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// All files of the file system with a device number.
pub(super) struct Device(pub(super) (u32, u32));

impl Scope for Device {
    fn has_file(&mut self, _process: &Path, link: &Path) -> bool {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        statx(CWD, link, flags, StatxFlags::TYPE)
            .is_ok_and(|found| (found.stx_dev_major, found.stx_dev_minor) == self.0)
    }

    fn has_mapping(&mut self, _process: &Path, device: (u32, u32), _path: &[u8]) -> bool {
        device == self.0
    }
}

/// Block devices by their numbers, opened as what they are.
struct BlockDevices(Vec<(u32, u32)>);

impl Scope for BlockDevices {
    fn has_file(&mut self, _process: &Path, link: &Path) -> bool {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        statx(CWD, link, flags, StatxFlags::TYPE).is_ok_and(|found| {
            let number = (found.stx_rdev_major, found.stx_rdev_minor);
            let kind = FileType::from_raw_mode(found.stx_mode.into());
            kind == FileType::BlockDevice && self.0.contains(&number)
        })
    }

    fn has_mapping(&mut self, _process: &Path, _device: (u32, u32), _path: &[u8]) -> bool {
        false
    }
}

/// The processes that have one of these block devices open, past all file systems, as far as all
/// processes can be looked at in time.
pub fn openers_of_disks(numbers: Vec<(u32, u32)>) -> Looked {
    all(BlockDevices(numbers), BUSY_LOOK_PATIENCE)
}

/// The processes that use the file system with this device number, as far as all processes can be
/// looked at in time.
pub fn users(device: (u32, u32)) -> Looked {
    all(Device(device), BUSY_LOOK_PATIENCE)
}

/// The processes that have this very path open, as a device node; at most ten of them.
pub fn openers(path: &Path) -> Vec<User> {
    let has = |pid: u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut open = open.take(BUSY_FILES_MAX);
        open.any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == path))
    };
    let users = processes().filter(|pid| has(*pid)).map(|pid| User::new(pid, BTreeSet::new()));
    users.take(BUSY_SHOWN_MAX).collect()
}

/// All processes that use something of it, but this one.
pub(super) fn all(scope: impl Scope + Send + 'static, patience: Duration) -> Looked {
    look(scope, processes().collect(), Bounds::default(), patience)
}

fn processes() -> impl Iterator<Item = u32> {
    numbers(Path::new("/proc")).filter(|pid| *pid != std::process::id())
}
