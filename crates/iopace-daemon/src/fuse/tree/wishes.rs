//! What is asked of the kernel when it begins to ask us.

use super::Options;
use crate::limits::{FUSE_BACKGROUND_MAX, FUSE_WRITE_BYTES_MAX};
use iopace_fuse::{InitFlags, KernelConfig};

/// What we ask of the kernel, each of it where it is there.
///
/// Not `FUSE_ATOMIC_O_TRUNC`: the kernel would go on showing a set-user-id bit that such an open
/// has taken away, as its reply has no attributes. Truncating comes as a request of its own.
const CAPABILITIES: [InitFlags; 12] = [
    InitFlags::FUSE_POSIX_LOCKS,
    InitFlags::FUSE_FLOCK_LOCKS,
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_HAS_IOCTL_DIR,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_MAX_PAGES,
];

/// Asks for all of it.
pub(super) fn ask(options: &Options, config: &mut KernelConfig) {
    for capability in CAPABILITIES {
        // What an old kernel does not have it does without.
        let _ = config.add_capabilities(capability);
    }
    let caches = if options.alone {
        [InitFlags::FUSE_EXPLICIT_INVAL_DATA, InitFlags::FUSE_CACHE_SYMLINKS]
    } else {
        [InitFlags::FUSE_AUTO_INVAL_DATA; 2]
    };
    for capability in caches {
        let _ = config.add_capabilities(capability);
    }
    let _ = config.set_max_write(FUSE_WRITE_BYTES_MAX);
    let _ = config.set_max_background(FUSE_BACKGROUND_MAX);
}
