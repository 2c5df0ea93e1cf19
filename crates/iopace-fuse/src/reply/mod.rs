//! Replies. Each is given once, by any thread; one that is dropped says `EIO`.

pub(crate) mod directory;

use crate::attributes::FileAttr;
use crate::device::Device;
use crate::errno::Errno;
use crate::flags::FopenFlags;
use crate::types::{FileHandle, FileLock, Generation, INodeNo};
use crate::wire::output::{
    AttrOut, BmapOut, CreateOut, EntryOut, GetxattrOut, IoctlOut, LkOut, LseekOut, OpenOut,
    OutHeader, StatfsOut, WriteOut,
};
use rustix::io::Errno as SysErrno;
use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::{Immutable, IntoBytes};

/// The right and the duty to answer a request.
pub(crate) struct Raw {
    device: Arc<Device>,
    unique: u64,
    is_answered: bool,
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("unique", &self.unique).finish_non_exhaustive()
    }
}

impl Raw {
    pub(crate) fn new(device: &Arc<Device>, unique: u64) -> Raw {
        Raw { device: Arc::clone(device), unique, is_answered: false }
    }

    /// The request has no answer.
    pub(crate) fn none(mut self) {
        self.is_answered = true;
    }

    pub(crate) fn error(mut self, errno: Errno) {
        self.fail(errno);
    }

    fn fail(&mut self, errno: Errno) {
        self.is_answered = true;
        self.give(-errno.code(), &[]);
        self.device.interrupts.answered(self.unique);
    }

    pub(crate) fn value<T: IntoBytes + Immutable>(self, value: &T) {
        self.bytes(value.as_bytes(), &[]);
    }

    pub(crate) fn bytes(mut self, head: &[u8], data: &[u8]) {
        self.is_answered = true;
        if !self.give(0, &[head, data]) {
            // The caller must not wait for ever.
            self.give(-Errno::EIO.code(), &[]);
        }
        self.device.interrupts.answered(self.unique);
    }

    /// False if the kernel does not take it, as it is not what was asked for.
    fn give(&self, error: i32, parts: &[&[u8]]) -> bool {
        let len = size_of::<OutHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
        let header = OutHeader { len: len as u32, error, unique: self.unique };
        let mut slices = [IoSlice::new(header.as_bytes()), IoSlice::new(&[]), IoSlice::new(&[])];
        let mut count = 1;
        for part in parts.iter().filter(|part| !part.is_empty()) {
            slices[count] = IoSlice::new(part);
            count += 1;
        }
        match self.device.send(&slices[..count]) {
            Ok(()) => true,
            // The caller is gone, or the file system.
            Err(SysErrno::NOENT | SysErrno::NODEV | SysErrno::PERM | SysErrno::CONNABORTED) => true,
            Err(error) => {
                tracing::error!(%error, len, "the kernel does not take a reply");
                false
            }
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if !self.is_answered {
            tracing::warn!(unique = self.unique, "a request was dropped unanswered");
            self.fail(Errno::EIO);
        }
    }
}

macro_rules! reply {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name(Raw);

            impl $name {
                pub(crate) fn new(raw: Raw) -> $name {
                    $name(raw)
                }
            }

            $crate::reply::common!($name);
        )*
    };
}

/// The functions that all replies have; the first field is the raw one.
macro_rules! common {
    ($name:ident) => {
        impl $name {
            /// It failed.
            pub fn error(self, errno: $crate::Errno) {
                self.0.error(errno);
            }

            /// Whether the caller was interrupted, by whatever signal. Never again false.
            pub fn is_interrupted(&self) -> bool {
                self.0.is_interrupted()
            }

            /// Calls `told` once the caller is interrupted, at once if it was already; by the
            /// thread that receives requests, so it must be quick. Not after the reply was given.
            pub fn on_interrupt(&self, told: impl FnOnce() + Send + 'static) {
                self.0.on_interrupt(Box::new(told));
            }
        }
    };
}
pub(crate) use common;

impl Raw {
    fn is_interrupted(&self) -> bool {
        self.device.interrupts.contains(self.unique)
    }

    fn on_interrupt(&self, told: crate::interrupts::Told) {
        self.device.interrupts.register(self.unique, told);
    }
}

reply!(
    /// Nothing but that it is done.
    ReplyEmpty,
    /// Bytes.
    ReplyData,
    /// A file that was looked up or made.
    ReplyEntry,
    /// Attributes.
    ReplyAttr,
    /// A file that was opened.
    ReplyOpen,
    /// How much was written.
    ReplyWrite,
    /// How much space there is.
    ReplyStatfs,
    /// A file that was made and opened.
    ReplyCreate,
    /// A lock that is in the way.
    ReplyLock,
    /// A block.
    ReplyBmap,
    /// The result of a command of `ioctl(2)`.
    ReplyIoctl,
    /// An extended attribute, or its size.
    ReplyXattr,
    /// An offset.
    ReplyLseek,
);

impl ReplyEmpty {
    /// It is done.
    pub fn ok(self) {
        self.0.bytes(&[], &[]);
    }
}

impl ReplyData {
    /// These bytes; fewer than were asked for say that the file ends there.
    pub fn data(self, data: &[u8]) {
        self.0.bytes(data, &[]);
    }
}

/// A file, and for how long its name and its attributes hold.
pub(crate) fn entry_out(
    attr_ttl: &Duration,
    entry_ttl: &Duration,
    attr: &FileAttr,
    (id, generation): (INodeNo, Generation),
) -> EntryOut {
    EntryOut {
        nodeid: id.0,
        generation: generation.0,
        entry_valid: entry_ttl.as_secs(),
        attr_valid: attr_ttl.as_secs(),
        entry_valid_nsec: entry_ttl.subsec_nanos(),
        attr_valid_nsec: attr_ttl.subsec_nanos(),
        attr: attr.to_wire(),
    }
}

impl ReplyEntry {
    /// The file; its name and attributes hold for that long.
    pub fn entry(self, ttl: &Duration, attr: &FileAttr, generation: Generation) {
        self.entry_with_ttls(ttl, ttl, attr, (attr.ino, generation));
    }

    /// The same with a time for each, for a file that the kernel is to ask for by another number
    /// than the one that it shows. Number 0 says that there is no such file.
    pub fn entry_with_ttls(
        self,
        attr_ttl: &Duration,
        entry_ttl: &Duration,
        attr: &FileAttr,
        asked_by: (INodeNo, Generation),
    ) {
        self.0.value(&entry_out(attr_ttl, entry_ttl, attr, asked_by));
    }
}

impl ReplyAttr {
    /// The attributes, and for how long they hold.
    pub fn attr(self, ttl: &Duration, attr: &FileAttr) {
        self.0.value(&AttrOut {
            attr_valid: ttl.as_secs(),
            attr_valid_nsec: ttl.subsec_nanos(),
            dummy: 0,
            attr: attr.to_wire(),
        });
    }
}

fn open_out(handle: FileHandle, flags: FopenFlags) -> OpenOut {
    OpenOut { fh: handle.0, open_flags: flags.bits(), backing_id: 0 }
}

impl ReplyOpen {
    /// It is open.
    pub fn opened(self, handle: FileHandle, flags: FopenFlags) {
        self.0.value(&open_out(handle, flags));
    }
}

impl ReplyWrite {
    /// So many bytes were written.
    pub fn written(self, size: u32) {
        self.0.value(&WriteOut { size, padding: 0 });
    }
}

impl ReplyStatfs {
    /// As `statvfs(3)` has it.
    #[allow(clippy::too_many_arguments)]
    pub fn statfs(
        self,
        blocks: u64,
        bfree: u64,
        bavail: u64,
        files: u64,
        ffree: u64,
        bsize: u32,
        namelen: u32,
        frsize: u32,
    ) {
        let spare = StatfsOut::default();
        self.0.value(&StatfsOut {
            blocks,
            bfree,
            bavail,
            files,
            ffree,
            bsize,
            namelen,
            frsize,
            ..spare
        });
    }
}

impl ReplyCreate {
    /// It is made and open.
    pub fn created(
        self,
        ttl: &Duration,
        attr: &FileAttr,
        asked_by: (INodeNo, Generation),
        handle: FileHandle,
        flags: FopenFlags,
    ) {
        let entry = entry_out(ttl, ttl, attr, asked_by);
        self.0.value(&CreateOut { entry, open: open_out(handle, flags) });
    }
}

impl ReplyLock {
    /// This one is in the way; `F_UNLCK` says that none is.
    pub fn locked(self, lock: &FileLock) {
        let FileLock { start, end, kind, pid, .. } = *lock;
        self.0.value(&LkOut { start, end, kind: kind.cast_unsigned(), pid });
    }
}

impl ReplyBmap {
    /// The block's number on the device.
    pub fn bmap(self, block: u64) {
        self.0.value(&BmapOut { block });
    }
}

impl ReplyIoctl {
    /// The value that the call returns, and the data it has written.
    pub fn ioctl(self, result: i32, data: &[u8]) {
        let head = IoctlOut { result, ..IoctlOut::default() };
        self.0.bytes(head.as_bytes(), data);
    }
}

impl ReplyXattr {
    /// The value, or the names, have so many bytes.
    pub fn size(self, size: u32) {
        self.0.value(&GetxattrOut { size, padding: 0 });
    }

    /// The value, or the names.
    pub fn data(self, data: &[u8]) {
        self.0.bytes(data, &[]);
    }
}

impl ReplyLseek {
    /// The offset.
    pub fn offset(self, offset: i64) {
        self.0.value(&LseekOut { offset });
    }
}
