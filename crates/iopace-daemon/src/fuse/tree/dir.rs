//! Listing a directory, piece by piece as the kernel asks.
//!
//! Offsets are those of the file system below: they stay valid for `seekdir`, whatever is created
//! and removed meanwhile.

use super::super::caller::Caller;
use super::super::inflight_operations::Late;
use super::attr::{nothing, to_kind};
use super::data::Opened;
use super::inode::Inode;
use super::names::Entry;
use super::{Tree, refused};
use crate::io::file::File;
use iopace_fuse::{
    FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus,
};
use rustix::fs::{AtFlags, FileType, OFlags, RawDir, SeekFrom};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of entries that are read at once, and most that are kept per open directory: what the C
/// library asks for.
const READ_BYTES: usize = 32 * 1024;

/// A directory that is open.
#[derive(Debug)]
pub(super) struct Listing {
    /// The directory itself.
    pub(super) opened: Arc<Opened>,
    place: Mutex<Place>,
}

/// How far it has been listed.
#[derive(Debug, Default)]
struct Place {
    /// The offset behind the last entry that was handed out.
    next: u64,
    /// Entries that were read from there on and are not handed out yet.
    ahead: VecDeque<Record>,
}

/// An entry of a directory as it is read.
#[derive(Debug)]
struct Record {
    name: OsString,
    number: u64,
    kind: FileType,
    /// The offset behind it.
    behind: u64,
}

impl Place {
    /// Goes to an offset that the kernel names.
    fn go_to(&mut self, directory: &Opened, offset: u64) -> io::Result<()> {
        // From the start on it is read anew: rewinddir wants what is there now.
        if offset != self.next || offset == 0 {
            self.ahead.clear();
            rustix::fs::seek(&directory.file, SeekFrom::Start(offset))?;
            self.next = offset;
        }
        Ok(())
    }

    /// The next entry, which stays the next until [`Place::take`].
    fn peek(&mut self, directory: &Opened) -> io::Result<Option<&Record>> {
        if self.ahead.is_empty() {
            let mut buffer = [MaybeUninit::uninit(); READ_BYTES];
            let mut entries = RawDir::new(&directory.file, &mut buffer);
            while let Some(entry) = entries.next() {
                let entry = entry?;
                self.ahead.push_back(Record {
                    name: OsStr::from_bytes(entry.file_name().to_bytes()).to_owned(),
                    number: entry.ino(),
                    kind: entry.file_type(),
                    behind: entry.next_entry_cookie(),
                });
                if entries.is_buffer_empty() {
                    break;
                }
            }
        }
        Ok(self.ahead.front())
    }

    /// Goes behind the next entry.
    fn take(&mut self) {
        if let Some(record) = self.ahead.pop_front() {
            self.next = record.behind;
        }
    }
}

impl Listing {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn is_dots(&self) -> bool {
        self.name == "." || self.name == ".."
    }

    /// Its type, also where the file system does not tell it with the name.
    fn kind(&self, parent: &Inode) -> FileType {
        if self.kind != FileType::Unknown {
            return self.kind;
        }
        let stat = rustix::fs::statat(&parent.path, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
    }
}

impl Tree {
    /// Opens a directory to list it.
    pub(super) fn open_directory(&self, from: Caller, id: INodeNo) -> io::Result<FileHandle> {
        let (inode, place) = (self.inode(id)?, self.open_place(from)?);
        let open = || inode.reopen(OFlags::RDONLY | OFlags::DIRECTORY);
        let file = self.act_for(from, &[&inode], open)?;
        let file = File::of_tree_unread(file, false).holding(&inode.hold);
        let owner = (inode, from.uid, place);
        let opened = Opened::new(file, owner, &self.inflight, (false, false), false);
        let listing = Arc::new(Listing { opened, place: Mutex::default() });
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(FileHandle(listings.insert(listing) as u64))
    }

    /// What the kernel may keep of a listing: all of it, where nobody else creates or removes. It
    /// drops that with the first change that is made through the mount.
    pub(super) fn directory_flags(&self) -> FopenFlags {
        if self.options.alone {
            FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE
        } else {
            FopenFlags::empty()
        }
    }

    /// The open directory with this number.
    pub(super) fn listing(&self, handle: FileHandle) -> io::Result<Arc<Listing>> {
        let listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        listings.get(handle.0 as usize).map(Arc::clone).ok_or_else(|| refused(libc::EBADF))
    }

    /// Nothing has it open any more.
    pub(super) fn release_directory(&self, handle: FileHandle) {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        listings.try_remove(handle.0 as usize);
    }

    /// Names only. An error behind the first entry is met again, and told, the next time.
    pub(super) fn list(
        &self,
        handle: FileHandle,
        offset: u64,
        reply: &Late<'_, ReplyDirectory>,
    ) -> io::Result<()> {
        let listing = self.listing(handle)?;
        let inode = &listing.opened.inode;
        let mut place = listing.place();
        place.go_to(&listing.opened, offset)?;
        let mut first = true;
        loop {
            let record = match place.peek(&listing.opened) {
                Ok(Some(record)) => record,
                Err(error) if first => return Err(error),
                Ok(None) | Err(_) => return Ok(()),
            };
            let number = self.shown(inode, record);
            let kind = to_kind(record.kind(inode));
            let add = |reply: &mut ReplyDirectory| {
                reply.add(INodeNo(number), record.behind, kind, &record.name)
            };
            if reply.with(add).unwrap_or(true) {
                return Ok(());
            }
            place.take();
            first = false;
        }
    }

    /// Names and attributes: the kernel is told of each file in `told`.
    pub(super) fn list_found(
        &self,
        handle: FileHandle,
        offset: u64,
        reply: &Late<'_, ReplyDirectoryPlus>,
        told: &mut Vec<u64>,
    ) -> io::Result<()> {
        let listing = self.listing(handle)?;
        let inode = &listing.opened.inode;
        let mut place = listing.place();
        place.go_to(&listing.opened, offset)?;
        let mut first = true;
        loop {
            let record = match place.peek(&listing.opened) {
                Ok(Some(record)) => record,
                Err(error) if first => return Err(error),
                Ok(None) | Err(_) => return Ok(()),
            };
            if self.add_found(inode, record, reply, told)? {
                return Ok(());
            }
            place.take();
            first = false;
        }
    }

    /// Adds one entry; whether it was too much.
    fn add_found(
        &self,
        parent: &Inode,
        record: &Record,
        reply: &Late<'_, ReplyDirectoryPlus>,
        all: &mut Vec<u64>,
    ) -> io::Result<bool> {
        let found = if record.is_dots() { None } else { Some(self.find(parent, &record.name)) };
        let (attr, generation, told) = match found {
            // Removed since it was read.
            Some(Err(error)) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(false),
            Some(Ok(Entry { inode, attr })) => (attr, inode.generation, Some(inode.id)),
            // The kernel skips the two dots.
            None => (stand_in(record.number, record.kind), 0, None),
            // It is there and cannot be looked at. The kernel wants a number that leads nowhere,
            // and asks again for whoever uses it.
            Some(Err(_)) => (stand_in(self.inodes.count(), record.kind(parent)), 0, None),
        };
        let time = match told {
            Some(_) => self.options.names.min(self.options.attributes),
            None => Duration::ZERO,
        };
        let generation = Generation(generation);
        let id = told.map_or(attr.ino, INodeNo);
        let add = |reply: &mut ReplyDirectoryPlus| {
            reply.add(id, record.behind, &record.name, &time, &attr, generation)
        };
        let full = reply.with(add).unwrap_or(true);
        match told {
            Some(id) if full => self.forget(id, 1),
            told => all.extend(told),
        }
        Ok(full)
    }

    /// The number that is shown for an entry.
    fn shown(&self, parent: &Inode, record: &Record) -> u64 {
        if record.is_dots() {
            return record.number;
        }
        self.inodes.shown(parent.device, record.number)
    }
}

/// Attributes that say no more than a number and a type.
fn stand_in(number: u64, kind: FileType) -> FileAttr {
    FileAttr { ino: INodeNo(number), kind: to_kind(kind), ..nothing() }
}
