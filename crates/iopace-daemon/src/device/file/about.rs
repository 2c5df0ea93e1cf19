//! What a file device says of itself.

use crate::below::Below;
use crate::io::file::File;
use std::path::Path;

/// The kind of its file, as [`super::super::DeviceInfo::kind`].
pub(super) fn kind(file: &File) -> &'static str {
    match (file.is_directory(), file.is_block()) {
        (true, _) => "directory",
        (_, true) => "block device",
        _ => "file",
    }
}

/// Whether the disk below has a head, as far as the kernel tells. A file server orders by itself.
pub(super) fn is_rotational(path: &Path) -> Option<bool> {
    let is_nfs = || {
        let found =
            rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type == rustix::fs::NFS_SUPER_MAGIC);
        found.then_some(false)
    };
    Below::of(path).and_then(|below| below.is_rotational()).or_else(is_nfs)
}
