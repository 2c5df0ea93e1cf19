//! Whether closing a file can tell anything.
//!
//! A file system on a disk of this machine has nothing to say at `close`: what could not be written
//! is told by `fsync`. One behind a network may, and writes back then. The kernel need not ask the
//! former, which is a request less for each file that is written.

use crate::mount_table::{self, Entry};
use std::path::Path;

/// Types of file systems without a `flush` of their own (`file_operations`), or with one that never
/// fails (f2fs).
const SILENT: [&str; 12] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "tmpfs", "ramfs", "vfat",
    "exfat",
];

/// Whether it can for any file in `directory`, as far as the table of mounts says.
pub(super) fn matters(directory: &Path) -> bool {
    mount_table::read().map_or(true, |table| matters_in(&table, directory))
}

fn matters_in(table: &[Entry], directory: &Path) -> bool {
    let own = mount_table::covering(table, directory);
    let below = table.iter().filter(|entry| entry.mountpoint.starts_with(directory));
    let mut all = own.into_iter().chain(below);
    own.is_none() || all.any(|entry| !SILENT.contains(&entry.fs_type.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mountpoint: &str, fs_type: &str) -> Entry {
        Entry {
            id: 40,
            parent: 27,
            root: "/".into(),
            device: (0, 1),
            mountpoint: mountpoint.into(),
            fs_type: fs_type.into(),
            source: "none".into(),
            options: String::new(),
        }
    }

    #[test]
    fn a_network_file_system_at_or_below_the_directory_is_asked() {
        let mut table = vec![entry("/", "ext4"), entry("/srv", "xfs"), entry("/net", "nfs4")];
        assert!(!matters_in(&table, Path::new("/srv/data")));
        assert!(!matters_in(&table, Path::new("/srv")));
        assert!(matters_in(&table, Path::new("/net/me")));
        assert!(matters_in(&table, Path::new("/")), "there is one below");
        table.push(entry("/srv/data/remote", "fuse.sshfs"));
        assert!(matters_in(&table, Path::new("/srv/data")));
        assert!(!matters_in(&table, Path::new("/srv/data2")));
        assert!(matters_in(&[], Path::new("/srv")), "nothing is known");
    }
}
