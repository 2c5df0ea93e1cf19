//! What a file device says of itself.

use super::super::DeviceInfo;
use crate::below::Below;
use crate::config::DeviceConfig;
use crate::io::file::File;
use crate::limits::DIRECT_BLOCK_BYTES;
use iopace_core::sched;
use std::path::Path;

pub(super) fn info(
    config: &DeviceConfig,
    path: &Path,
    file: &File,
    io_engine: &'static str,
) -> DeviceInfo {
    let block = if file.is_direct() { DIRECT_BLOCK_BYTES as u32 } else { 1 };
    DeviceInfo {
        name: config.name.clone(),
        kind: kind(file),
        path: Some(path.to_path_buf()),
        model: None,
        size_bytes: file.size_bytes(),
        read_only: config.read_only,
        direct: config.direct,
        rotational: is_rotational(path).unwrap_or(false),
        io_engine,
        base: sched::recommended().name,
        block_bytes: (block, 4096),
        bytes_s_max: None,
        below: Below::lowest(path),
    }
}

fn kind(file: &File) -> &'static str {
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
