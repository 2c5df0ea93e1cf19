//! Open files.

use super::super::caller::Caller;
use super::credentials::set_umask;
use super::data::{Opened, WriteMode};
use super::descriptors::descriptors;
use super::forbids::Forbids;
use super::inode::Inode;
use super::names::{Entry, check};
use super::open_shares::OpenPlace;
use super::{Tree, refused};
use crate::io::file::File as Real;
use iopace_fuse::{FileHandle, FopenFlags, INodeNo, LockOwner, OpenFlags, WriteFlags};
use rustix::fs::{Access, AtFlags, Mode, OFlags};
use slab::Slab;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What of a caller's flags the file below is opened with. The rest is the kernel's business, and
/// `O_APPEND` comes with each write.
const KEPT: OFlags = OFlags::RDWR
    .union(OFlags::WRONLY)
    .union(OFlags::DIRECT)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC)
    .union(OFlags::NOATIME);

/// `__FMODE_EXEC` of linux/fs.h: opened by `execve`. No program can set it.
const FMODE_EXEC: u32 = 0x20;

/// The open files of a mount, by the numbers that the kernel has for them.
#[derive(Debug, Default)]
pub(super) struct OpenFiles(Mutex<Slab<Arc<Opened>>>);

impl OpenFiles {
    pub(super) fn lock(&self) -> MutexGuard<'_, Slab<Arc<Opened>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that was opened, with what the kernel is to know of it.
pub(super) struct Handle {
    pub(super) id: FileHandle,
    pub(super) flags: FopenFlags,
}

impl Tree {
    /// Opens a file that is there, as far as the caller may do so below.
    pub(super) fn open(&self, from: Caller, id: INodeNo, flags: OpenFlags) -> io::Result<Handle> {
        let inode = self.inode(id)?;
        if !inode.is_file() {
            return Err(refused(libc::ENXIO));
        }
        let place = self.open_place(from)?;
        let asked = OFlags::from_bits_retain(flags.0.cast_unsigned());
        let kept = asked & KEPT;
        let file = if asked.bits() & FMODE_EXEC != 0 {
            if inode.forbidden.get().has(Forbids::RUNNING) {
                return Err(refused(libc::EACCES));
            }
            // A program may be run by one who must not read it: the kernel reads it for him.
            self.act_for(from, &[&inode], || {
                let flags = AtFlags::EACCESS;
                Ok(rustix::fs::accessat(descriptors()?, inode.name(), Access::EXEC_OK, flags)?)
            })?;
            inode.reopen(kept)?
        } else {
            self.act_for(from, &[&inode], || open_as_asked(&inode, asked))?
        };
        if !self.options.alone {
            // Somebody past the mount may have changed it. Its data the kernel drops by itself.
            self.inflight.attributes_changed(inode.id);
        }
        Ok(self.opened((from, place), file, inode, kept))
    }

    /// Creates a regular file in the name of the caller and opens it.
    pub(super) fn create(
        &self,
        from: Caller,
        (mode, umask): (u32, u32),
        (parent, name): (INodeNo, &OsStr),
        flags: i32,
    ) -> io::Result<(Entry, Handle)> {
        check(name)?;
        let (parent, place) = (self.inode(parent)?, self.open_place(from)?);
        let asked = OFlags::from_bits_retain(flags.cast_unsigned());
        let kept = asked & KEPT;
        let create = kept | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(self.mode_for(from, mode) & 0o7777);
        let open = || {
            set_umask(umask);
            Ok(rustix::fs::openat(&parent.path, name, create, mode)?)
        };
        let file = parent.hold.with_space(|| self.act_for(from, &[&parent], open));
        let file: File = match file {
            // It came up since the kernel looked. Nobody has checked whether the caller may open
            // it: the kernel is to look again.
            Err(error)
                if error.raw_os_error() == Some(libc::EEXIST) && !asked.contains(OFlags::EXCL) =>
            {
                return Err(refused(libc::ESTALE));
            }
            other => other?.into(),
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let own = file.as_raw_fd().to_string();
        let path = rustix::fs::openat(descriptors()?, own, flags, Mode::empty())?;
        let entry = self.known(path, &parent)?;
        let handle = self.opened((from, place), file, Arc::clone(&entry.inode), kept);
        Ok((entry, handle))
    }

    fn opened(
        &self,
        (from, place): (Caller, OpenPlace),
        file: File,
        inode: Arc<Inode>,
        kept: OFlags,
    ) -> Handle {
        let direct = kept.contains(OFlags::DIRECT);
        let durable = kept.contains(OFlags::DSYNC);
        let mut flags = FopenFlags::empty();
        if direct {
            flags |= FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        } else if self.options.alone {
            flags |= FopenFlags::FOPEN_KEEP_CACHE;
        }
        let is_read = kept & OFlags::ACCMODE != OFlags::WRONLY;
        let file =
            if is_read { Real::of_tree(file, direct) } else { Real::of_tree_unread(file, direct) };
        let file = file.holding(&inode.hold).telling(&inode.state.untold);
        let is_kept_above = self.options.alone && !direct;
        let is_writable = kept.intersects(OFlags::WRONLY | OFlags::RDWR);
        let owner = (inode, from.uid, place);
        let how = (durable, is_writable);
        let opened = Opened::new(file, owner, &self.inflight, how, is_kept_above);
        let mut files = self.files.lock();
        Handle { id: FileHandle(files.insert(opened) as u64), flags }
    }

    /// Whether somebody has this file open to write.
    pub(super) fn is_writable(&self, inode: &Inode) -> bool {
        let files = self.files.lock();
        files.iter().any(|(_, opened)| opened.inode.id == inode.id && opened.is_writable)
    }

    /// The open file with this number.
    pub(super) fn file(&self, handle: FileHandle) -> io::Result<Arc<Opened>> {
        let files = self.files.lock();
        files.get(handle.0 as usize).map(Arc::clone).ok_or_else(|| refused(libc::EBADF))
    }

    /// One of its descriptors is closed: says what the file system below has to say to that.
    pub(super) fn flush(&self, handle: FileHandle, owner: LockOwner) -> io::Result<()> {
        let opened = self.file(handle)?;
        self.unlock_of(&opened, handle, owner.0)?;
        if !self.options.flush || !opened.is_writable {
            return Ok(());
        }
        close(opened.file.std().try_clone()?)
    }

    /// Nothing has it open any more, and the kernel asks in nobody's name. Where a user serves the
    /// file system below, that goes on in a thread of him who had it open: its locks and its
    /// descriptors go, which whoever serves it may hold up.
    pub(super) fn release_by_opener(self: &Arc<Self>, handle: FileHandle) {
        match self.file(handle) {
            Ok(opened) if opened.is_aside => {
                let tree = Arc::downgrade(self);
                self.inflight.carry_out(opened.opener, move || {
                    if let Some(tree) = tree.upgrade() {
                        tree.release(handle);
                    }
                });
            }
            _ => self.release(handle),
        }
    }

    /// Nothing has it open any more.
    pub(super) fn release(&self, handle: FileHandle) {
        // Before another one can get its number.
        if let Ok(opened) = self.file(handle) {
            self.unlock_all(&opened, handle);
        }
        let mut files = self.files.lock();
        let last = files.try_remove(handle.0 as usize);
        // Freeing a large file that was removed takes its time.
        drop(files);
        drop(last);
    }

    /// How the kernel wants a write carried out.
    pub(super) fn write_mode(flags: OpenFlags, write: WriteFlags) -> WriteMode {
        // A page of a mapping has its place, whatever descriptor it comes through.
        if write.contains(WriteFlags::FUSE_WRITE_CACHE) {
            return WriteMode { mapped: true, ..WriteMode::default() };
        }
        WriteMode {
            append: flags.0 & libc::O_APPEND != 0,
            durable: flags.0 & libc::O_DSYNC != 0,
            full_sync: flags.0 & libc::O_SYNC == libc::O_SYNC,
            mapped: false,
        }
    }
}

/// Opens a file with the flags of its caller.
fn open_as_asked(inode: &Inode, asked: OFlags) -> io::Result<File> {
    let kept = asked & KEPT;
    match inode.reopen(kept) {
        // A file that can only grow is opened in no other way.
        Err(error)
            if error.raw_os_error() == Some(libc::EPERM) && asked.contains(OFlags::APPEND) =>
        {
            inode.reopen(kept | OFlags::APPEND)
        }
        other => other,
    }
}

/// Closes a descriptor; a network file system may say then that a write has failed.
fn close(file: File) -> io::Result<()> {
    use std::os::fd::IntoRawFd;
    let descriptor = file.into_raw_fd();
    // SAFETY: the descriptor was this file's own and is used nowhere else; it is closed once,
    // whatever `close` says.
    if unsafe { libc::close(descriptor) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
