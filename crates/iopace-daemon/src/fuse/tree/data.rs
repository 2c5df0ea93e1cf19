//! What the tree hands on: reading, writing and syncing regular files.

use super::inode::Inode;
use super::open_file::OpenFile;
use super::open_shares::OpenPlace;
use crate::fuse::caller::{Caller, Operation};
use crate::fuse::inflight_operations::{InflightOperations, Late};
use crate::fuse::pending_replies::{Kept, Room};
use crate::io::file::File;
use crate::io::past_cache::{PastCache, has_room};
use iopace_core::request::{GroupId, TaskId};
use iopace_fuse::{ReplyData, ReplyEmpty, ReplyWrite};
use rustix::fs::OFlags;
use std::sync::{Arc, OnceLock};

/// How the kernel wants one write carried out.
///
/// It is said anew with each write, as `fcntl(F_SETFL)` and `pwritev2` change it while a file is
/// open, and as the kernel writes pages of a mapping through any descriptor of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteMode {
    /// To the end of the file, wherever that is by then (`O_APPEND`); the offset is a guess.
    pub(crate) append: bool,
    /// Durable when it is answered (`O_SYNC`, `O_DSYNC`).
    pub(crate) durable: bool,
    /// Durable with all attributes (`O_SYNC`), the time of modification among them.
    pub(crate) full_sync: bool,
    /// Pages of a mapping, which the kernel writes by itself, through any descriptor of the file.
    pub(crate) mapped: bool,
}

/// A regular file or a directory that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The real file below the mount; it knows whether it bypasses the page cache. Never
    /// `O_APPEND`, unless the file itself can only grow (`chattr +a`): see [`WriteMode`].
    pub(crate) file: OpenFile,
    /// Which one it is.
    pub(crate) inode: Arc<Inode>,
    /// Whether each write is durable when it is answered (`O_SYNC`, `O_DSYNC`).
    pub(crate) durable: bool,
    /// Whether it is open to write.
    pub(crate) is_writable: bool,
    /// The user who has opened it.
    pub(crate) opener: u32,
    /// Whether its data does not pass the device, as a user serves the file system that it is on.
    pub(crate) is_aside: bool,
    /// The same file, to be read past the page cache below; `None` if it is not to be.
    past_cache: OnceLock<Option<Arc<PastCache>>>,
}

impl Opened {
    /// A real file that was opened. If it is kept above, the kernel has what was read of it in the
    /// page cache of the mount for as long as there is memory.
    pub(crate) fn new(
        file: File,
        (inode, opener, place): (Arc<Inode>, u32, OpenPlace),
        inflight: &Arc<InflightOperations>,
        (durable, is_writable): (bool, bool),
        is_kept_above: bool,
    ) -> Arc<Opened> {
        let is_aside = inode.is_aside();
        let past_cache = if is_kept_above { OnceLock::new() } else { OnceLock::from(None) };
        let closer = is_aside.then(|| (Arc::downgrade(inflight), opener));
        let file = OpenFile::new(file, place, closer);
        Arc::new(Opened { file, inode, durable, is_writable, opener, is_aside, past_cache })
    }

    /// The file for a read past the page cache below, if another page cache keeps what was read and
    /// the file system can.
    pub(crate) fn past_cache(&self) -> Option<Arc<PastCache>> {
        let open = || {
            let asked = rustix::fs::fcntl_getfl(self.file.fd())? & OFlags::NOATIME;
            self.inode.reopen(OFlags::RDONLY | OFlags::DIRECT | asked)
        };
        if self.past_cache.get().is_none() && !has_room() {
            return None;
        }
        let past = self.past_cache.get_or_init(|| PastCache::open(&self.inode.hold, open)).as_ref();
        past.filter(|past| !past.is_refused()).map(Arc::clone)
    }
}

/// The reply of a write or a copy that is being carried out.
pub(crate) type LateWrite<'a> = Late<'a, ReplyWrite>;

/// What limits have to know of an operation on names, attributes or space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Whether it counts as a write; else as a read.
    pub(crate) changes: bool,
    /// Whether the kernel keeps a directory locked until it is answered.
    pub(crate) locks: bool,
}

/// What becomes of the data of files.
///
/// Every reply is given exactly once, at once or later, by any thread. Whoever calls holds no lock.
pub(crate) trait Data: Send + Sync + 'static {
    /// Reads up to `len` bytes; fewer only at the end of the file.
    fn read(
        &self,
        from: Caller,
        file: &Arc<Opened>,
        place: (u64, u32),
        kept: Kept,
        reply: ReplyData,
    );

    /// Writes all of the data, or says how much of it was written before an error. Room for it has
    /// been taken already if it had to wait before, see [`Data::room`].
    fn write(
        &self,
        from: Caller,
        file: &Arc<Opened>,
        offset: u64,
        data: (&[u8], Option<Room>),
        mode: WriteMode,
        late: &LateWrite<'_>,
    );

    /// How much of a write of so many bytes may wait in memory before it begins, and what that
    /// takes.
    fn room(&self, file: &Opened, mode: WriteMode, len: usize) -> (usize, Option<Room>);

    /// Makes the file or directory durable: its data, and its attributes too unless `data_only`.
    fn sync(&self, from: Caller, file: &Arc<Opened>, data_only: bool, reply: ReplyEmpty);

    /// Copies up to `len` bytes from one open file to another (`copy_file_range`), or fewer; no
    /// reply holds a number of 4 GiB or more.
    fn copy(
        &self,
        from: Caller,
        source: (&Arc<Opened>, u64),
        to: (&Arc<Opened>, u64),
        len: u64,
        late: &LateWrite<'_>,
    );

    /// Another request of this caller is passed through: names, attributes, space.
    fn passed_through(&self, from: Caller);

    /// Who pays for an operation of this caller on names, attributes or space, if limits have to
    /// be asked before: then it has to be held. Almost always nobody.
    fn limited(&self, from: Caller) -> Option<(TaskId, GroupId)>;

    /// Carries out an operation when limits let it go on, or gives it an error.
    fn hold(&self, from: Caller, pays: (TaskId, GroupId), kind: Kind, operation: Operation);

    /// The content of `range` (bytes, from and behind) is void or has another place on the disk
    /// now: the file was truncated, or a hole was punched or space allocated.
    fn reshaped(&self, inode: &Inode, range: (u64, u64));

    /// The last name and the last use of the file are gone: nothing of it need be written any more.
    fn forgotten(&self, inode: &Inode);
}
