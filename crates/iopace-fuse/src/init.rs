//! The agreement with the kernel when it begins to ask.

use crate::flags::InitFlags;
use crate::limits::WRITE_BYTES_MAX;
use crate::parse::{Init, Layout};
use crate::types::Version;
use crate::wire::output::InitOut;

/// The version that is spoken here. The kernel adapts to an older one.
pub(crate) const OUR_VERSION: Version = Version(7, 41);

/// The oldest kernel that is understood: from here on layouts are the same (Linux 3.15).
pub(crate) const OLDEST: Version = Version(7, 23);

/// Asked for wherever it is there: the extension by which flags from bit 32 on are told.
const ALWAYS: InitFlags = InitFlags::FUSE_ASYNC_READ
    .union(InitFlags::FUSE_BIG_WRITES)
    .union(InitFlags::FUSE_MAX_PAGES)
    .union(InitFlags::FUSE_INIT_EXT);

/// The settings that the file system may ask of the kernel.
#[derive(Clone, Debug)]
pub struct KernelConfig {
    kernel: Init,
    capabilities: InitFlags,
    requested: InitFlags,
    max_write: u32,
    max_readahead: u32,
    max_background: u16,
}

impl KernelConfig {
    pub(crate) fn new(kernel: Init) -> KernelConfig {
        let capabilities = InitFlags::from_bits_truncate(kernel.flags);
        KernelConfig {
            kernel,
            capabilities,
            requested: capabilities & ALWAYS,
            max_write: 128 << 10,
            max_readahead: kernel.max_readahead,
            max_background: 16,
        }
    }

    /// The capabilities that the kernel offers.
    pub fn capabilities(&self) -> InitFlags {
        self.capabilities
    }

    /// The kernel's version of the protocol.
    pub fn kernel_abi(&self) -> Version {
        self.kernel.version
    }

    /// Asks for these.
    ///
    /// # Errors
    /// The kernel does not have those that are returned; nothing is asked for.
    pub fn add_capabilities(&mut self, wanted: InitFlags) -> Result<(), InitFlags> {
        let missing = wanted.difference(self.capabilities);
        if !missing.is_empty() {
            return Err(missing);
        }
        self.requested |= wanted;
        Ok(())
    }

    /// Most bytes of one write. Returns the former value.
    ///
    /// # Errors
    /// The nearest value that may be.
    pub fn set_max_write(&mut self, bytes: u32) -> Result<u32, u32> {
        match bytes {
            0 => Err(1),
            _ if bytes > WRITE_BYTES_MAX => Err(WRITE_BYTES_MAX),
            _ => Ok(std::mem::replace(&mut self.max_write, bytes)),
        }
    }

    /// Most bytes that the kernel reads ahead. Returns the former value.
    ///
    /// # Errors
    /// The nearest value that may be.
    pub fn set_max_readahead(&mut self, bytes: u32) -> Result<u32, u32> {
        match bytes {
            0 => Err(1),
            _ if bytes > self.kernel.max_readahead => Err(self.kernel.max_readahead),
            _ => Ok(std::mem::replace(&mut self.max_readahead, bytes)),
        }
    }

    /// Most requests at a time that no program waits for (read-ahead, direct I/O side by side).
    /// Returns the former value.
    ///
    /// # Errors
    /// The nearest value that may be.
    pub fn set_max_background(&mut self, count: u16) -> Result<u16, u16> {
        match count {
            0 => Err(1),
            _ => Ok(std::mem::replace(&mut self.max_background, count)),
        }
    }

    pub(crate) fn max_background(&self) -> usize {
        usize::from(self.max_background)
    }

    pub(crate) fn max_write(&self) -> usize {
        self.max_write as usize
    }

    /// The layout of requests from now on.
    pub(crate) fn layout(&self) -> Layout {
        Layout { setxattr_ext: self.requested.contains(InitFlags::FUSE_SETXATTR_EXT) }
    }

    pub(crate) fn reply(&self) -> InitOut {
        let flags = self.requested.bits();
        let page = rustix::param::page_size() as u32;
        let pages = self.max_write.max(self.max_readahead).div_ceil(page);
        InitOut {
            major: OUR_VERSION.0,
            minor: OUR_VERSION.1.min(self.kernel.version.1),
            max_readahead: self.max_readahead,
            flags: flags as u32,
            max_background: self.max_background,
            // From here on nothing is read ahead that nobody has asked for.
            congestion_threshold: (u32::from(self.max_background) * 7 / 8).max(1) as u16,
            max_write: self.max_write,
            // Times have nanoseconds.
            time_gran: 1,
            max_pages: u16::try_from(pages).unwrap_or(u16::MAX),
            flags2: (flags >> 32) as u32,
            ..InitOut::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(flags: InitFlags) -> KernelConfig {
        let version = Version(7, 45);
        KernelConfig::new(Init { version, max_readahead: 128 << 10, flags: flags.bits() })
    }

    #[test]
    fn only_what_is_asked_for_and_there_is_agreed() {
        let locks = InitFlags::FUSE_POSIX_LOCKS | InitFlags::FUSE_FLOCK_LOCKS;
        let mapped = InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        let mut all = config(InitFlags::all());
        let flags = all.reply().flags;
        assert_eq!(u64::from(flags) & locks.bits(), 0, "locks stay the kernel's unasked");
        assert!(!all.layout().setxattr_ext);
        all.add_capabilities(mapped | InitFlags::FUSE_SETXATTR_EXT).expect("there");
        all.add_capabilities(InitFlags::FUSE_FLOCK_LOCKS).expect("there");
        let reply = all.reply();
        let bits = u64::from(reply.flags) | u64::from(reply.flags2) << 32;
        assert_eq!(bits & locks.bits(), InitFlags::FUSE_FLOCK_LOCKS.bits());
        assert_ne!(bits & mapped.bits(), 0, "high bits are told");
        assert!(all.layout().setxattr_ext);
        assert_eq!((reply.major, reply.minor), (7, 41));
        let mut old = config(InitFlags::FUSE_ASYNC_READ);
        assert_eq!(old.add_capabilities(mapped | InitFlags::FUSE_ASYNC_READ), Err(mapped));
        assert_eq!(u64::from(old.reply().flags), InitFlags::FUSE_ASYNC_READ.bits());
    }

    #[test]
    fn sizes_stay_within_what_is_possible() {
        let mut config = config(InitFlags::all());
        assert_eq!(config.set_max_write(0), Err(1));
        assert_eq!(config.set_max_write(u32::MAX), Err(WRITE_BYTES_MAX));
        assert_eq!(config.set_max_readahead(u32::MAX), Err(128 << 10));
        assert_eq!(config.set_max_background(0), Err(1));
        assert!(config.set_max_write(1 << 20).is_ok());
        assert_eq!(config.reply().max_pages, ((1 << 20) / rustix::param::page_size()) as u16);
    }
}
